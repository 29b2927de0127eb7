"""What the manifest says: tables with their pins, the accepted schema, the branch head, and commits.

All of it is immutable. A publish takes one :class:`ManifestState` and makes the next one; nothing is edited in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from omnigraph.records import record
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.manifest.sequences import SequenceMark, StreamSequences
from omnigraph.values import BranchName, CommitId
from omnigraph.values.formats import STORAGE_FORMAT
from omnigraph.values.printable import Printable
from omnigraph.values.temporal import format_datetime

# Every publish writes the list again, so it must not grow with the number of streams that ever were.
MAX_APPS = 256
_Mark = TypeVar("_Mark")


class TableEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A live type's table: its identity, where it is, which version the graph means, how many rows that has."""

    table_key: str
    object_id: str
    pin: TablePin
    row_count: int


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dropped type's table, remembered until cleanup reclaims it."""

    table_key: str
    object_id: str
    pin: TablePin
    dropped_by: CommitId
    dropped_at_ms: int


class TableRename(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A live table that goes on under another key; everything else about it stays."""

    old_key: str
    new_key: str


class AcceptedSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The schema in force: source as written, compiled form, and the hash that transactions compare."""

    source: str
    compiled: str
    hash: str


class BatchMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which piece of a stream a commit holds: the application that delivers it, and the number it has there."""

    app: str
    number: int


class FeedMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far a branch has taken over the change feed of another graph.

    ``source`` identifies the feed: graph, branch, the life of that branch, and filter. ``sequence`` is the place of the
    last commit that was taken over as a whole, ``part`` how many changes of the one after it were. ``token`` is what
    the feed goes on from.
    """

    source: str
    sequence: int
    part: int = 0
    token: str

    @property
    def place(self) -> tuple[int, int]:
        """What orders the marks of one feed."""
        return self.sequence, self.part


class RequestMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The request that asked for a commit.

    ``id`` is what logs and answers call it. ``key`` stands for the key that its caller gave it, ``payload`` for what
    was asked for under that key, and ``receipt`` is what a repeated request is told beside the commit.
    """

    id: str | None = None
    key: str | None = None
    payload: str = ""
    receipt: dict[str, Any] = msgspec.field(default_factory=dict)


class RunMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The run of a pipeline that made a commit.

    ``digest`` stands for what was declared when it ran. ``progress`` is, by source, how far the run has read; it is
    published with the rows, so that the two never disagree. ``report`` is what the run tells about itself: rows by
    step, expectations, checks.
    """

    pipeline: str
    run: str
    digest: str = ""
    progress: dict[str, Any] = msgspec.field(default_factory=dict)
    report: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it has read, as far as they are known."""
        told = [one.get("files", ()) for one in self.progress.values() if isinstance(one, dict)]
        return tuple(str(file[0]) for files in told for file in files)

    def __str__(self) -> str:
        return self.described()

    def described(self, files: tuple[str, ...] = ()) -> str:
        """Return pipeline, run and file: that of an entity, if it is known, else what the run has read."""
        read = self.files
        known = files or (read if len(read) == 1 else ())
        shown = f" file={','.join(known)}" if known else f" files={len(read)}" if read else ""
        return f"pipeline={self.pipeline} run={self.run}{shown}"

    def to_json(self) -> dict[str, Any]:
        """Return the mark as a commit shows it."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        return told


class WrittenIds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True):
    """The ids of the rows of a table that a commit wrote or removed."""

    table_key: str
    ids: tuple[str, ...]


class Commit(Printable, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of history.

    ``manifest_version`` is the version that made it visible; commits that one publish made visible together share it
    and follow each other through ``parent``. ``created_at_ms`` is when somebody asked for it, ``published_at_ms`` when
    its publish was planned, which along a branch never goes back. ``touched`` are the keys of the tables it changed,
    as they were called before and after it. ``batch`` says that it is one piece of a stream, ``feed`` that it took over
    changes of another graph, and how far, ``proposal`` that it merged the proposal of that number, ``request`` which
    request asked for it, ``reverts`` which commit it undid, ``run`` which run of a pipeline made it, ``sequences`` what
    it adds to what is remembered of change logs. ``wrote`` names its rows where its version holds other commits too;
    one of these, and a commit that has its version to itself, names none.
    """

    id: CommitId
    parent: CommitId | None
    actor: str | None
    created_at_ms: int
    manifest_version: int
    operation: str
    branch: BranchName
    merged_parent: CommitId | None
    message: str | None
    published_at_ms: int
    touched: tuple[str, ...]
    batch: BatchMark | None = None
    feed: FeedMark | None = None
    proposal: int | None = None
    request: RequestMark | None = None
    reverts: CommitId | None = None
    run: RunMark | None = None
    sequences: tuple[SequenceMark, ...] = ()
    wrote: tuple[WrittenIds, ...] | None = None

    @property
    def request_id(self) -> str | None:
        """What the request that asked for it was called; None when it had no name."""
        return None if self.request is None else self.request.id

    def to_brief_json(self) -> dict[str, Any]:
        """Return the commit as the outcome of a write shows it."""
        return {
            "graph_commit_id": self.id,
            "graph_branch": self.branch,
            "graph_manifest_version": self.manifest_version,
            "parent_commit_id": self.parent,
            "merged_parent_commit_id": self.merged_parent,
            "actor_id": self.actor,
            "created_at": format_datetime(self.created_at_ms),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the commit with the field names of the public contract; times are UTC, as ISO 8601 text."""
        batch = {} if self.batch is None else {"batch": {"app": self.batch.app, "number": self.batch.number}}
        feed = {} if self.feed is None else {"feed": {"source": self.feed.source, "token": self.feed.token}}
        return {
            **self.to_brief_json(),
            "operation": self.operation,
            "message": self.message,
            "published_at": format_datetime(self.published_at_ms),
            "types": list(self.touched),
            **batch,
            **feed,
            **({} if self.proposal is None else {"proposal": self.proposal}),
            **({} if self.request_id is None else {"request_id": self.request_id}),
            **({} if self.reverts is None else {"reverted_commit_id": self.reverts}),
            **({} if self.run is None else {"run": self.run.to_json()}),
        }

    def columns(self) -> tuple[str, ...]:
        """Return the commit as the columns of a log: id, when published, operation, actor, message, types."""
        published = format_datetime(self.published_at_ms)
        types = ", ".join(self.touched)
        return self.id, published, self.operation, self.actor or "", self.message or "", types

    def lines(self) -> Iterator[str]:
        """Yield the commit as a line of a log."""
        yield "  ".join(filter(None, self.columns()))


@record
class BranchHead:
    """The newest commit of a branch and what fences writers.

    ``epoch`` rises with every takeover of a dead writer's claim. ``retention_floor`` is the oldest manifest version
    that cleanup has left whole. ``last_cleanup`` is the version that the last cleanup made; what was decided before it
    may rely on states that are gone. ``orphan_floor`` is the oldest version that a write may have uploaded files upon:
    files that were uploaded upon an older one, and that nothing names, may be gone. ``is_ended``: the branch was
    deleted, and its earlier states stay readable for merges; no version follows this one.
    """

    branch: BranchName
    incarnation: str
    commit: CommitId
    epoch: int = 0
    retention_floor: int = 0
    last_cleanup: int = 0
    orphan_floor: int = 0
    is_ended: bool = False


@record
class ManifestState:
    """Everything a publish replaces, plus the commits that have not been folded into a lineage fragment yet.

    ``batches`` is the last number of every application that streams into the branch, the one heard of longest ago
    first; of more than ``MAX_APPS`` the first are forgotten. ``feeds`` is how far each feed of another graph was taken
    over, by source, ``sequences`` what is remembered of each stream of change logs, both in the same order and with the
    same bound. ``moment_ms`` is when the newest folded commit was published, looked up where no commit is recent.
    ``format`` is the storage format of the version; those that follow keep it until a migration raises it.
    """

    version: int
    graph_id: str
    head: BranchHead
    tables: Mapping[str, TableEntry]
    tombstones: tuple[Tombstone, ...]
    schema: AcceptedSchema
    recent: tuple[Commit, ...]
    batches: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    moment_ms: int = 0
    feeds: Mapping[str, FeedMark] = field(default_factory=lambda: MappingProxyType({}))
    sequences: Mapping[str, StreamSequences] = field(default_factory=lambda: MappingProxyType({}))
    format: int = STORAGE_FORMAT

    def table(self, table_key: str) -> TableEntry | None:
        """Return the entry of a live table, or None."""
        return self.tables.get(table_key)

    def recent_commit(self, commit_id: CommitId) -> Commit | None:
        """Return a commit that is still among the recent ones, or None."""
        return next((commit for commit in self.recent if commit.id == commit_id), None)

    def next_moment(self, now_ms: int) -> int:
        """Return when a publish planned at ``now_ms`` says it was: never before the commit it follows."""
        return max([now_ms, self.moment_ms, *(commit.published_at_ms for commit in self.recent[-1:])])


class FloorChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a cleanup records before it removes anything; neither number ever falls.

    ``forgotten`` are the ids of dropped tables that no state will hold any more.
    """

    floor: int
    swept: int
    forgotten: tuple[str, ...] = ()


class ManifestChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one publish does to the state; deterministic, so that recovery can do it instead of the writer.

    Drops and renames name tables as they are called before, ``put_tables`` as they are called afterwards. ``ends``: the
    branch is deleted, and this is its last version. ``format``: the storage format that the branch has from here on.
    """

    commits: tuple[Commit, ...]
    put_tables: tuple[TableEntry, ...] = ()
    drop_tables: tuple[Tombstone, ...] = ()
    rename_tables: tuple[TableRename, ...] = ()
    schema: AcceptedSchema | None = None
    raise_epoch: bool = False
    floor: FloorChange | msgspec.UnsetType = msgspec.UNSET
    ends: bool | msgspec.UnsetType = msgspec.UNSET
    format: int | msgspec.UnsetType = msgspec.UNSET


def apply_change(state: ManifestState, change: ManifestChange) -> ManifestState:
    """Return the state after ``change``: the one place that says what a publish means."""
    tables = dict(state.tables)
    for stone in change.drop_tables:
        tables.pop(stone.table_key, None)
    moved = [(rename.new_key, tables.pop(rename.old_key)) for rename in change.rename_tables]
    tables.update({key: msgspec.structs.replace(entry, table_key=key) for key, entry in moved})
    for entry in change.put_tables:
        tables[entry.table_key] = entry
    head = replace(
        state.head,
        # A cleanup makes a version and no commit: it changes nothing that history could tell.
        commit=change.commits[-1].id if change.commits else state.head.commit,
        epoch=state.head.epoch + (1 if change.raise_epoch else 0),
        is_ended=change.ends is True,
    )
    stones = state.tombstones + change.drop_tables
    if change.floor is not msgspec.UNSET:
        head = replace(
            head,
            retention_floor=max(head.retention_floor, change.floor.floor),
            orphan_floor=max(head.orphan_floor, change.floor.swept),
            last_cleanup=state.version + 1,
        )
        stones = tuple(stone for stone in stones if stone.object_id not in change.floor.forgotten)
    return replace(
        state,
        version=state.version + 1,
        head=head,
        tables=freeze_tables(tables.values()),
        tombstones=stones,
        schema=change.schema if change.schema is not None else state.schema,
        recent=state.recent + change.commits,
        batches=_newest(state.batches, {one.batch.app: one.batch.number for one in change.commits if one.batch}),
        feeds=_newest(state.feeds, {one.feed.source: one.feed for one in change.commits if one.feed}),
        sequences=_remembered(state.sequences, change.commits),
        format=state.format if change.format is msgspec.UNSET else change.format,
    )


def _remembered(before: Mapping[str, StreamSequences], commits: Iterable[Commit]) -> Mapping[str, StreamSequences]:
    for commit in commits:
        before = _newest(before, {mark.stream: mark.after(before.get(mark.stream)) for mark in commit.sequences})
    return before


def _newest(before: Mapping[str, _Mark], marks: Mapping[str, _Mark]) -> Mapping[str, _Mark]:
    """Return what is known of each stream, the one heard of last at the end."""
    if not marks:
        return before
    known = {name: mark for name, mark in before.items() if name not in marks} | dict(marks)
    return MappingProxyType(dict(list(known.items())[-MAX_APPS:]))


def freeze_tables(entries: Iterable[TableEntry]) -> Mapping[str, TableEntry]:
    """Return entries by key in a stable order that nobody can change."""
    ordered = sorted(entries, key=lambda entry: entry.table_key)
    return MappingProxyType({entry.table_key: entry for entry in ordered})
