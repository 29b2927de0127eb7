"""Return, order and limit: output columns, groups, the ranking or the order keys, and how ties are broken."""

from __future__ import annotations

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.errors import ValueFormatError
from omnigraph.ir.check.output import find_alias, find_ranking
from omnigraph.ir.check.tree import CheckedOrdering, CheckedProjection, CheckedStage, Operand
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.model import (
    AggregateCall,
    Bm25Ranking,
    Constant,
    EntityTies,
    GroupTies,
    NearestRanking,
    OrderKey,
    Output,
    OutputExpression,
    OutputRef,
    ParameterRef,
    Ranking,
    RankingValue,
    RrfRanking,
)
from omnigraph.ir.types import F64, I64, TEXT, fit_assigned
from omnigraph.lang.gq import ast
from omnigraph.lang.parsing import nearest_name
from omnigraph.records import record

RankingCall = ast.Nearest | ast.Bm25 | ast.Rrf

_DEFAULT_K = Constant(value=60, type=I64)


def lower_ranking(operand: Operand, lowering: Lowering) -> Ranking:
    """Lower ``nearest``, ``bm25`` or ``rrf``."""
    if not isinstance(operand.expression, ast.Rrf):
        return _lower_arm(operand, lowering)
    first, second, *rest = operand.parts
    return RrfRanking(
        first=_lower_arm(first, lowering),
        second=_lower_arm(second, lowering),
        k=lowering.given(rest[0], "the k of rrf") if rest else _DEFAULT_K,
    )


def ranking_value(call: RankingCall) -> RankingValue:
    """Return the value that the plan's own ranking has in a row."""
    match call:
        case ast.Nearest():
            function = "nearest"
        case ast.Bm25():
            function = "bm25"
        case ast.Rrf():
            function = "rrf"
    return RankingValue(function=function, type=F64)


def _lower_arm(operand: Operand, lowering: Lowering) -> NearestRanking | Bm25Ranking:
    field, query = operand.parts
    column = lowering.column(field)
    if isinstance(operand.expression, ast.Bm25):
        return Bm25Ranking(field=column, query=lowering.given(query, "the query of bm25"))
    embed = None if field.definition is None else field.definition.embed
    return NearestRanking(
        field=column,
        query=_vector(query, column.type, lowering),
        model=None if embed is None else embed.model,
    )


def _vector(query: Operand, column: PropertyType, lowering: Lowering) -> Constant | ParameterRef:
    given = lowering.given(query, "the query of nearest")
    if not isinstance(given, Constant) or not given.type.is_list:
        return given
    target = PropertyType(scalar=Scalar.VECTOR, dimension=column.dimension)
    try:
        return Constant(value=fit_assigned(given.value, target), type=target)
    except ValueFormatError as problem:
        raise lowering.refusal(problem.message, query.span) from problem


@record
class ResultShape:
    """Everything of a read plan that follows the match."""

    outputs: tuple[Output, ...]
    groups: tuple[int, ...] | None
    ranking: Ranking | None
    order: tuple[OrderKey, ...]
    ties: EntityTies | GroupTies | None


def lower_output(checked: CheckedStage, lowering: Lowering) -> ResultShape:
    """Lower the return and order clauses."""
    ranked = find_ranking(checked.orderings, checked.projections)
    outputs = tuple(_lower_projection(item, ranked, lowering) for item in checked.projections)
    groups = _groups(checked.projections)
    if ranked is not None:
        ranking = lower_ranking(ranked, lowering)
        others = (name for name in checked.variables if name != ranking.variable)
        ties = EntityTies(variables=(ranking.variable, *others), asks_arms=isinstance(ranking, RrfRanking))
        return ResultShape(outputs=outputs, groups=groups, ranking=ranking, order=(), ties=ties)
    keys = _OrderKeys(checked=checked, outputs=outputs, groups=groups, lowering=lowering)
    order = tuple(keys.lower(ordering) for ordering in checked.orderings)
    return ResultShape(outputs=outputs, groups=groups, ranking=None, order=order, ties=keys.ties() if order else None)


def _lower_projection(item: CheckedProjection, ranked: Operand | None, lowering: Lowering) -> Output:
    expression = _output_expression(item.operand, ranked, lowering)
    return Output(name=item.column, expression=expression, type=item.operand.type or TEXT)


def _output_expression(operand: Operand, ranked: Operand | None, lowering: Lowering) -> OutputExpression:
    expression = operand.expression
    match expression:
        case ast.Aggregate():
            argument = operand.parts[0]
            if isinstance(argument.expression, ast.Aggregate):
                raise lowering.refusal("an aggregate cannot be taken over an aggregate", argument.span)
            return AggregateCall(
                function=expression.function,
                argument=lowering.scalar(argument),
                type=operand.type or TEXT,
            )
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            if ranked is None or ranked.expression != expression:
                message = "a ranking can only be returned if it is also the first order key"
                raise lowering.refusal(message, operand.span, suggestion="order by it, or leave it out")
            return ranking_value(expression)
        case ast.TextSearch():
            message = f"{expression.function} filters rows and has no value to return"
            raise lowering.refusal(message, operand.span, suggestion="put it into match { }")
        case _:
            return lowering.scalar(operand)


def _groups(projections: tuple[CheckedProjection, ...]) -> tuple[int, ...] | None:
    is_aggregate = [isinstance(item.operand.expression, ast.Aggregate) for item in projections]
    if not any(is_aggregate):
        return None
    return tuple(index for index, flag in enumerate(is_aggregate) if not flag)


@record
class _OrderKeys:
    checked: CheckedStage
    outputs: tuple[Output, ...]
    groups: tuple[int, ...] | None
    lowering: Lowering

    def lower(self, ordering: CheckedOrdering) -> OrderKey:
        operand = ordering.operand
        expression = operand.expression
        match expression:
            case ast.PropertyAccess() if self.groups is None:
                self._require_orderable(operand, operand.type)
                return OrderKey(key=self.lowering.column(operand), descending=ordering.descending)
            case ast.PropertyAccess():
                return OrderKey(key=self._group_key(operand, expression), descending=ordering.descending)
            case ast.AliasRef():
                return OrderKey(key=self._alias(operand, expression), descending=ordering.descending)
            case ast.Nearest() | ast.Bm25() | ast.Rrf():
                raise self.lowering.refusal("a ranking must be the first order key", operand.span)
            case _:
                message = "an order key must be a property or an alias of the return clause"
                suggestion = "return the expression with 'as name' and order by the name"
                raise self.lowering.refusal(message, operand.span, suggestion=suggestion)

    def ties(self) -> EntityTies | GroupTies:
        if self.groups is None:
            return EntityTies(variables=self.checked.variables)
        return GroupTies(outputs=tuple(self._reference(index) for index in self.groups))

    def _group_key(self, operand: Operand, access: ast.PropertyAccess) -> OutputRef:
        for index in self.groups or ():
            if self.checked.projections[index].operand.expression == access:
                self._require_orderable(operand, operand.type)
                return self._reference(index)
        message = "with aggregates, an order key must be an alias or a returned property"
        raise self.lowering.refusal(message, operand.span, suggestion="return the property too")

    def _alias(self, operand: Operand, alias: ast.AliasRef) -> OutputRef:
        named = find_alias(alias.name, self.checked.projections)
        if named is None:
            near = nearest_name(alias.name, [item.alias for item in self.checked.projections if item.alias])
            suggestion = f"did you mean '{near}'?" if near else f"write 'as {alias.name}' in the return clause"
            raise self.lowering.refusal(f"unknown alias '{alias.name}'", operand.span, suggestion=suggestion)
        self._require_orderable(operand, named.operand.type)
        position = next(index for index, item in enumerate(self.checked.projections) if item is named)
        return self._reference(position)

    def _reference(self, index: int) -> OutputRef:
        output = self.outputs[index]
        return OutputRef(index=index, name=output.name, type=output.type)

    def _require_orderable(self, operand: Operand, of: PropertyType | None) -> None:
        if of is None or of.is_list or of.is_vector:
            raise self.lowering.refusal(f"rows cannot be ordered by a value of type {of}", operand.span)
