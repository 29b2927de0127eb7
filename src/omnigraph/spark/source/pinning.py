"""Finding what a read is about: the state, the type or the query, and the columns that come of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load.binding import owner_of
from omnigraph.engine.load.sources import Source
from omnigraph.engine.query.run import result_schema
from omnigraph.engine.session import GraphSession
from omnigraph.ir import compile_query, expect_read
from omnigraph.runtime import Counters
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinned import PinnedType
from omnigraph.spark.states import StateTable
from omnigraph.store.portable import fragment_sizes
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import BranchName


@contextmanager
def open_graph(options: SourceOptions) -> Iterator[GraphSession]:
    """Open the graph that options name, for reading."""
    with GraphSession.open(options.storage, mode="read_only") as session:
        yield session


def pin_type(options: SourceOptions) -> PinnedType:
    """Find the state and the table that options name.

    Raises:
        TypeMissingError: the schema has no such type.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    with open_graph(options) as session:
        counters = Counters()
        snapshot = state_of(session, options)
        owner = find_type(session.catalog_at(snapshot), options.the_type())
        with snapshot.reading():
            fragments = tuple(fragment_sizes(snapshot.table(owner.table_key, counters)))
        table = StateTable.of(options.storage, snapshot, owner.table_key)
        return PinnedType(table=table, schema=arrow_schema(owner), fragments=fragments)


def pin_query(options: SourceOptions) -> tuple[str, pa.Schema]:
    """Check the query of the options and return the commit it is to read and the columns it gives.

    Raises:
        QuerySyntaxError, QueryTypeError, QueryMeaningError, QueryNotFoundError, QueryLaneError: it is no such read.
    """
    with open_graph(options) as session:
        snapshot = state_of(session, options)
        query = compile_query(options.query or "", options.name, session.catalog_at(snapshot), "<query>")
        return str(snapshot.state.head.commit), result_schema(expect_read(query))


def state_of(session: GraphSession, options: SourceOptions) -> Snapshot:
    """Return the state that options name."""
    branch, counters = BranchName.parse(options.branch), Counters()
    if options.at is None:
        return session.store.snapshot(branch, counters)
    return session.store.past.resolve_ref(options.at, branch, counters).snapshot


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """Return the type of a name, which ``node:`` or ``edge:`` may lead.

    Raises:
        TypeMissingError: the schema has none.
        UsageError: a node type and an edge type share it.
    """
    return owner_of(Source(path="option type", type_name=name), catalog)
