"""Expressions: the type of each, and its value in a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from omnigraph.lang.gq import ast
from tests.query_oracle import decimals
from tests.query_oracle.arithmetic import arithmetic, negative
from tests.query_oracle.dates import DAY_MS
from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.functions import FUNCTIONS, check_unit, round_decimal, to_decimal
from tests.query_oracle.schema import Kind
from tests.query_oracle.values import (
    BOOL,
    DATE,
    INSTANT,
    INTEGER,
    INTEGERS,
    NODE,
    NULL,
    PATH,
    TEXT,
    Operand,
    Request,
    Row,
    comparable,
    convert,
    decode,
    holds,
    item_kind,
    list_kind,
    literal_kind,
    plain,
    unify,
)

T = TypeVar("T")

_FAULTY_CALLS = frozenset({"sqrt", "power", "ln", "exp", "log10", "abs", "round"})
_TEXT_OPS = frozenset({"contains", "starts_with", "ends_with", "matches"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a variable stands for: ``node`` or ``edge`` of one of the types, ``path``, or ``item`` of a list."""

    form: str
    types: tuple[str, ...] = ()
    properties: dict[str, Kind] = field(default_factory=dict)
    kind: Kind = TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """An expression after its check; a given one was written in the query or passed to it."""

    kind: Kind
    value: Callable[[Row], Any]
    is_given: bool = False
    # The same number as a decimal, which a literal is beside one.
    exact: Typed | None = None

    def operand(self, row: Row) -> Operand:
        """Return the value in a row with its type."""
        return Operand(value=self.value(row), kind=self.kind, is_given=self.is_given)


Special = Callable[[ast.Expression], Typed | None]


@dataclass(slots=True, kw_only=True)
class Scope:
    """What a name means at one place of the text.

    ``special`` is asked first: behind a grouping, an expression may be a column that is already there.
    """

    request: Request
    variables: dict[str, Bound] = field(default_factory=dict)
    names: dict[str, Kind] = field(default_factory=dict)
    special: Special | None = None

    def inner(self) -> Scope:
        """Return a scope in which more may be bound without being seen out here."""
        return replace(self, variables=dict(self.variables), names=dict(self.names))

    def bound(self, expression: ast.Expression) -> Bound | None:
        """Return what a bare variable is bound to; a parameter of that name comes first."""
        if not isinstance(expression, ast.Variable) or expression.name in self.request.parameter_kinds:
            return None
        if expression.name not in self.variables:
            raise Illegal(f"${expression.name} is not bound")
        return self.variables[expression.name]


def name_of(expression: ast.Expression) -> str:
    """Return the name of what is known to be a variable or an alias."""
    assert isinstance(expression, ast.Variable | ast.AliasRef)
    return expression.name


def check(expression: ast.Expression, scope: Scope) -> Typed:  # noqa: C901, PLR0912 - one case per form of expression
    """Return an expression with its type, refusing one that has none."""
    found = None if scope.special is None else scope.special(expression)
    if found is not None:
        return found
    match expression:
        case ast.Variable():
            return _variable(expression, scope)
        case ast.PropertyAccess():
            return _property(expression, scope)
        case ast.AliasRef(name=name):
            return _name(name, scope)
        case ast.Now():
            return _given(INSTANT, scope.request.now_ms)
        case ast.Logical():
            return _logical(expression, scope)
        case ast.Not(operand=operand):
            inner = condition(operand, scope)
            return Typed(kind=BOOL, value=lambda row: _negate(inner.value(row)))
        case ast.Comparison():
            return compare(check(expression.left, scope), expression.op, check(expression.right, scope))
        case ast.NullTest():
            return _null_test(expression, scope)
        case ast.Arithmetic():
            return _arithmetic(expression, scope)
        case ast.Negative():
            return _negative(expression, scope)
        case ast.ListExpression(items=items):
            return _list(beside(*(check(item, scope) for item in items)), scope)
        case ast.ListItem():
            return _list_item(expression, scope)
        case ast.Call():
            return _call(expression, scope)
        case ast.Case():
            return _case(expression, scope)
        case ast.Block():
            return _block(expression, scope)
        case ast.Aggregate():
            raise Illegal(f"{expression.function} has no rows to look at here")
        case ast.AllProperties():
            raise Illegal(f"${expression.variable.name}.* is no value")
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            raise Illegal("a ranking has a value where it is the first order key")
        case ast.TextSearch():
            msg = "the oracle does not search in expressions"
            raise NotImplementedError(msg)
        case _:
            found = _given(literal_kind(expression), decode(expression))
            return replace(found, exact=_exact(expression))


def beside(*operands: Typed) -> list[Typed]:
    """Return operands that stand beside each other: literals are decimals where another one is."""
    if not any(one.kind.scalar == "Decimal" for one in operands):
        return list(operands)
    return [one.exact or one for one in operands]


def _exact(literal: ast.Expression) -> Typed | None:
    if isinstance(literal, ast.FloatLiteral):
        found = decimals.literal(literal.text)
        return None if found is None else _given(*found)
    if not isinstance(literal, ast.ListLiteral):
        return None
    items = [_exact(item) or _given(literal_kind(item), decode(item)) for item in literal.items]
    kinds = {item.kind for item in items} - {NULL}
    if not any(kind.scalar == "Decimal" for kind in kinds) or any(kind.scalar == "F64" for kind in kinds):
        return None
    common = decimals.common(kinds)
    return _given(replace(common, is_list=True), [item.value({}) for item in items])


def watched(request: Request, build: Callable[[], T]) -> T:
    """Build something whose rows may also be removed by something else, so that its failures are left open."""
    before, request.is_faulty = request.is_faulty, False
    found = build()
    request.may_fail = request.may_fail or request.is_faulty
    request.is_faulty = request.is_faulty or before
    return found


def condition(expression: ast.Expression, scope: Scope) -> Typed:
    """Return an expression that is true, false or unknown."""
    found = check(expression, scope)
    if found.kind not in {BOOL, NULL} and (found.kind.is_list or found.kind.scalar != "Bool"):
        raise Illegal(f"a condition of type {found.kind}")
    return found


def compare(left: Typed, op: str, right: Typed) -> Typed:
    """Return ``left op right``."""
    left, right = beside(left, right)
    match op:
        case "in" | "not in":
            _check_items(right.kind, left.kind)
        case "contains" if left.kind.is_list:
            _check_items(left.kind, right.kind)
        case _ if op in _TEXT_OPS:
            for kind in (left.kind, right.kind):
                if kind != NULL and (kind.is_list or kind.scalar != "String"):
                    raise Illegal(f"{op} of {kind}")
        case _ if not comparable(left.kind, right.kind):
            raise Illegal(f"{left.kind} {op} {right.kind}")
    if op == "matches":
        return _matches(left, right)
    return Typed(kind=BOOL, value=lambda row: holds(op, left.operand(row), right.operand(row)))


def _check_items(items: Kind, item: Kind) -> None:
    if items != NULL and (not items.is_list or not comparable(item_kind(items), item)):
        raise Illegal(f"{item} in {items}")


def _matches(left: Typed, right: Typed) -> Typed:
    """A pattern is found anywhere; ``$`` is the end of the text alone, and classes know ASCII alone."""
    if not right.is_given:
        raise Illegal("a pattern that is neither a literal nor a parameter")

    def value(row: Row) -> bool | None:
        text, pattern = left.value(row), right.value(row)
        if text is None or pattern is None:
            return None
        return re.search(re.sub(r"(?<!\\)\$", r"\\Z", pattern), text, re.ASCII) is not None

    return Typed(kind=BOOL, value=value)


def _given(kind: Kind, value: Any) -> Typed:
    return Typed(kind=kind, value=lambda _row: value, is_given=True)


def _variable(expression: ast.Variable, scope: Scope) -> Typed:
    name, bound = expression.name, scope.bound(expression)
    if bound is None:
        return _given(scope.request.parameter_kinds[name], scope.request.parameters.get(name))
    match bound.form:
        case "node":
            return Typed(kind=NODE, value=lambda row: None if row[name] is None else row[name][1])
        case "path":
            return Typed(kind=PATH, value=lambda row: row[name])
        case "item":
            return Typed(kind=bound.kind, value=lambda row: row[name])
        case _:
            raise Illegal(f"${name} is an edge, not a value")


def _property(expression: ast.PropertyAccess, scope: Scope) -> Typed:
    name, wanted = expression.variable.name, expression.property.text
    bound = scope.variables.get(name)
    if bound is None or wanted not in bound.properties:
        raise Illegal(f"${name}.{wanted}")
    return Typed(kind=plain(bound.properties[wanted]), value=lambda row: scope.request.graph.value(row[name], wanted))


def _name(name: str, scope: Scope) -> Typed:
    if name not in scope.names:
        raise Illegal(f"{name} is no name here")

    def value(row: Row) -> Any:
        found = row[f"#{name}"]
        if isinstance(found, Fault):
            raise found
        return found

    return Typed(kind=scope.names[name], value=value)


def _logical(expression: ast.Logical, scope: Scope) -> Typed:
    operands = watched(scope.request, lambda: [condition(operand, scope) for operand in expression.operands])
    # What decides the whole: one false of an ``and``, one true of an ``or``.
    deciding = expression.op == "or"

    def value(row: Row) -> bool | None:
        found: list[bool | None] = []
        fault = None
        for operand in operands:
            try:
                found.append(operand.value(row))
            except Fault as error:
                fault = fault or error
        if deciding in found:
            return deciding
        if fault is not None:
            raise fault
        return None if None in found else not deciding

    return Typed(kind=BOOL, value=value)


def _negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def _null_test(expression: ast.NullTest, scope: Scope) -> Typed:
    bound = scope.bound(expression.operand)
    if bound is None:
        value = check(expression.operand, scope).value
    else:
        name = name_of(expression.operand)

        def value(row: Row) -> Any:
            return row[name]

    return Typed(kind=BOOL, value=lambda row: (value(row) is None) != expression.is_negated)


def _arithmetic(expression: ast.Arithmetic, scope: Scope) -> Typed:
    left, right = beside(check(expression.left, scope), check(expression.right, scope))
    kind, compute = arithmetic(expression.op, left.kind, right.kind)
    scope.request.is_faulty = scope.request.is_faulty or kind != TEXT

    def value(row: Row) -> Any:
        # Both sides are looked at, whatever the first one is.
        found = (left.value(row), right.value(row))
        return None if None in found else compute(*found)

    return Typed(kind=kind, value=value)


def _negative(expression: ast.Negative, scope: Scope) -> Typed:
    inner = check(expression.operand, scope)
    kind, compute = negative(inner.kind)
    scope.request.is_faulty = scope.request.is_faulty or kind == INTEGER
    return Typed(kind=kind, value=_strict(compute, [inner]))


def _strict(compute: Callable[..., Any], arguments: list[Typed]) -> Callable[[Row], Any]:
    def value(row: Row) -> Any:
        found = [argument.value(row) for argument in arguments]
        return None if any(item is None for item in found) else compute(*found)

    return value


def _note_overflow(kinds: list[Kind], kind: Kind, scope: Scope) -> None:
    """Note that an unsigned number among other integers may be too large for what they become together."""
    is_tight = kind.scalar == "I64" and any(one.scalar == "U64" for one in kinds)
    if is_tight or (kind.digits is not None and kind.digits[0] == decimals.MOST):
        scope.request.is_faulty = True


def _list(items: list[Typed], scope: Scope) -> Typed:
    kind = list_kind([item.kind for item in items])
    _note_overflow([item.kind for item in items], kind, scope)
    if kind.scalar in {"Interval", "Vector", "Blob", "Path"}:
        raise Illegal(f"a list of {kind.scalar}")
    inner = item_kind(kind)
    return Typed(kind=kind, value=lambda row: [convert(item.value(row), inner) for item in items])


def _list_item(expression: ast.ListItem, scope: Scope) -> Typed:
    items, index = check(expression.items, scope), check(expression.index, scope)
    if not items.kind.is_list or (index.kind != NULL and (index.kind.is_list or index.kind.scalar not in INTEGERS)):
        raise Illegal(f"{items.kind}[{index.kind}]")
    kind = item_kind(items.kind)

    def at(found: list[Any], place: int) -> Any:
        return convert(found[place], kind) if 0 <= place < len(found) else None

    return Typed(kind=kind, value=_strict(at, [items, index]))


def _case(expression: ast.Case, scope: Scope) -> Typed:
    tests = [condition(one.condition, scope) for one in expression.branches]
    last = _given(NULL, None) if expression.otherwise is None else check(expression.otherwise, scope)
    *values, last = beside(*(check(one.value, scope) for one in expression.branches), last)
    branches = list(zip(tests, values, strict=True))
    kinds = [*(found.kind for _, found in branches), last.kind]
    kind = unify(kinds)
    _note_overflow(kinds, kind, scope)

    def value(row: Row) -> Any:
        chosen = next((found for test, found in branches if test.value(row) is True), last)
        return convert(chosen.value(row), kind)

    return Typed(kind=kind, value=value)


def _block(expression: ast.Block, scope: Scope) -> Typed:
    from tests.query_oracle.matching import check_clauses  # noqa: PLC0415 - blocks and expressions hold each other

    step = check_clauses(expression.clauses, scope.inner())
    if expression.kind == "count":
        return Typed(kind=INTEGER, value=lambda row: _count(list(step(row))))
    wanted = expression.kind == "exists"
    return Typed(kind=BOOL, value=lambda row: _exists(list(step(row))) == wanted)


def _exists(solutions: list[Row]) -> bool:
    return any("!" not in row for row in solutions) or _count(solutions) > 0


def _count(solutions: list[Row]) -> int:
    for row in solutions:
        if "!" in row:
            raise row["!"]
    return len(solutions)


def _call(expression: ast.Call, scope: Scope) -> Typed:  # noqa: C901 - one case per form of call
    name, given = expression.function.text, expression.arguments
    match name:
        case "coalesce":
            return _coalesce(beside(*(check(argument, scope) for argument in given)), scope)
        case "today" if not given:
            return _given(DATE, scope.request.now_ms // DAY_MS)
        case "id" | "type" | "version" if len(given) == 1:
            return _entity(name, given[0], scope)
        case "length" | "nodes" | "edges" if len(given) == 1 and _is_path(given[0], scope):
            return _path(name, check(given[0], scope))
        case "to_decimal" | "cast_decimal" if len(given) == 3:
            return _to_decimal(name, given, scope)
        case _ if name not in FUNCTIONS:
            raise Illegal(f"no function {name}")
    arguments = [check(argument, scope) for argument in given]
    if name in {"greatest", "least"}:
        arguments = beside(*arguments)
    kinds = [argument.kind for argument in arguments]
    if name in {"round", "floor", "ceil"} and kinds[:1] and kinds[0].scalar == "Decimal":
        scope.request.is_faulty = True
        kind, compute = round_decimal(name, kinds[0], _places(given))
        return Typed(kind=kind, value=_strict(compute, arguments))
    kind, compute = FUNCTIONS[name](kinds)
    _note_overflow(kinds, kind, scope)
    if name == "date_trunc":
        if not isinstance(given[0], ast.StringLiteral):
            raise Illegal("a unit that is no literal")
        check_unit(given[0].value, kind)
    if name in _FAULTY_CALLS or name.startswith("cast_"):
        scope.request.is_faulty = True
    return Typed(kind=kind, value=_strict(compute, arguments))


def _places(given: tuple[ast.Expression, ...]) -> int | None:
    if len(given) == 1:
        return 0
    return given[1].value if isinstance(given[1], ast.IntegerLiteral) else None


def _to_decimal(name: str, given: tuple[ast.Expression, ...], scope: Scope) -> Typed:
    sizes = [size.value for size in given[1:] if isinstance(size, ast.IntegerLiteral)]
    if len(sizes) < 2 or not 1 <= sizes[0] <= decimals.MOST or not 0 <= sizes[1] <= sizes[0]:
        raise Illegal(f"the digits of {name}")
    value, kind = check(given[0], scope), decimals.decimal(*sizes)
    compute = to_decimal(value.kind, kind)

    def strict(one: Any) -> Any:
        found = compute(one)
        if found is None:
            raise Fault("cast", repr(one))
        return found

    if name == "cast_decimal":
        scope.request.is_faulty = True
    return Typed(kind=kind, value=_strict(strict if name == "cast_decimal" else compute, [value]))


def _coalesce(arguments: list[Typed], scope: Scope) -> Typed:
    if not arguments:
        raise Illegal("coalesce of nothing")
    kinds = [argument.kind for argument in arguments]
    kind = unify(kinds)
    _note_overflow(kinds, kind, scope)

    def value(row: Row) -> Any:
        found = (argument.value(row) for argument in arguments)
        return convert(next((item for item in found if item is not None), None), kind)

    return Typed(kind=kind, value=value)


def _entity(function: str, argument: ast.Expression, scope: Scope) -> Typed:
    bound = scope.bound(argument)
    if bound is None or bound.form not in {"node", "edge"}:
        raise Illegal(f"{function} of no node or edge")
    name = name_of(argument)
    versions = scope.request.graph.versions
    read: Callable[[Any], str] = {
        "id": lambda entity: entity[1],
        "type": lambda entity: entity[0],
        "version": lambda entity: versions.get(entity, "1"),
    }[function]
    return Typed(kind=TEXT, value=lambda row: None if row[name] is None else read(row[name]))


def _is_path(argument: ast.Expression, scope: Scope) -> bool:
    return isinstance(argument, ast.Variable) and getattr(scope.bound(argument), "form", "") == "path"


def _path(function: str, path: Typed) -> Typed:
    if function == "length":
        return Typed(kind=INTEGER, value=_strict(lambda found: len(found["edges"]), [path]))
    kind = Kind(scalar="String", is_list=True)
    return Typed(kind=kind, value=_strict(lambda found: found[function], [path]))


def output_kind(kind: Kind) -> Kind:
    """Return the type of a column, refusing values that are no column."""
    if kind.scalar in {"Interval", "Blob"}:
        raise Illegal(f"a bare {kind.scalar}")
    if kind.scalar in {"Null", "Node"}:
        return Kind(scalar="String", is_list=kind.is_list)
    return plain(kind)
