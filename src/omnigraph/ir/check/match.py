"""The match clause: its clauses in text order, negations in a copy of the scope."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from omnigraph.catalog.model import EdgeType, NodeType, PropertyDef, PropertyType, Scalar
from omnigraph.ir.check.expressions import (
    check_compared_enums,
    check_text,
    fitted_literals,
    identity_hint,
    is_blob,
    literal_suggestion,
    text_rule,
)
from omnigraph.ir.check.operators import check_condition, check_expression, value_type
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import (
    CheckedBinding,
    CheckedClause,
    CheckedCondition,
    CheckedEach,
    CheckedFilter,
    CheckedMatch,
    CheckedNegation,
    CheckedOptional,
    CheckedText,
    CheckedTraversal,
    Direction,
    Operand,
)
from omnigraph.ir.check.values import check_inline_value
from omnigraph.ir.types import PATH, are_comparable, item_type
from omnigraph.lang.gq import ast
from omnigraph.lang.gq.build_clauses import edge_reading
from omnigraph.lang.source import NOWHERE, Span

# What to do about a type that the branch has and an earlier state of it does not.
_READ_LATER = "read a later state, or use the schema of that commit"


def check_binding(binding: ast.Binding, scope: Scope) -> CheckedBinding:
    """Check a binding and bring its variable into scope; binding the same type again adds predicates."""
    name = binding.variable.name
    if name == ast.ANONYMOUS:
        message = "the anonymous variable cannot be bound to a type"
        raise scope.violation(None, message, binding.variable.span, suggestion="name the variable")
    bound = scope.entities.get(name)
    if isinstance(bound, EdgeType):
        raise scope.violation("T23", f"'${name}' is already an edge variable", binding.variable.span)
    written = binding.type_name.text
    node = scope.catalog.node(written) or _shared_node(written, scope)
    if node is None:
        message = f"unknown node type '{written}'"
        if written in scope.catalog.edges:
            message = f"'{written}' is an edge type, but a binding needs a node type"
        suggestion = did_you_mean(written, [*scope.catalog.nodes, *scope.catalog.interfaces])
        if written in scope.catalog.absent:
            message, suggestion = f"node type '{written}' does not exist at this snapshot", _READ_LATER
        raise scope.violation("T1", message, binding.type_name.span, suggestion=suggestion)
    if bound is not None and bound.name != node.name:
        message = f"'${name}' is already bound to '{bound.name}', not to '{node.name}'"
        raise scope.violation(None, message, binding.type_name.span)
    scope.entities[name] = node
    matches: list[CheckedMatch] = []
    conditions = list(_presence(binding.variable, scope))
    for predicate in binding.predicates:
        prop = node.get(predicate.property.text)
        if prop is None:
            message = f"type '{node.name}' has no property '{predicate.property.text}'"
            suggestion = identity_hint(predicate.property.text, name, node)
            suggestion = suggestion or did_you_mean(predicate.property.text, [item.name for item in node.properties])
            raise scope.violation("T2", message, predicate.property.span, suggestion=suggestion)
        if _is_plain_value(predicate.value, scope):
            matches.append(CheckedMatch(property=prop, value=check_inline_value(prop, predicate.value, scope)))
        else:
            conditions.append(_inline_condition(binding, predicate, prop, scope))
    return CheckedBinding(
        variable=name,
        node=node,
        matches=tuple(matches),
        conditions=tuple(conditions),
        interface=written if scope.ranges_over_several(name) else None,
        types=scope.types_of(name),
    )


def _presence(variable: ast.Variable, scope: Scope) -> Iterator[Operand]:
    """Yield that there is a node, where an optional block may have found none."""
    if variable.name in scope.nullable:
        test = ast.NullTest(operand=variable, is_negated=True, span=variable.span)
        yield _matched_condition(test, scope)


def _shared_node(written: str, scope: Scope) -> NodeType | None:
    """Return what is known of a node of any type that implements an interface."""
    interface = scope.catalog.interfaces.get(written)
    return None if interface is None else NodeType(name=interface.name, properties=interface.properties)


def _is_plain_value(value: ast.Expression, scope: Scope) -> bool:
    if isinstance(value, ast.Variable):
        return f"${value.name}" not in scope.values
    return isinstance(value, ast.Now | ast.Literal) and not isinstance(value, ast.NullLiteral)


def _inline_condition(binding: ast.Binding, match: ast.PropertyMatch, prop: PropertyDef, scope: Scope) -> Operand:
    access = ast.PropertyAccess(variable=binding.variable, property=match.property, span=match.property.span)
    left, right = (match.value, access) if prop.type.is_list else (access, match.value)
    op: ast.ConditionOp = "in" if prop.type.is_list else "="
    return _matched_condition(ast.Comparison(left=left, op=op, right=right, op_span=match.span, span=match.span), scope)


def check_path(clause: ast.PathClause, scope: Scope) -> CheckedTraversal:
    """Check a traversal whose ways have a name."""
    _check_new_name(clause.variable, scope)
    walk = check_traversal(clause.traversal, scope, is_path=True)
    name = clause.variable.name
    _check_new_name(clause.variable, scope)
    scope.values[f"${name}"] = PATH
    return replace(walk, path=name, keeps_all_paths=clause.is_all)


def _check_new_name(variable: ast.Variable, scope: Scope) -> None:
    name = variable.name
    if name == ast.ANONYMOUS or name in scope.parameters or name in scope.entities or f"${name}" in scope.values:
        raise scope.violation(None, f"'${name}' is already bound", variable.span)


def check_traversal(traversal: ast.Traversal, scope: Scope, *, is_path: bool = False) -> CheckedTraversal:
    """Check a traversal and bring the variables it introduces into scope; the edge of a path is not among them."""
    edges = _resolve_edges(traversal, scope)
    edge = edges[0]
    if _is_anonymous(traversal.source) and _is_anonymous(traversal.destination):
        message = "a traversal must name at least one of its ends"
        raise scope.violation("T5", message, traversal.span, suggestion="name the source or the destination")
    low, high = _check_hops(traversal, scope)
    if traversal.is_undirected and not edge.is_same_type:
        message = f"edge '{edge.name}' connects '{edge.from_type}' and '{edge.to_type}', so it has a direction"
        suggestion = f"write {_lower_first(edge.name)} without < >"
        raise scope.violation("T22", message, traversal.edge.span, suggestion=suggestion)
    is_single = (low, high) == (1, 1)
    _check_edge_variable(traversal, scope, may_be_any=is_single or is_path)
    _refuse_edge_ends(traversal, scope)
    condition = _walk_condition(traversal, edges, scope)
    direction, source_type, destination_type = _orient(traversal, edge, scope)
    _bind(traversal.source, source_type, scope)
    _bind(traversal.destination, destination_type, scope)
    walked = _edge_name(traversal)
    # Of several hops no edge is the one that a later clause could mean.
    variable = walked if is_single and not is_path else None
    if variable is not None:
        scope.entities[variable] = _any_of(edges)
    return CheckedTraversal(
        source=traversal.source.name,
        destination=traversal.destination.name,
        edge=edge,
        direction=direction,
        source_type=source_type,
        destination_type=destination_type,
        min_hops=low,
        max_hops=high,
        edge_variable=variable,
        walked_edge=walked,
        condition=condition,
        alternatives=edges[1:],
        source_types=scope.types_of(traversal.source.name),
        destination_types=scope.types_of(traversal.destination.name),
        hops_span=NOWHERE if traversal.hops is None else traversal.hops.span,
    )


def _walk_condition(traversal: ast.Traversal, edges: tuple[EdgeType, ...], scope: Scope) -> Operand | None:
    """Check what every edge of a walk satisfies: it sees the edge and what is bound before, not the ends."""
    if traversal.where is None:
        return None
    name, inner = _edge_name(traversal), scope.nested()
    if name is not None:
        inner.entities[name] = _any_of(edges)
    condition = _matched_condition(traversal.where, inner)
    for block in _blocks(condition):
        if name in block.outer:
            message = f"a block in the condition of a walk cannot use its edge '${name}'"
            suggestion = "use one hop, and write the block as a separate clause"
            raise scope.violation(None, message, traversal.where.span, suggestion=suggestion)
    return condition


def _blocks(operand: Operand) -> Iterator[CheckedNegation]:
    if operand.block is not None:
        yield operand.block
    for part in operand.parts:
        yield from _blocks(part)


def _resolve_edges(traversal: ast.Traversal, scope: Scope) -> tuple[EdgeType, ...]:
    found: dict[str, EdgeType] = {}
    for written in (traversal.edge, *traversal.alternatives):
        edge = scope.catalog.edge(written.text)
        if edge is None:
            near = [_lower_first(name) for name in scope.catalog.edges]
            message, suggestion = f"unknown edge '{written.text}'", did_you_mean(written.text, near)
            if written.text.lower() in {name.lower() for name in scope.catalog.absent}:
                message, suggestion = f"edge type '{written.text}' does not exist at this snapshot", _READ_LATER
            raise scope.violation("T4", message, written.span, suggestion=suggestion)
        found[edge.name] = edge
        first = next(iter(found.values()))
        if (edge.from_type, edge.to_type) != (first.from_type, first.to_type):
            message = (
                f"alternatives have the same ends, but '{first.name}' connects {first.from_type} -> {first.to_type} "
                f"and '{edge.name}' {edge.from_type} -> {edge.to_type}"
            )
            raise scope.violation("T5", message, written.span)
    return tuple(found.values())


def _any_of(edges: tuple[EdgeType, ...]) -> EdgeType:
    """Return what is known of an edge that may have any of several types: the properties that all of them have."""
    first, *others = edges
    if not others:
        return first
    shared = (_shared(prop, [edge.get(prop.name) for edge in others]) for prop in first.properties)
    return EdgeType(
        name="|".join(edge.name for edge in edges),
        from_type=first.from_type,
        to_type=first.to_type,
        properties=tuple(prop for prop in shared if prop is not None),
    )


def _shared(prop: PropertyDef, others: list[PropertyDef | None]) -> PropertyDef | None:
    plain = replace(prop.type, nullable=True)
    if any(other is None or replace(other.type, nullable=True) != plain for other in others):
        return None
    is_nullable = any(other is not None and other.type.nullable for other in (prop, *others))
    return replace(prop, type=replace(prop.type, nullable=is_nullable))


def _check_hops(traversal: ast.Traversal, scope: Scope) -> tuple[int, int | None]:
    hops = traversal.hops
    if hops is None:
        return 1, 1
    if hops.minimum < 1:
        raise scope.violation("T15", "a traversal takes at least one hop, not 0", hops.span)
    if hops.maximum is not None and hops.maximum < hops.minimum:
        message = f"minimum {hops.minimum} of the hop bounds is above maximum {hops.maximum}"
        raise scope.violation("T15", message, hops.span)
    return hops.minimum, hops.maximum


def _check_edge_variable(traversal: ast.Traversal, scope: Scope, *, may_be_any: bool) -> None:
    variable = traversal.edge_variable
    if variable is None:
        return
    if not may_be_any and traversal.where is None and traversal.hops is not None:
        message = "an edge variable names one edge and cannot be combined with hop bounds"
        suggestion = f"add 'where' with a condition on ${variable.name} for every edge of the walk"
        raise scope.violation("T23", message, traversal.hops.span, suggestion=suggestion)
    if _is_anonymous(variable):
        return
    if variable.name in {traversal.source.name, traversal.destination.name}:
        raise scope.violation("T23", f"edge variable '${variable.name}' is also an endpoint", variable.span)
    if variable.name in scope.entities:
        raise scope.violation("T23", f"'${variable.name}' is already bound", variable.span)


def _refuse_edge_ends(traversal: ast.Traversal, scope: Scope) -> None:
    for end in (traversal.source, traversal.destination):
        if isinstance(scope.entities.get(end.name), EdgeType):
            raise scope.violation("T23", f"'${end.name}' is an edge and cannot be an endpoint", end.span)


def _orient(traversal: ast.Traversal, edge: EdgeType, scope: Scope) -> tuple[Direction, str, str]:
    """Infer the direction from the ends that are bound earlier in the text; with none, it is outward."""
    source, destination = _bound_types(traversal.source, scope), _bound_types(traversal.destination, scope)
    outward = (edge.from_type, edge.to_type)
    if source:
        is_inward = edge.from_type not in source
        known, ends = traversal.source, (edge.to_type, edge.from_type) if is_inward else outward
        fits = ends[0] in source
    elif destination:
        is_inward = edge.to_type not in destination
        known, ends = traversal.destination, (edge.to_type, edge.from_type) if is_inward else outward
        fits = ends[1] in destination
    else:
        known, ends, is_inward, fits = traversal.source, outward, False, True
    if not fits:
        bound = scope.entities[known.name].name
        message = f"'${known.name}' is a '{bound}', but edge '{edge.name}' connects {edge.from_type} -> {edge.to_type}"
        raise scope.violation("T5", message, known.span)
    is_one = traversal.source.name == traversal.destination.name
    others = destination or (ends[:1] if is_one else ())
    if others and ends[1] not in others:
        other = scope.entities[traversal.destination.name].name if destination else ends[0]
        message = f"edge '{edge.name}' leads to a '{ends[1]}' here, but '${traversal.destination.name}' is a '{other}'"
        raise scope.violation("T5", message, traversal.destination.span)
    direction: Direction = "both" if traversal.is_undirected else ("in" if is_inward else "out")
    return direction, *ends


def _bound_types(end: ast.Variable, scope: Scope) -> tuple[str, ...]:
    bound = None if _is_anonymous(end) else scope.entities.get(end.name)
    return () if bound is None else scope.types_of(end.name) or (bound.name,)


def _bind(end: ast.Variable, type_name: str, scope: Scope) -> None:
    node: NodeType | None = scope.catalog.node(type_name)
    if node is not None and not _is_anonymous(end):
        scope.entities.setdefault(end.name, node)


def _edge_name(traversal: ast.Traversal) -> str | None:
    variable = traversal.edge_variable
    return None if variable is None or _is_anonymous(variable) else variable.name


def _is_anonymous(variable: ast.Variable) -> bool:
    return variable.name == ast.ANONYMOUS


def _lower_first(name: str) -> str:
    return name[:1].lower() + name[1:]


_TRUE = ast.BooleanLiteral(value=True)


def check_filter(clause: ast.Filter, scope: Scope) -> CheckedFilter | CheckedText:
    """Check a filter; ``search(…) = true`` is the text predicate itself."""
    call = clause.left if isinstance(clause.left, ast.TextSearch) else clause.right
    if isinstance(call, ast.TextSearch):
        checked = check_text(call, scope)
        if call is clause.left and clause.op == "=" and clause.right == _TRUE:
            return CheckedText(call=checked)
        message = f"{call.function} must be used by itself or before '= true'"
        suggestion = "put it inside 'not { }' to find what does not match"
        raise scope.violation(text_rule(call), message, clause.span, suggestion=suggestion)
    left, right = fitted_literals(check_expression(clause.left, scope), check_expression(clause.right, scope))
    for operand in (left, right):
        if operand.definition is not None and is_blob(operand):
            raise scope.violation("T24", f"'{operand.definition.name}' is a Blob, which cannot be read", operand.span)
    _check_sides(clause, _comparand(left, scope), _comparand(right, scope), scope)
    if clause.op not in ("contains", "starts_with"):
        check_compared_enums(left, right, scope)
    return CheckedFilter(left=left, op=clause.op, right=right, span=clause.span)


def _comparand(operand: Operand, scope: Scope) -> PropertyType:
    if operand.is_value:
        return value_type(operand, scope)
    if operand.is_edge and isinstance(operand.expression, ast.Variable):
        message = f"edge variable '${operand.expression.name}' cannot be used by itself"
        raise scope.violation("T23", message, operand.span, suggestion="use one of its properties")
    if operand.is_node and isinstance(operand.expression, ast.Variable):
        message = f"node variable '${operand.expression.name}' cannot be compared"
        raise scope.violation("T7", message, operand.span, suggestion="compare one of its properties")
    if operand.type is None or isinstance(operand.expression, ast.AliasRef):
        raise scope.violation("T7", "an alias has no value in match", operand.span, suggestion=operand.hint)
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
                message = f"{clause.op} needs {wanted} and a String, not {_word(left)} and {_word(right)}"
                raise scope.violation("T7", message, at.span)
        case _:
            if not are_comparable(left, right):
                message = f"{_word(left)} and {_word(right)} cannot be compared"
                suggestion = literal_suggestion(clause.right, left)
                suggestion = suggestion or literal_suggestion(clause.left, right)
                raise scope.violation("T7", message, clause.span, suggestion=suggestion)


def _items(of: PropertyType) -> str:
    return str(item_type(of))


def _word(of: PropertyType) -> str:
    plain = replace(of.single, is_list=of.is_list, enum_values=of.enum_values)
    return "Blob" if of.scalar is Scalar.BLOB else str(plain)


def check_clauses(clauses: tuple[ast.Clause, ...], scope: Scope) -> tuple[CheckedClause, ...]:
    """Check clauses in order; ``scope`` holds what they introduced afterwards."""
    return tuple(_check_clause(clause, scope) for clause in clauses)


def read_variables(operand: Operand) -> Iterator[str]:
    """Yield the entity variables that an expression reads."""
    if isinstance(operand.expression, ast.PropertyAccess):
        yield operand.expression.variable.name
    elif (operand.is_node or operand.is_edge) and isinstance(operand.expression, ast.Variable):
        yield operand.expression.name
    if operand.block is not None:
        yield from operand.block.outer
    for part in (*operand.parts, operand.where, operand.fraction):
        if part is not None:
            yield from read_variables(part)


def _check_clause(clause: ast.Clause, scope: Scope) -> CheckedClause:
    match clause:
        case ast.Binding():
            return check_binding(clause, scope)
        case ast.Traversal():
            return check_traversal(clause, scope)
        case ast.Filter():
            return check_filter(clause, scope)
        case ast.TextSearch():
            return CheckedText(call=check_text(clause, scope))
        case ast.Negation():
            return check_block(scope, clause.clauses, clause.span)
        case ast.Condition():
            return _check_condition_clause(clause, scope)
        case ast.OptionalBlock():
            return _check_optional(clause, scope)
        case ast.Each():
            return _check_each(clause, scope)
        case ast.PathClause():
            return check_path(clause, scope)
        case _:
            assert_never(clause)


def _check_condition_clause(clause: ast.Condition, scope: Scope) -> CheckedClause:
    walked = _walked_by_word(clause.expression, scope)
    if walked is not None:
        return check_traversal(walked, scope)
    return CheckedCondition(condition=_matched_condition(clause.expression, scope))


def _walked_by_word(condition: ast.Expression, scope: Scope) -> ast.Traversal | None:
    """Return a condition as the traversal that it is where the schema has an edge called like its operator."""
    reading = edge_reading(condition)
    if reading is None or scope.catalog.edge(reading.edge.text) is None:
        return None
    ends = (reading.source, reading.destination)
    is_value = any(end.name in scope.parameters or f"${end.name}" in scope.values for end in ends)
    return None if is_value else reading


def _matched_condition(expression: ast.Expression, scope: Scope) -> Operand:
    condition = check_condition(expression, scope)
    refuse_aggregates(condition, scope)
    return condition


def refuse_aggregates(operand: Operand, scope: Scope) -> None:
    """Raise T28 if an aggregate or a ranking stands where rows are matched."""
    if isinstance(operand.expression, ast.Aggregate | ast.Nearest | ast.Bm25 | ast.Rrf):
        what = "an aggregate" if isinstance(operand.expression, ast.Aggregate) else "a ranking"
        suggestion = "name it in 'with { … as n }', and test it with 'having'"
        raise scope.violation("T28", f"{what} has no value in match", operand.span, suggestion=suggestion)
    for part in operand.parts:
        refuse_aggregates(part, scope)


def check_block(scope: Scope, clauses: tuple[ast.Clause, ...], span: Span) -> CheckedNegation:
    """Check a block that is asked whether, or how often, it has a solution."""
    inner = check_clauses(clauses, scope.nested())
    outer = {name for clause in inner for name in _mentioned(clause) if name in scope.entities}
    if not outer:
        raise scope.violation("T9", "a block must use at least one variable bound before it", span)
    return CheckedNegation(clauses=inner, outer=tuple(sorted(outer)))


def check_block_of_values(scope: Scope, clauses: tuple[ast.Clause, ...], span: Span) -> CheckedNegation:
    """Check a block where bare names are the properties of the entity that a statement is about."""
    inner = check_clauses(clauses, scope.nested())
    if not any(name in scope.values for clause in clauses for name in _bare_names(clause)):
        message = "a block must use at least one property of the entity that the statement is about"
        raise scope.violation("T9", message, span, suggestion="compare with a bare name, such as 'id'")
    return CheckedNegation(clauses=inner, outer=())


def _bare_names(node: object) -> Iterator[str]:
    if isinstance(node, ast.AliasRef):
        yield node.name
    elif isinstance(node, tuple):
        for item in node:
            yield from _bare_names(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Span | type):
        for part in dataclasses.fields(node):
            yield from _bare_names(getattr(node, part.name))


def _check_optional(optional: ast.OptionalBlock, scope: Scope) -> CheckedOptional:
    nested = scope.nested()
    inner = check_clauses(optional.clauses, nested)
    outer = {name for clause in inner for name in _mentioned(clause) if name in scope.entities}
    introduced = [*(nested.entities.keys() - scope.entities.keys()), *(nested.values.keys() - scope.values.keys())]
    scope.nullable.update(nested.nullable, nested.entities.keys() - scope.entities.keys())
    scope.entities.update(nested.entities)
    scope.values.update(nested.values)
    return CheckedOptional(clauses=inner, outer=tuple(sorted(outer)), introduced=tuple(sorted(introduced)))


def _check_each(each: ast.Each, scope: Scope) -> CheckedEach:
    name = each.variable.name
    _check_new_name(each.variable, scope)
    items = check_expression(each.items, scope)
    refuse_aggregates(items, scope)
    of = value_type(items, scope)
    if not of.is_list:
        raise scope.violation("T25", "each takes the items of a list", items.span)
    item = replace(of.single, enum_values=of.enum_values, nullable=True)
    scope.values[f"${name}"] = item
    return CheckedEach(variable=name, items=items, type=item)


def _mentioned(clause: CheckedClause) -> Iterator[str]:
    match clause:
        case CheckedBinding():
            yield clause.variable
            for condition in clause.conditions:
                yield from read_variables(condition)
        case CheckedTraversal():
            yield clause.source
            yield clause.destination
            if clause.condition is not None:
                yield from (name for name in read_variables(clause.condition) if name != clause.walked_edge)
        case CheckedFilter():
            yield from read_variables(clause.left)
            yield from read_variables(clause.right)
        case CheckedText():
            yield from read_variables(clause.call)
        case CheckedCondition():
            yield from read_variables(clause.condition)
        case CheckedEach():
            yield from read_variables(clause.items)
        case CheckedNegation() | CheckedOptional():
            yield from clause.outer
        case _:
            assert_never(clause)
