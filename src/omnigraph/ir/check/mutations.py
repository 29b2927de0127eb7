"""Mutation statements."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from omnigraph.catalog.model import EdgeType, NodeType, PropertyDef, Scalar
from omnigraph.errors import QueryTypeError
from omnigraph.ir.check.operators import check_condition, check_expression, value_type
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import (
    CheckedAssignment,
    CheckedDelete,
    CheckedInsert,
    CheckedPredicate,
    CheckedStatement,
    CheckedUpdate,
    Operand,
)
from omnigraph.ir.check.values import check_assigned_value, check_computed_value, check_tested_value
from omnigraph.ir.types import TEXT
from omnigraph.lang.gq import ast
from omnigraph.lang.source import Ident

_STORED = {"from": "src", "to": "dst"}

ID = PropertyDef(name="id", type=TEXT)
# The ends of an edge are written like properties, as the ids of its nodes.
ENDS = {"from": PropertyDef(name="from", type=TEXT), "to": PropertyDef(name="to", type=TEXT)}


def check_statement(statement: ast.Statement, scope: Scope) -> CheckedStatement:
    """Check one statement of a mutation."""
    match statement:
        case ast.Insert():
            target = _target(statement.type_name, scope)
            if statement.if_present != "replace" or statement.for_each:
                raise scope.violation(None, "this form of insert is not supported yet", statement.span)
            assigned = _check_assignments(statement.assignments, statement, target, _alone(scope))
            _check_complete(statement, target, assigned, scope)
            return CheckedInsert(target=target, assignments=assigned)
        case ast.Update():
            return _check_update(statement, scope)
        case ast.Delete():
            target = _target(statement.type_name, scope)
            _refuse_guard(statement.version, scope)
            return CheckedDelete(target=target, predicate=_check_predicate(statement.predicate, target, scope))
        case ast.Upsert() | ast.UpdateMatched() | ast.DeleteMatched() | ast.MatchStatement():
            raise scope.violation(None, "this statement is not supported yet", statement.span)
        case _:
            assert_never(statement)


def _refuse_guard(version: ast.Expression | None, scope: Scope) -> None:
    if version is not None:
        raise scope.violation(None, "'if version' is not supported yet", version.span)


def _check_update(statement: ast.Update, scope: Scope) -> CheckedUpdate:
    target = _target(statement.type_name, scope)
    _refuse_guard(statement.version, scope)
    _refuse_ends(statement.assignments, target, scope)
    assigned = _check_assignments(statement.assignments, statement, target, _with_target(target, scope))
    predicate = _check_predicate(statement.predicate, target, scope)
    return CheckedUpdate(target=target, assignments=assigned, predicate=predicate)


def _refuse_ends(assignments: tuple[ast.Assignment, ...], target: NodeType | EdgeType, scope: Scope) -> None:
    for assignment in assignments:
        if isinstance(target, EdgeType) and assignment.property.text in ENDS:
            message = f"the ends of an edge cannot be changed, not '{assignment.property.text}' of '{target.name}'"
            suggestion = "delete the edge and insert it again"
            raise scope.violation("T16", message, assignment.property.span, suggestion=suggestion)


def target_columns(target: NodeType | EdgeType) -> tuple[PropertyDef, ...]:
    """Return what a statement may call of the entities of its type by a bare name."""
    ends = tuple(ENDS.values()) if isinstance(target, EdgeType) else ()
    return (ID, *ends, *target.properties)


def stored_name(target: NodeType | EdgeType, name: str) -> str:
    """Return the column that a bare name means: the ends of an edge are stored under other names."""
    return _STORED.get(name, name) if isinstance(target, EdgeType) else name


def _alone(scope: Scope) -> Scope:
    """Return a scope of parameters and functions only."""
    return replace(scope, entities={}, values={}, nullable=set(), block_checker=None)


def _with_target(target: NodeType | EdgeType, scope: Scope) -> Scope:
    """Return a scope in which bare names are those of the target."""
    return replace(_alone(scope), values={prop.name: prop.type for prop in target_columns(target)})


def _target(name: Ident, scope: Scope) -> NodeType | EdgeType:
    # A name of both kinds means the node.
    found = scope.catalog.nodes.get(name.text) or scope.catalog.edges.get(name.text)
    if found is None:
        suggestion = did_you_mean(name.text, [*scope.catalog.nodes, *scope.catalog.edges])
        raise scope.violation("T10", f"unknown type '{name.text}'", name.span, suggestion=suggestion)
    return found


def _check_assignments(
    assignments: tuple[ast.Assignment, ...],
    statement: ast.Insert | ast.Update,
    target: NodeType | EdgeType,
    scope: Scope,
) -> tuple[CheckedAssignment, ...]:
    if not assignments:
        raise scope.violation("T10", "a statement must assign at least one property", statement.span)
    seen: set[str] = set()
    checked: list[CheckedAssignment] = []
    for assignment in assignments:
        name = assignment.property
        if name.text in seen:
            raise scope.violation("T13", f"'{name.text}' is assigned twice", name.span)
        seen.add(name.text)
        prop = _property(name, target, scope)
        value = _check_assigned(prop, assignment.value, scope)
        checked.append(CheckedAssignment(property=prop, value=value, span=name.span))
    return tuple(checked)


def _check_assigned(prop: PropertyDef, value: ast.Expression, scope: Scope) -> Operand:
    if isinstance(value, ast.Now | ast.Literal | ast.Variable):
        return check_assigned_value(prop, value, scope)
    operand = check_expression(value, scope)
    _refuse_searches(operand, scope)
    check_computed_value(prop, operand, value_type(operand, scope), scope)
    return operand


def _refuse_searches(operand: Operand, scope: Scope) -> None:
    """Raise T28 if something stands in a statement that only rows of a match have."""
    expression = operand.expression
    if isinstance(expression, ast.Aggregate | ast.Nearest | ast.Bm25 | ast.Rrf | ast.TextSearch):
        what = "an aggregate" if isinstance(expression, ast.Aggregate) else "a search"
        raise scope.violation("T28", f"{what} has no value in a statement", operand.span)
    for part in operand.parts:
        _refuse_searches(part, scope)


def _property(name: Ident, target: NodeType | EdgeType, scope: Scope) -> PropertyDef:
    found = ENDS.get(name.text) if isinstance(target, EdgeType) else None
    found = found or target.get(name.text)
    if found is None:
        raise _unknown_property(name, target, scope)
    return found


def _unknown_property(name: Ident, target: NodeType | EdgeType, scope: Scope) -> QueryTypeError:
    known = [item.name for item in target.properties] + (list(ENDS) if isinstance(target, EdgeType) else [])
    message = f"type '{target.name}' has no property '{name.text}'"
    return scope.violation("T11", message, name.span, suggestion=did_you_mean(name.text, known))


def _check_complete(
    statement: ast.Insert, target: NodeType | EdgeType, assigned: tuple[CheckedAssignment, ...], scope: Scope
) -> None:
    names = {item.property.name for item in assigned}
    required = list(ENDS.values()) if isinstance(target, EdgeType) else []
    for prop in [*required, *target.properties]:
        if prop.name in names or prop.type.nullable:
            continue
        # The vector is computed from its source when it is not given.
        if prop.embed is not None and prop.embed.source in names:
            continue
        what = "edge endpoint" if prop.name in ENDS and isinstance(target, EdgeType) else "property"
        message = f"missing required {what} '{prop.name}' of '{target.name}'"
        raise scope.violation("T12", message, statement.type_name.span, suggestion=f"add {prop.name}: …")


def _check_predicate(
    predicate: ast.Predicate | ast.Expression, target: NodeType | EdgeType, scope: Scope
) -> CheckedPredicate | Operand:
    if not isinstance(predicate, ast.Predicate):
        condition = check_condition(predicate, _with_target(target, scope))
        _refuse_searches(condition, scope)
        return condition
    prop = ID if predicate.property.text == ID.name else _property(predicate.property, target, scope)
    if prop.type.scalar is Scalar.BLOB:
        raise scope.violation("T11", f"'{prop.name}' is a Blob, which cannot be tested", predicate.property.span)
    if prop.type.is_list or prop.type.is_vector:
        message = f"'{prop.name}' is {prop.type}, which cannot be compared"
        raise scope.violation("T7", message, predicate.property.span)
    return CheckedPredicate(property=prop, op=predicate.op, value=check_tested_value(prop, predicate.value, scope))
