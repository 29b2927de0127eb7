"""Rows and states as a network: nodes by type and id, and the edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from omnigraph.engine.results.encodings import host_values
from omnigraph.engine.results.frames import library
from omnigraph.engine.results.info import PropertyColumn, ResultPattern
from omnigraph.errors import BadValue, LimitExceeded, ResultWithoutNodesError, ViewTooLargeError
from omnigraph.records import record
from omnigraph.values import check_whole

NodeKey = tuple[str, str]


@record
class NetworkEdge:
    """An edge; ``key`` tells it from others of its type between the same nodes: its id, or a number."""

    type_name: str
    key: str | int
    source: NodeKey
    target: NodeKey
    properties: Mapping[str, Any] = field(default_factory=dict)
    is_directed: bool = True


@record
class Network:
    """Nodes with their properties, by type and id, and edges."""

    nodes: Mapping[NodeKey, Mapping[str, Any]]
    edges: tuple[NetworkEdge, ...]

    def to_networkx(self) -> Any:
        """Return a ``networkx.MultiDiGraph``: nodes are (type, id), keys of edges (type, id or number).

        Edges whose direction is not known are left out, since the network would show one that may not be stored.

        Raises:
            LibraryMissingError: networkx is not installed.
        """
        made = library("networkx", hint="install networkx, or use the rows of a query").MultiDiGraph()
        made.add_nodes_from((key, dict(properties)) for key, properties in self.nodes.items())
        # As tuples, since a property may be called like an argument of the function that takes a single edge.
        made.add_edges_from(
            (edge.source, edge.target, (edge.type_name, edge.key), dict(edge.properties))
            for edge in self.edges
            if edge.is_directed
        )
        return made


def check_size(what: str, count: int, limit: int) -> None:
    """Refuse what is too large to be held or seen at once.

    Raises:
        ViewTooLargeError: there are more than ``limit``.
    """
    if count > limit:
        details = LimitExceeded(resource=what, limit=limit, actual=count)
        raise ViewTooLargeError(f"too many {what}: {count}, the limit is {limit}", details=details)


def network_of_rows(pattern: ResultPattern, batches: Iterable[pa.RecordBatch], limit: int) -> Network:
    """Return the nodes and edges that rows speak of, each once, in the order of the rows.

    Raises:
        ResultWithoutNodesError: no column is a node.
        ViewTooLargeError: there are more than ``limit`` of them.
    """
    check_whole("limit", limit)
    if not pattern.nodes:
        details = BadValue(what="result", value="no node column", expected="node variables in the return")
        raise ResultWithoutNodesError("this query returns no nodes", details=details)
    gathering = _Gathering(pattern, limit)
    for batch in batches:
        gathering.add([host_values(column) for column in batch.columns], batch.num_rows)
    return Network(nodes=gathering.nodes, edges=tuple(gathering.edges))


class _Gathering:
    def __init__(self, pattern: ResultPattern, limit: int) -> None:
        self.nodes: dict[NodeKey, dict[str, Any]] = {}
        self.edges: list[NetworkEdge] = []
        self._pattern = pattern
        self._limit = limit
        self._known: set[tuple[str, NodeKey, NodeKey, str]] = set()
        self._numbers: Counter[tuple[str, NodeKey, NodeKey]] = Counter()

    def add(self, columns: Sequence[Sequence[Any]], row_count: int) -> None:
        for row in range(row_count):
            keys = [(node.type_name, columns[node.column][row]) for node in self._pattern.nodes]
            for node, key in zip(self._pattern.nodes, keys, strict=True):
                # An optional block leaves a node out where it has no solution.
                if key[1] is not None:
                    self.nodes.setdefault(key, {}).update(_values(node.properties, columns, row))
            self._add_edges(keys, columns, row)
            check_size("entities", len(self.nodes) + len(self.edges), self._limit)

    def _add_edges(self, keys: Sequence[NodeKey], columns: Sequence[Sequence[Any]], row: int) -> None:
        for edge in self._pattern.edges:
            ends = edge.type_name, keys[edge.source], keys[edge.target]
            if keys[edge.source][1] is None or keys[edge.target][1] is None:
                continue
            properties = _values(edge.properties, columns, row)
            # Rows repeat an edge for everything else they hold; other values are another edge.
            told = (*ends, repr(properties))
            if told in self._known:
                continue
            self._known.add(told)
            number = self._numbers[ends]
            self._numbers[ends] += 1
            self.edges.append(
                NetworkEdge(
                    type_name=edge.type_name,
                    key=number,
                    source=ends[1],
                    target=ends[2],
                    properties=properties,
                    is_directed=edge.is_directed,
                )
            )


def _values(properties: Sequence[PropertyColumn], columns: Sequence[Sequence[Any]], row: int) -> dict[str, Any]:
    return {item.name: columns[item.column][row] for item in properties}
