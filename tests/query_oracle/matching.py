"""The match clause: every variable ranges over its type, and every clause is a test as soon as it can be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.lang.gq import ast
from tests.query_oracle.schema import EdgeShape, Schema
from tests.query_oracle.values import Graph, Operand, Request, Row, holds

Types = dict[str, str]
Test = Callable[[Row], bool]


def solve(clauses: tuple[ast.Clause, ...], request: Request, types: Types, fixed: Row) -> Iterator[Row]:
    """Yield every row that satisfies the clauses, the variables of ``fixed`` being what they are there.

    Args:
        clauses: of a match or of a negation.
        request: the graph and what the query was given.
        types: the types of the variables of ``fixed``; the variables found here are added.
        fixed: the row of the block around this one.
    """
    block = _Block(request=request, types=types)
    for clause in clauses:
        block.add(clause)
    variables = [name for name in types if name not in fixed]
    # An edge is looked for when both its ends are known, so that it is one loop inside theirs.
    variables.sort(key=lambda name: types[name] in request.schema.edges)
    yield from _loop(variables, block, fixed)


def reach(graph: Graph, walk: Walk, start: str) -> set[str]:
    """Return the ids that a walk from ``start`` emits, exactly as the language defines it."""
    same = walk.shape.is_same_type
    visited = {start} if same else set()
    high = walk.high if same else min(walk.high, 1)
    frontier, emitted = [start], set()
    for hop in range(1, high + 1):
        found = []
        for node in frontier:
            for other in _neighbours(graph, walk, node):
                if same and other == node:
                    if hop >= walk.low:
                        emitted.add(other)
                elif other not in visited or not same:
                    visited.add(other)
                    found.append(other)
                    if hop >= walk.low:
                        emitted.add(other)
        frontier = found
    return emitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A traversal with its orientation: ``direction`` is seen from the written source."""

    source: str
    destination: str
    shape: EdgeShape
    direction: str
    low: int
    high: int
    edge_variable: str | None


@dataclass(slots=True, kw_only=True)
class _Block:
    request: Request
    types: Types
    tests: list[tuple[frozenset[str], Test]] = field(default_factory=list)

    def add(self, clause: ast.Clause) -> None:
        match clause:
            case ast.Binding():
                self._bind(clause)
            case ast.Traversal():
                self._walk(clause)
            case ast.Filter():
                self._filter(clause)
            case ast.Negation():
                self._negate(clause)
            case ast.TextSearch():
                msg = "the oracle does not search text"
                raise NotImplementedError(msg)

    def _bind(self, binding: ast.Binding) -> None:
        name = binding.variable.name
        self.types[name] = binding.type_name.text
        for matched in binding.predicates:
            access = ast.PropertyAccess(variable=binding.variable, property=matched.property)
            is_list = self.request.schema.kind(self.types[name], matched.property.text).is_list
            self._compare(access, "contains" if is_list else "=", matched.value)

    def _filter(self, clause: ast.Filter) -> None:
        self._compare(clause.left, clause.op, clause.right)

    def _compare(self, left: ast.Expression, op: str, right: ast.Expression) -> None:
        def test(row: Row) -> bool:
            return holds(op, self._operand(left, row), self._operand(right, row))

        self.tests.append((_read(left) | _read(right), test))

    def _operand(self, expression: ast.Expression, row: Row) -> Operand:
        return self.request.operand(expression, row)

    def _walk(self, traversal: ast.Traversal) -> None:
        walk = _orient(traversal, self.request.schema, self.types)
        needed = {walk.source, walk.destination}
        if walk.edge_variable is None:
            self.tests.append((frozenset(needed), lambda row: self._is_reached(walk, row)))
        else:
            self.types[walk.edge_variable] = walk.shape.name
            self.tests.append((frozenset({*needed, walk.edge_variable}), lambda row: self._is_joined(walk, row)))

    def _is_reached(self, walk: Walk, row: Row) -> bool:
        return row[walk.destination][1] in reach(self.request.graph, walk, row[walk.source][1])

    def _is_joined(self, walk: Walk, row: Row) -> bool:
        source, target, _ = self.request.graph.edges[walk.shape.name][row[walk.edge_variable or ""][1]]
        ends = (row[walk.source][1], row[walk.destination][1])
        along, against = ends == (source, target), ends == (target, source)
        return {"out": along, "in": against, "both": along or against}[walk.direction]

    def _negate(self, negation: ast.Negation) -> None:
        # Only what stands before the negation is fixed; the same name later in the text is another variable.
        outer = dict(self.types)

        def test(row: Row) -> bool:
            fixed = {name: row[name] for name in outer}
            return next(solve(negation.clauses, self.request, dict(outer), fixed), None) is None

        self.tests.append((frozenset(outer), test))


def _loop(variables: list[str], block: _Block, fixed: Row) -> Iterator[Row]:
    waiting = list(block.tests)
    known = set(fixed)
    stages: list[list[Test]] = []
    for name in (None, *variables):
        known |= {name} if name is not None else set()
        stages.append([test for needed, test in waiting if needed <= known])
        waiting = [(needed, test) for needed, test in waiting if not needed <= known]
    assert not waiting

    def bind(depth: int, row: Row) -> Iterator[Row]:
        if not all(test(row) for test in stages[depth]):
            return
        if depth == len(variables):
            yield row
            return
        name = variables[depth]
        type_name = block.types[name]
        table: Mapping[str, object] = block.request.graph.nodes.get(type_name) or block.request.graph.edges.get(
            type_name, {}
        )
        for chosen in table:
            yield from bind(depth + 1, {**row, name: (type_name, chosen)})

    yield from bind(0, dict(fixed))


def _orient(traversal: ast.Traversal, schema: Schema, types: Types) -> Walk:
    shape = schema.edge(traversal.edge.text)
    # No written name holds a space, and the number of known names grows with each one.
    private = f"{ast.ANONYMOUS} {len(types)}"
    source, destination = (
        private if end.name == ast.ANONYMOUS else end.name for end in (traversal.source, traversal.destination)
    )
    if source in types:
        is_inward = types[source] != shape.source
    elif destination in types:
        is_inward = types[destination] != shape.target
    else:
        is_inward = False
    ends = (shape.target, shape.source) if is_inward else (shape.source, shape.target)
    types.setdefault(source, ends[0])
    types.setdefault(destination, ends[1])
    hops = traversal.hops
    edge = traversal.edge_variable
    return Walk(
        source=source,
        destination=destination,
        shape=shape,
        direction="both" if traversal.is_undirected else ("in" if is_inward else "out"),
        low=1 if hops is None else hops.minimum,
        high=1 if hops is None or hops.maximum is None else hops.maximum,
        edge_variable=None if edge is None or edge.name == ast.ANONYMOUS else edge.name,
    )


def _neighbours(graph: Graph, walk: Walk, node: str) -> list[str]:
    edges = graph.edges[walk.shape.name].values()
    along = [target for source, target, _ in edges if source == node]
    against = [source for source, target, _ in edges if target == node]
    return {"out": along, "in": against, "both": along + against}[walk.direction]


def _read(expression: ast.Expression) -> frozenset[str]:
    return frozenset({expression.variable.name} if isinstance(expression, ast.PropertyAccess) else ())
