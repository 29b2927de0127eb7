"""Stages of a read as relations: each matches from the rows of the one before it, then groups, orders and cuts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from omnigraph.catalog.model import PropertyType
from omnigraph.engine.query.functions.kernels import value_arrow_type
from omnigraph.engine.query.output.relational import Measure
from omnigraph.engine.query.planner.plan import output_values
from omnigraph.engine.query.run import result_schema
from omnigraph.engine.query.stages import Arrangement, GroupColumns, amount, arrangement, encoded_type
from omnigraph.engine.query.steps import QueryPlan, StageSteps
from omnigraph.ir.model import (
    PLACE,
    ROW_MARK,
    AggregateCall,
    Apply,
    Constant,
    EntityRef,
    EntityRow,
    EntityType,
    OutputPlan,
    ReadPlan,
    Scalarlike,
    ValueRef,
)
from omnigraph.ir.types import BOOL, TEXT
from omnigraph.lang.gq.ast import AggregateFunction
from omnigraph.records import record
from omnigraph.spark.queries.layout import TYPE, VALUE, Layout, Live, Match
from omnigraph.spark.queries.liveness import live_at_start, value_uses
from omnigraph.spark.queries.lowering import run_steps
from omnigraph.spark.queries.reading import Reading, properties
from omnigraph.spark.queries.relations import Relation, Task
from omnigraph.spark.queries.tasks.match import BindTask
from omnigraph.spark.queries.tasks.rows import TaskContext
from omnigraph.spark.queries.tasks.stages import (
    ArrangeTask,
    ChainTask,
    ComputeTask,
    MarkTask,
    ResultTask,
    StageGroupsTask,
)
from omnigraph.store.tables.pinned import KEY

_UNKNOWN = float("inf")
_MARK = "#mark"
_TRUE = Constant(value=True, type=BOOL)


@record
class _Rows:
    """Computed rows, at most so many: where they are, their columns, and the task that orders them, if one has to."""

    relation: Relation
    layout: Layout
    ordering: ArrangeTask | None = None
    most: float = _UNKNOWN

    @property
    def settled(self) -> Relation:
        """The rows in their order."""
        return self.relation if self.ordering is None else self.relation.spread(()).map(self.ordering)


def lower_stages(reading: Reading, plan: QueryPlan) -> tuple[Relation, Task | None]:
    """Return the rows of a read of stages, and the task that makes the result of them in one place, if any."""
    read = plan.read
    first, *others = plan.stages
    made = _lower_sequence(reading, first)
    if read.united is None:
        return _result(read, made, first[-1].output)
    names = [f"u{at}" for at in range(len(read.outputs))]
    united = _as_columns(read, made, first[-1].output, names)
    layout = _united_layout(read, names)
    for union, stages in zip(read.unions, others, strict=True):
        more = _as_columns(read, _lower_sequence(reading, stages), stages[-1].output, names)
        united = united.union(more)
        if not union.keeps_duplicates:
            united = united.distinct(names)
    return _result(read, _arrange(reading, read.united, united, layout, frozenset()), read.united)


def _result(read: ReadPlan, made: _Rows, output: OutputPlan) -> tuple[Relation, Task | None]:
    layout = made.layout if made.ordering is None else made.ordering.kept
    task = ResultTask(read=read, layout=layout, shown=_shown(output))
    if made.ordering is None:
        return made.relation.map(task), None
    return made.relation, ChainTask(tasks=(made.ordering, task))


def _shown(output: OutputPlan) -> tuple[str, ...]:
    return tuple(f"#shown{at}" for at in range(len(output.shown)))


def _united_layout(read: ReadPlan, names: Sequence[str]) -> Layout:
    schema = result_schema(read)
    return Layout(columns={(VALUE, f"column{at}"): (name, schema.field(at).type) for at, name in enumerate(names)})


def _as_columns(read: ReadPlan, made: _Rows, output: OutputPlan, names: Sequence[str]) -> Relation:
    """Return rows in the columns that all reads of a union have."""
    kept = _united_layout(read, names)
    copies = {(VALUE, f"column{at}"): (VALUE, shown) for at, shown in enumerate(_shown(output))}
    layout = made.layout if made.ordering is None else made.ordering.kept
    return made.settled.map(BindTask(layout=layout, kept=kept, copies=copies))


def _lower_sequence(reading: Reading, stages: tuple[StageSteps, ...]) -> _Rows:
    wanted = _wanted(stages)
    match = Match()
    for stage, live in zip(stages[:-1], wanted, strict=False):
        made = _lower_stage(reading, stage, match, live)
        match = _next(reading, stage.output, made, live)
    return _lower_stage(reading, stages[-1], match, frozenset())


def _wanted(stages: tuple[StageSteps, ...]) -> tuple[Live, ...]:
    """Return for each stage what the one behind it looks at in its rows."""
    found: list[Live] = []
    live: Live = frozenset()
    for stage in reversed(stages):
        found.append(live)
        live = live_at_start(stage.steps, _output_uses(stage.output, live))
    return tuple(reversed(found))


def _output_uses(output: OutputPlan, live: Live) -> Live:
    """Return what an output looks at in the rows of the match, of which ``live`` is wanted behind the stage."""
    computed = frozenset().union(*(value_uses(value) for value in output_values(output)))
    kept = ((source, prop) for name, source in output.kept for prop in properties(name, live) | {KEY})
    return computed | frozenset(kept)


def _lower_stage(reading: Reading, stage: StageSteps, start: Match, live: Live) -> _Rows:
    start = replace(start, nullable=stage.nullable)
    found, rows = reading.rows(run_steps(reading, start, stage.steps, _output_uses(stage.output, live)))
    layout = found.layout
    wanted = {f"{ROW_MARK}{name}": properties(name, live) | {KEY, TYPE} for name, _ in stage.output.kept}
    if stage.output.keys is not None:
        of_keys = {
            shown.expression.name: wanted[shown.name]
            for shown in stage.output.shown
            if shown.name in wanted and isinstance(shown.expression, ValueRef)
        }
        rows, layout = _group(reading, stage.output, rows, layout, of_keys)
    # No stage makes more rows than its match; without keys there is always one group.
    return replace(_arrange(reading, stage.output, rows, layout, live), most=max(1.0, found.most))


def _next(reading: Reading, output: OutputPlan, made: _Rows, live: Live) -> Match:
    """Return the rows of a stage as what the next one starts from."""
    layout = made.layout if made.ordering is None else made.ordering.kept
    columns: dict[tuple[str, str], tuple[str, pa.DataType]] = {}
    copies: dict[tuple[str, str], tuple[str, str]] = {}
    types: dict[str, str] = {}
    for shown, name in zip(output.shown, _shown(output), strict=True):
        if shown.name.startswith(ROW_MARK):
            variable = shown.name.removeprefix(ROW_MARK)
            types |= {variable: layout.types[name]} if name in layout.types else {}
            for prop, (_, of) in layout.of(name).items():
                columns[variable, prop] = (reading.names.fresh(), of)
                copies[variable, prop] = (name, prop)
        else:
            columns[VALUE, shown.name] = (reading.names.fresh(), value_arrow_type(shown.type))
            copies[VALUE, shown.name] = (VALUE, name)
    if (VALUE, PLACE) in layout.columns:
        columns[VALUE, PLACE] = (reading.names.fresh(), pa.int64())
    kept = Layout(columns=columns, types=types).keeping(live)
    relation = made.settled.map(BindTask(layout=layout, kept=kept, copies=copies))
    limit = None if output.per else amount(TaskContext(reading.given), output.limit, "limit")
    most = made.most if limit is None else min(made.most, float(limit))
    return Match(relation=relation, layout=kept, most=most, estimate=most)


def _computed_layout(
    reading: Reading,
    layout: Layout,
    values: Mapping[str, Scalarlike],
    entities: Mapping[str, str],
    wanted: Mapping[str, Iterable[str]],
) -> Layout:
    columns = {(VALUE, name): (reading.names.fresh(), encoded_type(value.type)) for name, value in values.items()}
    for name, source in entities.items():
        props = frozenset(wanted.get(name, (KEY, TYPE)))
        columns |= {
            (name, prop): (reading.names.fresh(), of) for prop, (_, of) in layout.of(source).items() if prop in props
        }
    types = {name: layout.types[source] for name, source in entities.items() if source in layout.types}
    return Layout(columns=columns, types=types)


def _group(
    reading: Reading, output: OutputPlan, rows: Relation, layout: Layout, wanted: Mapping[str, Iterable[str]]
) -> tuple[Relation, Layout]:
    """Make one row per group, with its keys and aggregates by name."""
    keys = output.keys or ()
    entities = {name: key.variable for name, key in keys if isinstance(key, EntityRow)}
    plain = tuple((name, key) for name, key in keys if not isinstance(key, EntityRow))
    calls = tuple((name, _by_identity(call)) for name, call in output.aggregates)
    plan = GroupColumns(TaskContext(reading.given), replace(output, keys=plain, aggregates=calls))
    values = dict(plan.values)
    if not keys:
        values[_MARK] = _TRUE
    computed = _computed_layout(reading, layout, values, entities, wanted)
    rows = rows.map(
        ComputeTask(given=reading.given, layout=layout, values=values, entities=entities, having=None, kept=computed)
    )
    if not keys:
        rows = rows.union(reading.relations.read(MarkTask(layout=computed), 1))
    task = StageGroupsTask(
        given=reading.given,
        layout=computed,
        keys=tuple(name for name, _ in keys),
        measures=tuple(plan.measures),
        order=tuple(plan.order),
        mark=None if keys else _MARK,
        kept=_groups_layout(reading, computed, plain, output.aggregates, encoded_type),
    )
    if all(_can_merge(call) for _, call in calls):
        rows = rows.map(task)
        merges = tuple(_merge(measure) for measure in plan.measures)
        task = replace(task, layout=task.kept, measures=merges, mark=None)
    task = replace(task, kept=_groups_layout(reading, computed, plain, output.aggregates, value_arrow_type))
    return rows.spread([task.layout.name(VALUE, name) for name, _ in plain]).map(task), task.kept


def _groups_layout(
    reading: Reading,
    computed: Layout,
    keys: Iterable[tuple[str, Scalarlike]],
    calls: Iterable[tuple[str, AggregateCall]],
    type_of: Callable[[PropertyType], pa.DataType],
) -> Layout:
    """Return columns for the keys and aggregates of groups, and for the entities that are keys."""
    values: Iterator[tuple[str, Scalarlike | AggregateCall]] = chain(keys, calls)
    columns = {(VALUE, name): (reading.names.fresh(), type_of(value.type)) for name, value in values}
    for name in computed.variables:
        columns |= {(name, prop): (reading.names.fresh(), of) for prop, (_, of) in computed.of(name).items()}
    return Layout(columns=columns, types=computed.types)


def _can_merge(call: AggregateCall) -> bool:
    """Whether the groups of parts can be made first and then merged, with the same result."""
    return call.function in {"count", "min", "max", "any", "every"} and not call.is_distinct


def _merge(measure: Measure) -> Measure:
    """Return the measure that merges what this one made of the rows of each part."""
    function: AggregateFunction = "sum_int" if measure.call.function == "count" else measure.call.function
    argument = ValueRef(name=measure.name, type=measure.call.type)
    call = AggregateCall(function=function, argument=argument, type=measure.call.type)
    return Measure(name=measure.name, call=call, argument=measure.name, where=None)


def _by_identity(call: AggregateCall) -> AggregateCall:
    """Return an aggregate that tells entities apart by what they are called, wherever they are."""
    if call.function != "count" or not call.is_distinct or not isinstance(call.argument, EntityRef):
        return call
    variable = call.argument.variable
    parts = (EntityType(variable=variable, type=TEXT), Constant(value=" ", type=TEXT), call.argument)
    return replace(call, argument=Apply(function="concat", arguments=parts, type=TEXT))


def _arrange(reading: Reading, output: OutputPlan, rows: Relation, layout: Layout, live: Live) -> _Rows:
    """Compute what is shown of rows that pass, each row once if they are distinct, and order and cut them."""
    plan, context = arrangement(output), TaskContext(reading.given)
    offset, limit = amount(context, output.offset, "offset") or 0, amount(context, output.limit, "limit")
    computed, rows = _compute(reading, output, plan, rows, layout, live)
    if output.is_distinct:
        rows = rows.distinct(_distinct_columns(plan, computed))
    is_placed = bool(output.order) and not output.is_last
    task = ArrangeTask(given=reading.given, layout=computed, order=plan.order, kept=computed)
    if plan.per:
        cut = replace(task, per=plan.per, offset=offset, limit=limit)
        rows = rows.spread([computed.name(VALUE, name) for name in plan.per]).map(cut)
        if not output.order:
            return _Rows(relation=rows, layout=computed)
        offset, limit = 0, None
    if not plan.order:
        return _Rows(relation=rows if limit is None else rows.limit(limit), layout=computed)
    if limit is not None:
        rows = rows.map(replace(task, limit=offset + limit))
    kept = computed
    if is_placed:
        kept = computed.plus(Layout(columns={(VALUE, PLACE): (reading.names.fresh(), pa.int64())}))
    ordering = replace(task, offset=offset, limit=limit, place=PLACE if is_placed else None, kept=kept)
    return _Rows(relation=rows, layout=computed, ordering=ordering)


def _compute(
    reading: Reading, output: OutputPlan, plan: Arrangement, rows: Relation, layout: Layout, live: Live
) -> tuple[Layout, Relation]:
    entities: dict[str, str] = {}
    wanted: dict[str, frozenset[str]] = {}
    for shown, name in zip(output.shown, _shown(output), strict=True):
        if shown.name.startswith(ROW_MARK) and isinstance(shown.expression, EntityRow | ValueRef):
            value = shown.expression
            entities[name] = value.variable if isinstance(value, EntityRow) else value.name
            wanted[name] = properties(shown.name.removeprefix(ROW_MARK), live) | {KEY, TYPE}
    values = {name: value for name, value in plan.columns.items() if name not in entities}
    if not values and not entities:
        values[_MARK] = _TRUE
    computed = _computed_layout(reading, layout, values, entities, wanted)
    task = ComputeTask(
        given=reading.given, layout=layout, values=values, entities=entities, having=output.having, kept=computed
    )
    return computed, rows.map(task)


def _distinct_columns(plan: Arrangement, computed: Layout) -> list[str]:
    """Return the columns in which rows differ that are not the same."""
    asked = [f"#shown{at}" for at in range(len(plan.shown))]
    names = dict.fromkeys([*asked, *(key.column for key in plan.order), *plan.per])
    values = [computed.name(VALUE, name) for name in names if (VALUE, name) in computed.columns]
    entities = [column for name in names if (name, KEY) in computed.columns for column in computed.identity(name)]
    return [*values, *entities]
