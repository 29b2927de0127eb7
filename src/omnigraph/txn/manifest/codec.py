"""Manifest rows as Arrow, one column per field that any Lance reader can make sense of and JSON for the rest.

Every manifest version is stamped with a storage format. A step is a pure function from the rows of one format to the
rows of the next, and reading an older version applies the steps in memory. Writes keep the stamp of their branch, so
that versions of omnigraph that only know that format go on reading and writing beside them; a migration publishes a
version with the newest stamp. What an older version of omnigraph would misread, or not keep, may only be written
where the stamp tells it to stay away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.errors import FormatMismatch, FormatRange, FormatUnsupportedError, ManifestCorruptError
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.tables.layouts import array_of
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.manifest.rows import (
    AcceptedSchema,
    BranchHead,
    Commit,
    FeedMark,
    ManifestState,
    TableEntry,
    Tombstone,
    freeze_tables,
)
from omnigraph.txn.manifest.sequences import StreamSequences
from omnigraph.txn.stored_json import encode_json, json_decoder
from omnigraph.values import BranchName, CommitId
from omnigraph.values.formats import OLDEST_STORAGE_FORMAT, STORAGE_FORMAT

_TYPE = "object_type"
FORMAT_KEY = "omnigraph:internal_schema_version"

_FIELDS = [
    pa.field("object_id", pa.string(), nullable=False),
    pa.field("object_type", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("metadata", pa.string()),
    pa.field("table_key", pa.string()),
    pa.field("table_version", pa.int64()),
    pa.field("table_branch", pa.string()),
    pa.field("row_count", pa.int64()),
]

_NAMES = [field.name for field in _FIELDS]


@cache
def manifest_schema(format_version: int = STORAGE_FORMAT) -> pa.Schema:
    """Return the schema of the manifest dataset, stamped with the storage format."""
    return pa.schema(_FIELDS, metadata={FORMAT_KEY: str(format_version)})


_HEAD = "graph_head"


class _HeadMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    graph_id: str
    incarnation: str
    commit: CommitId
    writer_epoch: int
    floor: int
    cleaned: int = 0
    swept: int = 0
    batches: tuple[tuple[str, int], ...] | msgspec.UnsetType = msgspec.UNSET
    ended: bool | msgspec.UnsetType = msgspec.UNSET
    feeds: tuple[FeedMark, ...] | msgspec.UnsetType = msgspec.UNSET
    sequences: tuple[StreamSequences, ...] | msgspec.UnsetType = msgspec.UNSET


class _TombstoneMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dropped_by: CommitId
    dropped_at_ms: int


_head_metadata = json_decoder(_HeadMetadata)
_tombstone_metadata = json_decoder(_TombstoneMetadata)
_schema = json_decoder(AcceptedSchema)
_whole_commit = json_decoder(Commit)


# A commit is part of every version until it is folded, and all who wait for a version read it.
@lru_cache(maxsize=1024)
def _commit(metadata: str) -> Commit:
    try:
        return _whole_commit(metadata)
    except ValueError:
        completed = _complete_commit(metadata)
        if completed == metadata:
            raise
        return _whole_commit(completed)


def _complete_commit(metadata: str) -> str:
    """Return a commit with what the first versions of omnigraph did not record: when it was published, and where."""
    if '"published_at_ms":' in metadata:
        return metadata
    known = msgspec.json.decode(metadata)
    if not isinstance(known, dict) or "published_at_ms" in known:
        return metadata
    return _text({"published_at_ms": known.get("created_at_ms"), "touched": [], **known})


# One class for each kind of row, with the columns that it fills; a row has every column, null where it has no part.
class _HeadRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="object_type", tag=_HEAD):
    object_id: str
    metadata: str


class _SchemaRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="object_type", tag="schema"):
    object_id: str = "schema"
    metadata: str


class _CommitRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="object_type", tag="graph_commit"):
    object_id: str
    metadata: str


class _TableRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="object_type", tag="table"):
    object_id: str
    location: str
    table_key: str
    table_version: int
    table_branch: str | None
    row_count: int

    @property
    def entry(self) -> TableEntry:
        pin = TablePin(location=self.location, branch=self.table_branch, version=self.table_version)
        return TableEntry(table_key=self.table_key, object_id=self.object_id, pin=pin, row_count=self.row_count)


class _TombstoneRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="object_type", tag="table_tombstone"):
    object_id: str
    location: str
    metadata: str
    table_key: str
    table_version: int
    table_branch: str | None

    @property
    def tombstone(self) -> Tombstone:
        said = _tombstone_metadata(self.metadata)
        return Tombstone(
            table_key=self.table_key,
            object_id=self.object_id,
            pin=TablePin(location=self.location, branch=self.table_branch, version=self.table_version),
            dropped_by=said.dropped_by,
            dropped_at_ms=said.dropped_at_ms,
        )


_Row = _HeadRow | _SchemaRow | _CommitRow | _TableRow | _TombstoneRow
# Takes the classes apart before any thread needs them.
msgspec.json.Decoder(_HeadRow | _SchemaRow | _CommitRow | _TableRow | _TombstoneRow)


def encode_state(state: ManifestState) -> pa.Table:
    """Return the rows of the state fragment: tables, tombstones, the head and the recent commits."""
    rows: list[_Row] = [_head_row(state)]
    rows += [_table_row(entry) for entry in state.tables.values()]
    rows += [_tombstone_row(stone) for stone in state.tombstones]
    rows += [_commit_row(commit) for commit in state.recent]
    return _to_table(rows)


def encode_schema(schema: AcceptedSchema) -> pa.Table:
    """Return the one row of the schema fragment, which is written only when the schema changes."""
    return _to_table([_SchemaRow(metadata=_text(schema))])


def encode_commits(commits: tuple[Commit, ...]) -> pa.Table:
    """Return the rows of a lineage fragment, oldest commit first."""
    return _to_table([_commit_row(commit) for commit in commits])


def decode_state(
    version: int, rows: pa.Table, schema: AcceptedSchema, format_version: int = STORAGE_FORMAT
) -> ManifestState:
    """Return the state that :func:`encode_state` wrote as manifest version ``version``, stamped ``format_version``.

    Raises:
        ManifestCorruptError: the rows are not what any version of ours writes.
    """
    with _translating(f"state rows of version {version}"):
        return _decode_state(version, rows.to_pylist(), schema, format_version)


def decode_schema(rows: pa.Table) -> AcceptedSchema:
    """Return the accepted schema.

    Raises:
        ManifestCorruptError: the fragment is not one schema row of ours.
    """
    with _translating("one schema row"):
        (row,) = msgspec.convert(rows.to_pylist(), list[_SchemaRow])
        return _schema(row.metadata)


def decode_commits(rows: pa.Table) -> tuple[Commit, ...]:
    """Return the commits of a lineage fragment, oldest first; only the metadata of its rows is looked at.

    Raises:
        ManifestCorruptError: the fragment holds something else.
    """
    with _translating("lineage rows"):
        return tuple(_commit(metadata) for metadata in rows["metadata"].to_pylist())


@contextmanager
def _translating(expected: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        found = f"{type(error).__name__}: {error}"
        details = FormatMismatch(what="manifest", expected=expected, found=found)
        raise ManifestCorruptError(
            "the manifest holds rows that no version of omnigraph writes", details=details
        ) from error


def _decode_state(version: int, rows: list[Any], schema: AcceptedSchema, format_version: int) -> ManifestState:
    found: list[_Row] = msgspec.convert(rows, list[_Row])
    (head_row,) = (row for row in found if isinstance(row, _HeadRow))
    head = _head_metadata(head_row.metadata)
    return ManifestState(
        version=version,
        graph_id=head.graph_id,
        head=BranchHead(
            branch=BranchName(head_row.object_id.removeprefix(f"{_HEAD}:")),
            incarnation=head.incarnation,
            commit=head.commit,
            epoch=head.writer_epoch,
            retention_floor=head.floor,
            last_cleanup=head.cleaned,
            orphan_floor=head.swept,
            is_ended=head.ended is True,
        ),
        tables=freeze_tables(row.entry for row in found if isinstance(row, _TableRow)),
        tombstones=tuple(row.tombstone for row in found if isinstance(row, _TombstoneRow)),
        schema=schema,
        recent=tuple(_commit(row.metadata) for row in found if isinstance(row, _CommitRow)),
        batches=MappingProxyType(dict(head.batches or ())),
        feeds=MappingProxyType({mark.source: mark for mark in head.feeds or ()}),
        sequences=MappingProxyType({known.stream: known for known in head.sequences or ()}),
        format=format_version,
    )


def _head_row(state: ManifestState) -> _HeadRow:
    metadata = _HeadMetadata(
        graph_id=state.graph_id,
        incarnation=state.head.incarnation,
        commit=state.head.commit,
        writer_epoch=state.head.epoch,
        floor=state.head.retention_floor,
        cleaned=state.head.last_cleanup,
        swept=state.head.orphan_floor,
        batches=tuple(state.batches.items()) or msgspec.UNSET,
        ended=state.head.is_ended or msgspec.UNSET,
        feeds=tuple(state.feeds.values()) or msgspec.UNSET,
        sequences=tuple(state.sequences.values()) or msgspec.UNSET,
    )
    return _HeadRow(object_id=f"{_HEAD}:{state.head.branch}", metadata=_text(metadata))


def _table_row(entry: TableEntry) -> _TableRow:
    return _TableRow(
        object_id=entry.object_id,
        location=entry.pin.location,
        table_key=entry.table_key,
        table_version=entry.pin.version,
        table_branch=entry.pin.branch,
        row_count=entry.row_count,
    )


def _tombstone_row(stone: Tombstone) -> _TombstoneRow:
    return _TombstoneRow(
        object_id=stone.object_id,
        location=stone.pin.location,
        metadata=_text(_TombstoneMetadata(dropped_by=stone.dropped_by, dropped_at_ms=stone.dropped_at_ms)),
        table_key=stone.table_key,
        table_version=stone.pin.version,
        table_branch=stone.pin.branch,
    )


def _commit_row(commit: Commit) -> _CommitRow:
    known = _texts.get(commit.id)
    if known is None or known[0] is not commit:
        # Every publish writes the recent commits again.
        known = commit, _text(commit)
        _texts.put(commit.id, known)
    return _CommitRow(object_id=commit.id, metadata=known[1])


_MOST_TEXTS = 512
_texts: LRUCache[str, tuple[Commit, str]] = LRUCache(_MOST_TEXTS)


def _text(value: object) -> str:
    return encode_json(value).decode()


def _to_table(rows: Sequence[_Row]) -> pa.Table:
    # A publish waits for this, so that no row is made a mapping first.
    filled = [msgspec.structs.asdict(row) for row in rows]
    columns = {name: [row.get(name) for row in filled] for name in _NAMES}
    columns[_TYPE] = [row.__struct_config__.tag for row in rows]
    schema = manifest_schema()
    return pa.Table.from_arrays([array_of(columns[field.name], field.type) for field in schema], schema=schema)


UpgradeStep = Callable[[pa.Table], pa.Table]


def _complete_commits(rows: pa.Table) -> pa.Table:
    """The step from format 1 to 2: every commit says when it was published and what it touched.

    Otherwise the rows are the same. Their stamp is what differs: versions of omnigraph that only know format 1 either
    take a field that they do not know for damage or, the first of them, write the state back without it. Format 2
    keeps them away from both.
    """
    kinds, texts = rows["object_type"].to_pylist(), rows["metadata"].to_pylist()
    done = [_complete_commit(text) if kind == "graph_commit" else text for kind, text in zip(kinds, texts, strict=True)]
    if done == texts:
        return rows
    place = rows.schema.get_field_index("metadata")
    return rows.set_column(place, rows.schema.field(place), pa.array(done, rows.schema.field(place).type))


_STEPS: Mapping[int, UpgradeStep] = MappingProxyType({1: _complete_commits})


@record
class FormatChain:
    """The formats served, with the step that leads from each older one to the next."""

    oldest: int = OLDEST_STORAGE_FORMAT
    newest: int = STORAGE_FORMAT
    steps: Mapping[int, UpgradeStep] = field(default_factory=lambda: _STEPS)

    def stamp_of(self, schema: pa.Schema) -> int:
        """Return the format a manifest was written in.

        Raises:
            FormatUnsupportedError: outside the range that this version serves.
            ManifestCorruptError: there is no stamp.
        """
        text = (schema.metadata or {}).get(FORMAT_KEY.encode(), b"").decode()
        if not text.isdigit():
            details = FormatMismatch(what="manifest", expected=FORMAT_KEY, found=repr(text))
            raise ManifestCorruptError("the manifest has no format stamp", details=details)
        stamp = int(text)
        self.check(stamp)
        return stamp

    def check(self, stamp: int) -> None:
        """Refuse a format that this version neither reads nor writes.

        Raises:
            FormatUnsupportedError: it is outside the range.
        """
        if self.oldest <= stamp <= self.newest:
            return
        hint = (
            f"upgrade omnigraph to a version that supports storage format {stamp}"
            if stamp > self.newest
            else "export the graph with the version that wrote it and load it with this one"
        )
        raise FormatUnsupportedError(
            f"the graph has storage format {stamp}; this version supports {self.oldest} to {self.newest}",
            details=FormatRange(found=stamp, oldest=self.oldest, newest=self.newest),
            hint=hint,
        )

    def is_outdated(self, stamp: int) -> bool:
        """Whether there is a newer format to migrate to."""
        return stamp < self.newest

    def upgrade_rows(self, stamp: int, rows: pa.Table) -> pa.Table:
        """Return rows of format ``stamp`` as the newest format would hold them."""
        for source in range(stamp, self.newest):
            rows = self.steps[source](rows)
        return rows
