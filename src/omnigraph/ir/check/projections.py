"""The return clause: types, column names, and the grouping rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.catalog.model import Scalar
from omnigraph.ir.check.expressions import check_expression
from omnigraph.ir.check.operands import refuse_blob
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.tree import CheckedProjection, Operand
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
            message = "beside an aggregate stand only properties and variables"
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
