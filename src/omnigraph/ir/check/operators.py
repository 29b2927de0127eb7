"""Operators, functions, conditionals and blocks: any expression, in any place where one may stand."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import assert_never

from omnigraph.catalog.model import INTEGERS, PropertyType, Scalar
from omnigraph.ir.check.expressions import (
    check_bm25,
    check_compared_enums,
    check_nearest,
    check_rrf,
    check_simple,
    check_text,
    fitted_literals,
    has_no_item,
    is_blob,
    literal_suggestion,
    refuse_blob,
)
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import Operand
from omnigraph.ir.decimals import arithmetic_type, decimal_type, is_exact, mean_type, rounded_type, sum_type
from omnigraph.ir.functions import DATE_UNITS, FOREIGN, FUNCTIONS, GRAMMAR_FUNCTIONS, MOMENT_UNITS, Function
from omnigraph.ir.types import (
    BOOL,
    DATE,
    DATETIME,
    F64,
    I64,
    INTERVAL,
    NULL,
    PATH,
    TEXT,
    are_comparable,
    common_type,
    item_type,
    wide_number,
)
from omnigraph.lang.gq import ast
from omnigraph.values.decimals import MAX_PRECISION

_RETURNED = {
    "String": TEXT,
    "I64": I64,
    "F64": F64,
    "Bool": BOOL,
    "Date": DATE,
    "DateTime": DATETIME,
    "Interval": INTERVAL,
    "[String]": PropertyType(scalar=Scalar.STRING, is_list=True),
}
_TEXT_OPERATORS = frozenset({"contains", "starts_with", "ends_with", "matches"})
_MOMENTS = frozenset({Scalar.DATE, Scalar.DATETIME})
_ROUNDING = frozenset({"round", "floor", "ceil"})


def check_expression(expression: ast.Expression, scope: Scope) -> Operand:
    """Type an expression with all its parts."""
    match expression:
        case ast.Logical() | ast.Not() | ast.Comparison() | ast.NullTest():
            return _check_condition(expression, scope)
        case ast.Arithmetic() | ast.Negative():
            return _check_arithmetic(expression, scope)
        case ast.Call() | ast.Case() | ast.ListItem() | ast.ListExpression():
            return _check_composed(expression, scope)
        case ast.Block():
            block = scope.check_block(expression.clauses, expression.span)
            of = I64 if expression.kind == "count" else BOOL
            return Operand(expression=expression, type=of, block=block)
        case ast.Aggregate():
            return _check_aggregate(expression, scope)
        case ast.TextSearch() | ast.Nearest() | ast.Bm25() | ast.Rrf():
            return _check_search(expression, scope)
        case ast.AllProperties():
            message = "all properties can only be returned, without an alias"
            raise scope.violation(None, message, expression.span)
        case _:
            return check_simple(expression, scope)


def check_condition(expression: ast.Expression, scope: Scope) -> Operand:
    """Type an expression that must be true, false or unknown."""
    operand = check_expression(expression, scope)
    if not _is_bool(operand):
        message = f"a condition is a Bool, not {word_of(operand)}"
        raise scope.violation("T27", message, expression.span, suggestion=_comparison_hint(operand))
    return operand


def word_of(operand: Operand) -> str:
    """Return what an operand is, for messages."""
    if operand.is_node:
        return "a node"
    return "nothing" if operand.type is None else str(replace(operand.type, nullable=False))


def value_type(operand: Operand, scope: Scope) -> PropertyType:
    """Return the type of an operand that must have a value of its own.

    Raises:
        QueryTypeError: it is a node, a name of nothing, or a Blob.
    """
    expression = operand.expression
    if operand.is_node and isinstance(expression, ast.Variable):
        message = f"node variable '${expression.name}' is not a value"
        raise scope.violation("T7", message, operand.span, suggestion=f"write id(${expression.name}) or a property")
    if operand.is_edge and isinstance(expression, ast.Variable):
        message = f"edge variable '${expression.name}' cannot be used by itself"
        raise scope.violation("T23", message, operand.span, suggestion="use one of its properties")
    if operand.type is None:
        name = expression.name if isinstance(expression, ast.AliasRef) else "this"
        suggestion = operand.hint or did_you_mean(name, scope.values)
        raise scope.violation("T6", f"'{name}' is not defined here", operand.span, suggestion=suggestion)
    if is_blob(operand):
        raise scope.violation("T24", "a Blob cannot be read", operand.span)
    return operand.type


def _check_search(expression: ast.TextSearch | ast.Nearest | ast.Bm25 | ast.Rrf, scope: Scope) -> Operand:
    match expression:
        case ast.TextSearch():
            return check_text(expression, scope)
        case ast.Nearest():
            return check_nearest(expression, scope)
        case ast.Bm25():
            return check_bm25(expression, scope)
        case ast.Rrf():
            return check_rrf(expression, scope)
        case _:
            assert_never(expression)


def _check_condition(expression: ast.Logical | ast.Not | ast.Comparison | ast.NullTest, scope: Scope) -> Operand:
    match expression:
        case ast.Logical(operands=operands):
            parts = tuple(check_condition(operand, scope) for operand in operands)
        case ast.Not(operand=operand):
            parts = (check_condition(operand, scope),)
        case ast.NullTest(operand=operand):
            tested = check_expression(operand, scope)
            if not (tested.is_node or tested.is_edge):
                value_type(tested, scope)
            parts = (tested,)
        case ast.Comparison():
            parts = _check_comparison(expression, scope)
        case _:
            assert_never(expression)
    return Operand(expression=expression, type=replace(BOOL, nullable=True), parts=parts)


def _check_comparison(expression: ast.Comparison, scope: Scope) -> tuple[Operand, Operand]:
    left, right = fitted_literals(check_expression(expression.left, scope), check_expression(expression.right, scope))
    first, second = value_type(left, scope), value_type(right, scope)
    match expression.op:
        case "in" | "not in":
            _check_member(expression, second, first, scope)
        case "contains" if first.is_list:
            _check_member(expression, first, second, scope)
        case "contains" | "starts_with" | "ends_with" | "matches":
            if not (_is_text(first) and _is_text(second)):
                message = f"{expression.op} takes a String and a String, not {word_of(left)} and {word_of(right)}"
                raise scope.violation("T25", message, expression.op_span)
            if expression.op == "matches" and not _is_given(right):
                message = "a pattern must be a literal or a parameter"
                raise scope.violation("T25", message, right.span)
        case _:
            if not are_comparable(first, second):
                message = f"{word_of(left)} and {word_of(right)} cannot be compared"
                suggestion = literal_suggestion(right.expression, first) or literal_suggestion(left.expression, second)
                raise scope.violation("T7", message, expression.span, suggestion=suggestion)
    if expression.op not in _TEXT_OPERATORS:
        check_compared_enums(left, right, scope)
    return left, right


def _check_member(expression: ast.Comparison, items: PropertyType, item: PropertyType, scope: Scope) -> None:
    if items is not NULL and not items.is_list:
        message = f"{expression.op} needs a list, not {replace(items, nullable=False)}"
        raise scope.violation("T25", message, expression.op_span)
    left, right = expression.left, expression.right
    container, member = (left, right) if expression.op == "contains" else (right, left)
    if items is not NULL and not has_no_item(container) and not are_comparable(item_type(items), item):
        held = str(item_type(items))
        kind = "that is a list" if has_no_item(member) else f"of type {replace(item, nullable=False)}"
        raise scope.violation("T7", f"a list of {held} has no member {kind}", expression.span)


def _check_arithmetic(expression: ast.Arithmetic | ast.Negative, scope: Scope) -> Operand:
    if isinstance(expression, ast.Negative):
        operand = check_expression(expression.operand, scope)
        of = value_type(operand, scope)
        if not (of.is_numeric or of in {INTERVAL, NULL}):
            message = f"'-' takes a number, not {word_of(operand)}"
            raise scope.violation("T25", message, expression.span)
        return Operand(expression=expression, type=of if of in {INTERVAL, NULL} else wide_number(of), parts=(operand,))
    left, right = fitted_literals(check_expression(expression.left, scope), check_expression(expression.right, scope))
    found = _arithmetic_type(expression.op, value_type(left, scope), value_type(right, scope))
    if found is None and expression.op == "*" and is_exact(value_type(left, scope)):
        message = f"the product of {word_of(left)} and {word_of(right)} would have too many digits after the point"
        raise scope.violation("T25", message, expression.span, suggestion="write round(…, 2) around one of them")
    if found is None:
        message = f"'{expression.op}' is not defined for {word_of(left)} and {word_of(right)}"
        raise scope.violation("T25", message, expression.span)
    return Operand(expression=expression, type=found, parts=(left, right))


def _arithmetic_type(op: ast.ArithmeticOp, left: PropertyType, right: PropertyType) -> PropertyType | None:
    if left is NULL or right is NULL:
        known = right if left is NULL else left
        return known if known is NULL else _arithmetic_type(op, known, known)
    if left.is_numeric and right.is_numeric:
        if Scalar.DECIMAL in {left.scalar, right.scalar} and is_exact(left) and is_exact(right):
            return arithmetic_type(op, left, right)
        is_whole = left.scalar in INTEGERS and right.scalar in INTEGERS
        if op == "%":
            return _nullable(I64) if is_whole else None
        return _nullable(I64 if is_whole and op != "/" else F64)
    if op == "+" and _is_text(left) and _is_text(right):
        return _nullable(TEXT)
    return _moment_type(op, left, right)


def _moment_type(op: ast.ArithmeticOp, left: PropertyType, right: PropertyType) -> PropertyType | None:
    if op not in {"+", "-"}:
        return None
    if left is INTERVAL and right is INTERVAL:
        return INTERVAL
    if _is_moment(left) and right is INTERVAL:
        return replace(left, nullable=True)
    if op == "+" and left is INTERVAL and _is_moment(right):
        return replace(right, nullable=True)
    return INTERVAL if op == "-" and _is_moment(left) and left.scalar is right.scalar and _is_moment(right) else None


def _check_composed(expression: ast.Call | ast.Case | ast.ListItem | ast.ListExpression, scope: Scope) -> Operand:
    match expression:
        case ast.Call():
            return _check_call(expression, scope)
        case ast.Case():
            return _check_case(expression, scope)
        case ast.ListItem():
            items, index = check_expression(expression.items, scope), check_expression(expression.index, scope)
            of = value_type(items, scope)
            if not of.is_list:
                raise scope.violation("T25", f"only a list has items, not {word_of(items)}", items.span)
            if not _is_whole(value_type(index, scope)):
                raise scope.violation("T25", f"an index is a whole number, not {word_of(index)}", index.span)
            return Operand(expression=expression, type=_nullable(item_type(of)), parts=(items, index))
        case ast.ListExpression():
            parts = fitted_literals(*(check_expression(item, scope) for item in expression.items))
            found = common_type([value_type(part, scope) for part in parts])
            if found is None or found.is_list or found is INTERVAL:
                raise scope.violation("T25", "the items of a list have one type", expression.span)
            return Operand(expression=expression, type=replace(found.single, is_list=True), parts=parts)
        case _:
            assert_never(expression)


def _check_case(expression: ast.Case, scope: Scope) -> Operand:
    conditions: list[Operand] = []
    written: list[Operand] = []
    for branch in expression.branches:
        conditions.append(check_condition(branch.condition, scope))
        written.append(check_expression(branch.value, scope))
    if expression.otherwise is not None:
        written.append(check_expression(expression.otherwise, scope))
    values = fitted_literals(*written)
    parts = (*chain.from_iterable(zip(conditions, values, strict=False)), *values[len(conditions) :])
    found = common_type([value_type(value, scope) for value in values])
    if found is None:
        words = ", ".join(dict.fromkeys(word_of(value) for value in values))
        raise scope.violation("T25", f"the values of a case have one type, not {words}", expression.span)
    return Operand(expression=expression, type=_nullable(found), parts=parts)


def _check_call(call: ast.Call, scope: Scope) -> Operand:
    name = call.function.text
    function = FUNCTIONS.get(name)
    if function is None:
        foreign = FOREIGN.get(name.lower())
        suggestion = f"write {foreign}(…)" if foreign else did_you_mean(name, [*FUNCTIONS, *GRAMMAR_FUNCTIONS])
        raise scope.violation("T26", f"unknown function '{name}'", call.function.span, suggestion=suggestion)
    count, least = len(call.arguments), len(function.takes) - function.optional
    if count < least or (count > len(function.takes) and not function.repeats):
        message = f"{name} takes {_numbers(function)}, not {count}: {function.signature}"
        raise scope.violation("T26", message, call.span)
    parts = tuple(check_expression(argument, scope) for argument in call.arguments)
    if function.gives == "same":
        parts = fitted_literals(*parts)
    wanted = [*function.takes, *[function.takes[-1]] * (count - len(function.takes))] if count else []
    for want, part in zip(wanted, parts, strict=False):
        _check_argument(function, want, part, scope)
    if name == "date_trunc":
        _check_unit(parts, scope)
    return Operand(expression=call, type=_returned(function, parts, call, scope), parts=parts)


def _check_unit(parts: tuple[Operand, ...], scope: Scope) -> None:
    unit, moment = parts
    if not isinstance(unit.expression, ast.StringLiteral):
        return
    is_day = moment.type is not None and moment.type.scalar is Scalar.DATE
    known = DATE_UNITS if is_day else MOMENT_UNITS
    if unit.expression.value not in known:
        message = f"unknown unit '{unit.expression.value}' of {'a Date' if is_day else 'a DateTime'}"
        raise scope.violation("T25", message, unit.span, suggestion=f"write one of {', '.join(known)}")


def _check_argument(function: Function, want: str, part: Operand, scope: Scope) -> None:
    if want == "Entity":
        if not (part.is_node or part.is_edge):
            raise scope.violation("T25", f"{function.name} takes a variable of match", part.span)
        return
    of = value_type(part, scope)
    fits = (
        of is NULL
        or (of is PATH and function.name == "length")
        or {
            "String": _is_text(of),
            "Text": _is_text(of) and _is_given(part),
            "Number": of.is_numeric,
            "Integer": _is_whole(of),
            "Bool": of.scalar is Scalar.BOOL and not of.is_list,
            "Date": of.scalar is Scalar.DATE and not of.is_list,
            "DateTime": of.scalar is Scalar.DATETIME and not of.is_list,
            "Time": _is_moment(of),
            "Interval": of is INTERVAL,
            "List": of.is_list,
            "Any": not of.is_list and not of.is_vector and of not in {INTERVAL, PATH},
            "Path": of is PATH,
        }[want]
    )
    if not fits:
        known = {"Time": "a Date or a DateTime", "Text": "a literal or a parameter", "Any": "a single value"}
        message = f"{function.name} takes {known.get(want, f'a value of type {want}')} here, not {word_of(part)}"
        raise scope.violation("T25", message, part.span, suggestion=f"the function is {function.signature}")


def _returned(function: Function, parts: tuple[Operand, ...], call: ast.Call, scope: Scope) -> PropertyType:
    types = [TEXT if part.type is None else part.type for part in parts]
    match function.gives:
        case "same":
            found = common_type(types)
            if found is None:
                words = ", ".join(dict.fromkeys(word_of(part) for part in parts))
                raise scope.violation("T25", f"{function.name} takes values of one type, not {words}", call.span)
            return _nullable(found)
        case "wide":
            if types[0].is_decimal and function.name in _ROUNDING:
                return rounded_type(types[0], _written_digits(call))
            return NULL if types[0] is NULL else wide_number(types[0])
        case "Decimal":
            return _wanted_decimal(parts, call, scope)
        case "first":
            return _nullable(types[-1])
        case known:
            return _nullable(_RETURNED[known])


def _written_digits(call: ast.Call) -> int | None:
    """Return to how many digits a call rounds, None where that is known with the row."""
    if len(call.arguments) == 1:
        return 0
    digits = call.arguments[1]
    return digits.value if isinstance(digits, ast.IntegerLiteral) else None


def _wanted_decimal(parts: tuple[Operand, ...], call: ast.Call, scope: Scope) -> PropertyType:
    """Return the decimal type that the second and third argument of a conversion name."""
    sizes = [part.expression.value for part in parts[1:] if isinstance(part.expression, ast.IntegerLiteral)]
    if len(sizes) < 2 or not 1 <= sizes[0] <= MAX_PRECISION or not 0 <= sizes[1] <= sizes[0]:
        message = f"{call.function.text} takes a precision of 1 to {MAX_PRECISION} and a scale up to it, as literals"
        suggestion = f"write {call.function.text}(…, 12, 2)"
        raise scope.violation("T25", message, call.span, suggestion=suggestion)
    return decimal_type(*sizes)


def _check_aggregate(call: ast.Aggregate, scope: Scope) -> Operand:
    if call.argument is None:
        if call.is_distinct:
            message = "count(distinct *) counts nothing in particular"
            raise scope.violation("T8", message, call.span, suggestion="write count(*), or name what is distinct")
        parts: tuple[Operand, ...] = ()
        result = I64
    else:
        argument = check_expression(call.argument, scope)
        refuse_blob(argument, scope, "aggregated")
        parts, result = (argument,), _aggregate_type(call, argument, scope)
    fraction = None if call.fraction is None else check_expression(call.fraction, scope)
    if call.function == "percentile" and (
        fraction is None
        or not _is_given(fraction)
        or not (fraction.type is NULL or value_type(fraction, scope).is_numeric)
    ):
        message = "percentile takes a value and a fraction from 0 to 1, a literal or a parameter"
        raise scope.violation("T8", message, call.span, suggestion="write percentile($x.p, 0.9)")
    where = None if call.where is None else check_condition(call.where, scope)
    return Operand(expression=call, type=_nullable(result), parts=parts, fraction=fraction, where=where)


def _aggregate_type(call: ast.Aggregate, argument: Operand, scope: Scope) -> PropertyType:
    given = TEXT if argument.type is None else argument.type
    match call.function:
        case "count":
            return I64
        case "collect" | "min" | "max":
            is_kept = argument.is_node and call.function == "collect"
            _require(_is_single(given) and not is_kept, "single values", call, argument, scope)
            # An alias that names nothing has no type; it is refused when the query is lowered.
            known = F64 if argument.type is None else given
            return replace(item_type(given), is_list=True) if call.function == "collect" else known
        case "any" | "every":
            _require(_is_bool(argument), "a condition", call, argument, scope)
            return BOOL
        case "sum_int":
            _require(_is_whole(given) and not argument.is_node, "whole numbers", call, argument, scope)
            return I64
        case "sum" | "avg" | "median" | "percentile" | "stddev" | "variance":
            is_number = argument.type is None or given is NULL or given.is_numeric
            _require(is_number and not argument.is_node, "numbers", call, argument, scope)
            if given.is_decimal and call.function in {"sum", "avg"}:
                return sum_type(given) if call.function == "sum" else mean_type(given)
            return F64
        case _:
            assert_never(call.function)


def _require(fits: bool, what: str, call: ast.Aggregate, argument: Operand, scope: Scope) -> None:
    if not fits:
        raise scope.violation("T8", f"{call.function} takes {what}, not {word_of(argument)}", call.span)


def _is_single(of: PropertyType) -> bool:
    return of is NULL or not (of.is_list or of.is_vector or of in {INTERVAL, PATH})


def _numbers(function: Function) -> str:
    least, most = len(function.takes) - function.optional, len(function.takes)
    if function.repeats:
        return f"at least {least} argument{'s' if least != 1 else ''}"
    return f"{least} or {most} arguments" if least != most else f"{most} argument{'s' if most != 1 else ''}"


def _comparison_hint(operand: Operand) -> str | None:
    return "compare it with something" if operand.type is not None and not operand.is_node else None


def _is_bool(operand: Operand) -> bool:
    of = operand.type
    return of is not None and (of is NULL or (of.scalar is Scalar.BOOL and not of.is_list)) and not operand.is_node


def _is_text(of: PropertyType) -> bool:
    return of is NULL or of.is_text


def _is_whole(of: PropertyType) -> bool:
    return of is NULL or (of is not INTERVAL and of.scalar in INTEGERS and not of.is_list)


def _is_moment(of: PropertyType) -> bool:
    return of.scalar in _MOMENTS and not of.is_list


def _is_given(operand: Operand) -> bool:
    return operand.is_parameter or isinstance(operand.expression, ast.Literal)


def _nullable(of: PropertyType) -> PropertyType:
    return of if of in {NULL, INTERVAL, PATH} else replace(of, nullable=True)
