"""Values that stand beside a property: in a binding, in an assignment, in a ``where``."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.catalog.model import FLOATS, INTEGERS, NUMERIC, EdgeType, PropertyDef, PropertyType, Scalar
from omnigraph.errors import QueryTypeError
from omnigraph.ir.check.expressions import (
    check_enum_literals,
    exact_literal,
    has_no_item,
    literal_suggestion,
    literal_type,
)
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import Operand
from omnigraph.ir.types import DATETIME, INTERVAL, NULL, are_comparable, item_type
from omnigraph.lang.gq import ast


def check_inline_value(prop: PropertyDef, value: ast.Expression, scope: Scope) -> Operand:
    """Check ``prop: value`` of a binding: equality, or membership when the property is a list."""
    if prop.type.scalar is Scalar.BLOB:
        raise scope.violation("T3", f"'{prop.name}' is a Blob, which cannot be matched", value.span)
    match value:
        case ast.Now():
            return _now(prop, value, scope)
        case ast.Variable():
            return _inline_parameter(prop, value, scope)
        case _:
            return _inline_literal(prop, _literal(value, scope), scope)


def check_assigned_value(prop: PropertyDef, value: ast.Expression, scope: Scope) -> Operand:
    """Check ``prop: value`` of an insert or update."""
    match value:
        case ast.Now():
            return _now(prop, value, scope)
        case ast.Variable():
            given = _declared(value, scope)
            if not _is_assignable(given, prop.type) or _loses_digits(given, prop.type):
                raise _mismatch(prop, value, given, scope)
            return Operand(expression=value, type=given, is_parameter=True)
        case _:
            return _assigned_literal(prop, _literal(value, scope), scope)


def check_computed_value(prop: PropertyDef, operand: Operand, given: PropertyType, scope: Scope) -> None:
    """Check that what an expression gives can be assigned; whether each value fits is known when it is computed."""
    wanted = prop.type
    if given is NULL:
        if not wanted.nullable:
            raise scope.violation("T3", f"'{prop.name}' is required and cannot be null", operand.span)
        return
    if given is not INTERVAL and _is_assignable(given, wanted):
        if (wanted.scalar not in INTEGERS or given.scalar in INTEGERS) and not _loses_digits(given, wanted):
            return
        message = f"a value of type {replace(given, nullable=False)} does not fit '{prop.name}', which is {wanted}"
        sizes = ", ".join(map(str, ("…", *wanted.digits)))
        call = f"to_decimal({sizes})" if wanted.is_decimal else "to_int(…)"
        raise scope.violation("T7", message, operand.span, suggestion=f"write {call} around it")
    known = given if given is INTERVAL else replace(given, nullable=False)
    message = f"a value of type {known} does not fit '{prop.name}', which is {wanted}"
    raise scope.violation("T7", message, operand.span)


def check_tested_value(prop: PropertyDef, value: ast.Expression, scope: Scope) -> Operand:
    """Check the value of a ``where``; ``prop`` is known to be comparable."""
    match value:
        case ast.Now():
            return _now(prop, value, scope)
        case ast.Variable():
            given = _declared(value, scope)
            if not are_comparable(given, prop.type):
                raise _mismatch(prop, value, given, scope)
            check_enum_literals(prop.type, prop.name, value, scope)
            return Operand(expression=value, type=given, is_parameter=True)
        case _:
            literal = _literal(value, scope)
            given = literal_type(literal, scope)
            if not are_comparable(given, prop.type):
                raise _unfit(prop, literal, given, scope)
            check_enum_literals(prop.type, prop.name, literal, scope)
            return _beside(prop.type, literal, given)


def _literal(value: ast.Expression, scope: Scope) -> ast.Literal:
    if isinstance(value, ast.Literal):
        return value
    raise scope.violation(None, "an expression is not supported here yet", value.span)


def _inline_literal(prop: PropertyDef, value: ast.Literal, scope: Scope) -> Operand:
    given = literal_type(value, scope)
    wanted = prop.type
    if wanted.is_vector:
        _check_vector(prop, value, given, scope)
        raise scope.violation("T7", f"'{prop.name}' is a vector, which cannot be compared", value.span)
    if given.is_list and wanted.is_list:
        message = f"'{prop.name}' is a list: match one member, not a whole list"
        raise scope.violation("T3", message, value.span)
    if not are_comparable(given, item_type(wanted)):
        raise _unfit(prop, value, given, scope)
    check_enum_literals(prop.type, prop.name, value, scope)
    return _beside(wanted, value, given)


def _beside(wanted: PropertyType, value: ast.Literal, given: PropertyType) -> Operand:
    """Return a literal as an operand; beside a decimal, a number means the digits that are written."""
    operand = Operand(expression=value, type=given)
    return exact_literal(operand) if wanted.is_decimal else operand


def _inline_parameter(prop: PropertyDef, value: ast.Variable, scope: Scope) -> Operand:
    given = scope.parameters.get(value.name)
    if given is None:
        raise _not_a_parameter(value, scope)
    if prop.type.is_vector:
        raise scope.violation("T7", f"'{prop.name}' is a vector, which cannot be compared", value.span)
    if prop.type.is_list and given.is_list:
        message = f"'{prop.name}' is a list: match one member, parameter '${value.name}' is {given}"
        raise scope.violation("T7", message, value.span)
    if not are_comparable(given, item_type(prop.type)):
        raise _mismatch(prop, value, given, scope)
    check_enum_literals(prop.type, prop.name, value, scope)
    return Operand(expression=value, type=given, is_parameter=True)


def _not_a_parameter(value: ast.Variable, scope: Scope) -> QueryTypeError:
    bound = scope.entities.get(value.name)
    if isinstance(bound, EdgeType):
        message = f"edge variable '${value.name}' cannot be used by itself"
        return scope.violation("T23", message, value.span, suggestion="use one of its properties in a filter")
    if bound is not None:
        message = f"node variable '${value.name}' cannot be compared with a property"
        return scope.violation("T7", message, value.span, suggestion="compare a property of it in a filter")
    message = f"'${value.name}' is not a declared parameter"
    suggestion = did_you_mean(value.name, scope.parameters, mark="$")
    return scope.violation("T6", message, value.span, suggestion=suggestion)


def _assigned_literal(prop: PropertyDef, value: ast.Literal, scope: Scope) -> Operand:
    wanted = prop.type
    given = wanted if wanted.is_list and has_no_item(value) else literal_type(value, scope)
    if given is NULL:
        if not wanted.nullable:
            raise scope.violation("T3", f"'{prop.name}' is required and cannot be null", value.span)
        return Operand(expression=value, type=wanted)
    if wanted.scalar is Scalar.BLOB:
        message = f"'{prop.name}' is a Blob, which takes a parameter, not a literal"
        raise scope.violation("T3", message, value.span, suggestion="declare a Blob parameter")
    if wanted.is_vector:
        _check_vector(prop, value, given, scope)
    elif given.is_list != wanted.is_list or not are_comparable(item_type(given), item_type(wanted)):
        raise _unfit(prop, value, given, scope)
    else:
        check_enum_literals(wanted, prop.name, value, scope)
    return _beside(wanted, value, given)


def _check_vector(prop: PropertyDef, value: ast.Literal, given: PropertyType, scope: Scope) -> None:
    if not isinstance(value, ast.ListLiteral) or (value.items and given.scalar not in NUMERIC):
        raise _unfit(prop, value, given, scope)
    if len(value.items) != prop.type.dimension:
        message = f"'{prop.name}' has {prop.type.dimension} dimensions, the literal has {len(value.items)}"
        raise scope.violation("T3", message, value.span)


def _now(prop: PropertyDef, value: ast.Now, scope: Scope) -> Operand:
    if prop.type.scalar is not Scalar.DATETIME or prop.type.is_list:
        raise _mismatch(prop, value, DATETIME, scope)
    return Operand(expression=value, type=DATETIME)


def _declared(value: ast.Variable, scope: Scope) -> PropertyType:
    given = scope.parameters.get(value.name)
    if given is None:
        message = f"'${value.name}' is not a declared parameter"
        suggestion = did_you_mean(value.name, scope.parameters, mark="$")
        raise scope.violation("T14", message, value.span, suggestion=suggestion)
    return given


def _is_assignable(given: PropertyType, wanted: PropertyType) -> bool:
    if given.is_list != wanted.is_list:
        return False
    if wanted.scalar is Scalar.BLOB:
        return given.scalar in {Scalar.BLOB, Scalar.STRING}
    if wanted.is_vector:
        return given.is_vector and given.dimension == wanted.dimension
    return are_comparable(item_type(given), item_type(wanted))


def _loses_digits(given: PropertyType, wanted: PropertyType) -> bool:
    """Whether a float would be made a decimal, which it is not exactly."""
    return wanted.is_decimal and given.scalar in FLOATS


def _unfit(prop: PropertyDef, value: ast.Literal, given: PropertyType, scope: Scope) -> QueryTypeError:
    message = f"a literal of type {given} does not fit '{prop.name}', which is {prop.type}"
    suggestion = literal_suggestion(value, item_type(prop.type))
    return scope.violation("T3", message, value.span, suggestion=suggestion)


def _mismatch(prop: PropertyDef, value: ast.Variable | ast.Now, given: PropertyType, scope: Scope) -> QueryTypeError:
    shown = f"parameter '${value.name}'" if isinstance(value, ast.Variable) else "now()"
    suggestion = None
    if isinstance(value, ast.Variable) and _loses_digits(given, prop.type) and not given.is_list:
        suggestion = f"declare ${value.name}: {replace(prop.type, nullable=given.nullable)}"
    message = f"{shown} is {given}, but '{prop.name}' is {prop.type}"
    return scope.violation("T7", message, value.span, suggestion=suggestion)
