"""A load of a change log: what its rows make of each entity, as the change that is checked and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.load.change import LoadChange
from omnigraph.engine.load.change_log import (
    Cascade,
    Deaths,
    KnownSequences,
    StoredEdges,
    StoredRows,
    TypeLog,
    TypeOutcome,
    edge_ends,
    find_deaths,
    mixed_sequences,
)
from omnigraph.engine.load.intake import MARK, ProblemList
from omnigraph.engine.load.options import ChangeCounts, OnDelete
from omnigraph.engine.load.outlived import EDGE_COLUMNS, NewestEdges, without_outlived
from omnigraph.engine.load.sequences import (
    NEVER,
    FreshRows,
    Numbers,
    SequenceReader,
    StreamMemory,
    first_row,
    fresh_rows,
    other_kind,
)
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.load.spool import Spool
from omnigraph.engine.rows.changes import NO_SEQUENCE
from omnigraph.engine.view import GraphChange, TypeChange
from omnigraph.records import record
from omnigraph.txn.changes import RowChange


@record
class AppliedLog:
    """What a log makes of a state: the change, and what became of its rows. ``reads`` are the tables it depends on.

    ``memory`` is what the stream remembers, ``added`` what the log adds to it; None where no row has a sequence.
    """

    change: LoadChange
    counts: ChangeCounts
    reads: tuple[str, ...]
    memory: StreamMemory | None = None
    added: tuple[pa.Table, ...] = ()

    def remember(self) -> StreamMemory | None:
        """Return what the stream remembers with the log."""
        if self.memory is not None:
            self.memory.add(self.added)
        return self.memory


@record
class LogState:
    """The state that a log is applied to, as it is asked about it; ``memory`` only if rows have sequences."""

    stored_rows: StoredRows
    stored_edges: StoredEdges
    memory: Callable[[], StreamMemory]


def apply_log(
    catalog: Catalog,
    spool: Spool,
    sources: Sequence[Source],
    state: LogState,
    on_delete: OnDelete,
    problems: ProblemList,
) -> AppliedLog:
    """Return what the spooled rows of a change log make of a state; rows that lack something are problems.

    Raises:
        BadRowsError: there are such rows, or sequences that cannot be compared.
    """
    for key, owner in spool.owners.items():
        mixed = mixed_sequences(owner, spool.table(key))
        if mixed is not None:
            problems.add([mixed[1].violation(sources[mixed[0]].name)])
    problems.fail()
    has_order = [key for key in spool.owners if _kind(spool.table(key)) != NO_SEQUENCE]
    memory = state.memory() if has_order else None
    if memory is not None:
        for key in has_order:
            kind, line, source = first_row(spool.table(key))
            other = other_kind(memory.known, memory.reader, key, spool.owners[key].name, (kind, line))
            problems.add([] if other is None else [other.violation(sources[source].name)])
        problems.fail()
    reader = None if memory is None else memory.reader
    logs = _Logs(catalog=catalog, spool=spool, state=state, reader=reader, cascades=on_delete == "cascade")
    if logs.cascades:
        logs.find_deaths()
    outcomes = {key: logs.settle(owner) for key, owner in spool.owners.items()}
    for parts in outcomes.values():
        problems.add(found.violation(sources[at].name) for part in parts for at, found in part.problems)
    problems.fail()
    reads = [*spool.owners]
    for edge in catalog.edges.values():
        gone = logs.cascade(edge)
        if gone is not None:
            reads.append(edge.table_key)
            outcomes.setdefault(edge.table_key, []).append(_only_deletes(edge, gone))
    counts = sum((part.counts for parts in outcomes.values() for part in parts), ChangeCounts())
    owners: dict[str, NodeType | EdgeType] = {edge.table_key: edge for edge in catalog.edges.values()}
    owners |= spool.owners
    return AppliedLog(
        change=_change([(owners[key], parts) for key, parts in sorted(outcomes.items())], sources),
        counts=counts,
        reads=tuple(dict.fromkeys(reads)),
        memory=memory,
        added=tuple(one.added for one in logs.fresh.values()),
    )


def _kind(rows: pa.Table) -> int:
    return int(rows.column(f"{MARK}kind")[0].as_py()) if rows.num_rows else NO_SEQUENCE


@record
class _Logs:
    """The logs of all types of one load.

    ``deaths`` are the deletes of nodes that are not remembered, by type.
    """

    catalog: Catalog
    spool: Spool
    state: LogState
    reader: SequenceReader | None
    cascades: bool
    deaths: dict[str, Deaths] = field(default_factory=dict)
    named: dict[str, pa.Array] = field(default_factory=dict)
    fresh: dict[str, FreshRows] = field(default_factory=dict)

    def find_deaths(self) -> None:
        for key, owner in self.spool.owners.items():
            found = find_deaths(self.spool.table(key)) if isinstance(owner, NodeType) else None
            if found is None:
                continue
            new = found if self.reader is None else new_deaths(self.reader, key, found)
            if new is not None:
                self.deaths[owner.name] = new

    def settle(self, owner: NodeType | EdgeType) -> list[TypeOutcome]:
        key, rows = owner.table_key, self.spool.table(owner.table_key)
        if self.reader is None or _kind(rows) == NO_SEQUENCE:
            log = TypeLog(owner, rows, self.deaths)
            self.named[key] = log.ids
            return list(log.settle(self.state.stored_rows))
        fresh = fresh_rows(self.reader, key, rows, takes_edges=isinstance(owner, NodeType) and self.cascades)
        if isinstance(owner, NodeType):
            fresh = without_outlived(fresh, self._newest_edges(owner, self.reader))
        self.fresh[key] = fresh
        log = ordered_log(owner, fresh, self.reader, self.deaths)
        self.named[key] = log.ids
        late = ChangeCounts(rows=fresh.late, superseded=fresh.late)
        return [replace(TypeOutcome.nothing(owner), counts=late), *log.settle(self.state.stored_rows)]

    def _newest_edges(self, node: NodeType, reader: SequenceReader) -> NewestEdges:
        def rows_of(edge: EdgeType) -> list[pa.Table]:
            key = edge.table_key
            return [self.spool.table(key).select(EDGE_COLUMNS)] if key in self.spool.owners else []

        return NewestEdges(
            node=node,
            edges=self.catalog.edges,
            reader=reader,
            edges_at=self.state.stored_edges,
            stored_rows=self.state.stored_rows,
            rows_of=rows_of,
        )

    def cascade(self, edge: EdgeType) -> pa.Array | None:
        """Return the stored edges that go with their nodes; None where no node of theirs is deleted."""
        if self.deaths.keys().isdisjoint({edge.from_type, edge.to_type}):
            return None
        named = self.named.get(edge.table_key, pa.array([], pa.string()))
        return Cascade(
            nodes=self.catalog.nodes,
            deaths=self.deaths,
            edges_at=self.state.stored_edges,
            stored_rows=self.state.stored_rows,
            known=None if self.reader is None else known_edges(self.reader),
        ).of(edge, named)


def new_deaths(reader: SequenceReader, table_key: str, found: Deaths) -> Deaths | None:
    """Return the deletes of nodes that are not remembered; the others have taken their edges with them."""
    return found.after(lambda kind, ids: reader.known(table_key, kind, ids).died)


def known_edges(reader: SequenceReader) -> Callable[[EdgeType, int, pa.Array], Numbers]:
    """Return what tells the sequences that are remembered of edges."""
    return lambda edge, kind, ids: reader.known(edge.table_key, kind, ids).seqs


def ordered_log(
    owner: NodeType | EdgeType, fresh: FreshRows, reader: SequenceReader, deaths: Mapping[str, Deaths]
) -> TypeLog:
    """Return the log of rows that have sequences, and are not late; ``deaths`` are new deletes of nodes."""
    remembered: dict[str, Deaths] = {}
    if isinstance(owner, EdgeType) and fresh.rows.num_rows:
        kind = _kind(fresh.rows)
        for name in dict.fromkeys((owner.from_type, owner.to_type)):
            columns = [fresh.rows.column(column) for column, end in edge_ends(owner) if end == name]
            nodes = pc.unique(pa.chunked_array([chunk for column in columns for chunk in column.chunks])).drop_null()
            nodes = one_array(nodes)
            died = reader.known(f"node:{name}", kind, nodes).died
            at = np.flatnonzero(died != NEVER)
            if len(at):
                remembered[name] = Deaths(ids=nodes.take(pa.array(at)), seqs=died[at], kind=kind)
    known: KnownSequences = fresh.known_of
    return TypeLog(owner, fresh.rows, deaths, remembered, known)


def _only_deletes(edge: EdgeType, ids: pa.Array) -> TypeOutcome:
    none = TypeOutcome.nothing(edge)
    return TypeOutcome(
        inserts=none.inserts,
        updates=none.updates,
        places=none.places,
        deletes=ids,
        counts=ChangeCounts(cascaded=len(ids)),
    )


def _change(
    outcomes: Sequence[tuple[NodeType | EdgeType, Sequence[TypeOutcome]]], sources: Sequence[Source]
) -> LoadChange:
    types: dict[str, TypeChange] = {}
    writes: list[RowChange] = []
    for owner, parts in outcomes:
        whole = TypeOutcome.joined(owner, parts)
        if whole.is_empty:
            continue
        writes.append(
            RowChange(
                table_key=owner.table_key,
                inserts=whole.inserts if whole.inserts.num_rows else None,
                # Nobody can have them: they were looked for on the state that the change is bound to.
                has_fresh_ids=bool(whole.inserts.num_rows),
                upserts=whole.updates if whole.updates.num_rows else None,
                deletes=whole.deletes,
            )
        )
        types[owner.table_key] = whole.change(owner)
    graph = GraphChange(types=types, sources=tuple(source.name for source in sources))
    return LoadChange(graph=graph, mode="apply", writes=tuple(writes))
