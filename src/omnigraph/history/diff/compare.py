"""The net difference between any two states of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.history.diff.change import NO_FILTER, ChangeFilter, ChangeOp, EntityChange, EntityKind
from omnigraph.history.diff.changed_rows import ChangedRows, find_changed_rows
from omnigraph.history.diff.entities import iter_changes
from omnigraph.history.diff.pairs import OpenPair, changed_pairs, open_pair
from omnigraph.history.diff.rows import Check, rows_delta
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.table import Table
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import MAIN, BranchName


@record
class TypeCounts:
    """How many entities of one type differ."""

    kind: EntityKind
    type_name: str
    inserts: int
    updates: int
    deletes: int

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "kind": self.kind,
            "type_name": self.type_name,
            "inserts": self.inserts,
            "updates": self.updates,
            "deletes": self.deletes,
        }


@record
class DiffStats:
    """What a difference amounts to; types without a change are left out."""

    types: tuple[TypeCounts, ...]

    @classmethod
    def of(cls, changes: Iterable[EntityChange]) -> DiffStats:
        """Return what changes amount to, types in the order they come."""
        counts: dict[tuple[EntityKind, str, str], Counter[ChangeOp]] = {}
        for change in changes:
            counts.setdefault((change.kind, change.type.name, change.type.id), Counter())[change.op] += 1
        return cls(
            types=tuple(
                TypeCounts(
                    kind=kind, type_name=name, inserts=ops["insert"], updates=ops["update"], deletes=ops["delete"]
                )
                for (kind, name, _), ops in counts.items()
            )
        )

    @property
    def inserts(self) -> int:
        """Entities that only the later state has."""
        return sum(counts.inserts for counts in self.types)

    @property
    def updates(self) -> int:
        """Entities that both states have with other values."""
        return sum(counts.updates for counts in self.types)

    @property
    def deletes(self) -> int:
        """Entities that only the earlier state has."""
        return sum(counts.deletes for counts in self.types)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "inserts": self.inserts,
            "updates": self.updates,
            "deletes": self.deletes,
            "types_affected": sorted({counts.type_name for counts in self.types}),
            "types": [counts.to_json() for counts in self.types],
        }


class GraphDiff:
    """The difference between two states, worked out table after table as it is asked for.

    Tables are paired by the lifetime of their type: a rename is no change, and a type that was dropped and declared
    again is two. Only one table's difference is in memory at a time.
    """

    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        wanted: ChangeFilter = NO_FILTER,
        counters: Counters | None = None,
        check: Check | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self._wanted = wanted
        self._counters = counters or Counters()
        self._check = check

    def __iter__(self) -> Iterator[EntityChange]:
        """Yield the changes that pass: by table key, edges first, then by id.

        Raises:
            ChangeSchemaBoundaryError: a type that both states have differs in its columns.
        """
        with self.before.reading(), self.after.reading():
            for opened in self._open():
                yield from iter_changes(opened.pair, self._delta(opened), self._wanted, self._counters)

    def stats(self) -> DiffStats:
        """Return how many entities differ, by type; no row becomes a Python value."""
        with self.before.reading(), self.after.reading():
            return self._stats()

    def to_json(self) -> dict[str, Any]:
        """Return the whole difference as JSON values."""
        old, new = self.before.state, self.after.state
        found = list(self)
        changes = [change.to_json() | ({"changed": list(change.changed)} if change.changed else {}) for change in found]
        return {
            "from_graph_commit_id": str(old.head.commit),
            "to_graph_commit_id": str(new.head.commit),
            "from_graph_manifest_version": old.version,
            "to_graph_manifest_version": new.version,
            "graph_branch": str(new.head.branch),
            "changes": changes,
            "stats": DiffStats.of(found).to_json(),
        }

    def _stats(self) -> DiffStats:
        counts = []
        for opened in self._open():
            delta = self._delta(opened)
            found = TypeCounts(
                kind=opened.pair.kind,
                type_name=opened.pair.type.name,
                inserts=len(delta.inserted.ids) if self._wanted.wants_op("insert") else 0,
                updates=len(delta.after.ids) if self._wanted.wants_op("update") else 0,
                deletes=len(delta.deleted.ids) if self._wanted.wants_op("delete") else 0,
            )
            if found.inserts or found.updates or found.deletes:
                counts.append(found)
        return DiffStats(types=tuple(counts))

    def _open(self) -> Sequence[OpenPair]:
        # Every pair is looked at before the first row is shown: a boundary must not come after half an answer.
        pairs = [
            open_pair(pair, self.before, self.after, self._counters) for pair in changed_pairs(self.before, self.after)
        ]
        return [opened for opened in pairs if self._wanted.wants_type(opened.pair.kind, opened.pair.type.name)]

    def _delta(self, opened: OpenPair) -> ChangedRows:
        if not self._wanted.ids:
            return find_changed_rows(opened.before, opened.after, self._counters, self._check)
        ids = sorted(self._wanted.ids)
        shown = opened.after if opened.after is not None else opened.before
        schema = pa.schema([]) if shown is None else shown.schema
        old, new = (self._rows_of(table, ids, schema) for table in (opened.before, opened.after))
        return ChangedRows.held(rows_delta(old, new))

    def _rows_of(self, table: Table | None, ids: Sequence[str], schema: pa.Schema) -> pa.Table:
        if table is None:
            return schema.empty_table()
        return table.lookup(ids, table.schema.names, self._counters).select(schema.names).cast(schema)


def diff_between(
    store: GraphStore,
    before: str,
    after: str,
    wanted: ChangeFilter = NO_FILTER,
    *,
    branch: str = MAIN,
    counters: Counters | None = None,
    check: Check | None = None,
) -> GraphDiff:
    """Return the difference between two states, each named by a reference: a branch, a commit, a tag, a moment.

    Args:
        store: the open graph.
        before: the earlier state.
        after: the later state; nothing but the direction of the answer depends on which is which.
        wanted: which changes.
        branch: what a reference without a branch is about.
        counters: where the calls go.
        check: is told how many bytes are held; it stops the work by raising.

    Raises:
        ValueFormatError: a text is no reference.
        BranchMissingError, TagMissingError, CommitMissingError: there is no such state.
        HistoryGoneError: a state was reclaimed.
    """
    count, name = counters or Counters(), BranchName.parse(branch)
    old, new = (store.past.resolve_ref(text, name, count).snapshot for text in (before, after))
    return GraphDiff(old, new, wanted, count, check)
