"""Running a read of stages: each matches from the rows of the one before it and makes rows of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import NodeType, PropertyType
from omnigraph.engine.columns import held_bytes
from omnigraph.engine.comparison import one_array
from omnigraph.engine.query.context import FrameRows, QueryContext
from omnigraph.engine.query.frame import MISSING, UNIT, Frame, Mask, Positions
from omnigraph.engine.query.functions.kernels import cast_to, value_arrow_type
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.operators.pipeline import run_steps
from omnigraph.engine.query.output.once import first_of_each, once_variable, tells_apart
from omnigraph.engine.query.output.ranking import Embedded, RankingInput, resolve_ranking
from omnigraph.engine.query.output.relational import (
    NUMBER,
    Measure,
    RelationalKernel,
    RowStream,
    SortKey,
    decoded,
    encoded,
)
from omnigraph.engine.query.steps import QueryPlan, StageSteps
from omnigraph.engine.query.values import compute, passing
from omnigraph.errors import BadValue, InternalError, ParameterProblem, QueryParameterError, QueryRuntimeError
from omnigraph.ir.model import (
    PLACE,
    ROW_MARK,
    AggregateCall,
    Column,
    Condition,
    Constant,
    EntityRef,
    Output,
    OutputPlan,
    OutputRef,
    ParameterRef,
    Ranking,
    RankingValue,
    RankPlan,
    SameEntity,
    Scalarlike,
    TextMatch,
)
from omnigraph.records import record
from omnigraph.runtime import LRUCache

_PIECE_ROWS = 1 << 16
# Stages that hand rows on while they are made; each is some calls deep. Between more of them rows are collected.
_STAGES_AT_ONCE = 12
# Duplicates of a union are removed early where rows have grown by so much since the last time.
_GROWTH = 2
_GROWTH_BYTES = 1 << 22
# Outputs whose layout is remembered.
_LAYOUTS = 256


def run_stages(context: QueryContext, plan: QueryPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a read of stages, in batches of bounded size."""
    kernel = RelationalKernel(context.memory.engines, context.options.most_memory_bytes, context.limits)
    try:
        first, *others = plan.stages
        context.rankings = _resolved_rankings(context, plan)
        rows = _run_sequence(context, first, kernel, schema)
        if plan.read.united is not None:
            rows = _unite(context, plan, rows, others, kernel, schema)
        yield from rows
    finally:
        kernel.close()


def _resolved_rankings(context: QueryContext, plan: QueryPlan) -> Mapping[Ranking, RankingInput]:
    """Return what the rankings of all stages compare with, before a row is read."""
    ranks = (stage.output.rank for stages in plan.stages for stage in stages)
    vectors: dict[Embedded, tuple[float, ...]] = {}
    return {rank.ranking: resolve_ranking(context, rank.ranking, vectors) for rank in ranks if rank is not None}


def _run_sequence(
    context: QueryContext, stages: Sequence[StageSteps], kernel: RelationalKernel, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    frames = iter([UNIT])
    held_bytes = 0
    try:
        for number, stage in enumerate(stages[:-1], 1):
            made = context.trace.count(stage.output, _StageRun(context, stage, kernel).run(frames))
            frames = _frames(made, stage.output)
            if number % _STAGES_AT_ONCE == 0:
                collected, collected_bytes = _collected(context, frames)
                context.limits.hold(-held_bytes)
                frames, held_bytes = iter(collected), collected_bytes
        last = stages[-1]
        rows = _StageRun(context, last, kernel).run(frames)
        if id(last.output) in context.trace.steps:
            rows = context.trace.count(last.output, rows)
        for batch in rows:
            columns = [decoded(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
            if not columns:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
            else:
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
    finally:
        context.limits.hold(-held_bytes)


def _collected(context: QueryContext, frames: Iterator[Frame]) -> tuple[list[Frame], int]:
    """Return all frames, and what they take, which counts as held."""
    collected, held_bytes = list[Frame](), 0
    try:
        for frame in frames:
            context.limits.hold(frame.size_bytes)
            held_bytes += frame.size_bytes
            collected.append(frame)
    except BaseException:
        context.limits.hold(-held_bytes)
        raise
    return collected, held_bytes


def _frames(batches: Iterator[pa.RecordBatch], output: OutputPlan) -> Iterator[Frame]:
    """Return the rows of a stage as what the next one starts from."""
    done = 0
    for batch in batches:
        ids: dict[str, Any] = {}
        values: dict[str, pa.Array] = {}
        for shown, column in zip(output.shown, batch.columns, strict=True):
            if shown.name.startswith(ROW_MARK):
                row_ids = column.fill_null(MISSING).to_numpy(zero_copy_only=False)
                ids[shown.name.removeprefix(ROW_MARK)] = row_ids
            else:
                values[shown.name] = decoded(column, value_arrow_type(shown.type))
        if output.order:
            values[PLACE] = pa.array(np.arange(done, done + batch.num_rows), pa.int64())
        done += batch.num_rows
        if batch.num_rows:
            yield Frame(length=batch.num_rows, ids=ids, values=values)


def _unite(
    context: QueryContext,
    plan: QueryPlan,
    rows: Iterator[pa.RecordBatch],
    others: Sequence[Sequence[StageSteps]],
    kernel: RelationalKernel,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    united = plan.read.united
    assert united is not None  # noqa: S101 - asked before
    names = [f"column{at}" for at in range(len(schema))]
    tables = [_table(rows, schema, names)]
    size_bytes, least_bytes = tables[0].nbytes, tables[0].nbytes
    # Whatever is united before the last one without duplicates has none behind it, whenever they are removed.
    last = max((at for at, union in enumerate(plan.read.unions) if not union.keeps_duplicates), default=-1)
    for at, stages in enumerate(others):
        tables.append(_table(_run_sequence(context, stages, kernel, schema), schema, names))
        size_bytes += tables[-1].nbytes
        context.limits.check(size_bytes)
        if at == last or (at < last and size_bytes > _GROWTH * least_bytes + _GROWTH_BYTES):
            tables = [_distinct(kernel, pa.concat_tables(tables), names)]
            size_bytes = least_bytes = tables[0].nbytes
    found = pa.concat_tables(tables)
    table = _TableRows(context, dict(zip(names, found.columns, strict=True)), found.num_rows)
    for batch in _arranged(context, united, kernel, iter([table]), is_distinct=united.is_distinct):
        columns = [decoded(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _distinct(kernel: RelationalKernel, rows: pa.Table, names: Sequence[str]) -> pa.Table:
    stream = RowStream(rows.schema, rows.to_batches())
    return kernel.arrange(stream, names, is_distinct=True, order=(), per=(), offset=0, limit=None)


def _table(batches: Iterator[pa.RecordBatch], schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    made = pa.Table.from_batches(batches, schema)
    return pa.Table.from_arrays([encoded(_whole(column)) for column in made.columns], names=list(names))


def _whole(column: Any) -> pa.Array:
    return one_array(column) if isinstance(column, pa.ChunkedArray) else column


class _StageRun:
    """One stage on its way: its match, then what is made of the rows."""

    def __init__(self, context: QueryContext, stage: StageSteps, kernel: RelationalKernel) -> None:
        self._context = context.within(stage.variables, stage.nullable)
        self._stage = stage
        self._kernel = kernel

    def run(self, frames: Iterator[Frame]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stage, with one column per shown value."""
        rows = run_steps(self._context, self._stage.steps, frames)
        if self._stage.output.rank is not None:
            rows = self._ranked(self._stage.output.rank, rows)
        output = self._stage.output
        is_distinct = output.is_distinct
        variable = _layout(output).once
        if variable is not None:
            rows = first_of_each(rows, variable)
            is_distinct = not self._tells_apart(output, variable)
        pieces: Iterator[FrameRows | _TableRows] = self._pieces(rows)
        if output.keys is not None:
            pieces = iter([self._grouped(pieces)])
        yield from _arranged(self._context, output, self._kernel, pieces, is_distinct=is_distinct)

    def _tells_apart(self, output: OutputPlan, variable: str) -> bool:
        tables = self._context.tables_of(variable)
        if len(tables) != 1 or variable in self._context.nullable:
            return False
        owner = self._context.entities(tables[0]).owner
        return isinstance(owner, NodeType) and tells_apart(output, variable, owner)

    def _ranked(self, rank: RankPlan, frames: Iterator[Frame]) -> Iterator[Frame]:
        context, output = self._context, self._stage.output
        limit, offset = amount(context, output.limit, "limit"), amount(context, output.offset, "offset")
        limit = None if limit is None or not output.cuts_rows else limit + (offset or 0)
        given = context.rankings[rank.ranking]
        from omnigraph.engine.query.output.ranked_stage import RankedStage  # noqa: PLC0415 - loaded for the stages that need it

        yield from RankedStage(context, self._kernel, rank, given, limit=limit, skips=offset is not None).run(frames)

    def _pieces(self, frames: Iterator[Frame]) -> Iterator[FrameRows]:
        for frame in frames:
            for start in range(0, frame.length, _PIECE_ROWS):
                self._context.limits.check()
                yield FrameRows(self._context, frame.slice(start, start + _PIECE_ROWS))

    def _grouped(self, pieces: Iterator[Any]) -> _TableRows:
        """Return one row per group, with its keys and aggregates by name."""
        output = self._stage.output
        keys = output.keys or ()
        plan = GroupColumns(self._context, output)
        reader = RowStream(plan.schema, plan.batches(pieces))
        found = self._kernel.group(reader, [name for name, _ in keys], plan.measures, plan.order)
        types = {name: value_arrow_type(key.type) for name, key in keys}
        types |= {name: value_arrow_type(call.type) for name, call in output.aggregates}
        columns = {name: decoded(found.column(name), kind) for name, kind in types.items()}
        return _TableRows(self._context, columns, found.num_rows)


class StageContext(Protocol):
    """What the output of a stage asks of a run, wherever its rows are."""

    @property
    def limits(self) -> Limits:
        """What may be held, and for how long."""

    @property
    def fits_literals(self) -> bool:
        """Whether a literal may be brought to the type of a column before comparing."""

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""


@cache
def encoded_type(of: PropertyType) -> pa.DataType:
    """Return the type in which the kernel takes values."""
    return encoded(pa.array([], value_arrow_type(of))).type


class GroupColumns:
    """The columns that groups are made of: ``values`` by name, their ``schema``, and what is computed of them."""

    def __init__(self, context: StageContext, output: OutputPlan) -> None:
        self._context = context
        self.values: dict[str, Scalarlike] = dict(output.keys or ())
        # Entities that are counted: which one it is needs no id.
        self._counted: set[str] = set()
        self.measures: list[Measure] = []
        for at, (name, call) in enumerate(output.aggregates):
            argument = where = None
            if call.argument is not None:
                argument = f"#argument{at}"
                self.values[argument] = call.argument
                if call.function == "count" and isinstance(call.argument, EntityRef):
                    self._counted.add(argument)
            if call.where is not None:
                where = f"#where{at}"
                self.values[where] = call.where
            self.measures.append(
                Measure(name=name, call=call, argument=argument, where=where, fraction=self._fraction(call))
            )
        self.order: list[str] = []
        if any(call.function == "collect" for _, call in output.aggregates):
            self.order = [f"#order{at}" for at in range(len(output.row_order))]
            self.values |= dict(zip(self.order, output.row_order, strict=True))
        fields = [pa.field(name, self._encoded_type(value, name)) for name, value in self.values.items()]
        self.schema = pa.schema([*fields, pa.field(NUMBER, pa.int64())])

    def batches(self, pieces: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the rows, numbered."""
        done = 0
        for rows in pieces:
            columns = [
                cast_to(encoded(self._column(name, value, rows)), field.type)
                for (name, value), field in zip(self.values.items(), self.schema, strict=False)
            ]
            numbers = pa.array(np.arange(done, done + rows.length), pa.int64())
            done += rows.length
            self._context.limits.check(sum(map(held_bytes, columns)))
            yield pa.RecordBatch.from_arrays([*columns, numbers], schema=self.schema)

    def _column(self, name: str, value: Scalarlike, rows: Any) -> pa.Array:
        if name in self._counted and isinstance(value, EntityRef):
            found = rows.entity_rows(value.variable)
            missing = found.to_numpy(zero_copy_only=False) == MISSING
            return pa.array(found.to_numpy(zero_copy_only=False), pa.int64(), mask=missing)
        return compute(value, rows)

    def _encoded_type(self, value: Scalarlike, name: str) -> pa.DataType:
        if name in self._counted:
            return pa.int64()
        return encoded_type(value.type)

    def _fraction(self, call: AggregateCall) -> float | None:
        if call.fraction is None:
            return None
        value = self._context.given(call.fraction)
        if value is None:
            return None
        if not 0 <= value <= 1:
            details = BadValue(what="fraction", value=str(value), expected="a number from 0 to 1")
            raise QueryRuntimeError(f"percentile takes a fraction from 0 to 1, not {value}", details=details)
        return float(value)


@record
class Arrangement:
    """The columns that rows are shown, ordered and cut by."""

    shown: tuple[Output, ...]
    columns: Mapping[str, Scalarlike]
    order: tuple[SortKey, ...]
    per: tuple[str, ...]


def arrangement(output: OutputPlan) -> Arrangement:
    """Return what rows are shown, ordered and cut by."""
    columns: dict[str, Scalarlike] = {f"#shown{at}": _value(one) for at, one in enumerate(output.shown)}
    names = {value: name for name, value in columns.items()}
    order: list[SortKey] = []
    for at, key in enumerate(output.order):
        assert not isinstance(key.key, OutputRef)  # noqa: S101 - stages have no such keys
        name = names.setdefault(key.key, f"#key{at}")
        columns[name] = key.key
        order.append(SortKey(column=name, descending=key.descending, nulls_first=key.has_nulls_first))
    per: list[str] = []
    for at, value in enumerate(output.per):
        per.append(names.setdefault(value, f"#per{at}"))
        columns[per[-1]] = value
    if output.order or output.per or output.offset is not None or (output.limit is not None and not output.is_last):
        for at, value in enumerate(output.ties):
            name = names.setdefault(value, f"#tie{at}")
            columns[name] = value
            order.append(SortKey(column=name))
    return Arrangement(shown=output.shown, columns=columns, order=tuple(order), per=tuple(per))


@record
class _Layout:
    """What follows from an output alone: its columns, their types, and the variable that all of them follow from."""

    output: OutputPlan
    plan: Arrangement
    schema: pa.Schema
    once: str | None


# By the identity of the output, which each entry keeps alive: a read that is asked again has the one that it had.
_layouts: LRUCache[int, _Layout] = LRUCache(_LAYOUTS)


def _layout(output: OutputPlan) -> _Layout:
    found = _layouts.get(id(output))
    if found is None or found.output is not output:
        plan = arrangement(output)
        schema = pa.schema([pa.field(name, encoded_type(value.type)) for name, value in plan.columns.items()])
        once = once_variable(output, plan.columns.values()) if output.is_distinct else None
        found = _Layout(output=output, plan=plan, schema=schema, once=once)
        _layouts.put(id(output), found)
    return found


def _value(output: Output) -> Scalarlike:
    expression = output.expression
    if isinstance(expression, AggregateCall | RankingValue):
        message = f"not a value of a row: {expression}"
        raise InternalError(message)
    return expression


def _arranged(
    context: QueryContext, output: OutputPlan, kernel: RelationalKernel, pieces: Iterator[Any], *, is_distinct: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the shown columns of rows that pass, each row once if they are distinct, in order, and cut."""
    layout = _layout(output)
    plan, schema = layout.plan, layout.schema
    offset, limit = amount(context, output.offset, "offset") or 0, amount(context, output.limit, "limit")
    is_plain = not (is_distinct or plan.order or plan.per or offset)
    names = list(plan.columns)
    batches = _computed(context, output, plan, schema, pieces)
    if is_plain:
        yield from batches if limit is None else _first_rows(batches, limit)
        return
    shown = [name for name in names if name.startswith("#shown")]
    found = kernel.arrange(
        RowStream(schema, batches),
        shown,
        is_distinct=is_distinct,
        order=plan.order,
        per=plan.per,
        offset=offset,
        limit=limit,
        best=plan.order[0].column if is_distinct and output.rank is not None else None,
    )
    yield from found.to_batches(max_chunksize=_PIECE_ROWS)


def _computed(
    context: QueryContext, output: OutputPlan, plan: Arrangement, schema: pa.Schema, pieces: Iterator[Any]
) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        rows = piece
        if output.having is not None:
            mask = passing(Condition(value=output.having), rows)
            if not mask.all():
                rows = rows.subset(np.flatnonzero(mask))
        columns = [
            cast_to(encoded(compute(value, rows)), field.type)
            for value, field in zip(plan.columns.values(), schema, strict=True)
        ]
        context.limits.check(sum(map(held_bytes, columns)))
        if columns:
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        else:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * rows.length, pa.struct([])))


def _first_rows(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)


def amount(context: StageContext, given: Constant | ParameterRef | None, what: str) -> int | None:
    """Return an offset or a limit.

    Raises:
        QueryParameterError: the parameter is NULL or negative.
    """
    if given is None:
        return None
    value = context.given(given)
    if value is None or value < 0:
        name = given.name if isinstance(given, ParameterRef) else what
        shown = "NULL" if value is None else str(value)
        details = ParameterProblem(name=name, expected="a whole number that is not negative", found=shown)
        raise QueryParameterError(f"parameter '${name}' is the {what} and must not be {shown}", details=details)
    return int(value)


class _TableRows:
    """Rows that have values and no entities: groups, and what was united."""

    def __init__(self, context: QueryContext, columns: Mapping[str, Any], length: int) -> None:
        self._context = context
        self._columns = columns
        self.length = length
        self.fits_literals = context.fits_literals

    def column(self, column: Column) -> pa.Array:
        """Refuse: there are no entities."""
        message = f"a property of a group: {column}"
        raise InternalError(message)

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""
        return self._context.given(value)

    def value(self, name: str) -> pa.Array:
        """Return a column."""
        return _whole(self._columns[name])

    def check_bytes(self, size_bytes: int) -> None:
        """Raise if a column of so many bytes may not be made."""
        self._context.limits.check_column(size_bytes)

    def place(self, at: int) -> str:
        """Return nothing: there are no entities."""
        del at
        return ""

    def subset(self, positions: Positions) -> _TableRows:
        """Return some of the rows."""
        taken = {name: _whole(column).take(pa.array(positions)) for name, column in self._columns.items()}
        return _TableRows(self._context, taken, len(positions))

    def passes(self, condition: Condition) -> Mask:
        """Return in which rows a condition is true."""
        return passing(condition, self)

    def matches_text(self, predicate: TextMatch) -> Mask:
        """Refuse: there are no entities."""
        message = f"a text search in groups: {predicate}"
        raise InternalError(message)

    def same_entity(self, predicate: SameEntity) -> Mask:
        """Refuse: there are no entities."""
        message = f"a comparison of entities in groups: {predicate}"
        raise InternalError(message)

    def entity_ids(self, variable: str) -> pa.Array:
        """Refuse: there are no entities."""
        message = f"an entity of a group: {variable}"
        raise InternalError(message)

    entity_rows = entity_types = entity_versions = entity_ids
