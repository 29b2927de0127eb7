"""The match clause: each clause turns one row into the rows that satisfy it, in the order of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from omnigraph.lang.gq import ast
from tests.query_oracle.expressions import Bound, Scope, Typed, check, compare, condition, watched
from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.schema import EdgeShape
from tests.query_oracle.values import NULL, Entity, Request, Row, convert, item_kind
from tests.query_oracle.walks import Allows, Walk, reach, shortest_paths

# From a row to its solutions. A solution that holds ``!`` is one for which a condition has no value.
Solver = Callable[[Row], Iterator[Row]]


def check_clauses(clauses: tuple[ast.Clause, ...], scope: Scope) -> Solver:
    """Return what finds the solutions of the clauses; the variables they bind are added to the scope."""
    steps = [_clause(clause, scope) for clause in clauses]

    def solve(row: Row, depth: int = 0) -> Iterator[Row]:
        if depth == len(steps):
            yield row
            return
        for found in steps[depth](row):
            yield from solve(found, depth + 1)

    return solve


def _clause(clause: ast.Clause, scope: Scope) -> Solver:
    match clause:
        case ast.Binding():
            return _binding(clause, scope)
        case ast.Traversal():
            return _traversal(clause, scope)
        case ast.PathClause():
            return _path(clause, scope)
        case ast.Filter(left=left, op=op, right=right):
            return _test(watched(scope.request, lambda: compare(check(left, scope), op, check(right, scope))))
        case ast.Condition(expression=expression):
            return _test(watched(scope.request, lambda: condition(expression, scope)))
        case ast.Negation(clauses=clauses, span=span):
            return _test(check(ast.Block(kind="not", clauses=clauses, span=span), scope))
        case ast.OptionalBlock(clauses=clauses):
            return _optional(clauses, scope)
        case ast.Each():
            return _each(clause, scope)
        case ast.TextSearch():
            msg = "the oracle does not search text"
            raise NotImplementedError(msg)


def _test(found: Typed) -> Solver:
    def solve(row: Row) -> Iterator[Row]:
        try:
            if found.value(row) is True:
                yield row
        except Fault as fault:
            yield {"!": fault, **row}

    return solve


def _chain(first: Solver, *others: Solver) -> Solver:
    if not others:
        return first
    rest = _chain(*others)
    return lambda row: (found for middle in first(row) for found in rest(middle))


def _binding(binding: ast.Binding, scope: Scope) -> Solver:
    name, type_name = binding.variable.name, binding.type_name.text
    schema = scope.request.schema
    if type_name in schema.nodes:
        bound = Bound(form="node", types=(type_name,), properties=schema.nodes[type_name])
    elif type_name in schema.interfaces:
        interface = schema.interfaces[type_name]
        bound = Bound(form="node", types=interface.types, properties=interface.properties)
    else:
        raise Illegal(f"no type {type_name}")
    is_known = name in scope.variables
    if is_known and (scope.variables[name].form != "node" or scope.variables[name].types != bound.types):
        raise Illegal(f"${name} is bound to another type")
    scope.variables.setdefault(name, bound)
    tests = [_test(_predicate(binding.variable, pair, scope)) for pair in binding.predicates]

    def range_over(row: Row) -> Iterator[Row]:
        if is_known:
            if row[name] is not None:
                yield row
            return
        for entity in _nodes(scope.request, bound.types):
            yield {**row, name: entity}

    return _chain(range_over, *tests)


def _predicate(variable: ast.Variable, pair: ast.PropertyMatch, scope: Scope) -> Typed:
    access = check(ast.PropertyAccess(variable=variable, property=pair.property), scope)
    value = watched(scope.request, lambda: check(pair.value, scope))
    return compare(access, "contains" if access.kind.is_list else "=", value)


def _nodes(request: Request, types: tuple[str, ...]) -> list[Entity]:
    return [(type_name, chosen) for type_name in types for chosen in request.graph.nodes[type_name]]


def _optional(clauses: tuple[ast.Clause, ...], scope: Scope) -> Solver:
    before = set(scope.variables)
    step = check_clauses(clauses, scope)
    bound = [name for name in scope.variables if name not in before]

    def solve(row: Row) -> Iterator[Row]:
        found = list(step(row))
        yield from found or [{**row, **dict.fromkeys(bound)}]

    return solve


def _each(clause: ast.Each, scope: Scope) -> Solver:
    name = clause.variable.name
    items = watched(scope.request, lambda: check(clause.items, scope))
    if items.kind != NULL and not items.kind.is_list:
        raise Illegal(f"each in {items.kind}")
    if name in scope.variables or name in scope.request.parameter_kinds:
        raise Illegal(f"${name} is bound before")
    kind = item_kind(items.kind)
    scope.variables[name] = Bound(form="item", kind=kind)

    def solve(row: Row) -> Iterator[Row]:
        for item in items.value(row) or ():
            yield {**row, name: convert(item, kind)}

    return solve


def _traversal(traversal: ast.Traversal, scope: Scope) -> Solver:
    edge = traversal.edge_variable
    is_named = edge is not None and edge.name != ast.ANONYMOUS
    if is_named and edge.name in scope.variables:
        raise Illegal(f"${edge.name} is bound before")
    is_single = traversal.hops is None or (traversal.hops.minimum, traversal.hops.maximum) == (1, 1)
    if edge is not None and not is_single and traversal.where is None:
        raise Illegal("an edge variable on several hops without a condition")
    allows = _condition(traversal, scope)
    walk = _orient(traversal, scope)
    if is_named and is_single:
        return _along_edges(walk, allows, edge.name, scope)
    return _along_walk(walk, allows, scope)


def _condition(traversal: ast.Traversal, scope: Scope) -> Callable[[Row], Allows]:
    """Return what tells for a row which edges may be used; the condition sees what is bound before, and the edge."""
    if traversal.where is None:
        return lambda _row: lambda _edge: True
    inner, where = scope.inner(), traversal.where
    name = "" if traversal.edge_variable is None else traversal.edge_variable.name
    if name not in {"", ast.ANONYMOUS}:
        shapes = _shapes(traversal, scope)
        types = tuple(shape.name for shape in shapes)
        inner.variables[name] = Bound(form="edge", types=types, properties=scope.request.schema.common(types))
    found = watched(scope.request, lambda: condition(where, inner))
    return lambda row: lambda edge: found.value({**row, name: edge}) is True


def _along_walk(walk: Walk, allows: Callable[[Row], Allows], scope: Scope) -> Solver:
    request = scope.request

    def solve(row: Row) -> Iterator[Row]:
        for start in _starts(walk, row, request):
            emitted = reach(request.graph, walk, start[1], allows(row), request.max_hops)
            for goal in sorted(emitted):
                yield from _with_ends(walk, row, start, (walk.ends[1], goal), request)

    return solve


def _along_edges(walk: Walk, allows: Callable[[Row], Allows], name: str, scope: Scope) -> Solver:
    request = scope.request
    types = tuple(shape.name for shape in walk.shapes)
    scope.variables[name] = Bound(form="edge", types=types, properties=request.schema.common(types))

    def solve(row: Row) -> Iterator[Row]:
        may_use = allows(row)
        for edge in ((shape.name, chosen) for shape in walk.shapes for chosen in request.graph.edges[shape.name]):
            source, target, _ = request.graph.edges[edge[0]][edge[1]]
            ways = {"out": [(source, target)], "in": [(target, source)], "both": [(source, target), (target, source)]}
            for one, other in dict.fromkeys(ways[walk.direction]):
                start, goal = (walk.ends[0], one), (walk.ends[1], other)
                for found in _with_ends(walk, row, start, goal, request):
                    if may_use(edge):
                        yield {**found, name: edge}

    return solve


def _path(clause: ast.PathClause, scope: Scope) -> Solver:
    name, request = clause.variable.name, scope.request
    if name in scope.variables or name in request.parameter_kinds:
        raise Illegal(f"${name} is bound before")
    allows = _condition(clause.traversal, scope)
    walk = _orient(clause.traversal, scope)
    scope.variables[name] = Bound(form="path")

    def solve(row: Row) -> Iterator[Row]:
        may_use = allows(row)
        for start in _starts(walk, row, request):
            emitted = reach(request.graph, walk, start[1], may_use, request.max_hops)
            for goal, hops in sorted(emitted.items()):
                for found in _with_ends(walk, row, start, (walk.ends[1], goal), request):
                    paths = shortest_paths(request.graph, walk, start[1], goal, hops, may_use)
                    yield from ({**found, name: path} for path in (paths if clause.is_all else paths[:1]))

    return solve


def _starts(walk: Walk, row: Row, request: Request) -> list[Entity]:
    if walk.source not in row:
        return _nodes(request, walk.ends[:1])
    start = row[walk.source]
    return [start] if start is not None and start[0] == walk.ends[0] else []


def _with_ends(walk: Walk, row: Row, start: Entity, goal: Entity, request: Request) -> Iterator[Row]:
    """Yield the row with both ends if they are nodes and agree with what is bound."""
    if start[1] not in request.graph.nodes[start[0]] or goal[1] not in request.graph.nodes[goal[0]]:
        return
    if row.get(walk.source, start) != start:
        return
    found = row if walk.source == "" else {**row, walk.source: start}
    if found.get(walk.destination, goal) == goal:
        yield found if walk.destination == "" else {**found, walk.destination: goal}


def _shapes(traversal: ast.Traversal, scope: Scope) -> tuple[EdgeShape, ...]:
    shapes = tuple(scope.request.schema.edge(name.text) for name in (traversal.edge, *traversal.alternatives))
    if len({(shape.source, shape.target) for shape in shapes}) > 1:
        raise Illegal("edges with different ends")
    return shapes


def _orient(traversal: ast.Traversal, scope: Scope) -> Walk:
    shapes = _shapes(traversal, scope)
    shape = shapes[0]
    # An anonymous end has no name, and is new in every row.
    source, destination = (
        "" if end.name == ast.ANONYMOUS else end.name for end in (traversal.source, traversal.destination)
    )
    known = {name: scope.variables[name] for name in (source, destination) if name in scope.variables}
    if source in known:
        is_inward = shape.source not in known[source].types
    elif destination in known:
        is_inward = shape.target not in known[destination].types
    else:
        is_inward = False
    hops = traversal.hops
    walk = Walk(
        source=source,
        destination=destination,
        shapes=shapes,
        direction="both" if traversal.is_undirected else ("in" if is_inward else "out"),
        low=1 if hops is None else hops.minimum,
        high=1 if hops is None else hops.maximum,
    )
    _check_walk(walk, known, scope.request)
    for name, type_name in zip((source, destination), walk.ends, strict=True):
        if name and name not in scope.variables:
            properties = scope.request.schema.nodes[type_name]
            scope.variables[name] = Bound(form="node", types=(type_name,), properties=properties)
    return walk


def _check_walk(walk: Walk, known: dict[str, Bound], request: Request) -> None:
    if not walk.source and not walk.destination:
        raise Illegal("a traversal without a named end")
    if walk.direction == "both" and not walk.is_same_type:
        raise Illegal("an undirected walk between two types")
    if walk.low < 1 or (walk.high is not None and walk.high < walk.low):
        raise Illegal("hop bounds")
    request.may_fail = request.may_fail or walk.high is None
    for name, type_name in zip((walk.source, walk.destination), walk.ends, strict=True):
        if name in known and type_name not in known[name].types:
            raise Illegal(f"${name} is not at an end of the edge")
