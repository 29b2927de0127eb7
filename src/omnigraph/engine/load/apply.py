"""A load of a change log: what its rows make of each entity, as the change that is checked and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load.change import LoadChange
from omnigraph.engine.load.change_log import (
    Deaths,
    StoredEdges,
    StoredRows,
    TypeLog,
    TypeOutcome,
    cascade,
    find_deaths,
    mixed_sequences,
)
from omnigraph.engine.load.intake import ProblemList
from omnigraph.engine.load.options import ChangeCounts, OnDelete
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.load.spool import Spool
from omnigraph.engine.view import GraphChange, TypeChange
from omnigraph.records import record
from omnigraph.txn.changes import RowChange


@record
class AppliedLog:
    """What a log makes of a state: the change, and what became of its rows. ``reads`` are the tables it depends on."""

    change: LoadChange
    counts: ChangeCounts
    reads: tuple[str, ...]


@record
class LogState:
    """The state that a log is applied to, as it is asked about it."""

    stored_rows: StoredRows
    stored_edges: StoredEdges


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
    logs = _Logs(catalog=catalog, spool=spool, state=state)
    if on_delete == "cascade":
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
    )


@record
class _Logs:
    """The logs of all types of one load."""

    catalog: Catalog
    spool: Spool
    state: LogState
    deaths: dict[str, Deaths] = field(default_factory=dict)
    named: dict[str, pa.Array] = field(default_factory=dict)

    def find_deaths(self) -> None:
        for key, owner in self.spool.owners.items():
            found = find_deaths(self.spool.table(key)) if isinstance(owner, NodeType) else None
            if found is not None:
                self.deaths[owner.name] = found

    def settle(self, owner: NodeType | EdgeType) -> list[TypeOutcome]:
        log = TypeLog(owner, self.spool.table(owner.table_key), self.deaths)
        self.named[owner.table_key] = log.ids
        return list(log.settle(self.state.stored_rows))

    def cascade(self, edge: EdgeType) -> pa.Array | None:
        """Return the stored edges that go with their nodes; None where no node of theirs is deleted."""
        if self.deaths.keys().isdisjoint({edge.from_type, edge.to_type}):
            return None
        named = self.named.get(edge.table_key, pa.array([], pa.string()))
        return cascade(edge, self.catalog.nodes, self.deaths, named, self.state.stored_edges)


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
