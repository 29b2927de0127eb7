"""The simple operands: literals, variables, property accesses, ``now()`` and aliases."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.catalog.model import NUMERIC, EdgeType, PropertyType, Scalar
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import Operand
from omnigraph.ir.types import BOOL, DATE, DATETIME, F64, I64, TEXT
from omnigraph.lang.gq import ast

SIMPLE = (
    ast.StringLiteral,
    ast.IntegerLiteral,
    ast.FloatLiteral,
    ast.BooleanLiteral,
    ast.DateLiteral,
    ast.DateTimeLiteral,
    ast.ListLiteral,
    ast.Variable,
    ast.PropertyAccess,
    ast.Now,
    ast.AliasRef,
)

SimpleExpression = ast.Literal | ast.Variable | ast.PropertyAccess | ast.Now | ast.AliasRef


def check_simple(expression: SimpleExpression, scope: Scope) -> Operand:
    """Type an operand that holds no further expression."""
    match expression:
        case ast.Variable():
            return check_variable(expression, scope)
        case ast.PropertyAccess():
            return check_access(expression, scope)
        case ast.Now():
            return Operand(expression=expression, type=DATETIME)
        case ast.AliasRef():
            return Operand(expression=expression, type=None)
        case _:
            return Operand(expression=expression, type=literal_type(expression, scope))


def check_variable(variable: ast.Variable, scope: Scope) -> Operand:
    """Type a bare variable: the parameter of that name, else the id of the bound node."""
    declared = scope.parameters.get(variable.name)
    if declared is not None:
        return Operand(expression=variable, type=declared, is_parameter=True)
    bound = scope.entities.get(variable.name)
    if bound is None:
        message, suggestion = scope.unbound(variable.name)
        known = [*scope.entities, *scope.parameters]
        if variable.name != ast.ANONYMOUS:
            message = f"variable '${variable.name}' is neither a parameter nor bound here"
            suggestion = did_you_mean(variable.name, known, mark="$")
        raise scope.violation(None, message, variable.span, suggestion=suggestion)
    if isinstance(bound, EdgeType):
        message = f"edge variable '${variable.name}' cannot stand alone"
        raise scope.violation("T23", message, variable.span, suggestion="use one of its properties")
    return Operand(expression=variable, type=TEXT, is_node=True)


def check_access(access: ast.PropertyAccess, scope: Scope) -> Operand:
    """Type ``$x.prop`` of a node or an edge."""
    bound = scope.entities.get(access.variable.name)
    if bound is None:
        message, suggestion = scope.unbound(access.variable.name)
        raise scope.violation("T6", message, access.variable.span, suggestion=suggestion)
    name = access.property.text
    found = bound.get(name)
    if found is None:
        names = [item.name for item in bound.properties]
        message = f"type '{bound.name}' has no property '{name}'"
        raise scope.violation("T6", message, access.property.span, suggestion=did_you_mean(name, names))
    return Operand(expression=access, type=found.type, definition=found)


def literal_type(literal: ast.Literal, scope: Scope) -> PropertyType:
    """Return the type of a literal; numbers in one list may mix, nothing else may."""
    if not isinstance(literal, ast.ListLiteral):
        return _SCALARS[type(literal)]
    items: list[PropertyType] = []
    for item in literal.items:
        if isinstance(item, ast.ListLiteral):
            raise scope.violation(None, "a list literal cannot hold a list", item.span)
        items.append(_SCALARS[type(item)])
        if not _mix(items[0].scalar, items[-1].scalar):
            message = f"a list literal holds one type of item, not {items[0]} and {items[-1]}"
            raise scope.violation(None, message, item.span)
    # An empty list has no items to tell its type, so it counts as text.
    widest = TEXT if not items else (F64 if F64 in items else items[0])
    return replace(widest, is_list=True)


def is_blob(operand: Operand) -> bool:
    """Whether the operand's value is a Blob, or a list of them."""
    return operand.type is not None and operand.type.scalar is Scalar.BLOB


def refuse_blob(operand: Operand, scope: Scope, what: str) -> None:
    """Raise T24 if ``operand`` would read a Blob."""
    if is_blob(operand):
        raise scope.violation("T24", f"a Blob cannot be {what}", operand.span)


_SCALARS: dict[type, PropertyType] = {
    ast.StringLiteral: TEXT,
    ast.IntegerLiteral: I64,
    ast.FloatLiteral: F64,
    ast.BooleanLiteral: BOOL,
    ast.DateLiteral: DATE,
    ast.DateTimeLiteral: DATETIME,
}


def _mix(first: Scalar, other: Scalar) -> bool:
    return first is other or (first in NUMERIC and other in NUMERIC)
