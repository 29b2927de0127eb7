"""Finding what a read is about: the state, the type or the query, and the columns that come of it.

Workers load this and little else, so it knows nothing of schemas and queries.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load.reading.tables import owner_of
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BadValue, GraphReplacedError, TableMissingError, UsageError
from omnigraph.ir import compile_query, expect_read
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.spark.keys import StateTable
from omnigraph.spark.queries.tasks.wire import spark_result_schema
from omnigraph.spark.source.options import SourceOptions
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import fragment_sizes
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName

# What one task reads at most, unless a single fragment has more.
_MAX_PARTITION_ROWS = 1_000_000


@record
class PinnedType:
    """All that reading a type needs: any process can do it, and all of them see the same rows.

    Args:
        table: its table, at one version.
        schema: the columns of the table.
        fragments: the number of each fragment, and how many rows it has.
    """

    table: StateTable
    schema: pa.Schema
    fragments: tuple[tuple[int, int], ...]

    def groups(self, wanted: int) -> list[tuple[int, ...]]:
        """Return the fragments in ``wanted`` groups of about as many rows, more when those would be too large."""
        return group_fragments(self.fragments, wanted, _MAX_PARTITION_ROWS)


def chosen_columns(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the columns that are asked for, in the order asked for.

    Raises:
        UsageError: there is no such column.
    """
    for name in columns or ():
        if name not in schema.names:
            details = BadValue(what="column", value=name, expected=", ".join(schema.names))
            raise UsageError(f"the type has no column '{name}'", details=details)
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def group_fragments(sizes: Sequence[tuple[int, int]], wanted: int, max_rows: int) -> list[tuple[int, ...]]:
    """Return fragments in groups of about as many rows each; neighbours stay together, empty ones are left out.

    >>> group_fragments([(0, 10), (1, 10), (2, 20), (3, 0)], 2, 1000)
    [(0, 1), (2,)]
    """
    total = sum(rows for _, rows in sizes)
    target = max(1, min(max_rows, -(-total // max(wanted, 1))))
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    held = 0
    for number, rows in sizes:
        if not rows:
            continue
        # Half of a fragment too many is nearer to the target than half of it too few.
        if group and held + rows // 2 > target:
            groups.append(tuple(group))
            group, held = [], 0
        group.append(number)
        held += rows
    return [*groups, tuple(group)] if group else groups


@contextmanager
def open_graph(options: SourceOptions) -> Iterator[OpenGraph]:
    """Open the graph that options name, for reading."""
    with OpenGraph.open(options.storage, mode="read_only") as session:
        yield session


def pin_type(options: SourceOptions) -> PinnedType:
    """Find the state and the table that options name.

    Raises:
        TypeMissingError: the schema has no such type.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    with open_graph(options) as session:
        snapshot = state_of(session, options)
        owner = find_type(session.catalog_at(snapshot), options.the_type())
        with snapshot.reading():
            fragments = tuple(fragment_sizes(snapshot.table(owner.table_key)))
        table = StateTable.of(options.storage, snapshot, owner.table_key)
        return PinnedType(table=table, schema=arrow_schema(owner), fragments=fragments)


def pin_query(options: SourceOptions) -> tuple[str, pa.Schema]:
    """Check the query of the options and return the commit it is to read and the columns it gives.

    Raises:
        QuerySyntaxError, QueryTypeError, QueryMeaningError, QueryNotFoundError, WrongQueryKindError: it is not a read.
    """
    with open_graph(options) as session:
        snapshot = state_of(session, options)
        commit = str(snapshot.state.head.commit)
        past = None if options.at is None else session.reads.resolve(options.branch, commit)[1]
        catalog = session.catalog_at(snapshot) if past is None else past.catalog
        query = compile_query(options.query or "", options.name, catalog, "<query>")
        return commit, spark_result_schema(expect_read(query))


def state_of(session: OpenGraph, options: SourceOptions) -> GraphSnapshot:
    """Return the state that options name."""
    branch = BranchName.parse(options.branch)
    if options.at is None:
        return session.store.snapshot(branch)
    return session.store.refs.resolve_ref(options.at, branch).snapshot


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """Return the type of a name, which ``node:`` or ``edge:`` may lead.

    Raises:
        TypeMissingError: the schema has none.
        UsageError: a node type and an edge type share it.
    """
    return owner_of(Source(path="option type", type_name=name), catalog)


_Key = tuple[str, tuple[tuple[str, str], ...]]

# Each has caches of its own, and a process serves one graph, rarely a second.
_KEPT = 2
_lock = threading.Lock()
_kept: LRUCache[_Key, OpenGraph] = LRUCache(_KEPT, on_drop=OpenGraph.close)


def reading_engine(storage: Storage) -> OpenGraph:
    """Return this process's engine of a graph, open for reading; the caller must not close it.

    Raises:
        GraphMissingError: there is no graph.
    """
    key = (storage.root, tuple(sorted(storage.options.items())))
    with _lock:
        engine = _kept.get(key)
        if engine is not None and _is_there(engine):
            return engine
        if engine is not None:
            engine.close()
        engine = OpenGraph.open(storage, mode="read_only")
        _kept.put(key, engine)
        return engine


def _is_there(engine: OpenGraph) -> bool:
    """Whether the graph is still the one that was opened: this process may outlive it, and serve the next one."""
    try:
        engine.snapshot()
    except (GraphReplacedError, TableMissingError):
        return False
    return True
