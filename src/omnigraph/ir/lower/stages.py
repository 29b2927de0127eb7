"""Reads of several stages, with computed, grouped, distinct or united rows: each stage to what it matches and makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from omnigraph.catalog.model import PropertyType
from omnigraph.ir.check.output import find_ranking, has_aggregate
from omnigraph.ir.check.tree import CheckedOrdering, CheckedProjection, CheckedRead, CheckedStage, Operand
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.lower.match import lower_match, lower_pending
from omnigraph.ir.lower.output import RankingCall, lower_ranking
from omnigraph.ir.model import (
    PLACE,
    RANK,
    ROW_MARK,
    SCORE,
    AggregateCall,
    Apply,
    Constant,
    EntityRef,
    EntityRow,
    EntityType,
    OrderKey,
    Output,
    OutputPlan,
    ParameterRef,
    Ranking,
    RankPlan,
    Scalarlike,
    StagePlan,
    UnionPlan,
    ValueRef,
)
from omnigraph.ir.types import F64, I64, INTERVAL, NULL, PATH, TEXT, common_type
from omnigraph.lang.gq import ast
from omnigraph.records import record

_FIRST_AGGREGATES = ("count", "sum", "avg", "min", "max")
_RANK = ValueRef(name=RANK, type=I64)
_SCORE = ValueRef(name=SCORE, type=F64)
_BEST = ValueRef(name="#best", type=I64)


def is_classic(checked: CheckedRead) -> bool:
    """Whether a read asks for nothing but what one match, its groups and its order give without computing."""
    if len(checked.stages) > 1 or checked.unions:
        return False
    stage = checked.last
    if stage.is_distinct or stage.having or stage.offset is not None or stage.per or stage.nullable:
        return False
    if isinstance(stage.limit, ast.Variable):
        return False
    is_grouped = any(has_aggregate(item.operand) for item in stage.projections)
    return all(_is_classic_output(item.operand, is_grouped=is_grouped) for item in stage.projections) and all(
        _is_classic_order(item) for item in stage.orderings
    )


def _is_classic_output(operand: Operand, *, is_grouped: bool) -> bool:
    expression = operand.expression
    if operand.is_value or operand.type is NULL:
        return False
    if isinstance(expression, ast.Aggregate):
        return _is_classic_aggregate(expression, operand)
    if is_grouped:
        return isinstance(expression, ast.PropertyAccess | ast.Variable)
    plain = ast.PropertyAccess | ast.Variable | ast.Now | ast.AliasRef | ast.Literal
    return isinstance(expression, plain | ast.TextSearch | RankingCall)


def _is_classic_aggregate(call: ast.Aggregate, operand: Operand) -> bool:
    if call.function not in _FIRST_AGGREGATES or call.is_distinct or call.where is not None or not operand.parts:
        return False
    argument = operand.parts[0]
    if (
        argument.is_value
        or (argument.is_edge and call.function != "count")
        or not isinstance(
            argument.expression,
            ast.PropertyAccess | ast.Variable | ast.Now | ast.AliasRef | ast.Literal | ast.Aggregate,
        )
    ):
        return False
    of = argument.type
    if call.function in {"sum", "avg"} and of is not None and of.is_decimal:
        # The first aggregates add floats.
        return False
    return call.function not in {"min", "max"} or of is None or of.is_numeric or of.is_text


def _is_classic_order(ordering: CheckedOrdering) -> bool:
    expression = ordering.operand.expression
    return ordering.nulls_first is None and isinstance(expression, ast.PropertyAccess | ast.AliasRef | RankingCall)


@record
class LoweredStages:
    """The stages of a read, the columns of its result, the reads it is united with, and what is made of them all."""

    stages: tuple[StagePlan, ...]
    outputs: tuple[Output, ...]
    unions: tuple[UnionPlan, ...]
    united: OutputPlan | None


def lower_stages(checked: CheckedRead, lowering: Lowering) -> LoweredStages:
    """Lower every stage of a read."""
    stages = _lower_all(checked.stages, lowering)
    unions = tuple(
        UnionPlan(stages=_lower_all(union.stages, lowering), keeps_duplicates=union.keeps_duplicates)
        for union in checked.unions
    )
    outputs = stages[-1].output.shown
    if not unions:
        return LoweredStages(stages=stages, outputs=outputs, unions=(), united=None)
    united = tuple(_united(at, output, unions) for at, output in enumerate(outputs))
    plan = _united_plan(checked, united)
    # The order of the whole stands behind the union, not in its first read.
    first = replace(stages[-1], output=replace(stages[-1].output, offset=None, limit=None))
    return LoweredStages(stages=(*stages[:-1], first), outputs=united, unions=unions, united=plan)


def _united(at: int, output: Output, unions: tuple[UnionPlan, ...]) -> Output:
    types = [output.type, *(union.stages[-1].output.shown[at].type for union in unions)]
    of = common_type(types) or output.type
    return Output(name=output.name, expression=ValueRef(name=f"column{at}", type=of), type=of)


def _united_plan(checked: CheckedRead, outputs: tuple[Output, ...]) -> OutputPlan:
    body = checked.decl.body
    orderings = body.orderings if isinstance(body, ast.ReadBody) else ()
    places = {item.alias: at for at, item in enumerate(checked.last.projections) if item.alias is not None}

    def column(expression: ast.Expression) -> Scalarlike:
        name = expression.name if isinstance(expression, ast.AliasRef) else ""
        return _scalar(outputs[places[name]].expression)

    keys = []
    for ordering in orderings:
        nulls = None if ordering.nulls is None else ordering.nulls == "first"
        key = column(ordering.expression)
        keys.append(OrderKey(key=key, descending=ordering.direction == "desc", nulls_first=nulls))
    return OutputPlan(
        shown=outputs,
        per=tuple(column(expression) for expression in body.per) if isinstance(body, ast.ReadBody) else (),
        order=tuple(keys),
        ties=tuple(_scalar(output.expression) for output in outputs),
        offset=_amount(checked.last.offset),
        limit=_amount(checked.last.limit),
    )


def _scalar(expression: object) -> Scalarlike:
    assert isinstance(expression, ValueRef)  # noqa: S101 - columns of united rows are nothing else
    return expression


def _lower_all(stages: tuple[CheckedStage, ...], lowering: Lowering) -> tuple[StagePlan, ...]:
    found: list[StagePlan] = []
    outer: tuple[str, ...] = ()
    values: tuple[ValueRef, ...] = ()
    for at, stage in enumerate(stages):
        is_last = at == len(stages) - 1
        found.append(_lower_stage(stage, lowering, outer, values, is_last=is_last))
        output = found[-1].output
        outer = tuple(name for name, _ in output.kept)
        named = (shown for shown in output.shown if not shown.name.startswith(ROW_MARK))
        values = tuple(
            sorted((ValueRef(name=shown.name, type=shown.type) for shown in named), key=lambda one: one.name)
        )
        if output.order:
            values = (ValueRef(name=PLACE, type=I64), *values)
    return tuple(found)


def _lower_stage(
    stage: CheckedStage, lowering: Lowering, outer: tuple[str, ...], values: tuple[ValueRef, ...], *, is_last: bool
) -> StagePlan:
    operators = lower_match(stage.clauses, lowering, frozenset(outer))
    output = _lower_output(stage, lowering, values, is_last=is_last)
    asked = lower_pending(lowering, frozenset(stage.variables))
    return StagePlan(operators=(*operators, *asked), output=output, outer=outer, nullable=stage.nullable)


def _lower_output(
    stage: CheckedStage, lowering: Lowering, values: tuple[ValueRef, ...], *, is_last: bool
) -> OutputPlan:
    ranked = find_ranking(stage.orderings, stage.projections)
    if ranked is None:
        return _StageOutput(stage=stage, lowering=lowering, is_last=is_last, values=values).build()
    if stage.orderings[0].nulls_first is not None:
        message = "a ranking leaves out the rows that have no rank, and takes no 'nulls'"
        raise lowering.refusal(message, ranked.span, suggestion="remove 'nulls first' or 'nulls last'")
    # Once the first key ranks, the others are ignored.
    stage = replace(stage, orderings=stage.orderings[:1])
    inner = lowering.substituting({ranked.expression: _SCORE})
    output = _StageOutput(stage=stage, lowering=inner, is_last=is_last, values=values, ranked=ranked)
    return output.build_ranked(lower_ranking(ranked, lowering))


@record
class _StageOutput:
    stage: CheckedStage
    lowering: Lowering
    is_last: bool
    values: tuple[ValueRef, ...]
    ranked: Operand | None = None

    def build_ranked(self, ranking: Ranking) -> OutputPlan:
        """Rows are ranked before they are grouped; a group, or a row that is returned once, has its best place."""
        plan = self.build()
        counts = any(map(has_aggregate, self._operands()))
        rank = RankPlan(ranking=ranking, ties=plan.row_order, keeps_unranked=counts)
        key, aggregates = _RANK, plan.aggregates
        if plan.keys is not None:
            key = _BEST
            aggregates = (*aggregates, (_BEST.name, AggregateCall(function="min", argument=_RANK, type=I64)))
        return replace(plan, rank=rank, order=(OrderKey(key=key),), aggregates=aggregates, ties=(), row_order=(_RANK,))

    def build(self) -> OutputPlan:
        stage = self.stage
        # Nodes of one id and several types are told apart by groups, which have more keys than columns.
        regroups = self.is_last and stage.is_distinct and stage.having is None and self._shows_mixed()
        is_grouped = regroups or any(map(has_aggregate, self._operands()))
        for operand in self._operands():
            self._refuse_ranking(operand, is_grouped=is_grouped)
        keys = self._keys() if is_grouped else None
        calls = self._calls() if is_grouped else {}
        lowering = self.lowering
        if keys is not None:
            known = {operand.expression: ValueRef(name=name, type=_typed(operand)) for name, operand in keys}
            named: dict[ast.Expression, Scalarlike] = {**known, **{call: ref for call, (ref, _) in calls.items()}}
            lowering = lowering.substituting(named)
        shown = tuple(self._shown(item, keys, lowering) for item in stage.projections)
        aliases: dict[ast.Expression, Scalarlike] = {
            ast.AliasRef(name=item.alias): _value(output)
            for item, output in zip(stage.projections, shown, strict=True)
            if item.alias is not None
        }
        behind = lowering.substituting(aliases)
        orderings = stage.orderings if self.ranked is None else ()
        order = tuple(self._order_key(item, behind) for item in orderings)
        plan = OutputPlan(
            shown=shown,
            keys=None if keys is None else tuple(self._all_keys(keys)),
            aggregates=tuple((ref.name, call) for ref, call in calls.values()),
            is_distinct=stage.is_distinct and not regroups,
            is_last=self.is_last,
            having=None if stage.having is None else behind.scalar(stage.having),
            order=order,
            offset=_amount(stage.offset),
            limit=_amount(stage.limit),
            per=tuple(behind.scalar(item) for item in stage.per),
            kept=() if self.is_last else tuple(pair for item in stage.projections for pair in _kept(item)),
        )
        return replace(plan, ties=self._ties(plan), row_order=self._row_order())

    def _operands(self) -> Iterator[Operand]:
        yield from (item.operand for item in self.stage.projections)
        yield from (item.operand for item in self.stage.orderings if self.ranked is None)
        yield from self.stage.per
        if self.stage.having is not None:
            yield self.stage.having

    def _keys(self) -> list[tuple[str, Operand]]:
        """Return what is projected without an aggregate, then what follows from an entity among that."""
        plain = [item.operand for item in self.stage.projections if not has_aggregate(item.operand)]
        entities = {operand.expression for operand in plain if operand.is_node or operand.is_edge}
        found = {operand.expression: operand for operand in plain}
        for operand in self._operands():
            for part in _outside_aggregates(operand):
                if _entity_of(part) in entities:
                    found.setdefault(part.expression, part)
        return [(f"#key{at}", operand) for at, operand in enumerate(found.values())]

    def _all_keys(self, keys: list[tuple[str, Operand]]) -> Iterator[tuple[str, Scalarlike]]:
        for name, operand in keys:
            yield from self._key(name, operand)

    def _key(self, name: str, operand: Operand) -> Iterator[tuple[str, Scalarlike]]:
        """Yield a key; an entity brings its id and, if they are of several types, its type: groups go by both."""
        variable = _entity_name(operand)
        if variable is None or self.is_last:
            yield name, self.lowering.scalar(operand)
        else:
            yield name, EntityRow(variable=variable, type=I64)
            yield f"{name} id", EntityRef(variable=variable, type=TEXT)
        if variable in self.stage.mixed:
            yield f"{name} type", EntityType(variable=variable, type=TEXT)

    def _shows_mixed(self) -> bool:
        """Whether an entity is shown that may have the id of another, of another type."""
        return any(_entity_name(item.operand) in self.stage.mixed for item in self.stage.projections)

    def _calls(self) -> dict[ast.Expression, tuple[ValueRef, AggregateCall]]:
        found: dict[ast.Expression, tuple[ValueRef, AggregateCall]] = {}
        for operand in self._operands():
            for aggregate in _aggregates(operand):
                if aggregate.expression not in found:
                    call = self._call(aggregate)
                    name = f"#aggregate{len(found)}"
                    found[aggregate.expression] = (ValueRef(name=name, type=call.type), call)
        return found

    def _call(self, operand: Operand) -> AggregateCall:
        call = operand.expression
        assert isinstance(call, ast.Aggregate)  # noqa: S101 - as collected
        argument = operand.parts[0] if operand.parts else None
        fraction = operand.fraction
        return AggregateCall(
            function=call.function,
            argument=None if argument is None else self._argument(argument),
            type=_typed(operand),
            is_distinct=call.is_distinct,
            fraction=None if fraction is None else self.lowering.given(fraction, "the fraction of percentile"),
            where=None if operand.where is None else self.lowering.scalar(operand.where),
        )

    def _argument(self, operand: Operand) -> Scalarlike:
        """Lower the argument of an aggregate: an entity stands for itself, its id is a text like others."""
        value = self.lowering.scalar(operand)
        if isinstance(value, EntityRef) and isinstance(operand.expression, ast.Call):
            return Apply(function="to_string", arguments=(value,), type=TEXT)
        return value

    def _shown(self, item: CheckedProjection, keys: list[tuple[str, Operand]] | None, lowering: Lowering) -> Output:
        kept = () if self.is_last else _kept(item)
        of = _typed(item.operand)
        for name, variable in kept:
            row = EntityRow(variable=variable, type=I64)
            # A variable that is kept is a group key where there are groups.
            known = None if keys is None else lowering.scalar(item.operand)
            expression = replace(known, type=I64) if isinstance(known, ValueRef) else row
            return Output(name=f"{ROW_MARK}{name}", expression=expression, type=I64)
        value = lowering.scalar(item.operand)
        behind = None if self.is_last else item.name_behind
        return Output(name=behind or item.column, expression=value, type=of)

    def _order_key(self, ordering: CheckedOrdering, behind: Lowering) -> OrderKey:
        operand = ordering.operand
        of = _typed(operand)
        if of.is_list or of.is_vector or of in {INTERVAL, PATH}:
            raise behind.refusal(f"rows cannot be ordered by a value of type {of}", operand.span)
        return OrderKey(key=behind.scalar(operand), descending=ordering.descending, nulls_first=ordering.nulls_first)

    def _ties(self, plan: OutputPlan) -> tuple[Scalarlike, ...]:
        """What equal rows are ordered by: the groups' keys, what is returned once, or the entities of the row."""
        if plan.keys is not None:
            keys = [(name, key) for name, key in plan.keys if not isinstance(key, EntityRow)]
            return tuple(ValueRef(name=name, type=key.type) for name, key in keys if _is_orderable(key.type))
        if plan.is_distinct:
            shown = (_value(output) for output in plan.shown if _is_orderable(output.type))
            return tuple(part for value in shown for part in self._identity(value))
        return self._row_order()

    def _identity(self, value: Scalarlike) -> Iterator[Scalarlike]:
        """Yield what a value is ordered by: an entity by its id, then by its type if there are several."""
        if not isinstance(value, EntityRow):
            yield value
            return
        yield EntityRef(variable=value.variable, type=TEXT)
        if value.variable in self.stage.mixed:
            yield EntityType(variable=value.variable, type=TEXT)

    def _row_order(self) -> tuple[Scalarlike, ...]:
        """The place that an earlier stage gave a row, then its entities by name, then its values by name."""
        place = tuple(value for value in self.values if value.name == PLACE)
        entities: list[Scalarlike] = []
        for name in self.stage.variables:
            entities.append(EntityRef(variable=name, type=TEXT))
            if name in self.stage.mixed:
                entities.append(EntityType(variable=name, type=TEXT))
        values = {**self.stage.values, **{value.name: value.type for value in self.values if value.name != PLACE}}
        others = [ValueRef(name=name, type=of) for name, of in sorted(values.items()) if _is_orderable(of)]
        return (*place, *entities, *others)

    def _refuse_ranking(self, operand: Operand, *, is_grouped: bool) -> None:
        """Refuse a ranking that orders nothing, and one that is not the same for all rows of a group."""
        if isinstance(operand.expression, RankingCall):
            if self.ranked is None or operand.expression != self.ranked.expression:
                message = "a ranking has a value only where it is the first order key"
                suggestion = "order by it here, or in a stage before: with { …, bm25(…) as score } order { score }"
                raise self.lowering.refusal(message, operand.span, suggestion=suggestion)
            if is_grouped and all(item.operand.expression != operand.expression for item in self.stage.projections):
                message = "together with an aggregate, a value must be a group key"
                raise self.lowering.refusal(message, operand.span, suggestion="return it by itself too")
        elif isinstance(operand.expression, ast.Aggregate):
            for part in _parts(operand):
                self._refuse_ranking(part, is_grouped=False)
        else:
            for part in operand.parts:
                self._refuse_ranking(part, is_grouped=is_grouped)


def _parts(call: Operand) -> Iterator[Operand]:
    """Yield what an aggregate is computed of."""
    yield from call.parts
    if call.where is not None:
        yield call.where


def _amount(amount: ast.Amount | None) -> Constant | ParameterRef | None:
    if amount is None:
        return None
    if isinstance(amount, ast.Variable):
        return ParameterRef(name=amount.name, type=I64)
    return Constant(value=amount, type=I64)


def _kept(item: CheckedProjection) -> tuple[tuple[str, str], ...]:
    """Return the name that an entity has behind the stage and its name here, if an entity is what is projected."""
    name = _entity_name(item.operand)
    return () if name is None else ((item.alias or name, name),)


def _entity_name(operand: Operand) -> str | None:
    """Return the variable whose entity a value is, or None."""
    if isinstance(operand.expression, ast.Variable) and (operand.is_node or operand.is_edge):
        return operand.expression.name
    return None


def _outside_aggregates(operand: Operand) -> Iterator[Operand]:
    if isinstance(operand.expression, ast.Aggregate):
        return
    yield operand
    for part in operand.parts if not isinstance(operand.expression, RankingCall) else ():
        yield from _outside_aggregates(part)


def _entity_of(operand: Operand) -> ast.Expression | None:
    """Return the variable whose entity alone decides a value."""
    expression = operand.expression
    if isinstance(expression, ast.PropertyAccess):
        return expression.variable
    if isinstance(expression, ast.Call) and expression.function.text in {"id", "type", "version"}:
        return expression.arguments[0]
    return None


def _aggregates(operand: Operand) -> Iterator[Operand]:
    if isinstance(operand.expression, ast.Aggregate):
        yield operand
        return
    for part in operand.parts:
        yield from _aggregates(part)


def _value(output: Output) -> Scalarlike:
    expression = output.expression
    assert not isinstance(expression, AggregateCall) and hasattr(expression, "type")  # noqa: S101, PT018 - see lowering
    value: Scalarlike = expression  # type: ignore[assignment] # what is shown of a stage has a value of its own
    return value


def _is_orderable(of: PropertyType) -> bool:
    return not of.is_vector


def _typed(operand: Operand) -> PropertyType:
    return TEXT if operand.type is None else operand.type
