"""Filters: which operands go together under which operator."""

from __future__ import annotations

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.ir.check.expressions import check_expression
from omnigraph.ir.check.operands import is_blob
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.search import check_text, text_rule
from omnigraph.ir.check.tree import CheckedFilter, CheckedText, Operand
from omnigraph.ir.types import are_comparable, item_type
from omnigraph.lang.gq import ast

_TRUE = ast.BooleanLiteral(value=True)


def check_filter(clause: ast.Filter, scope: Scope) -> CheckedFilter | CheckedText:
    """Check a filter; ``search(…) = true`` is the text predicate itself."""
    call = clause.left if isinstance(clause.left, ast.TextSearch) else clause.right
    if isinstance(call, ast.TextSearch):
        checked = check_text(call, scope)
        if call is clause.left and clause.op == "=" and clause.right == _TRUE:
            return CheckedText(call=checked)
        message = f"{call.function} stands alone or before '= true'"
        suggestion = "put it inside 'not { }' to find what does not match"
        raise scope.violation(text_rule(call), message, clause.span, suggestion=suggestion)
    left = check_expression(clause.left, scope)
    right = check_expression(clause.right, scope)
    for operand in (left, right):
        if operand.definition is not None and is_blob(operand):
            raise scope.violation("T24", f"'{operand.definition.name}' is a Blob, which cannot be read", operand.span)
    _check_sides(clause, _comparand(left, scope), _comparand(right, scope), scope)
    return CheckedFilter(left=left, op=clause.op, right=right, span=clause.span)


def _comparand(operand: Operand, scope: Scope) -> PropertyType:
    if operand.is_node and isinstance(operand.expression, ast.Variable):
        message = f"node variable '${operand.expression.name}' cannot be compared"
        raise scope.violation("T7", message, operand.span, suggestion="compare one of its properties")
    if operand.type is None or isinstance(operand.expression, ast.AliasRef):
        raise scope.violation("T7", "an alias has no value in match", operand.span)
    return operand.type


def _check_sides(clause: ast.Filter, left: PropertyType, right: PropertyType, scope: Scope) -> None:
    match clause.op:
        case "contains" if left.is_list:
            # now() is one instant; whether a list holds exactly it is never what was meant.
            is_member = are_comparable(item_type(left), right) and not isinstance(clause.right, ast.Now)
            if not is_member:
                needle = "now()" if isinstance(clause.right, ast.Now) else _word(right)
                message = f"a list of {_items(left)} cannot contain {needle}"
                raise scope.violation("T7", message, clause.right.span)
        case "contains" | "starts_with":
            if not (left.is_text and right.is_text):
                wanted = "a list or a String" if clause.op == "contains" else "a String"
                at = clause.right if left.is_text else clause.left
                message = f"{clause.op} looks into {wanted} for a String, not into {_word(left)} for {_word(right)}"
                raise scope.violation("T7", message, at.span)
        case _:
            if not are_comparable(left, right):
                message = f"{_word(left)} and {_word(right)} cannot be compared"
                raise scope.violation("T7", message, clause.span)


def _items(of: PropertyType) -> str:
    return str(item_type(of))


def _word(of: PropertyType) -> str:
    plain = PropertyType(scalar=of.scalar, is_list=of.is_list, enum_values=of.enum_values, dimension=of.dimension)
    return "Blob" if of.scalar is Scalar.BLOB else str(plain)
