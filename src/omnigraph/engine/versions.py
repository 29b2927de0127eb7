"""Which commit last changed an entity: its version.

A table says of each fragment no more than the version of the table that changed its rows last, and that is a bound:
folding small fragments and compacting them moves rows without changing them. So the state before that version is asked
whether it held the same row. If it did, its own bound is an earlier one, and the search goes on from there.

States that cleanup may have reclaimed are not asked, whether or not their files are still there: every process gives an
entity the same version. One that was last changed before them is at the oldest commit whose state is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.engine.equality import Mask, columns_equal
from omnigraph.errors import CommitMissingError, HistoryGoneError, InternalError
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS
from omnigraph.store.tables.row_versions import ChangeBounds, change_bounds
from omnigraph.store.tables.table import Table
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.rows import Commit, TableEntry
from omnigraph.txn.snapshot import GraphSnapshot

_ADDRESS_BITS = 32
_KNOWN = 4096

# Where a version of a table became visible: the branch and how far back it is kept, the table, its version, to the
# position of a commit.
KnownVersions = LRUCache[tuple[str, int, str, int], int]


def known_versions() -> KnownVersions:
    """Return a memory of where versions of tables became visible, which never changes."""
    return LRUCache(_KNOWN)


class SupportsHistory(Protocol):
    """The commits of a graph, and the states that they made."""

    def line_of(self, snapshot: GraphSnapshot) -> CommitLine:
        """Return the history that a state ends, by position."""

    def snapshot_of(self, commit: Commit) -> GraphSnapshot:
        """Return the state that a commit made visible."""


@record
class _Place:
    """A table at a position of the history."""

    position: int
    snapshot: GraphSnapshot
    entry: TableEntry
    table: Table


class EntityVersions:
    """The versions of the entities of one state."""

    def __init__(self, history: SupportsHistory | None, snapshot: GraphSnapshot, known: KnownVersions) -> None:
        self._history = history
        self._snapshot = snapshot
        self._known = known
        self._line: CommitLine | None = None
        self._entries: dict[tuple[int, str], TableEntry | None] = {}
        self._snapshots: dict[int, GraphSnapshot | None] = {}
        self._found: dict[str, dict[str, str]] = {}

    def find(self, table_key: str, ids: pa.Array) -> pa.Array:
        """Return the commit that last changed each entity, by its id; NULL for one that is not stored."""
        known = self._found.setdefault(table_key, {})
        asked = [name for name in pc.unique(ids).to_pylist() if name is not None and name not in known]
        if asked:
            for names, commit in self._search(table_key, pa.array(asked, pa.string())):
                known.update(dict.fromkeys(names.to_pylist(), commit))
        return pa.array([known.get(name) for name in ids.to_pylist()], pa.string())

    def _search(self, table_key: str, ids: pa.Array) -> Iterator[tuple[pa.Array, str]]:
        """Yield ids with the commit that last changed their entities."""
        entry = self._snapshot.state.table(table_key)
        if entry is None:
            return
        newest = self._history_line().position_of(self._snapshot.state.head.commit)
        position = len(self._history_line()) - 1 if newest is None else newest
        table = self._snapshot.table(table_key)
        pending = [(_Place(position=position, snapshot=self._snapshot, entry=entry, table=table), ids)]
        while pending:
            place, names = pending.pop()
            for bounds, group in _by_bounds(place, names):
                at = self._first_with(place, bounds.changed)
                before = None if bounds.is_insert else self._before(place, at)
                same = None if before is None else _unchanged(before, place, group)
                if before is None or same is None:
                    yield from self._changers(at, place.entry, group)
                    continue
                yield from self._changers(at, place.entry, group.filter(pa.array(~same)))
                if same.any():
                    pending.append((before, group.filter(pa.array(same))))

    def _first_with(self, place: _Place, version: int) -> int:
        """Return the position of the first commit whose state has a version of the table, or a later one."""
        head = self._snapshot.state.head
        key = (head.incarnation, head.retention_floor, place.entry.object_id, version)
        known = self._known.get(key)
        if known is not None:
            return known
        # By doubling steps back, then by halving them: what is asked was mostly changed lately.
        good, bad, step = place.position, -1, 1
        while good - step > bad:
            if not self._has_version(good - step, place.entry, version):
                bad = good - step
                break
            good, step = good - step, step * 2
        while good - bad > 1:
            middle = (good + bad) // 2
            if self._has_version(middle, place.entry, version):
                good = middle
            else:
                bad = middle
        self._known.put(key, good)
        return good

    def _has_version(self, position: int, entry: TableEntry, version: int) -> bool:
        found = self._entry(position, entry.object_id)
        return found is not None and found.pin.version >= version

    def _before(self, place: _Place, position: int) -> _Place | None:
        """Return the table before a commit; None when there was none, or nothing is left of it."""
        if position == 0:
            return None
        entry, snapshot = self._entry(position - 1, place.entry.object_id), self._state(position - 1)
        if entry is None or snapshot is None or not entry.row_count:
            return None
        try:
            table = snapshot.table(entry.table_key)
        except HistoryGoneError:
            return None
        return _Place(position=position - 1, snapshot=snapshot, entry=entry, table=table)

    def _changers(self, position: int, entry: TableEntry, ids: pa.Array) -> Iterator[tuple[pa.Array, str]]:
        """Yield ids that the version of a commit changed with the commit of that version which did so."""
        from omnigraph.txn.manifest.shared import SharedVersion  # noqa: PLC0415 - few reads ask for versions

        version, _ = SharedVersion.of_line(self._history_line(), position)
        there = self._entry(position, entry.object_id)
        key = entry.table_key if there is None else there.table_key
        if not version.is_told:
            touching = [commit for commit in version.commits if key in commit.touched]
            yield ids, str((touching or version.commits)[-1].id)
            return
        for commit in version.commits:
            rows = version.rows_of(commit)
            own = ids if rows is None else ids.filter(rows.mask(key, ids))
            if len(own):
                yield own, str(commit.id)

    def _entry(self, position: int, object_id: str) -> TableEntry | None:
        key = (position, object_id)
        if key not in self._entries:
            state = self._state(position)
            tables = () if state is None else state.state.tables.values()
            self._entries[key] = next((item for item in tables if item.object_id == object_id), None)
        return self._entries[key]

    def _state(self, position: int) -> GraphSnapshot | None:
        """Return the state at a position; None when it may have been reclaimed, or its branch is gone."""
        if position not in self._snapshots:
            self._snapshots[position] = self._kept(self._history_line().at(position))
        return self._snapshots[position]

    def _kept(self, commit: Commit) -> GraphSnapshot | None:
        head = self._snapshot.state.head
        if commit.branch == head.branch and commit.manifest_version < head.retention_floor:
            return None
        try:
            return self._commits().snapshot_of(commit)
        except (HistoryGoneError, CommitMissingError):
            return None

    def _history_line(self) -> CommitLine:
        if self._line is None:
            self._line = self._commits().line_of(self._snapshot)
        return self._line

    def _commits(self) -> SupportsHistory:
        if self._history is None:
            raise InternalError("versions were requested without a history")
        return self._history


def _by_bounds(place: _Place, ids: pa.Array) -> Iterator[tuple[ChangeBounds, pa.Array]]:
    """Yield the stored ones of some ids, by what their fragments say of them."""
    with place.snapshot.reading():
        rows = place.table.lookup(ids, ())
    owners = rows.column(ROW_ADDRESS).to_numpy() >> _ADDRESS_BITS
    names = one_array(rows.column(KEY))
    metadata = {item.metadata.id: item.metadata for item in place.table.fragments}
    grouped: dict[ChangeBounds, Mask] = {}
    for owner in np.unique(owners):
        bounds = change_bounds(metadata[int(owner)], place.entry.pin.version)
        here: Mask = owners == owner
        grouped[bounds] = grouped[bounds] | here if bounds in grouped else here
    for bounds, chosen in grouped.items():
        yield bounds, names.filter(pa.array(chosen))


def _unchanged(before: _Place, after: _Place, ids: pa.Array) -> Mask | None:
    """Return which entities have the same values in both states; None when the earlier one cannot be read any more.

    A property that only one of the states knows is the same where it has no value.
    """
    try:
        with before.snapshot.reading():
            old = before.table.lookup(ids, before.table.schema.names)
    except HistoryGoneError:
        return None
    with after.snapshot.reading():
        new = after.table.lookup(ids, after.table.schema.names)
    at_old, at_new = (pc.index_in(ids, value_set=one_array(rows.column(KEY))) for rows in (old, new))
    known: Mask = np.asarray(pc.is_valid(at_old))
    same: Mask = known.copy()
    chosen = pa.array(known)
    old, new = old.take(at_old.filter(chosen)), new.take(at_new.filter(chosen))
    equal: Mask = np.ones(old.num_rows, dtype=np.bool_)
    for name in {*before.table.schema.names, *after.table.schema.names}:
        equal &= _column_same(old, new, name)
    same[known] = equal
    return same


def _column_same(old: pa.Table, new: pa.Table, name: str) -> Mask:
    if name in old.column_names and name in new.column_names:
        left, right = old.column(name), new.column(name)
        if left.type == right.type:
            return columns_equal(left, right)
        return np.asarray(pc.and_(left.is_null(), right.is_null()))
    only = old.column(name) if name in old.column_names else new.column(name)
    return np.asarray(only.is_null())
