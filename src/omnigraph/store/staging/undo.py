"""Undoing commits that no manifest names: a strict commit on top of the head that brings back the pinned content.

Lance's own restore is not used: it silently wins over whatever lands at the same moment.
"""

from __future__ import annotations

from lance import LanceOperation

from omnigraph.errors import InternalError
from omnigraph.runtime import Counters, World
from omnigraph.store.staging.change import field_ids, sentinel_of
from omnigraph.store.staging.commit import Origin, StagedCommit, staged_on
from omnigraph.store.table import Table


def stage_undo(
    pinned: Table,
    head: Table,
    *,
    operation_id: str,
    world: World,
    counters: Counters,  # noqa: ARG001 - staging calls look alike, and this one makes no call
) -> StagedCommit:
    """Stage the pinned content on top of ``head``; nothing is uploaded.

    Where the head still has some fragments of the pinned version, and its columns, indexes stay in use.
    Otherwise the pinned fragments are listed by a strict overwrite, which drops indexes.
    """
    if (pinned.pin.location, pinned.pin.branch) != (head.pin.location, head.pin.branch):
        raise InternalError(f"an undo needs two versions of one branch location={head.pin.location}")
    operation = _by_update(pinned, head) or _by_overwrite(pinned)
    return staged_on(
        head,
        operation,
        kind="undo",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=pinned.row_count,
        files=(),
    )


def _by_update(pinned: Table, head: Table) -> LanceOperation.BaseOperation | None:
    before = {fragment.metadata.id: fragment.metadata for fragment in pinned.fragments}
    after = {fragment.metadata.id: fragment.metadata for fragment in head.fragments}
    same_columns = pinned.fields == head.fields and pinned.schema.equals(head.schema, check_metadata=True)
    if not same_columns or not before.keys() & after.keys():
        return None
    updated = [
        metadata
        for number, metadata in before.items()
        if number in after and metadata.to_json() != after[number].to_json()
    ]
    removed = [number for number in after if number not in before]
    sentinel = sentinel_of(head)
    if sentinel.id not in removed and all(item.id != sentinel.id for item in updated):
        updated.append(before[sentinel.id])
    return LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        # A fragment that had left comes back with its row ids; only its row versions start anew.
        new_fragments=[metadata for number, metadata in before.items() if number not in after],
        fields_for_preserving_frag_bitmap=field_ids(head),
        update_mode="rewrite_rows",
    )


def _by_overwrite(pinned: Table) -> LanceOperation.BaseOperation:
    fragments = [fragment.metadata for fragment in pinned.fragments]
    return LanceOperation.Overwrite(pinned.handle.lance_schema, fragments)
