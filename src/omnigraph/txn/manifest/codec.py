"""Manifest rows as Arrow, one column per field that any Lance reader can make sense of and JSON for the rest.

An upgrade step is a pure function from the rows of one format to the rows of the next. Reading an older format
applies the steps in memory; the first publish upon it writes the newest format. So an upgrade is a publish like any
other: atomic, recoverable, and decided once when two processes open the graph at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.errors import FormatMismatch, FormatRange, FormatUnsupportedError, ManifestCorruptError
from omnigraph.records import record
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.jsontext import encode_json
from omnigraph.txn.manifest.rows import (
    AcceptedSchema,
    BatchMark,
    BranchHead,
    Commit,
    ManifestState,
    TableEntry,
    Tombstone,
    freeze_tables,
)
from omnigraph.values import BranchName, CommitId, Ulid
from omnigraph.values.formats import STORAGE_FORMAT

FORMAT_KEY = "omnigraph:internal_schema_version"

_TABLE, _TOMBSTONE, _SCHEMA, _COMMIT, _HEAD = "table", "table_tombstone", "schema", "graph_commit", "graph_head"

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


def manifest_schema(format_version: int = STORAGE_FORMAT) -> pa.Schema:
    """Return the schema of the manifest dataset, stamped with the storage format."""
    return pa.schema(_FIELDS, metadata={FORMAT_KEY: str(format_version)})


def encode_state(state: ManifestState) -> pa.Table:
    """Return the rows of the state fragment: tables, tombstones, the head and the recent commits."""
    rows = [_head_row(state)]
    rows += [_table_row(entry) for entry in state.tables.values()]
    rows += [_tombstone_row(stone) for stone in state.tombstones]
    rows += [_commit_row(commit) for commit in state.recent]
    return _to_table(rows)


def encode_schema(schema: AcceptedSchema) -> pa.Table:
    """Return the one row of the schema fragment, which is written only when the schema changes."""
    metadata = {"source": schema.source, "compiled": schema.compiled, "hash": schema.hash}
    return _to_table([_row("schema", _SCHEMA, metadata=metadata)])


def encode_commits(commits: tuple[Commit, ...]) -> pa.Table:
    """Return the rows of a lineage fragment, oldest commit first."""
    return _to_table([_commit_row(commit) for commit in commits])


def decode_state(version: int, rows: pa.Table, schema: AcceptedSchema) -> ManifestState:
    """Return the state that :func:`encode_state` wrote as manifest version ``version``.

    Raises:
        ManifestCorruptError: the rows are not what any version of ours writes.
    """
    with _translating(f"state rows of version {version}"):
        return _decode_state(version, rows.to_pylist(), schema)


def decode_schema(rows: pa.Table) -> AcceptedSchema:
    """Return the accepted schema.

    Raises:
        ManifestCorruptError: the fragment is not one schema row of ours.
    """
    with _translating("one schema row"):
        (row,) = rows.to_pylist()
        metadata = _metadata(row)
        return AcceptedSchema(source=metadata["source"], compiled=metadata["compiled"], hash=metadata["hash"])


def decode_commits(rows: pa.Table) -> tuple[Commit, ...]:
    """Return the commits of a lineage fragment, oldest first.

    Raises:
        ManifestCorruptError: the fragment holds something else.
    """
    with _translating("lineage rows"):
        return tuple(_commit(row) for row in rows.to_pylist())


def commit_to_json(commit: Commit) -> dict[str, Any]:
    """Return a commit as JSON values, for the manifest and for plans."""
    batch = {} if commit.batch is None else {"batch": {"app": commit.batch.app, "number": commit.batch.number}}
    return {
        "id": commit.id,
        "parent": commit.parent,
        "actor": commit.actor,
        "created_at_ms": commit.created_at_ms,
        "manifest_version": commit.manifest_version,
        "operation": commit.operation,
        "branch": commit.branch,
        "merged_parent": commit.merged_parent,
        "message": commit.message,
        "published_at_ms": commit.published_at_ms,
        "touched": list(commit.touched),
        **batch,
    }


def commit_from_json(data: dict[str, Any]) -> Commit:
    """Return the commit that :func:`commit_to_json` described."""
    return Commit(
        id=CommitId(Ulid.parse(data["id"])),
        parent=_commit_id(data["parent"]),
        actor=data["actor"],
        created_at_ms=data["created_at_ms"],
        manifest_version=data["manifest_version"],
        operation=data["operation"],
        branch=BranchName(data["branch"]),
        merged_parent=_commit_id(data["merged_parent"]),
        message=data["message"],
        published_at_ms=data["published_at_ms"],
        touched=tuple(data["touched"]),
        batch=BatchMark(**data["batch"]) if data.get("batch") else None,
    )


def entry_to_json(entry: TableEntry) -> dict[str, Any]:
    """Return a table entry as JSON values, for plans."""
    return {
        "table_key": entry.table_key,
        "object_id": entry.object_id,
        "pin": entry.pin.to_json(),
        "row_count": entry.row_count,
    }


def entry_from_json(data: dict[str, Any]) -> TableEntry:
    """Return the entry that :func:`entry_to_json` described."""
    return TableEntry(
        table_key=data["table_key"],
        object_id=data["object_id"],
        pin=TablePin.from_json(data["pin"]),
        row_count=data["row_count"],
    )


def tombstone_to_json(stone: Tombstone) -> dict[str, Any]:
    """Return a tombstone as JSON values, for plans."""
    return {
        "table_key": stone.table_key,
        "object_id": stone.object_id,
        "pin": stone.pin.to_json(),
        "dropped_by": stone.dropped_by,
        "dropped_at_ms": stone.dropped_at_ms,
    }


def tombstone_from_json(data: dict[str, Any]) -> Tombstone:
    """Return the tombstone that :func:`tombstone_to_json` described."""
    return Tombstone(
        table_key=data["table_key"],
        object_id=data["object_id"],
        pin=TablePin.from_json(data["pin"]),
        dropped_by=CommitId(Ulid.parse(data["dropped_by"])),
        dropped_at_ms=data["dropped_at_ms"],
    )


@contextmanager
def _translating(expected: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        found = f"{type(error).__name__}: {error}"
        details = FormatMismatch(what="manifest", expected=expected, found=found)
        raise ManifestCorruptError("the manifest holds rows that no version of ours writes", details=details) from error


def _decode_state(version: int, rows: list[dict[str, Any]], schema: AcceptedSchema) -> ManifestState:
    by_type: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_type.setdefault(row["object_type"], []).append(row)
    (head_row,) = by_type[_HEAD]
    head = _metadata(head_row)
    return ManifestState(
        version=version,
        graph_id=head["graph_id"],
        head=BranchHead(
            branch=BranchName(head_row["object_id"].removeprefix(f"{_HEAD}:")),
            incarnation=head["incarnation"],
            commit=CommitId(Ulid.parse(head["commit"])),
            epoch=head["writer_epoch"],
            floor=head["floor"],
            cleaned=head.get("cleaned", 0),
            swept=head.get("swept", 0),
        ),
        tables=freeze_tables(
            TableEntry(
                table_key=row["table_key"], object_id=row["object_id"], pin=_pin(row), row_count=row["row_count"]
            )
            for row in by_type.get(_TABLE, [])
        ),
        tombstones=tuple(_tombstone(row) for row in by_type.get(_TOMBSTONE, [])),
        schema=schema,
        recent=tuple(_commit(row) for row in by_type.get(_COMMIT, [])),
        batches=MappingProxyType(dict(head.get("batches", ()))),
    )


def _head_row(state: ManifestState) -> dict[str, Any]:
    metadata = {
        "graph_id": state.graph_id,
        "incarnation": state.head.incarnation,
        "commit": state.head.commit,
        "writer_epoch": state.head.epoch,
        "floor": state.head.floor,
        "cleaned": state.head.cleaned,
        "swept": state.head.swept,
    }
    if state.batches:
        metadata["batches"] = [[app, number] for app, number in state.batches.items()]
    return _row(f"{_HEAD}:{state.head.branch}", _HEAD, metadata=metadata)


def _table_row(entry: TableEntry) -> dict[str, Any]:
    return _row(entry.object_id, _TABLE, table_key=entry.table_key, pin=entry.pin, row_count=entry.row_count)


def _tombstone_row(stone: Tombstone) -> dict[str, Any]:
    metadata = {"dropped_by": stone.dropped_by, "dropped_at_ms": stone.dropped_at_ms}
    return _row(stone.object_id, _TOMBSTONE, table_key=stone.table_key, pin=stone.pin, metadata=metadata)


def _tombstone(row: dict[str, Any]) -> Tombstone:
    metadata = _metadata(row)
    return Tombstone(
        table_key=row["table_key"],
        object_id=row["object_id"],
        pin=_pin(row),
        dropped_by=CommitId(Ulid.parse(metadata["dropped_by"])),
        dropped_at_ms=metadata["dropped_at_ms"],
    )


def _commit_row(commit: Commit) -> dict[str, Any]:
    return _row(commit.id, _COMMIT, metadata=commit_to_json(commit))


def _commit(row: dict[str, Any]) -> Commit:
    return commit_from_json(_metadata(row))


def _commit_id(text: str | None) -> CommitId | None:
    return None if text is None else CommitId(Ulid.parse(text))


def _pin(row: dict[str, Any]) -> TablePin:
    return TablePin(location=row["location"], branch=row["table_branch"], version=row["table_version"])


def _row(
    object_id: str,
    object_type: str,
    *,
    metadata: dict[str, Any] | None = None,
    table_key: str | None = None,
    pin: TablePin | None = None,
    row_count: int | None = None,
) -> dict[str, Any]:
    return {
        "object_id": object_id,
        "object_type": object_type,
        "location": None if pin is None else pin.location,
        "metadata": None if metadata is None else encode_json(metadata).decode(),
        "table_key": table_key,
        "table_version": None if pin is None else pin.version,
        "table_branch": None if pin is None else pin.branch,
        "row_count": row_count,
    }


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(row["metadata"])
    return decoded


def _to_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=manifest_schema())


OLDEST_FORMAT = 1

UpgradeStep = Callable[[pa.Table], pa.Table]


@record
class FormatChain:
    """The formats served, with the step that leads from each older one to the next."""

    oldest: int = OLDEST_FORMAT
    newest: int = STORAGE_FORMAT
    steps: Mapping[int, UpgradeStep] = field(default_factory=dict)

    def stamp_of(self, schema: pa.Schema) -> int:
        """Return the format a manifest was written in.

        Raises:
            FormatUnsupportedError: outside the range that this version serves.
            ManifestCorruptError: there is no stamp.
        """
        text = (schema.metadata or {}).get(FORMAT_KEY.encode(), b"").decode()
        if not text.isdigit():
            details = FormatMismatch(what="manifest", expected=FORMAT_KEY, found=repr(text))
            raise ManifestCorruptError("the manifest carries no format stamp", details=details)
        stamp = int(text)
        if stamp < self.oldest or stamp > self.newest:
            hint = (
                "upgrade omnigraph"
                if stamp > self.newest
                else "export the graph with the version that wrote it and load it with this one"
            )
            raise FormatUnsupportedError(
                f"the graph has storage format {stamp}; this version serves {self.oldest} to {self.newest}",
                details=FormatRange(found=stamp, oldest=self.oldest, newest=self.newest),
                hint=hint,
            )
        return stamp

    def upgrade_rows(self, stamp: int, rows: pa.Table) -> pa.Table:
        """Return rows of format ``stamp`` as the newest format would hold them."""
        for source in range(stamp, self.newest):
            rows = self.steps[source](rows)
        return rows
