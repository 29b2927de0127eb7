"""Text predicates and rankings."""

from __future__ import annotations

from omnigraph.catalog.model import INTEGERS, EdgeType, PropertyType, Scalar
from omnigraph.ir.check.operands import SIMPLE, check_access, check_simple
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import Operand
from omnigraph.ir.types import BOOL, F64
from omnigraph.lang.gq import ast

_RULES: dict[str, str] = {"search": "T19", "fuzzy": "T19", "match_text": "T20", "bm25": "T20"}


def text_rule(call: ast.TextSearch) -> str:
    """Return the code of violations of a text predicate."""
    return _RULES[call.function]


def check_text(call: ast.TextSearch, scope: Scope) -> Operand:
    """Type ``search``, ``match_text`` or ``fuzzy``."""
    rule = text_rule(call)
    parts = [_text_field(call.target, call.function, scope), _text_query(call.query, call.function, scope)]
    if call.max_edits is not None:
        edits = _simple(call.max_edits, scope)
        if edits is None or not _is_integer(edits.type):
            raise scope.violation(rule, "the edit distance of fuzzy is an integer", call.max_edits.span)
        parts.append(edits)
    return Operand(expression=call, type=BOOL, parts=tuple(parts))


def check_bm25(call: ast.Bm25, scope: Scope) -> Operand:
    """Type ``bm25``."""
    parts = (_text_field(call.target, "bm25", scope), _text_query(call.query, "bm25", scope))
    return Operand(expression=call, type=F64, parts=parts)


def check_nearest(call: ast.Nearest, scope: Scope) -> Operand:
    """Type ``nearest``: a vector property against a vector of its size, or a text to embed."""
    field = _vector_field(call.target, scope)
    query = _simple(call.query, scope)
    given = None if query is None else query.type
    if query is None or given is None or query.is_node:
        raise scope.violation("T15", "nearest compares with a vector or a text", call.query.span)
    dimension = _dimension(field)
    if given.is_text:
        return Operand(expression=call, type=F64, parts=(field, query))
    size = _vector_size(query, given)
    if size is None:
        message = f"nearest compares with a vector or a text: type={given}"
        raise scope.violation("T15", message, call.query.span)
    if size != dimension:
        message = f"'{call.target.property.text}' has {dimension} dimensions, the query has {size}"
        raise scope.violation("T15", message, call.query.span)
    return Operand(expression=call, type=F64, parts=(field, query))


def check_rrf(call: ast.Rrf, scope: Scope) -> Operand:
    """Type ``rrf``: two rankings of one variable, and an optional positive integer."""
    arms = tuple(_arm(arm, scope) for arm in (call.first, call.second))
    first, second = (_ranked(arm) for arm in arms)
    if first != second:
        message = f"both rankings of rrf rank one variable, not '${first}' and '${second}'"
        raise scope.violation("T21", message, call.second.span)
    if call.k is None:
        return Operand(expression=call, type=F64, parts=arms)
    k = _simple(call.k, scope)
    if k is None or not _is_integer(k.type):
        raise scope.violation("T21", "the k of rrf is an integer", call.k.span)
    if isinstance(call.k, ast.IntegerLiteral) and call.k.value <= 0:
        raise scope.violation("T21", f"the k of rrf is positive: k={call.k.value}", call.k.span)
    return Operand(expression=call, type=F64, parts=(*arms, k))


def _arm(arm: ast.Nearest | ast.Bm25, scope: Scope) -> Operand:
    match arm:
        case ast.Nearest():
            return check_nearest(arm, scope)
        case ast.Bm25():
            return check_bm25(arm, scope)
        case _:  # a tree built by hand can hold anything here
            raise scope.violation("T21", "rrf takes nearest or bm25", arm.span)


def _ranked(arm: Operand) -> str:
    field = arm.parts[0].expression
    return field.variable.name if isinstance(field, ast.PropertyAccess) else ""


def _vector_field(target: ast.PropertyAccess, scope: Scope) -> Operand:
    name = target.variable.name
    bound = scope.entities.get(name)
    if bound is None:
        message, suggestion = scope.unbound(name)
        raise scope.violation("T15", message, target.variable.span, suggestion=suggestion)
    _refuse_edge(target, scope, "nearest")
    found = bound.get(target.property.text)
    if found is None:
        vectors = [item.name for item in bound.properties if item.type.is_vector]
        message = f"type '{bound.name}' has no property '{target.property.text}'"
        suggestion = did_you_mean(target.property.text, vectors)
        raise scope.violation("T15", message, target.property.span, suggestion=suggestion)
    if not found.type.is_vector or found.type.is_list:
        message = f"nearest ranks by a Vector property: '{found.name}' is {found.type}"
        raise scope.violation("T15", message, target.property.span)
    return Operand(expression=target, type=found.type, definition=found)


def _text_field(target: ast.Expression, function: str, scope: Scope) -> Operand:
    rule = _RULES[function]
    if not isinstance(target, ast.PropertyAccess):
        raise scope.violation(rule, f"{function} looks into a property of a node", target.span)
    _refuse_edge(target, scope, function)
    field = check_access(target, scope)
    if field.type is None or not field.type.is_text:
        message = f"{function} looks into a String property: '{target.property.text}' is {field.type}"
        raise scope.violation(rule, message, target.span)
    return field


def _text_query(query: ast.Expression, function: str, scope: Scope) -> Operand:
    checked = _simple(query, scope)
    if checked is None or checked.type is None or checked.is_node or not checked.type.is_text:
        raise scope.violation(_RULES[function], f"the query of {function} is a String", query.span)
    return checked


def _refuse_edge(target: ast.PropertyAccess, scope: Scope, function: str) -> None:
    if isinstance(scope.entities.get(target.variable.name), EdgeType):
        message = f"{function} works on nodes, '${target.variable.name}' is an edge"
        raise scope.violation("T23", message, target.span)


def _simple(expression: ast.Expression, scope: Scope) -> Operand | None:
    return check_simple(expression, scope) if isinstance(expression, SIMPLE) else None


def _is_integer(of: PropertyType | None) -> bool:
    return of is not None and of.scalar in INTEGERS and not of.is_list


def _dimension(field: Operand) -> int | None:
    return None if field.type is None else field.type.dimension


def _vector_size(query: Operand, given: PropertyType) -> int | None:
    if given.is_vector:
        return given.dimension
    if isinstance(query.expression, ast.ListLiteral) and given.scalar in {Scalar.I64, Scalar.F64}:
        return len(query.expression.items)
    return None
