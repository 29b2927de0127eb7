"""Traversals: edge, bounds, orientation and the types of both ends."""

from __future__ import annotations

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import CheckedTraversal, Direction
from omnigraph.lang.gq import ast


def check_traversal(traversal: ast.Traversal, scope: Scope) -> CheckedTraversal:
    """Check a traversal and bring the variables it introduces into scope."""
    edge = _resolve_edge(traversal, scope)
    if _is_anonymous(traversal.source) and _is_anonymous(traversal.destination):
        message = "a traversal names at least one of its ends"
        raise scope.violation("T5", message, traversal.span, suggestion="name the source or the destination")
    low, high = _check_hops(traversal, scope)
    if traversal.is_undirected and not edge.is_same_type:
        message = f"edge '{edge.name}' joins '{edge.from_type}' and '{edge.to_type}', so it has a direction"
        suggestion = f"write {_lower_first(edge.name)} without < >"
        raise scope.violation("T22", message, traversal.edge.span, suggestion=suggestion)
    _check_edge_variable(traversal, (low, high), scope)
    _refuse_edge_ends(traversal, scope)
    direction, source_type, destination_type = _orient(traversal, edge, scope)
    _bind(traversal.source, source_type, scope)
    _bind(traversal.destination, destination_type, scope)
    variable = _edge_name(traversal)
    if variable is not None:
        scope.entities[variable] = edge
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
    )


def _resolve_edge(traversal: ast.Traversal, scope: Scope) -> EdgeType:
    written = traversal.edge.text
    edge = scope.catalog.edge(written)
    if edge is None:
        near = [_lower_first(name) for name in scope.catalog.edges]
        message = f"unknown edge '{written}'"
        raise scope.violation("T4", message, traversal.edge.span, suggestion=did_you_mean(written, near))
    return edge


def _check_hops(traversal: ast.Traversal, scope: Scope) -> tuple[int, int]:
    hops = traversal.hops
    if hops is None:
        return 1, 1
    if hops.minimum < 1:
        raise scope.violation("T15", "a traversal takes at least one hop: min=0", hops.span)
    if hops.maximum is None:
        suggestion = f"write {{{hops.minimum},{hops.minimum + 2}}}"
        raise scope.violation("T15", "hop bounds need an upper bound", hops.span, suggestion=suggestion)
    if hops.maximum < hops.minimum:
        message = f"hop bounds are upside down: min={hops.minimum} max={hops.maximum}"
        raise scope.violation("T15", message, hops.span)
    return hops.minimum, hops.maximum


def _check_edge_variable(traversal: ast.Traversal, hops: tuple[int, int], scope: Scope) -> None:
    variable = traversal.edge_variable
    if variable is None:
        return
    if hops != (1, 1) and traversal.hops is not None:
        message = "an edge variable names one edge, so it goes with no hop bounds"
        raise scope.violation("T23", message, traversal.hops.span)
    if _is_anonymous(variable):
        return
    if variable.name in {traversal.source.name, traversal.destination.name}:
        raise scope.violation("T23", f"edge variable '${variable.name}' is also an end", variable.span)
    if variable.name in scope.entities:
        raise scope.violation("T23", f"'${variable.name}' is bound already", variable.span)


def _refuse_edge_ends(traversal: ast.Traversal, scope: Scope) -> None:
    for end in (traversal.source, traversal.destination):
        if isinstance(scope.entities.get(end.name), EdgeType):
            raise scope.violation("T23", f"'${end.name}' is an edge, not an end of one", end.span)


def _orient(traversal: ast.Traversal, edge: EdgeType, scope: Scope) -> tuple[Direction, str, str]:
    """Infer the direction from the ends that are bound earlier in the text; with none, it is outward."""
    source = _bound_type(traversal.source, scope)
    destination = _bound_type(traversal.destination, scope)
    outward = (edge.from_type, edge.to_type)
    if source is not None:
        is_inward = source != edge.from_type
        known, ends = traversal.source, (edge.to_type, edge.from_type) if is_inward else outward
        fits = source == ends[0]
    elif destination is not None:
        is_inward = destination != edge.to_type
        known, ends = traversal.destination, (edge.to_type, edge.from_type) if is_inward else outward
        fits = destination == ends[1]
    else:
        known, ends, is_inward, fits = traversal.source, outward, False, True
    if not fits:
        bound = source if source is not None else destination
        message = f"'${known.name}' is a '{bound}', but edge '{edge.name}' joins {edge.from_type} -> {edge.to_type}"
        raise scope.violation("T5", message, known.span)
    other = ends[0] if traversal.source.name == traversal.destination.name else destination
    if other is not None and other != ends[1]:
        message = f"edge '{edge.name}' leads to a '{ends[1]}' here, '${traversal.destination.name}' is a '{other}'"
        raise scope.violation("T5", message, traversal.destination.span)
    direction: Direction = "both" if traversal.is_undirected else ("in" if is_inward else "out")
    return direction, *ends


def _bound_type(end: ast.Variable, scope: Scope) -> str | None:
    bound = None if _is_anonymous(end) else scope.entities.get(end.name)
    return None if bound is None else bound.name


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
