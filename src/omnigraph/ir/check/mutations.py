"""Mutation statements."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from omnigraph.catalog.defaults import has_default
from omnigraph.catalog.model import EdgeType, NodeType, PropertyDef, PropertyType, Scalar
from omnigraph.errors import QueryTypeError
from omnigraph.ir.check.match import check_block_of_values, check_clauses
from omnigraph.ir.check.operators import check_condition, check_expression, value_type, word_of
from omnigraph.ir.check.output import check_projections, name_columns
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import (
    CheckedAssignment,
    CheckedDelete,
    CheckedDeleteMatched,
    CheckedInsert,
    CheckedMatchStatement,
    CheckedPredicate,
    CheckedProjection,
    CheckedStatement,
    CheckedUpdate,
    CheckedUpdateMatched,
    Operand,
)
from omnigraph.ir.check.values import (
    check_assigned_value,
    check_computed_value,
    check_tested_value,
)
from omnigraph.ir.model import InsertMode
from omnigraph.ir.types import TEXT
from omnigraph.lang.gq import ast
from omnigraph.lang.source import Ident

_STORED = {"from": "src", "to": "dst"}
_WRITTEN = {stored: written for written, stored in _STORED.items()}
_MODES: dict[str, InsertMode | None] = {"replace": None, "keep": "keep", "refuse": "refuse"}

ID = PropertyDef(name="id", type=TEXT)
# The ends of an edge are written like properties, as the ids of its nodes.
ENDS = {"from": PropertyDef(name="from", type=TEXT), "to": PropertyDef(name="to", type=TEXT)}


def check_mutation(
    body: ast.MutationBody, scope: Scope
) -> tuple[tuple[CheckedStatement, ...], tuple[CheckedProjection, ...]]:
    """Check the statements of a mutation in text order, then what it returns."""
    checked: list[CheckedStatement] = []
    matched: Scope | None = None
    for statement in body.statements:
        if isinstance(statement, ast.MatchStatement):
            matched = scope.nested()
            clauses = check_clauses(statement.clauses, matched)
            checked.append(
                CheckedMatchStatement(
                    clauses=clauses,
                    entities=dict(matched.entities),
                    values=dict(matched.values),
                    nullable=frozenset(matched.nullable),
                )
            )
        else:
            checked.append(_check_statement(statement, scope, matched))
    last = checked[-1]
    if not body.projections:
        return tuple(checked), ()
    inner = _returned_scope(body, last, scope, matched)
    projections = check_projections(body.projections, inner)
    for projection in projections:
        if not projection.operand.is_node:
            value_type(projection.operand, inner)
        _refuse_searches(projection.operand, inner)
    return tuple(checked), name_columns(projections, inner)


def _returned_scope(body: ast.MutationBody, last: CheckedStatement, scope: Scope, matched: Scope | None) -> Scope:
    if matched is not None:
        return matched
    if isinstance(last, CheckedInsert | CheckedUpdate):
        return _with_target(last.target, scope)
    message = "a delete leaves nothing to return"
    raise scope.violation(None, message, body.projections[0].span, suggestion="match the returned entities first")


def _check_statement(statement: ast.Statement, scope: Scope, matched: Scope | None) -> CheckedStatement:
    match statement:
        case ast.Insert() | ast.Upsert():
            return _check_insert(statement, scope, matched)
        case ast.Update():
            return _check_update(statement, scope)
        case ast.Delete():
            target = _target(statement.type_name, scope)
            predicate = _check_predicate(statement.predicate, target, scope)
            return CheckedDelete(target=target, predicate=predicate, version=_check_guard(statement.version, scope))
        case ast.UpdateMatched():
            target = _matched_target(statement.variable, scope, matched)
            _refuse_ends(statement.assignments, target, scope)
            assigned = _check_assignments(statement.assignments, statement, target, matched or scope)
            guard = _check_guard(statement.version, scope)
            name = statement.variable.name
            return CheckedUpdateMatched(
                variable=name,
                target=target,
                assignments=assigned,
                version=guard,
                visible=frozenset(matched.entities if matched is not None else ()),
            )
        case ast.DeleteMatched():
            targets = {item.name: _matched_target(item, scope, matched) for item in statement.variables}
            if statement.version is not None and len(targets) > 1:
                message = "'if version' is about the entities of one variable"
                suggestion = "delete each variable in a separate statement"
                raise scope.violation(None, message, statement.version.span, suggestion=suggestion)
            return CheckedDeleteMatched(targets=targets, version=_check_guard(statement.version, scope))
        case ast.MatchStatement():
            raise scope.violation(None, "a match cannot be used here", statement.span)
        case _:
            assert_never(statement)


def _matched_target(variable: ast.Variable, scope: Scope, matched: Scope | None) -> NodeType | EdgeType:
    found = None if matched is None else matched.entities.get(variable.name)
    if found is None:
        known = () if matched is None else matched.entities
        message = f"'${variable.name}' is not a variable of a match before this statement"
        raise scope.violation("T6", message, variable.span, suggestion=did_you_mean(variable.name, known, mark="$"))
    return found


def _check_insert(statement: ast.Insert | ast.Upsert, scope: Scope, matched: Scope | None) -> CheckedInsert:
    target = _target(statement.type_name, scope)
    mode = _MODES[statement.if_present] if isinstance(statement, ast.Insert) else "merge"
    if mode is not None and target.key is None:
        word = {"keep": "'if absent'", "refuse": "'strict'", "merge": "upsert"}[mode]
        message = f"{word} needs a type with a @key, which '{target.name}' is not"
        raise scope.violation("T12", message, statement.type_name.span)
    inner = _each_scope(statement.for_each, scope, matched) if statement.for_each else _alone(scope)
    assigned = _check_assignments(statement.assignments, statement, target, inner)
    _check_complete(statement, target, assigned, scope, is_upsert=mode == "merge")
    for_each = tuple(item.name for item in statement.for_each) or None
    return CheckedInsert(target=target, assignments=assigned, mode=mode, for_each=for_each)


def _each_scope(variables: tuple[ast.Variable, ...], scope: Scope, matched: Scope | None) -> Scope:
    """Return a scope of some variables of the match."""
    entities: dict[str, NodeType | EdgeType] = {}
    values: dict[str, PropertyType] = {}
    for variable in variables:
        item = None if matched is None else matched.values.get(f"${variable.name}")
        if item is not None:
            values[f"${variable.name}"] = item
        else:
            entities[variable.name] = _matched_target(variable, scope, matched)
    return replace(_alone(scope), entities=entities, values=values, block_checker=scope.block_checker)


def _check_guard(version: ast.Expression | None, scope: Scope) -> Operand | None:
    """Check the version that a statement insists on: it is given, not computed of what is stored."""
    if version is None:
        return None
    operand = check_expression(version, _alone(scope))
    is_given = operand.is_parameter or isinstance(version, ast.StringLiteral)
    if not is_given or operand.type != TEXT:
        message = f"a version is a text or a parameter of type String, not {word_of(operand)}"
        suggestion = "read it with version($x), and pass it as a parameter"
        raise scope.violation("T7", message, version.span, suggestion=suggestion)
    return operand


def _check_update(statement: ast.Update, scope: Scope) -> CheckedUpdate:
    target = _target(statement.type_name, scope)
    _refuse_ends(statement.assignments, target, scope)
    assigned = _check_assignments(statement.assignments, statement, target, _with_target(target, scope))
    predicate = _check_predicate(statement.predicate, target, scope)
    guard = _check_guard(statement.version, scope)
    return CheckedUpdate(target=target, assignments=assigned, predicate=predicate, version=guard)


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
    values = {prop.name: prop.type for prop in target_columns(target)}
    return replace(_alone(scope), values=values, block_checker=check_block_of_values)


def _target(name: Ident, scope: Scope) -> NodeType | EdgeType:
    # A name of both kinds means the node.
    found = scope.catalog.nodes.get(name.text) or scope.catalog.edges.get(name.text)
    if found is None:
        suggestion = did_you_mean(name.text, [*scope.catalog.nodes, *scope.catalog.edges])
        raise scope.violation("T10", f"unknown type '{name.text}'", name.span, suggestion=suggestion)
    return found


def _check_assignments(
    assignments: tuple[ast.Assignment, ...],
    statement: ast.Insert | ast.Upsert | ast.Update | ast.UpdateMatched,
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
        value = _check_assigned(prop, assignment.value, target, scope)
        checked.append(CheckedAssignment(property=prop, value=value, span=name.span))
    return tuple(checked)


def _check_assigned(prop: PropertyDef, value: ast.Expression, target: NodeType | EdgeType, scope: Scope) -> Operand:
    is_bound = isinstance(value, ast.Variable) and value.name not in scope.parameters and _is_bound(value, scope)
    if isinstance(value, ast.Now | ast.Literal | ast.Variable) and not is_bound:
        return check_assigned_value(prop, value, scope)
    operand = check_expression(value, scope)
    if operand.is_node and isinstance(target, EdgeType) and prop.name in ENDS:
        _check_end(prop, operand, target, scope)
        return operand
    _refuse_searches(operand, scope)
    check_computed_value(prop, operand, value_type(operand, scope), scope)
    return operand


def _is_bound(variable: ast.Variable, scope: Scope) -> bool:
    return variable.name in scope.entities or f"${variable.name}" in scope.values


def _check_end(prop: PropertyDef, operand: Operand, edge: EdgeType, scope: Scope) -> None:
    """Check that a node may be an end of an edge."""
    wanted = edge.from_type if prop.name == "from" else edge.to_type
    name = operand.expression.name if isinstance(operand.expression, ast.Variable) else ""
    found = scope.entities[name]
    if found.name != wanted:
        message = f"'{prop.name}' of '{edge.name}' is a '{wanted}', but '${name}' is a '{found.name}'"
        raise scope.violation("T7", message, operand.span)


def _refuse_searches(operand: Operand, scope: Scope) -> None:
    """Raise T28 if something stands in a statement that only rows of a match have."""
    expression = operand.expression
    if isinstance(expression, ast.Aggregate | ast.Nearest | ast.Bm25 | ast.Rrf | ast.TextSearch):
        what = "an aggregate" if isinstance(expression, ast.Aggregate) else "a search"
        raise scope.violation("T28", f"{what} has no value in a statement", operand.span)
    if isinstance(expression, ast.Call) and expression.function.text == "version":
        message = (
            "a version has no value in a statement: the commit of the mutation becomes the version of what it writes"
        )
        suggestion = "test it in the match, or write 'if version = …' after the statement"
        raise scope.violation("T28", message, operand.span, suggestion=suggestion)
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
    written = _WRITTEN.get(name.text) if isinstance(target, EdgeType) else None
    suggestion = did_you_mean(name.text, known) if written is None else f"write '{written}'"
    return scope.violation("T11", message, name.span, suggestion=suggestion)


def _check_complete(
    statement: ast.Insert | ast.Upsert,
    target: NodeType | EdgeType,
    assigned: tuple[CheckedAssignment, ...],
    scope: Scope,
    *,
    is_upsert: bool,
) -> None:
    names = {item.property.name for item in assigned}
    if is_upsert:
        # What else is required shows when there is nothing to change.
        for column in target.key or ():
            name = _WRITTEN.get(column, column) if isinstance(target, EdgeType) else column
            if name not in names:
                message = f"an upsert needs the whole key: missing '{name}' of '{target.name}'"
                raise scope.violation("T12", message, statement.type_name.span, suggestion=f"add {name}: …")
        return
    required = list(ENDS.values()) if isinstance(target, EdgeType) else []
    for prop in [*required, *target.properties]:
        if prop.name in names or prop.type.nullable or has_default(prop):
            continue
        # The vector is computed from its source when it is not given.
        if prop.embed is not None and _is_known(target, prop.embed.source, names) and not statement.for_each:
            continue
        what = "edge endpoint" if prop.name in ENDS and isinstance(target, EdgeType) else "property"
        message = f"missing required {what} '{prop.name}' of '{target.name}'"
        raise scope.violation("T12", message, statement.type_name.span, suggestion=f"add {prop.name}: …")


def _is_known(target: NodeType | EdgeType, name: str, assigned: set[str]) -> bool:
    prop = target.get(name)
    return name in assigned or (prop is not None and has_default(prop))


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
