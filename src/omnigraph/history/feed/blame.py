"""The history of one entity: which commits changed which of its properties, newest first, and who wrote each value.

Storage never changes a file, so a row that stands at the same place of the same file in two states is the same row
in both. Where an entity lives tells how far back it is unchanged without looking at every commit in between.

The author of a property is the commit whose value it is. A merge is the author of what it decided itself; what it took
from its second parent belongs to the commit of the merged branch that wrote it, however many merges it came through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from omnigraph.engine.accepted import catalog_of
from omnigraph.engine.equality import columns_equal
from omnigraph.engine.past import column_identity, rows_as, with_identity
from omnigraph.errors import BranchMissingError, CommitMissingError, HistoryGoneError
from omnigraph.history.diff.change import DST, SRC, ChangeOp, EntityImage, row_images
from omnigraph.history.diff.selection import deleted_offsets
from omnigraph.history.feed.blocks import Cause
from omnigraph.history.feed.entity_history import EntityEvent, EntityHistory, PropertyAuthor
from omnigraph.history.feed.first_parents import FirstParents
from omnigraph.history.origins import origins_of
from omnigraph.records import record
from omnigraph.runtime import check_call
from omnigraph.store.staging.columns import holds_all
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS
from omnigraph.store.tables.table import Table
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.merged import is_merge
from omnigraph.txn.manifest.rows import Commit, RunMark
from omnigraph.txn.manifest.shared import SharedVersion
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName, CommitId, check_whole

_SHOWN = {SRC: "from", DST: "to"}
_ADDRESS_BITS = 32
_LOW_HALF = 0xFFFFFFFF
_GONE = (BranchMissingError, CommitMissingError, HistoryGoneError)


def blame(
    store: GraphStore, table_key: str, entity_id: str, *, branch: str = MAIN, at: str | None = None, limit: int = 20
) -> EntityHistory:
    """Return which commits of a branch changed an entity, and who wrote its properties.

    Args:
        store: the open graph.
        table_key: the entity's type, ``node:<Type>`` or ``edge:<Type>``, as the newest of the states calls it.
        entity_id: its id.
        branch: whose first-parent line is walked; changes that were merged are events of the merge, with their authors.
        at: a reference to the state to begin at; the newest of the branch when None.
        limit: how many events at most.

    Raises:
        UsageError: the limit is not a number of events.
        TypeMissingError: there is no such type in the newest of the states.
        BranchMissingError, TagMissingError, CommitMissingError, HistoryGoneError: there is no such state.
    """
    check_whole("limit", limit, least=1)
    name = BranchName.parse(branch)
    state = store.refs.resolve_ref(str(name) if at is None else at, name)
    line = store.refs.line_of(state.snapshot)
    # A publish may have made later commits visible together with this one.
    newest = _last_of_version(line, line.position_of(state.commit.id) or 0)
    entity = _Entity(store, state.snapshot, table_key, entity_id)
    way = FirstParents.of_line(store, line, newest)
    entity.know(state.commit.id, state.snapshot)
    return _Blame(entity, way, limit).history(table_key)


def _last_of_version(line: CommitLine, position: int) -> int:
    """Return the position of the last commit that was published together with one: the state has its rows, too."""
    version, first = SharedVersion.of_line(line, position)
    return first + len(version.commits) - 1


class _Blame:
    """Collects events and authors along one way back."""

    def __init__(self, entity: _Entity, way: FirstParents, limit: int) -> None:
        self._entity = entity
        self._walk = _Walk(entity, way)
        self._limit = limit
        self._files: dict[str, tuple[str, ...]] = {}

    def history(self, table_key: str) -> EntityHistory:
        events: list[EntityEvent] = []
        authors: dict[str, PropertyAuthor] = {}
        newest = self._walk.look(0)
        wanted = [] if newest.row is None else _names(newest.row)
        labels = _labels(newest.row)
        is_complete = True
        for change in self._walk.changes():
            if len(events) >= self._limit:
                is_complete = False
                break
            found = {one.name: one for one in self._authors(change)}
            events.append(self._event(change, found))
            if len(authors) < len(wanted):
                authors |= {name: found[name] for name in wanted if name in found and name not in authors}
        since = self._walk.gone_before
        return EntityHistory(
            table_key=table_key,
            id=self._entity.id,
            events=tuple(events),
            is_complete=is_complete and since is None,
            properties=tuple(
                self._shown(authors.get(name, PropertyAuthor(name=name, author=None)), labels) for name in wanted
            ),
            known_since=since,
        )

    def _authors(self, change: _Change) -> Iterator[PropertyAuthor]:
        merge = change.commit if is_merge(change.commit) else None
        for name, author in self._entity.authors(self._walk.way, change, change.decided).items():
            yield PropertyAuthor(name=name, author=author, merge=None if author is merge else merge)

    def _event(self, change: _Change, found: dict[str, PropertyAuthor]) -> EntityEvent:
        is_edge = self._entity.is_edge
        labels = _labels(change.before if change.after is None else change.after)
        before = change.before
        if before is not None and change.after is not None:
            before = rows_as(_plain(before), _plain(change.after).schema)
        return EntityEvent(
            cause=Cause(commit=change.commit),
            op=change.op,
            changed=tuple(self._name(name, labels) for name in change.changed),
            before=_image(before, is_edge=is_edge),
            after=_image(change.after, is_edge=is_edge),
            authors=tuple(self._shown(found[name], labels) for name in change.changed),
            files=self._files_of(change.commit),
        )

    def _shown(self, one: PropertyAuthor, labels: dict[str, str]) -> PropertyAuthor:
        files = () if one.author is None else self._files_of(one.author)
        return PropertyAuthor(name=self._name(one.name, labels), author=one.author, merge=one.merge, files=files)

    def _files_of(self, commit: Commit) -> tuple[str, ...]:
        """Return the files that the entity came from, if a run of a pipeline made the commit."""
        run = commit.run
        if run is None:
            return ()
        if run.run not in self._files:
            self._files[run.run] = self._entity.origins(run)
        return self._files[run.run]

    def _name(self, identity: str, labels: dict[str, str]) -> str:
        column = labels[identity]
        return _SHOWN.get(column, column) if self._entity.is_edge else column


@record(eq=False)
class _Found:
    """The entity in one state: the table it stands in, if there is one, and its row, if there is one."""

    place: int
    table: Table | None
    row: pa.Table | None


@record(eq=False)
class _Change:
    """What the commit at a place did to the entity: the columns that differ, and the row before and after."""

    place: int
    commit: Commit
    changed: tuple[str, ...]
    before: pa.Table | None
    after: pa.Table | None

    @property
    def op(self) -> ChangeOp:
        return "insert" if self.before is None else "delete" if self.after is None else "update"

    @property
    def decided(self) -> tuple[str, ...]:
        """The columns whose value the commit set: all of a row that it made or removed, also where there is none."""
        row = self.after if self.before is None else self.before if self.after is None else None
        return self.changed if row is None else tuple(_names(row))


class _Entity:
    """One entity in any state of the graph; what was opened for it is kept while its history is read.

    Merged branches may know its type and its properties by other ids, which the newest state has as aliases.
    """

    def __init__(self, store: GraphStore, newest: GraphSnapshot, table_key: str, entity_id: str) -> None:
        self._store = store
        self._object_id = newest.entry(table_key).object_id
        self._type_ids = {self._object_id.partition("-")[0]}
        self._known_as: dict[str, str] = {}
        self.id = entity_id
        self._table_key = table_key
        kind, _, name = table_key.partition(":")
        self.is_edge = kind == "edge"
        # Few schemas have any, and the text tells without being read.
        if '"aliases"' in newest.state.schema.compiled:
            catalog = catalog_of(newest.state.schema)
            owner = catalog.nodes[name] if kind == "node" else catalog.edges[name]
            self._type_ids |= {f"{number:016x}" for number in owner.aliases}
            self._known_as |= {str(alias): str(prop.id) for prop in owner.properties for alias in prop.aliases}
        self._snapshots: dict[CommitId, GraphSnapshot] = {}
        self._tables: dict[CommitId, Table | None] = {}

    def origins(self, run: RunMark) -> tuple[str, ...]:
        """Return the files that it came from in a run of a pipeline."""
        return origins_of(self._store.storage, run, self._table_key, self.id)

    def know(self, commit_id: CommitId, snapshot: GraphSnapshot) -> None:
        """Take a state that is open already."""
        self._snapshots[commit_id] = snapshot

    def snapshot(self, way: FirstParents, place: int) -> GraphSnapshot:
        """Return a state."""
        commit_id = way.commit(place).id
        if commit_id not in self._snapshots:
            self._snapshots[commit_id] = way.snapshot(place)
        return self._snapshots[commit_id]

    def table(self, way: FirstParents, place: int) -> Table | None:
        """Return the entity's table in a state, None where its type does not exist."""
        commit_id = way.commit(place).id
        if commit_id not in self._tables:
            key = self.table_key(way, place)
            self._tables[commit_id] = None if key is None else self.snapshot(way, place).table(key)
        return self._tables[commit_id]

    def table_key(self, way: FirstParents, place: int) -> str | None:
        """Return what a state calls the entity's table, None where its type does not exist."""
        entries = self.snapshot(way, place).state.tables.values()
        return next((item.table_key for item in entries if self._is_own(item.object_id)), None)

    def _is_own(self, object_id: str) -> bool:
        number, _, incarnation = object_id.partition("-")
        # A type that was dropped and came back by a merge has another incarnation.
        return object_id == self._object_id or (len(number) == len(incarnation) and number in self._type_ids)

    def row(self, table: Table) -> pa.Table | None:
        """Return the entity's row in a state of its table, columns by the ids that the newest state has for them."""
        rows = table.lookup([self.id], table.schema.names)
        if not rows.num_rows:
            return None
        fields = [with_identity(field, self._known_as) for field in rows.schema]
        return pa.table(rows.columns, schema=pa.schema(fields)) if self._known_as else rows

    def authors(self, way: FirstParents, change: _Change, names: Collection[str]) -> dict[str, Commit | None]:
        """Return the commit that wrote each of the columns which a change set; None where no state tells any more."""
        if not is_merge(change.commit):
            return dict.fromkeys(names, change.commit)
        merged = way.merged_at(change.place)
        if merged is None:
            return dict.fromkeys(names)
        walk = _Walk(self, merged)
        try:
            there = walk.look(0)
        except _GONE:
            return dict.fromkeys(names)
        waiting = {name for name in names if _is_taken(change.after, there.row, name)}
        # What is not as it is on the merged branch was decided by the merge.
        found: dict[str, Commit | None] = {name: change.commit for name in names if name not in waiting}
        for older in walk.changes():
            hit = waiting.intersection(older.decided)
            if hit:
                found |= self.authors(merged, older, hit)
                waiting -= hit
            if not waiting:
                break
        return found | dict.fromkeys(waiting)


class _Walk:
    """Goes back along commits as one entity sees them."""

    def __init__(self, entity: _Entity, way: FirstParents) -> None:
        self._entity = entity
        self.way = way
        # The oldest commit whose state could be read, when the one before it is gone.
        self.gone_before: Commit | None = None

    def changes(self) -> Iterator[_Change]:
        """Yield what changed the entity, newest first, as far back as states can be read."""
        place, here = 0, self.look(0)
        while True:
            check_call()
            place = self._last_unchanged(place, here)
            if not self.way.has(place + 1):
                return
            try:
                there = self.look(place + 1)
            except _GONE:
                self.gone_before = self.way.commit(place)
                return
            changed = _changed(there.row, here.row)
            if changed or (there.row is None) != (here.row is None):
                author = self._author(place)
                commit = self.way.commit(author)
                yield _Change(place=author, commit=commit, changed=changed, before=there.row, after=here.row)
            place, here = place + 1, there

    def _author(self, place: int) -> int:
        """Return the place of the commit that changed the entity with the version whose first commit is at a place."""
        entity, version = self._entity, self.way.version(place)
        if len(version.commits) == 1:
            return place
        after, before = (entity.table_key(self.way, one) for one in (place, place + 1))
        author = version.author(after or before or "", entity.id)
        return place if author is None else place - version.commits.index(author)

    def look(self, place: int) -> _Found:
        """Return the entity in a state.

        Raises:
            HistoryGoneError, CommitMissingError, BranchMissingError: the state is gone.
        """
        with self._entity.snapshot(self.way, place).reading():
            table = self._entity.table(self.way, place)
            if table is None:
                return _Found(place=place, table=None, row=None)
            return _Found(place=place, table=table, row=self._entity.row(table))

    def _last_unchanged(self, place: int, here: _Found) -> int:
        """Return the oldest place that is known to hold the same row: by doubling steps, then by halving them."""
        good, step = place, 1
        while self.way.has(good + step) and self._is_same(good + step, here):
            check_call()
            good, step = good + step, step * 2
        bad = good + step
        while bad - good > 1:
            middle = (good + bad) // 2
            if self.way.has(middle) and self._is_same(middle, here):
                good = middle
            else:
                bad = middle
        return good

    def _is_same(self, place: int, here: _Found) -> bool:
        """Whether a state surely holds the same row; False when only reading it would tell, or it is gone."""
        entity, way = self._entity, self.way
        try:
            with entity.snapshot(way, place).reading(), entity.snapshot(way, here.place).reading():
                return _holds(entity.table(way, place), here)
        except _GONE:
            return False


def _holds(table: Table | None, here: _Found) -> bool:
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


def _is_taken(after: pa.Table | None, source: pa.Table | None, name: str) -> bool:
    """Whether the value that a merge has is that of the merged branch."""
    if after is None or source is None:
        return after is None and source is None
    return _is_equal(_columns(after).get(name), _columns(source).get(name))


def _names(row: pa.Table) -> list[str]:
    return list(_columns(row))


def _changed(before: pa.Table | None, after: pa.Table | None) -> tuple[str, ...]:
    """Return what differs of what the newer of two states knows; a property that is new there was null before."""
    old = {} if before is None else _columns(before)
    new = {} if after is None else _columns(after)
    return tuple(name for name in (new or old) if not _is_equal(old.get(name), new.get(name)))


def _columns(row: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return what a row holds, by what stays when a property is renamed."""
    plain = _plain(row)
    return {column_identity(field): plain.column(field.name) for field in plain.schema if field.name != KEY}


def _labels(row: pa.Table | None) -> dict[str, str]:
    """Return what the columns of a row are called."""
    return {} if row is None else {column_identity(field): field.name for field in row.schema}


def _is_equal(old: pa.ChunkedArray | None, new: pa.ChunkedArray | None) -> bool:
    if old is None or new is None:
        only = old if old is not None else new
        return only is None or only.null_count == 1
    if old.type != new.type and holds_all(new.type, old.type):
        old = old.cast(new.type)
    elif old.type != new.type and holds_all(old.type, new.type):
        new = new.cast(old.type)
    if old.type != new.type:
        return bool(old.null_count == 1 and new.null_count == 1)
    return bool(columns_equal(old, new)[0])


def _plain(row: pa.Table) -> pa.Table:
    return row.drop_columns([name for name in ("_rowid", ROW_ADDRESS) if name in row.column_names])


def _image(row: pa.Table | None, *, is_edge: bool) -> EntityImage | None:
    return None if row is None else row_images(_plain(row), is_edge=is_edge)[0]
