"""Plain values, searches and rankings; what is composed of them is checked in ``operators``."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.catalog.model import INTEGERS, NUMERIC, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.ir import decimals
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import EnumUse, Operand
from omnigraph.ir.types import BOOL, DATE, DATETIME, F64, I64, NULL, TEXT
from omnigraph.lang.gq import ast
from omnigraph.lang.parsing import quote_string
from omnigraph.values.names import enum_word
from omnigraph.values.patterns import late_pattern

_NUMBER = late_pattern(r"-?\d+(?:\.\d+)?")

SIMPLE = (
    ast.StringLiteral,
    ast.IntegerLiteral,
    ast.FloatLiteral,
    ast.BooleanLiteral,
    ast.NullLiteral,
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
            is_value = expression.name in scope.values
            hint = None if is_value else unknown_name_hint(expression.name, scope)
            return Operand(expression=expression, type=scope.values.get(expression.name), is_value=is_value, hint=hint)
        case ast.NullLiteral():
            return Operand(expression=expression, type=NULL)
        case _:
            return Operand(expression=expression, type=literal_type(expression, scope))


def unknown_name_hint(name: str, scope: Scope) -> str | None:
    """Return what a bare name that stands for nothing may be meant for: a value, or a property of something bound."""
    if name == "case":
        return "write 'case when … then … end'"
    near = did_you_mean(name, [known for known in scope.values if not known.startswith("$")])
    owners = (variable for variable, owner in scope.entities.items() if owner.get(name) is not None)
    owner = next(owners, None)
    return near if near is not None or owner is None else f"did you mean '${owner}.{name}'?"


def check_variable(variable: ast.Variable, scope: Scope) -> Operand:
    """Type a bare variable: the parameter of that name, else the id of the bound node."""
    declared = scope.parameters.get(variable.name)
    if declared is not None:
        return Operand(expression=variable, type=declared, is_parameter=True)
    item = scope.values.get(f"${variable.name}")
    if item is not None:
        return Operand(expression=variable, type=item, is_value=True)
    bound = scope.entities.get(variable.name)
    if bound is None:
        message, suggestion = scope.unbound(variable.name)
        items = (known.removeprefix("$") for known in scope.values if known.startswith("$"))
        known = [*scope.entities, *scope.parameters, *items]
        if variable.name != ast.ANONYMOUS:
            message = f"variable '${variable.name}' is neither a parameter nor bound here"
            suggestion = did_you_mean(variable.name, known, mark="$")
        raise scope.violation(None, message, variable.span, suggestion=suggestion)
    if isinstance(bound, EdgeType):
        return Operand(expression=variable, type=TEXT, is_edge=True)
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
        suggestion = identity_hint(name, access.variable.name, bound) or did_you_mean(name, names)
        raise scope.violation("T6", message, access.property.span, suggestion=suggestion)
    return Operand(expression=access, type=found.type, definition=found)


def identity_hint(name: str, variable: str, owner: NodeType | EdgeType) -> str | None:
    """Return how to ask for what identifies an entity, if a property is called like that."""
    if name in {"id", "_id"}:
        return f"write id(${variable})"
    if name in {"from", "to", "src", "dst"} and isinstance(owner, EdgeType):
        return f"write id($a) of the node at this end: '$a ${variable}:{owner.name[:1].lower()}{owner.name[1:]} $b'"
    return f"write version(${variable})" if name == "version" else None


def literal_type(literal: ast.Literal, scope: Scope) -> PropertyType:
    """Return the type of a literal; numbers in one list may mix, nothing else may."""
    if isinstance(literal, ast.NullLiteral):
        return NULL
    if not isinstance(literal, ast.ListLiteral):
        return _SCALARS[type(literal)]
    items: list[PropertyType] = []
    for item in literal.items:
        if isinstance(item, ast.ListLiteral):
            raise scope.violation(None, "a list literal cannot hold a list", item.span)
        if isinstance(item, ast.NullLiteral):
            continue
        items.append(_SCALARS[type(item)])
        if not _mix(items[0].scalar, items[-1].scalar):
            message = f"a list literal holds one type of item, not {items[0]} and {items[-1]}"
            raise scope.violation(None, message, item.span)
    # An empty list has no items to tell its type, so it counts as text.
    widest = TEXT if not items else (F64 if F64 in items else items[0])
    return replace(widest, is_list=True)


def has_no_item(expression: ast.Expression) -> bool:
    """Whether a list says nothing about the type of its items."""
    return isinstance(expression, ast.ListLiteral) and all(
        isinstance(item, ast.NullLiteral) for item in expression.items
    )


def literal_suggestion(expression: ast.Expression, target: PropertyType) -> str | None:
    """Return how a literal is written that is compared with or assigned to another type, if only its form is wrong."""
    match expression:
        case ast.StringLiteral(value=text) if target.scalar in {Scalar.DATE, Scalar.DATETIME}:
            return f"write {'date' if target.scalar is Scalar.DATE else 'datetime'}({quote_string(text)})"
        case ast.StringLiteral(value=text) if target.is_numeric and _NUMBER.fullmatch(text):
            return f"write it without quotes: {text}"
        case ast.StringLiteral(value="true" | "false" as text) if target.scalar is Scalar.BOOL:
            return f"write it without quotes: {text}"
        case ast.IntegerLiteral(value=number) if target.scalar is Scalar.STRING:
            return f'write it in quotes: "{number}"'
        case _:
            return None


def fitted_literals(*operands: Operand) -> tuple[Operand, ...]:
    """Return operands that stand beside each other; literals have the type that the others give them.

    Numbers with a fraction are decimals if another operand is one: they mean the digits that are written, and not the
    nearest float. A list without items is a list of what another operand lists.
    """
    listed = next(
        (of for operand in operands if (of := operand.type) and of.is_list and not has_no_item(operand.expression)),
        None,
    )
    if listed is not None:
        operands = tuple(
            replace(operand, type=listed) if has_no_item(operand.expression) else operand for operand in operands
        )
    if not any(operand.type is not None and operand.type.is_decimal for operand in operands):
        return operands
    return tuple(exact_literal(operand) for operand in operands)


def exact_literal(operand: Operand) -> Operand:
    """Return a literal number with a fraction, or a list with some, as decimals; any other operand as it is."""
    expression = operand.expression
    found = decimals.literal_type(expression) if isinstance(expression, ast.FloatLiteral | ast.ListLiteral) else None
    return operand if found is None else replace(operand, type=found)


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
            raise scope.violation(rule, "the edit distance of fuzzy must be an integer", call.max_edits.span)
        parts.append(edits)
    return Operand(expression=call, type=BOOL, parts=tuple(parts))


def check_bm25(call: ast.Bm25, scope: Scope) -> Operand:
    """Type ``bm25``."""
    parts = (_text_field(call.target, "bm25", scope), _text_query(call.query, "bm25", scope))
    return Operand(expression=call, type=F64, parts=parts)


def check_nearest(call: ast.Nearest, scope: Scope) -> Operand:
    """Type ``nearest``: a vector property against a vector of its size, or a text to embed."""
    if not isinstance(call.target, ast.PropertyAccess):
        raise scope.violation("T15", "nearest needs a Vector property of a node", call.target.span)
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
        message = f"nearest compares with a vector or a text, not {given}"
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
        message = f"both rankings of rrf must rank the same variable, not '${first}' and '${second}'"
        raise scope.violation("T21", message, call.second.span)
    if call.k is None:
        return Operand(expression=call, type=F64, parts=arms)
    k = _simple(call.k, scope)
    if k is None or not _is_integer(k.type):
        raise scope.violation("T21", "the k of rrf must be an integer", call.k.span)
    if isinstance(call.k, ast.IntegerLiteral) and call.k.value <= 0:
        raise scope.violation("T21", f"the k of rrf must be positive, not {call.k.value}", call.k.span)
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
        message = f"nearest needs a Vector property: '{found.name}' is {found.type}"
        raise scope.violation("T15", message, target.property.span)
    return Operand(expression=target, type=found.type, definition=found)


def _text_field(target: ast.Expression, function: str, scope: Scope) -> Operand:
    rule = _RULES[function]
    if not isinstance(target, ast.PropertyAccess):
        raise scope.violation(rule, f"{function} needs a property of a node", target.span)
    _refuse_edge(target, scope, function)
    field = check_access(target, scope)
    if field.type is None or not field.type.is_text:
        message = f"{function} needs a String property: '{target.property.text}' is {field.type}"
        raise scope.violation(rule, message, target.span)
    return field


def _text_query(query: ast.Expression, function: str, scope: Scope) -> Operand:
    checked = _simple(query, scope)
    if checked is None or checked.type is None or checked.is_node or not checked.type.is_text:
        raise scope.violation(_RULES[function], f"the query of {function} must be a String", query.span)
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


def check_enum_literals(of: PropertyType, name: str, value: ast.Expression, scope: Scope) -> None:
    """Refuse a text, also in a list, that is none of the values that an enum has; take down what is a parameter."""
    allowed = of.enum_values
    if allowed is None:
        return
    for item in value.items if isinstance(value, ast.ListLiteral | ast.ListExpression) else (value,):
        if isinstance(item, ast.Variable) and item.name in scope.parameters:
            use = EnumUse(parameter=item.name, name=name, values=tuple(allowed))
            if use not in scope.enum_uses:
                scope.enum_uses.append(use)
        if isinstance(item, ast.StringLiteral) and item.value not in allowed:
            message = f"'{item.value}' is not a value of '{name}': expected {', '.join(map(enum_word, allowed))}"
            raise scope.violation("T3", message, item.span, suggestion=did_you_mean(item.value, allowed))


def check_compared_enums(left: Operand, right: Operand, scope: Scope) -> None:
    """Refuse a comparison of an enum with a literal that it can never be."""
    for side, other in ((left, right), (right, left)):
        if side.type is not None and side.type.enum_values is not None:
            check_enum_literals(side.type, _enum_name(side), other.expression, scope)


def _enum_name(operand: Operand) -> str:
    if operand.definition is not None:
        return operand.definition.name
    expression = operand.expression
    return expression.name if isinstance(expression, ast.AliasRef | ast.Variable) else "this enum"
