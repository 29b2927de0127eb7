"""The net difference between any two states of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.equality import Mask, columns_equal
from omnigraph.errors import ChangeSchemaBoundaryError, DiffRefusal
from omnigraph.history.diff.change import (
    DST,
    NO_FILTER,
    SRC,
    ChangedType,
    ChangeFilter,
    ChangeOp,
    EntityChange,
    EntityImage,
    EntityKind,
    row_images,
)
from omnigraph.history.diff.parts import DEFAULT_MEMORY_BYTES, count_parts, iter_parts, whole_delta
from omnigraph.history.diff.rows import (
    ChangedRows,
    DifferingRows,
    Places,
    TableDelta,
    expect_same_columns,
    rows_delta,
)
from omnigraph.history.diff.schemas import is_later_schema, read_alike
from omnigraph.history.diff.selection import select_differing
from omnigraph.records import record
from omnigraph.runtime import calling, check_call, current_call, drawn_in_call
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.table import Table
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import ManifestState, TableEntry
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName, CommitId


@record
class TablePair:
    """One lifetime of a type in two states; None where it does not exist."""

    kind: EntityKind
    type: ChangedType
    before: TableEntry | None
    after: TableEntry | None

    @property
    def table_key(self) -> str:
        """The type's table as the later of the states that have it calls it."""
        return f"{self.kind}:{self.type.name}"

    @property
    def is_changed(self) -> bool:
        """Whether the states can differ in it."""
        return self.before is None or self.after is None or self.before.pin != self.after.pin

    @property
    def has_only_one_side_with_rows(self) -> bool:
        """Whether rows came or went because the type did."""
        if self.before is not None and self.after is not None:
            return False
        return any(entry is not None and entry.row_count for entry in (self.before, self.after))


@record(eq=False)
class OpenPair:
    """A pair with its tables opened."""

    pair: TablePair
    before: Table | None
    after: Table | None


def changed_pairs(before: GraphSnapshot, after: GraphSnapshot) -> list[TablePair]:
    """Return the lifetimes that two states can differ in, by table key, edges first; needs no call.

    Of several lifetimes of one type those that ended come first: who applies the changes in order meets no id twice.
    """
    old = {entry.object_id: entry for entry in before.state.tables.values()}
    new = {entry.object_id: entry for entry in after.state.tables.values()}
    pairs = [_pair(after.state.graph_id, key, old.get(key), new.get(key)) for key in {**old, **new}]
    return sorted((pair for pair in pairs if pair.is_changed), key=_place)


def open_pair(
    pair: TablePair, before: GraphSnapshot, after: GraphSnapshot, commit_id: CommitId | None = None
) -> OpenPair:
    """Open both tables of a pair, each read in the columns of the newer schema.

    With ``commit_id`` the states are a commit and its first parent, and the newer schema is that of the commit.

    Raises:
        ChangeSchemaBoundaryError: a column has no such reading; ``commit_id`` is the commit that the error names.
    """
    old = None if pair.before is None else before.table(pair.before.table_key)
    new = None if pair.after is None else after.table(pair.after.table_key)
    if old is None or new is None:
        return OpenPair(pair=pair, before=old, after=new)
    alike = read_alike(old, new, lambda was, will: commit_id is not None or is_later_schema(before, after, was, will))
    if alike is None:
        raise schema_boundary(pair, commit_id)
    return OpenPair(pair=pair, before=alike[0], after=alike[1])


def schema_boundary(pair: TablePair, commit_id: CommitId | None) -> ChangeSchemaBoundaryError:
    """Return the error for a pair whose schema differs."""
    details = DiffRefusal(
        reason="schema_boundary",
        graph_commit_id=None if commit_id is None else str(commit_id),
        type_name=pair.type.name,
    )
    return ChangeSchemaBoundaryError(
        f"rows of type '{pair.type.name}' before and after a schema change cannot be compared", details=details
    )


def _place(pair: TablePair) -> tuple[str, bool, str]:
    entry = pair.before if pair.after is None else pair.after
    # Identities are handed out in ascending order, and written with as many digits each.
    return pair.table_key, pair.after is not None, "" if entry is None else entry.object_id


def _pair(graph_id: str, object_id: str, before: TableEntry | None, after: TableEntry | None) -> TablePair:
    shown = after if after is not None else before
    kind, _, name = ("", "", "") if shown is None else shown.table_key.partition(":")
    return TablePair(
        kind="edge" if kind == "edge" else "node",
        type=ChangedType.of(graph_id, object_id, name),
        before=before,
        after=after,
    )


_SHOWN = {SRC: "from", DST: "to"}


@record(eq=False)
class _Side:
    """The rows that one operation changed, as it found and left them."""

    op: ChangeOp
    before: DifferingRows | None
    after: DifferingRows | None
    ids: pa.ChunkedArray


def iter_changes(
    pair: TablePair,
    delta: ChangedRows,
    wanted: ChangeFilter,
    *,
    after_id: str | None = None,
    is_own: Callable[[pa.ChunkedArray], pa.ChunkedArray] | None = None,
) -> Iterator[EntityChange]:
    """Yield a table's changes by id.

    Args:
        pair: whose rows they are.
        delta: the rows.
        wanted: operations that do not pass are left out.
        after_id: leave out ids up to and including this one.
        is_own: tells which ids are wanted; all of them when None.
    """
    sides = [side for side in _sides(delta) if wanted.wants_op(side.op)]
    ids = pa.chunked_array([chunk for side in sides for chunk in side.ids.chunks], pa.string())
    owners = np.repeat(np.arange(len(sides)), [len(side.ids) for side in sides])
    places = np.concatenate([np.arange(len(side.ids)) for side in sides] or [np.zeros(0, dtype=np.int64)])
    order = pc.sort_indices(ids).to_numpy()
    if after_id is not None:
        is_later = pc.greater(ids, pa.scalar(after_id)).to_numpy()
        order = order[is_later[order]]
    if is_own is not None:
        order = order[is_own(ids).to_numpy()[order]]
    size = min((rows.slice_rows for side in sides for rows in (side.before, side.after) if rows is not None), default=1)
    for start in range(0, len(order), size):
        check_call()
        chosen = order[start : start + size]
        found: dict[int, EntityChange] = {}
        for number, side in enumerate(sides):
            mine = chosen[owners[chosen] == number]
            found.update(zip(mine.tolist(), _changes(pair, side, places[mine]), strict=True))
        yield from (found[place] for place in chosen.tolist())


def changed_ids(delta: ChangedRows, wanted: ChangeFilter) -> pa.ChunkedArray:
    """Return the ids of the changes that pass, in no order."""
    sides = (side for side in _sides(delta) if wanted.wants_op(side.op))
    return pa.chunked_array([chunk for side in sides for chunk in side.ids.chunks], pa.string())


def _sides(delta: ChangedRows) -> tuple[_Side, ...]:
    return (
        _Side(op="insert", before=None, after=delta.inserted, ids=delta.inserted.ids),
        _Side(op="update", before=delta.before, after=delta.after, ids=delta.after.ids),
        _Side(op="delete", before=delta.deleted, after=None, ids=delta.deleted.ids),
    )


def _changes(pair: TablePair, side: _Side, places: Places) -> Iterator[EntityChange]:
    if not len(places):
        return
    before = None if side.before is None else side.before.take(places)
    after = None if side.after is None else side.after.take(places)
    is_edge = pair.kind == "edge"
    none: list[EntityImage | None] = [None] * len(places)
    was = none if before is None else row_images(before, is_edge=is_edge)
    will = none if after is None else row_images(after, is_edge=is_edge)
    differing = [()] * len(places) if before is None or after is None else _differing(before, after)
    for entity_id, old, new, changed in zip(
        side.ids.take(pa.array(places)).to_pylist(), was, will, differing, strict=True
    ):
        yield EntityChange(
            kind=pair.kind, type=pair.type, id=entity_id, op=side.op, before=old, after=new, changed=changed
        )


def _differing(before: pa.Table, after: pa.Table) -> list[tuple[str, ...]]:
    """Return for each row the names of what differs, in the table's order."""
    masks: dict[str, Mask] = {
        _SHOWN.get(name, name) if {SRC, DST} <= set(before.column_names) else name: ~columns_equal(
            before.column(name), after.column(name)
        )
        for name in before.column_names
        if name != KEY
    }
    return [tuple(name for name, mask in masks.items() if mask[place]) for place in range(before.num_rows)]


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


def diff_to_json(before: ManifestState, after: ManifestState, found: Sequence[EntityChange]) -> dict[str, Any]:
    """Return the changes between two states as JSON values."""
    changes = [change.to_json() | ({"changed": list(change.changed)} if change.changed else {}) for change in found]
    return {
        "from_graph_commit_id": str(before.head.commit),
        "to_graph_commit_id": str(after.head.commit),
        "from_graph_manifest_version": before.version,
        "to_graph_manifest_version": after.version,
        "graph_branch": str(after.head.branch),
        "changes": changes,
        "stats": DiffStats.of(found).to_json(),
    }


class GraphDiff:
    """The difference between two states, worked out table after table as it is asked for.

    Tables are paired by the lifetime of their type: a rename is no change, and a type that was dropped and declared
    again is two. Memory holds the difference of one table, or of one range of its ids when that is much.

    Args:
        before: the earlier state.
        after: the later state.
        wanted: which changes.
        memory_bytes: how much of the rows that differ is in memory at once; more of them lie in temporary files.
    """

    def __init__(
        self,
        before: GraphSnapshot,
        after: GraphSnapshot,
        wanted: ChangeFilter = NO_FILTER,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        self.before = before
        self.after = after
        self._wanted = wanted
        self._memory_bytes = memory_bytes
        # What it is asked for later is a part of the same read.
        self._call = current_call()

    def __iter__(self) -> Iterator[EntityChange]:
        """Yield the changes that pass: by table key, edges first, then by lifetime, ended ones first, then by id.

        Raises:
            ChangeSchemaBoundaryError: rows of a type that both states have cannot be read in one schema.
        """
        return drawn_in_call(self._changes(), self._call)

    def _changes(self) -> Iterator[EntityChange]:
        with self.before.reading(), self.after.reading():
            for pair, delta in self._changed_rows(self._open()):
                yield from iter_changes(pair, delta, self._wanted)

    def stats(self) -> DiffStats:
        """Return how many entities differ, by type; no row becomes a Python value."""
        with calling(self._call), self.before.reading(), self.after.reading():
            return self._stats()

    def to_json(self) -> dict[str, Any]:
        """Return the whole difference as JSON values."""
        return diff_to_json(self.before.state, self.after.state, list(self))

    def _stats(self) -> DiffStats:
        counts = []
        for pair, ops in self._counts(self._open()):
            found = TypeCounts(
                kind=pair.kind,
                type_name=pair.type.name,
                inserts=ops["insert"] if self._wanted.wants_op("insert") else 0,
                updates=ops["update"] if self._wanted.wants_op("update") else 0,
                deletes=ops["delete"] if self._wanted.wants_op("delete") else 0,
            )
            if found.inserts or found.updates or found.deletes:
                counts.append(found)
        return DiffStats(types=tuple(counts))

    def _counts(self, pairs: Sequence[OpenPair]) -> Iterator[tuple[TablePair, Counter[ChangeOp]]]:
        """Yield how many rows differ in each table."""
        for opened in pairs:
            ops: Counter[ChangeOp] = Counter()
            for delta in self._deltas(opened):
                check_call()
                ops.update(delta.counts)
            yield opened.pair, ops

    def _changed_rows(self, pairs: Sequence[OpenPair]) -> Iterator[tuple[TablePair, ChangedRows]]:
        """Yield the difference of each table, range of ids by range."""
        for opened in pairs:
            for delta in self._deltas(opened):
                yield opened.pair, delta

    def _open(self) -> Sequence[OpenPair]:
        # Every pair is looked at before the first row is shown: a boundary must not come after half an answer.
        pairs = [open_pair(pair, self.before, self.after) for pair in changed_pairs(self.before, self.after)]
        return [opened for opened in pairs if self._wanted.wants(opened.pair.kind, opened.pair.type)]

    def _deltas(self, opened: OpenPair) -> Iterator[ChangedRows]:
        """Yield the difference of a table, range of ids by range; all of it at once when it is small."""
        if self._wanted.ids:
            yield self._delta_of_ids(opened)
            return
        for delta in iter_deltas(opened, self._memory_bytes):
            yield ChangedRows.held(delta)

    def _delta_of_ids(self, opened: OpenPair) -> ChangedRows:
        ids = sorted(self._wanted.ids)
        shown = opened.after if opened.after is not None else opened.before
        schema = pa.schema([]) if shown is None else shown.schema
        old, new = (self._rows_of(table, ids, schema) for table in (opened.before, opened.after))
        return ChangedRows.held(rows_delta(old, new))

    def _rows_of(self, table: Table | None, ids: Sequence[str], schema: pa.Schema) -> pa.Table:
        if table is None:
            return schema.empty_table()
        # A property that the newer schema demands may be missing in rows of the older one.
        plain = pa.schema([field.with_nullable(True) for field in schema])
        return table.lookup(ids, table.schema.names).select(schema.names).cast(plain)


def iter_deltas(opened: OpenPair, memory_bytes: int) -> Iterator[TableDelta]:
    """Yield the difference of a table, range of ids by range; all of it at once when it fits the memory."""
    expect_same_columns(opened.before, opened.after)
    differing = select_differing(opened.before, opened.after)
    whole = whole_delta(*differing, memory_bytes)
    if whole is not None:
        yield whole
        return
    count = count_parts(differing, memory_bytes)
    for was, will in iter_parts(differing, (), count, memory_bytes):
        yield rows_delta(was, will)


# Makes the difference between two states; :class:`GraphDiff` works it out in this process.
Comparer = Callable[[GraphSnapshot, GraphSnapshot, ChangeFilter], GraphDiff]


def diff_between(
    store: GraphStore,
    before: str,
    after: str,
    wanted: ChangeFilter = NO_FILTER,
    *,
    branch: str = MAIN,
    compare: Comparer = GraphDiff,
) -> GraphDiff:
    """Return the difference between two states, each named by a reference: a branch, a commit, a tag, a moment.

    Args:
        store: the open graph.
        before: the earlier state.
        after: the later state; nothing but the direction of the answer depends on which is which.
        wanted: which changes.
        branch: what a reference without a branch is about.
        compare: who works it out.

    Raises:
        ValueFormatError: a text is no reference.
        BranchMissingError, TagMissingError, CommitMissingError: there is no such state.
        HistoryGoneError: a state was reclaimed.
    """
    name = BranchName.parse(branch)
    old, new = (store.refs.resolve_ref(text, name).snapshot for text in (before, after))
    return compare(old, new, wanted)
