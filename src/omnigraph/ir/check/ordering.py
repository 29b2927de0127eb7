"""The order clause, and the limits that rankings demand."""

from __future__ import annotations

from omnigraph.ir.check.expressions import check_expression
from omnigraph.ir.check.operands import refuse_blob
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.tree import CheckedOrdering, CheckedProjection, Operand
from omnigraph.lang.gq import ast


def check_orderings(
    orderings: tuple[ast.Ordering, ...], projections: tuple[CheckedProjection, ...], scope: Scope
) -> tuple[CheckedOrdering, ...]:
    """Type the order keys; a name that is no alias has no type and is refused when the query is lowered."""
    checked: list[CheckedOrdering] = []
    for ordering in orderings:
        operand = check_expression(ordering.expression, scope)
        if isinstance(operand.expression, ast.AliasRef):
            named = find_alias(operand.expression.name, projections)
            operand = Operand(expression=operand.expression, type=None if named is None else named.operand.type)
        refuse_blob(operand, scope, "ordered by")
        checked.append(CheckedOrdering(operand=operand, descending=ordering.direction == "desc"))
    return tuple(checked)


def find_alias(name: str, projections: tuple[CheckedProjection, ...]) -> CheckedProjection | None:
    """Return the projection an order key names; of several equal aliases the last wins, as in row objects."""
    return next((item for item in reversed(projections) if item.alias == name), None)


def check_limit_rules(
    orderings: tuple[CheckedOrdering, ...],
    projections: tuple[CheckedProjection, ...],
    limit: int | None,
    scope: Scope,
) -> None:
    """Check what ordering by ``nearest`` and ``rrf`` demands."""
    resolved = [(item, _resolve(item.operand, projections)) for item in orderings]
    nearest = next((item for item, key in resolved if isinstance(key, ast.Nearest)), None)
    if nearest is not None and limit is None:
        raise scope.violation("T17", "ordering by nearest needs a limit", nearest.operand.span)
    if nearest is not None:
        alias = next((item for item, _ in resolved if isinstance(item.operand.expression, ast.AliasRef)), None)
        if alias is not None:
            message = "ordering by nearest goes with no alias key"
            raise scope.violation("T18", message, alias.operand.span, suggestion="order by nearest(…) itself")
    fused = next((item for item, key in resolved if isinstance(key, ast.Rrf)), None)
    if fused is not None and limit is None:
        raise scope.violation("T21", "ordering by rrf needs a limit", fused.operand.span)


def _resolve(operand: Operand, projections: tuple[CheckedProjection, ...]) -> ast.Expression:
    if isinstance(operand.expression, ast.AliasRef):
        named = find_alias(operand.expression.name, projections)
        return operand.expression if named is None else named.operand.expression
    return operand.expression
