"""An offer: finished, self-contained writes of one process, in a form that another process can publish.

It holds rows and ids, what they were decided on, and what each commit shall say; no handle, and nothing that needs the
process that made it. It is written once and never changed, so that whoever has read it knows what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from omnigraph.errors import SidecarCorruptError
from omnigraph.store.tables.moves import EdgeEnds
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.changes import RowChange
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.manifest.rows import ManifestState, RequestMark
from omnigraph.txn.publish.kinds import RebaseRule, WriteKind
from omnigraph.txn.reads import Reads
from omnigraph.txn.stored_json import SealedCodec
from omnigraph.txn.transaction import WriteTxn
from omnigraph.values import CommitId

OFFER_FORMAT: Final = 1


class OfferedRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The change of one table: rows as Arrow streams, and ids to remove."""

    table_key: str
    inserts: bytes | None = None
    upserts: bytes | None = None
    deletes: tuple[str, ...] = ()
    has_fresh_ids: bool = False


class OfferedWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One write, which becomes one commit.

    ``pins`` are the tables that it depends on, as they were where it was decided; of those in ``rows_read`` and
    ``ends_read`` it depends on these rows and the edges with these ends alone. Without any it holds on every state that
    its rules allow. ``has_rules``: the rules of the schema are to be checked for it.
    """

    commit_id: CommitId
    kind: WriteKind
    actor: str | None = None
    message: str | None = None
    expected_head: CommitId | None = None
    request: RequestMark | None = None
    rows: tuple[OfferedRows, ...] = ()
    pins: dict[str, TablePin] = msgspec.field(default_factory=dict)
    rows_read: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    ends_read: dict[str, tuple[EdgeEnds, ...]] = msgspec.field(default_factory=dict)
    has_rules: bool = False


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The writes that one process offers together, on which state they were decided, and for how long they are good.

    ``deadline_ms`` is by the clock of its owner and a hint: the one proof that an offer cannot be published any more is
    its withdrawal.
    """

    format: Literal[1] = OFFER_FORMAT
    branch: str
    incarnation: str
    base_version: int
    schema_hash: str
    writer: WriterIdentity
    created_at_ms: int
    deadline_ms: int
    writes: tuple[OfferedWrite, ...]


OFFER = SealedCodec(
    Offer,
    subject="offer",
    expected=f"an offer of format {OFFER_FORMAT}",
    error=SidecarCorruptError,
    needs_seal=lambda _: True,
)


def can_offer(txn: WriteTxn, most_bytes: int) -> bool:
    """Whether a write may be left to another process: rows only, few, and nothing that only its own process knows."""
    return txn.is_self_contained and size_of(txn.changes.values()) <= most_bytes


def size_of(changes: Iterable[Any]) -> int:
    """Return about how many bytes the rows and ids of changes take."""
    found = 0
    for change in changes:
        found += sum(rows.nbytes for rows in (change.inserts, change.upserts) if rows is not None)
        found += sum(map(len, change.deletes)) if isinstance(change.deletes, tuple) else change.deletes.nbytes
    return found


def offered(txn: WriteTxn) -> OfferedWrite:
    """Return what a transaction says to others, which must be one that :func:`can_offer` allows."""
    state = txn.snapshot.state
    depends = set() if txn.rule is RebaseRule.REVALIDATE else {*txn.changes, *txn.reads.table_keys}
    return OfferedWrite(
        commit_id=txn.commit_id,
        kind=txn.kind,
        actor=txn.actor,
        message=txn.message,
        expected_head=txn.expected_head,
        request=txn.told_request(),
        rows=tuple(_packed(change) for change in txn.changes.values() if isinstance(change, RowChange)),
        pins=_pins(state, depends),
        rows_read={key: tuple(sorted(ids)) for key, ids in txn.reads.rows.items() if key in depends},
        ends_read={key: tuple(ends) for key, ends in txn.reads.ends.items() if key in depends},
        has_rules=bool(txn.checks),
    )


def changes_of(write: OfferedWrite) -> dict[str, RowChange]:
    """Return the changes of an offered write by table."""
    return {
        rows.table_key: RowChange(
            table_key=rows.table_key,
            inserts=_unpacked(rows.inserts),
            has_fresh_ids=rows.has_fresh_ids,
            upserts=_unpacked(rows.upserts),
            deletes=rows.deletes,
        )
        for rows in write.rows
    }


def reads_of(write: OfferedWrite) -> Reads:
    """Return what an offered write was decided on: whole tables where no rows of them are told."""
    reads = Reads()
    for table_key, ids in write.rows_read.items():
        reads.add_rows(table_key, ids)
    for table_key, ends in write.ends_read.items():
        reads.add_ends(table_key, ends)
    for table_key in write.pins:
        if not reads.is_by_rows(table_key):
            reads.add_table(table_key)
    return reads


def _pins(state: ManifestState, keys: Iterable[str]) -> dict[str, TablePin]:
    entries: Mapping[str, Any] = state.tables
    return {key: entries[key].pin for key in sorted(keys) if key in entries}


def _packed(change: RowChange) -> OfferedRows:
    return OfferedRows(
        table_key=change.table_key,
        inserts=_stream(change.inserts),
        upserts=_stream(change.upserts),
        deletes=tuple(change.deletes) if isinstance(change.deletes, tuple) else tuple(change.deletes.to_pylist()),
        has_fresh_ids=change.has_fresh_ids,
    )


def _stream(rows: pa.Table | None) -> bytes | None:
    if rows is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def _unpacked(data: bytes | None) -> pa.Table | None:
    return None if data is None else pa.ipc.open_stream(data).read_all()
