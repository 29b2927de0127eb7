"""From the name of an algorithm to its result, on one pinned state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType
from omnigraph.engine.algorithms.catalogue import Algorithm, WeightRule, find_algorithm
from omnigraph.engine.algorithms.found import Found
from omnigraph.engine.algorithms.projection import Floats, NodeNames, Numbers, Projection
from omnigraph.engine.query.context import ReadMemory, SupportsTables
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.runner import QueryRunner
from omnigraph.engine.query.topology import TableImage
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.errors import AlgorithmInputError, BadValue
from omnigraph.records import record
from omnigraph.runtime import Clock, counting
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.snapshot import unknown_type
from omnigraph.values import check_instance, check_text, check_whole, checked_names, meant

# What an edge takes while it is brought into the order of the projection, with its weight.
_EDGE_BYTES = 64
_NODE_BYTES = 48


@record
class AlgorithmCall:
    """Which algorithm to run over which edges; ``limit`` is how many rows to return, the first ones."""

    algorithm: Algorithm
    edges: tuple[str, ...] | None
    params: Mapping[str, Any]
    options: QueryOptions
    limit: int | None = None

    @classmethod
    def of(
        cls,
        name: object,
        edges: object = None,
        params: object = None,
        options: QueryOptions | None = None,
        limit: int | None = None,
    ) -> Self:
        """Return a call whose arguments fit the algorithm.

        Raises:
            UsageError, ValueFormatError: there is no such algorithm, or an argument does not fit.
        """
        algorithm = find_algorithm(name)
        check_instance("params", params, Mapping)
        check_instance("options", options, QueryOptions)
        check_whole("limit", limit, optional=True)
        if isinstance(edges, str):
            check_text("edges", edges)
            edges = [edges]
        names = None if edges is None else tuple(dict.fromkeys(checked_names("edges", edges)))
        given = params if isinstance(params, Mapping) else {}
        return cls(
            algorithm=algorithm,
            edges=names,
            params=algorithm.checked(given),
            options=options or QueryOptions(),
            limit=limit,
        )

    def edge_types(self, catalog: Catalog) -> tuple[EdgeType, ...]:
        """Return the types of the edges; all that there are if none is named.

        Raises:
            TypeMissingError: the schema has no such edge type.
            AlgorithmInputError: one of them has no property that could weigh its edges.
        """
        found: list[EdgeType] = []
        for name in catalog.edges if self.edges is None else self.edges:
            edge = catalog.edge(name)
            if edge is None:
                raise unknown_type(name, (one.table_key for one in catalog.edges.values()))
            found.append(edge)
        weight = self.params.get("weight")
        if weight is not None:
            for edge in found:
                _check_weight(edge, weight)
        return tuple(dict.fromkeys(found))


def _check_weight(edge: EdgeType, name: str) -> None:
    prop = edge.get(name)
    if prop is None:
        known = [one.name for one in edge.properties if one.type.is_numeric]
        details = BadValue(what="weight", value=name, expected=", ".join(known) or "a property that holds numbers")
        raise AlgorithmInputError(
            f"edge type '{edge.name}' has no property '{name}'", details=details, hint=meant(name, known)
        )
    if not prop.type.is_numeric:
        details = BadValue(what="weight", value=str(prop.type), expected="a type of numbers")
        raise AlgorithmInputError(
            f"property '{name}' of '{edge.name}' is {prop.type}, and a weight is a number", details=details
        )


@record
class AlgorithmState:
    """A state as algorithms ask it: its tables, its schema, and what reads of the graph share."""

    tables: SupportsTables
    catalog: Catalog
    memory: ReadMemory


def run_algorithm(reads: QueryRunner, call: AlgorithmCall, branch: str, at: str | None, clock: Clock) -> Result:
    """Run an algorithm on the newest state of a branch, or on the one that ``at`` refers to.

    Raises:
        TypeMissingError: the schema has no such edge type.
        AlgorithmInputError: weights or nodes are not as the algorithm needs them.
        LibraryMissingError: a library that does the work is not installed.
        QueryMemoryError, QueryTimeoutError, QueryRowLimitError, QueryCancelledError: it met a limit.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    started_s = clock.monotonic_s()
    limits = Limits(call.options, clock, "algorithm")
    with counting() as counters:
        pinned = reads.pin(branch, at, call.options.schema)
        state = AlgorithmState(tables=pinned.tables, catalog=pinned.catalog, memory=pinned.memory)
        with pinned.tables.reading():
            graph, found = compute(state, call, limits)
    rows = table_of(graph, found, call.limit)
    limits.check_rows(rows.num_rows)
    info = ReadInfo(
        query_name=call.algorithm.name,
        branch=branch if at is None else None,
        snapshot=at,
        commit_id=str(pinned.snapshot.state.head.commit),
        elapsed_s=clock.monotonic_s() - started_s,
        warnings=found.warnings,
    )
    return Result(rows.schema, rows, info, counters)


def compute(state: AlgorithmState, call: AlgorithmCall, limits: Limits) -> tuple[Projection, Found]:
    """Return the part of a state that an algorithm runs on, and what it finds there."""
    edges = call.edge_types(state.catalog)
    graph = project(state, edges, call.params.get("weight"), call.algorithm.weights, limits)
    limits.hold(graph.size_bytes)
    return graph, call.algorithm.run(graph, call.params, limits)


def table_of(graph: Projection, found: Found, limit: int | None = None) -> pa.Table:
    """Return what was found as the columns of a result."""
    nodes = graph.nodes.columns(found.nodes)
    rows = pa.table({**(found.leading or {}), **nodes, **found.columns})
    return rows if limit is None else rows.slice(0, limit)


def project(
    state: AlgorithmState, edges: Sequence[EdgeType], weight: str | None, rule: WeightRule | None, limits: Limits
) -> Projection:
    """Return edges and the nodes of the types at their ends as numbers; nodes without an edge are there too.

    Raises:
        AlgorithmInputError: an edge has no weight, or one that the algorithm does not take.
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: it met a limit.
    """
    topology = state.memory.topology
    types = sorted({name for edge in edges for name in (edge.from_type, edge.to_type)})
    tables = {name: state.tables.table(f"node:{name}") for name in types}
    images = {name: topology.image(table) for name, table in tables.items()}
    limits.check(_NODE_BYTES * sum(image.row_count for image in images.values()))
    ranks = {name: image.id_ranks(np.arange(image.row_count)) for name, image in images.items()}
    starts = np.concatenate([[0], np.cumsum([images[name].row_count for name in types])]).astype(np.int64)
    first = dict(zip(types, starts[:-1].tolist(), strict=True))
    names = NodeNames(
        types=tuple(types), starts=starts, ids=tuple(_sorted_ids(images[name], ranks[name]) for name in types)
    )
    sources, targets, weights = [], [], []
    for edge in edges:
        table = state.tables.table(edge.table_key)
        limits.check(_EDGE_BYTES * table.row_count)
        near, far = edge.from_type, edge.to_type
        adjacency = topology.adjacency(table, tables[near], tables[far], "out", limits.check)
        begins = np.repeat(np.arange(adjacency.node_count), np.diff(adjacency.offsets))
        sources.append(ranks[near][begins] + first[near])
        targets.append(ranks[far][adjacency.targets] + first[far])
        if weight is not None and rule is not None:
            image = topology.image(table)
            values = weights_of(edge, image.column(KEY), image.column(weight), weight, rule)
            weights.append(values[adjacency.edges])
    return Projection.of(
        names, _joined(sources), _joined(targets), None if weight is None else np.concatenate([np.zeros(0), *weights])
    )


def _joined(parts: Iterable[Numbers]) -> Numbers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _sorted_ids(image: TableImage, ranks: Numbers) -> pa.Array:
    order = np.empty(len(ranks), dtype=np.int64)
    order[ranks] = np.arange(len(ranks))
    ids = image.column(KEY)
    whole = pa.concat_arrays([pa.array([], ids.type), *ids.chunks])
    return whole if (order[1:] > order[:-1]).all() else whole.take(pa.array(order))


_LEAST: Mapping[WeightRule, str] = {
    "finite": "a finite number",
    "not negative": "a finite number that is not negative",
    "positive": "a finite number above zero",
}


def weights_of(
    edge: EdgeType, names: pa.Array | pa.ChunkedArray, column: pa.Array | pa.ChunkedArray, name: str, rule: WeightRule
) -> Floats:
    """Return what edges weigh; ``names`` are their ids, and ``column`` is the property ``name``.

    Raises:
        AlgorithmInputError: one weighs what the algorithm does not take; the first by id is named.
    """
    given = pc.fill_null(pc.cast(column, pa.float64()), float("nan"))
    values: Floats = np.asarray(given, dtype=np.float64)
    is_bad = ~np.isfinite(values)
    if rule != "finite":
        with np.errstate(invalid="ignore"):
            is_bad |= (values < 0) if rule == "not negative" else (values <= 0)
    if not is_bad.any():
        return values
    at = pa.array(np.flatnonzero(is_bad))
    ids = names.take(at)
    first = pc.min(ids).as_py()
    value = column.take(at)[pc.index(ids, first).as_py()].as_py()
    shown = f"no {name}" if value is None else f"{name} {value}"
    details = BadValue(what="weight", value="null" if value is None else str(value), expected=_LEAST[rule])
    raise AlgorithmInputError(
        f"edge '{first}' of '{edge.name}' has {shown}, and a weight must be {_LEAST[rule]}",
        details=details,
        hint=f"set such a {name} on every edge, or choose another property",
    )
