"""The return and order clauses: types, column names, the grouping rule, and the limits that rankings demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.catalog.model import Scalar
from omnigraph.ir.check.expressions import check_expression, refuse_blob
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.tree import CheckedOrdering, CheckedProjection, Operand
from omnigraph.lang.gq import ast
from omnigraph.lang.source import Ident


def check_projections(projections: tuple[ast.Projection, ...], scope: Scope) -> tuple[CheckedProjection, ...]:
    """Check projections in order; ``$x.*`` becomes one per property that is not a Blob."""
    checked: list[CheckedProjection] = []
    for projection in projections:
        if isinstance(projection.expression, ast.AllProperties) and projection.alias is None:
            checked.extend(_all_properties(projection.expression, scope))
        else:
            checked.append(_check_projection(projection, checked, scope))
    return tuple(checked)


def check_grouping(projections: tuple[CheckedProjection, ...], scope: Scope) -> None:
    """Beside an aggregate, everything projected is a group key, so it must be something to group by."""
    if not any(isinstance(item.operand.expression, ast.Aggregate) for item in projections):
        return
    for item in projections:
        if not isinstance(item.operand.expression, ast.Aggregate | ast.PropertyAccess | ast.Variable):
            message = "only properties and variables can be returned with an aggregate"
            raise scope.violation("T9", message, item.operand.span)


def _check_projection(projection: ast.Projection, earlier: list[CheckedProjection], scope: Scope) -> CheckedProjection:
    operand = check_expression(projection.expression, scope)
    if isinstance(operand.expression, ast.AliasRef):
        operand = _typed_alias(operand.expression, earlier)
    refuse_blob(operand, scope, "returned")
    alias = None if projection.alias is None else projection.alias.text
    return CheckedProjection(
        operand=operand,
        alias=alias,
        column=alias or _column(projection.expression),
        label=alias or _label(projection.expression),
    )


def _typed_alias(reference: ast.AliasRef, earlier: list[CheckedProjection]) -> Operand:
    types = [item.operand.type for item in earlier if item.alias == reference.name]
    return Operand(expression=reference, type=types[-1] if types else None)


def _all_properties(expression: ast.AllProperties, scope: Scope) -> Iterator[CheckedProjection]:
    name = expression.variable.name
    bound = scope.entities.get(name)
    if bound is None:
        message, suggestion = scope.unbound(name)
        raise scope.violation("T6", message, expression.variable.span, suggestion=suggestion)
    for prop in bound.properties:
        if prop.type.scalar is Scalar.BLOB:
            continue
        access = ast.PropertyAccess(
            variable=expression.variable,
            property=Ident(text=prop.name, span=expression.span),
            span=expression.span,
        )
        operand = Operand(expression=access, type=prop.type, definition=prop)
        yield CheckedProjection(operand=operand, alias=None, column=f"{name}.{prop.name}", label=prop.name)


def _column(expression: ast.Expression) -> str:
    match expression:
        case ast.PropertyAccess():
            return f"{expression.variable.name}.{expression.property.text}"
        case ast.Aggregate():
            return _column(expression.argument)
        case _:
            return _label(expression)


def _label(expression: ast.Expression) -> str:
    match expression:
        case ast.PropertyAccess():
            return expression.property.text
        case ast.Variable() | ast.AliasRef():
            return expression.name
        case ast.AllProperties():
            return expression.variable.name
        case ast.Now():
            return "now"
        case ast.Aggregate() | ast.TextSearch():
            return expression.function
        case ast.Nearest():
            return "nearest"
        case ast.Bm25():
            return "bm25"
        case ast.Rrf():
            return "rrf"
        case (
            ast.StringLiteral()
            | ast.IntegerLiteral()
            | ast.FloatLiteral()
            | ast.BooleanLiteral()
            | ast.DateLiteral()
            | ast.DateTimeLiteral()
            | ast.ListLiteral()
        ):
            return "literal"
        case _:
            assert_never(expression)


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
            message = "ordering by nearest cannot be combined with an alias key"
            raise scope.violation("T18", message, alias.operand.span, suggestion="order by nearest(…) itself")
    fused = next((item for item, key in resolved if isinstance(key, ast.Rrf)), None)
    if fused is not None and limit is None:
        raise scope.violation("T21", "ordering by rrf needs a limit", fused.operand.span)


def _resolve(operand: Operand, projections: tuple[CheckedProjection, ...]) -> ast.Expression:
    if isinstance(operand.expression, ast.AliasRef):
        named = find_alias(operand.expression.name, projections)
        return operand.expression if named is None else named.operand.expression
    return operand.expression
