"""The tables of two states, paired by the lifetime of their type: names may change, identity does not."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.arrow import PROPERTY_ID
from omnigraph.errors import ChangeSchemaBoundaryError, DiffRefusal
from omnigraph.history.diff.change import EntityKind, TypeRef
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.table import Table
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import CommitId


@record
class TablePair:
    """One lifetime of a type in two states; None where it does not exist."""

    kind: EntityKind
    type: TypeRef
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenPair:
    """A pair with its tables opened."""

    pair: TablePair
    before: Table | None
    after: Table | None


def changed_pairs(before: Snapshot, after: Snapshot) -> list[TablePair]:
    """Return the lifetimes that two states can differ in, by table key, edges first; needs no call."""
    old = {entry.object_id: entry for entry in before.state.tables.values()}
    new = {entry.object_id: entry for entry in after.state.tables.values()}
    pairs = [_pair(after.state.graph_id, key, old.get(key), new.get(key)) for key in {**old, **new}]
    return sorted((pair for pair in pairs if pair.is_changed), key=lambda pair: (pair.table_key, pair.type.id))


def open_pair(
    pair: TablePair, before: Snapshot, after: Snapshot, counters: Counters, commit_id: CommitId | None = None
) -> OpenPair:
    """Open both tables of a pair and see that they have the same columns.

    Raises:
        ChangeSchemaBoundaryError: they do not; ``commit_id`` is the commit that the error names.
    """
    old = None if pair.before is None else before.table(pair.before.table_key, counters)
    new = None if pair.after is None else after.table(pair.after.table_key, counters)
    if old is not None and new is not None and _fingerprint(old.schema) != _fingerprint(new.schema):
        raise schema_boundary(pair, commit_id)
    return OpenPair(pair=pair, before=old, after=new)


def schema_boundary(pair: TablePair, commit_id: CommitId | None) -> ChangeSchemaBoundaryError:
    """Return the error for a pair whose schema differs."""
    details = DiffRefusal(
        reason="schema_boundary",
        graph_commit_id=None if commit_id is None else str(commit_id),
        type_name=pair.type.name,
    )
    return ChangeSchemaBoundaryError(f"the schema of a type changes in between type={pair.type.name}", details=details)


def _pair(graph_id: str, object_id: str, before: TableEntry | None, after: TableEntry | None) -> TablePair:
    shown = after if after is not None else before
    kind, _, name = ("", "", "") if shown is None else shown.table_key.partition(":")
    return TablePair(
        kind="edge" if kind == "edge" else "node",
        type=TypeRef.of(graph_id, object_id, name),
        before=before,
        after=after,
    )


def _fingerprint(schema: pa.Schema) -> dict[str, tuple[pa.DataType, bool, bytes]]:
    # Blobs are told by their type: no other property is binary.
    return {field.name: (field.type, field.nullable, (field.metadata or {}).get(PROPERTY_ID, b"")) for field in schema}
