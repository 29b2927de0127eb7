"""What of a match can still be seen in the rows that a read returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph.engine.results.pattern import PatternEdge, PatternNode, PropertyColumn, ResultPattern
from omnigraph.ir.model import Column, EntityRef, Expand, Filter, NodeScan, ReadPlan, SameEntity


def pattern_of(read: ReadPlan) -> ResultPattern:
    """Return the nodes whose ids are columns, and the traversals that have both of their ends among them."""
    columns = {
        output.expression.variable: number
        for number, output in enumerate(read.outputs)
        if isinstance(output.expression, EntityRef)
    }
    if not columns:
        return ResultPattern()
    types, same = _types(read), _same(read)
    positions = {variable: position for position, variable in enumerate(columns)}
    nodes = tuple(
        PatternNode(type_name=types[variable], column=column, properties=_properties(read, variable))
        for variable, column in columns.items()
    )
    return ResultPattern(nodes=nodes, edges=tuple(_edges(read, positions, same)))


def _types(read: ReadPlan) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for operator in read.operators:
        if isinstance(operator, NodeScan):
            found[operator.variable] = operator.type_name
        elif isinstance(operator, Expand):
            found[operator.destination] = operator.destination_type
    return found


def _same(read: ReadPlan) -> Mapping[str, str]:
    """Return what the private end of a traversal was written as: one that closes a circle ends in a test."""
    return {
        operator.predicate.left: operator.predicate.right
        for operator in read.operators
        if isinstance(operator, Filter) and isinstance(operator.predicate, SameEntity)
    }


def _edges(read: ReadPlan, positions: Mapping[str, int], same: Mapping[str, str]) -> Iterator[PatternEdge]:
    for operator in read.operators:
        if not isinstance(operator, Expand):
            continue
        near, far = (positions.get(same.get(name, name)) for name in (operator.source, operator.destination))
        if near is None or far is None:
            continue
        source, target = (far, near) if operator.direction == "in" else (near, far)
        bounds = (operator.min_hops, operator.max_hops)
        yield PatternEdge(
            type_name=operator.edge,
            source=source,
            target=target,
            hops=None if bounds == (1, 1) else bounds,
            is_directed=operator.direction != "both",
            properties=() if operator.edge_variable is None else _properties(read, operator.edge_variable),
        )


def _properties(read: ReadPlan, variable: str) -> tuple[PropertyColumn, ...]:
    return tuple(
        PropertyColumn(name=output.expression.property, column=number)
        for number, output in enumerate(read.outputs)
        if isinstance(output.expression, Column) and output.expression.variable == variable
    )
