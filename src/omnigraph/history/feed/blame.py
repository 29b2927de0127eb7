"""The history of one entity: which commits changed which of its properties, newest first.

Storage never changes a file, so a row that stands at the same place of the same file in two states is the same row
in both. Where an entity lives tells how far back it is unchanged without looking at every commit in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.engine.equality import columns_equal
from omnigraph.history.diff.change import DST, SRC, ChangeOp, EntityImage, row_images
from omnigraph.history.diff.selection import deleted_offsets
from omnigraph.history.feed.blocks import Cause
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS
from omnigraph.store.tables.table import Table
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.rows import Commit, TableEntry
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName, check_whole
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable
from omnigraph.values.temporal import format_datetime

_SHOWN = {SRC: "from", DST: "to"}
_ADDRESS_BITS = 32
_LOW_HALF = 0xFFFFFFFF


@record
class EntityEvent:
    """A commit that changed the entity, and how."""

    cause: Cause
    op: ChangeOp
    changed: tuple[str, ...]
    before: EntityImage | None
    after: EntityImage | None

    def __str__(self) -> str:
        commit = self.cause.commit
        actor = "" if commit.actor is None else f" actor={commit.actor}"
        published = format_datetime(commit.published_at_ms)
        return f"{commit.id} {published} {self.op}{actor} changed={','.join(self.changed)}"

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON values."""
        images = {
            name: image.to_json()
            for name, image in (("before", self.before), ("after", self.after))
            if image is not None
        }
        return {"cause": self.cause.to_json(), "op": self.op, "changed": list(self.changed), **images}


@record
class EntityHistory(Printable):
    """What happened to an entity, newest first; ``is_complete`` when nothing older was left out."""

    table_key: str
    id: str
    events: tuple[EntityEvent, ...]
    is_complete: bool

    def lines(self) -> Iterator[str]:
        """Yield which commits changed what, newest first."""
        more = "" if self.is_complete else ", older ones are not shown"
        yield f"{self.table_key} {self.id}: {counted(len(self.events), 'change')}{more}"
        yield from map(str, self.events)

    def to_json(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        kind, _, name = self.table_key.partition(":")
        return {
            "kind": kind,
            "type_name": name,
            "id": self.id,
            "events": [event.to_json() for event in self.events],
            "is_complete": self.is_complete,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Found:
    """The entity in one state: the table it stands in, if there is one, and its row, if there is one."""

    place: int
    table: Table | None
    row: pa.Table | None


def blame(
    store: GraphStore, table_key: str, entity_id: str, *, branch: str = MAIN, at: str | None = None, limit: int = 20
) -> EntityHistory:
    """Return which commits of a branch changed an entity.

    Args:
        store: the open graph.
        table_key: the entity's type, ``node:<Type>`` or ``edge:<Type>``, as the newest of the states calls it.
        entity_id: its id.
        branch: whose first-parent line is walked; changes that were merged belong to the merge.
        at: a reference to the state to begin at; the newest of the branch when None.
        limit: how many events at most.

    Raises:
        UsageError: the limit is not a number of events.
        TypeMissingError: there is no such type in the newest of the states.
        BranchMissingError, TagMissingError, CommitMissingError: there is no such state.
        HistoryGoneError: a state on the way was reclaimed.
    """
    check_whole("limit", limit, least=1)
    name = BranchName.parse(branch)
    state = store.refs.resolve_ref(str(name) if at is None else at, name)
    line = store.refs.line_of(state.snapshot)
    # A publish may have made later commits visible together with this one.
    newest = line.position_of(state.commit.id)
    walk = _Walk(store, line, 0 if newest is None else newest, state.snapshot.entry(table_key), entity_id)
    events, is_complete = walk.events(limit)
    return EntityHistory(table_key=table_key, id=entity_id, events=tuple(events), is_complete=is_complete)


class _Walk:
    """Goes back along commits as one entity sees them. Places count back from the newest, which is 0."""

    def __init__(self, store: GraphStore, line: CommitLine, newest: int, entry: TableEntry, entity_id: str) -> None:
        self._store = store
        self._line = line
        self._newest = newest
        self._object_id = entry.object_id
        self._is_edge = entry.table_key.startswith("edge:")
        self._entity_id = entity_id
        self._snapshots: dict[int, GraphSnapshot] = {}
        self._tables: dict[int, Table | None] = {}

    def events(self, limit: int) -> tuple[list[EntityEvent], bool]:
        found: list[EntityEvent] = []
        place, here = 0, self._look(0)
        while True:
            place = self._last_unchanged(place, here)
            if place >= self._newest:
                return found, True
            there = self._look(place + 1)
            event = _event(self._commit(place), there.row, here.row, is_edge=self._is_edge)
            if event is not None:
                if len(found) >= limit:
                    return found, False
                found.append(event)
            place, here = place + 1, there

    def _commit(self, place: int) -> Commit:
        return self._line.at(self._newest - place)

    def _last_unchanged(self, place: int, here: _Found) -> int:
        """Return the oldest place that is known to hold the same row: by doubling steps, then by halving them."""
        good, step = place, 1
        bad = self._newest + 1
        while good + step < bad:
            if not self._is_same(good + step, here):
                bad = good + step
                break
            good, step = good + step, step * 2
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._is_same(middle, here):
                good = middle
            else:
                bad = middle
        return good

    def _is_same(self, place: int, here: _Found) -> bool:
        """Whether a state surely holds the same row; False when only reading it would tell."""
        with self._snapshot(place).reading(), self._snapshot(here.place).reading():
            return self._holds(self._table(place), here)

    def _holds(self, table: Table | None, here: _Found) -> bool:
        if table is None or here.table is None:
            return table is None and here.table is None
        if table.pin == here.table.pin:
            return True
        if here.row is None or table.fields != here.table.fields:
            return False
        address = here.row.column(ROW_ADDRESS)[0].as_py()
        number, offset = address >> _ADDRESS_BITS, address & _LOW_HALF
        mine = next(item for item in here.table.fragments if item.metadata.id == number)
        theirs = next((item for item in table.fragments if item.files == mine.files), None)
        if theirs is None:
            return False
        deleted = deleted_offsets(table, [theirs])[theirs.metadata.id]
        return not bool((deleted == offset).any())

    def _look(self, place: int) -> _Found:
        with self._snapshot(place).reading():
            table = self._table(place)
            if table is None:
                return _Found(place=place, table=None, row=None)
            rows = table.lookup([self._entity_id], table.schema.names)
            return _Found(place=place, table=table, row=rows if rows.num_rows else None)

    def _table(self, place: int) -> Table | None:
        if place not in self._tables:
            snapshot = self._snapshot(place)
            entries = snapshot.state.tables.values()
            entry = next((item for item in entries if item.object_id == self._object_id), None)
            self._tables[place] = None if entry is None else snapshot.table(entry.table_key)
        return self._tables[place]

    def _snapshot(self, place: int) -> GraphSnapshot:
        if place not in self._snapshots:
            self._snapshots[place] = self._store.snapshot_of(self._commit(place))
        return self._snapshots[place]


def _event(commit: Commit, before: pa.Table | None, after: pa.Table | None, *, is_edge: bool) -> EntityEvent | None:
    changed = _changed(before, after, is_edge=is_edge)
    if not changed and (before is None) == (after is None):
        return None
    op: ChangeOp = "insert" if before is None else "delete" if after is None else "update"
    return EntityEvent(
        cause=Cause(commit=commit),
        op=op,
        changed=changed,
        before=_image(before, is_edge=is_edge),
        after=_image(after, is_edge=is_edge),
    )


def _changed(before: pa.Table | None, after: pa.Table | None, *, is_edge: bool) -> tuple[str, ...]:
    """Return what differs; a property that one of the states does not know counts when the other has a value."""
    old = {} if before is None else _columns(before)
    new = {} if after is None else _columns(after)
    names = [name for name in {**new, **old} if not _is_equal(old.get(name), new.get(name))]
    return tuple(_SHOWN.get(name, name) if is_edge else name for name in names)


def _columns(row: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: row.column(name) for name in _plain(row).column_names if name != KEY}


def _is_equal(old: pa.ChunkedArray | None, new: pa.ChunkedArray | None) -> bool:
    if old is None or new is None:
        only = old if old is not None else new
        return only is None or only.null_count == 1
    if old.type != new.type:
        return bool(old.null_count == 1 and new.null_count == 1)
    return bool(columns_equal(old, new)[0])


def _plain(row: pa.Table) -> pa.Table:
    return row.drop_columns([name for name in ("_rowid", ROW_ADDRESS) if name in row.column_names])


def _image(row: pa.Table | None, *, is_edge: bool) -> EntityImage | None:
    return None if row is None else row_images(_plain(row), is_edge=is_edge)[0]
