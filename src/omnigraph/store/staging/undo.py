"""Undoing commits that no manifest names: a strict commit on top of the head that brings back the pinned content.

Lance's own restore is not used: it silently wins over whatever lands at the same moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lance import LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.errors import InternalError
from omnigraph.runtime import Counters, World
from omnigraph.store.staging.change import carry_row_ids, field_ids, sentinel_of
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, staged_on
from omnigraph.store.table import ROW_ID, Table
from omnigraph.store.writing import write_into

_Undo = tuple[LanceOperation.BaseOperation, list[FragmentMetadata]]


def stage_undo(
    pinned: Table,
    head: Table,
    *,
    operation_id: str,
    world: World,
    counters: Counters,
) -> StagedCommit:
    """Stage the pinned content on top of ``head``.

    Where the head still has some fragments of the pinned version, and its columns, indexes stay in use.
    Otherwise the pinned fragments are listed by a strict overwrite, which drops indexes. Only fragments with deleted
    rows that left the table are uploaded again.
    """
    if (pinned.pin.location, pinned.pin.branch) != (head.pin.location, head.pin.branch):
        raise InternalError(f"an undo needs two versions of one branch location={head.pin.location}")
    operation, rewritten = _by_update(pinned, head, counters) or _by_overwrite(pinned, counters)
    return staged_on(
        head,
        operation,
        kind="undo",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=pinned.row_count,
        files=data_files(rewritten),
    )


def _by_update(pinned: Table, head: Table, counters: Counters) -> _Undo | None:
    before = {fragment.metadata.id: fragment.metadata for fragment in pinned.fragments}
    after = {fragment.metadata.id: fragment.metadata for fragment in head.fragments}
    same_columns = pinned.fields == head.fields and pinned.schema.equals(head.schema, check_metadata=True)
    # A compaction may give out the number of a fragment that had left, so only the files tell what is the same.
    shared = {number for number in before.keys() & after.keys() if before[number].files == after[number].files}
    if not same_columns or not shared:
        return None
    updated = [before[number] for number in sorted(shared) if before[number].to_json() != after[number].to_json()]
    removed = [number for number in after if number not in shared]
    sentinel = sentinel_of(head)
    if sentinel.id not in removed and all(item.id != sentinel.id for item in updated):
        updated.append(before[sentinel.id])
    # Fragments that had left come back with their row ids; only their row versions start anew. They are numbered
    # afresh, because an index of the head may claim their old number for other rows.
    left = [item for number, item in before.items() if number not in shared]
    if left and any(index.kind.upper() == "INVERTED" for index in head.indexes(counters)):
        # They would look born later than the index that holds their words, which an extension of it relies on.
        return None
    back, rewritten = _listable(pinned, left, counters)
    back = [replace(fragment, id=0) for fragment in back]
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=back,
        fields_for_preserving_frag_bitmap=field_ids(head),
        update_mode="rewrite_rows",
    )
    return operation, rewritten


def _by_overwrite(pinned: Table, counters: Counters) -> _Undo:
    fragments, rewritten = _listable(pinned, [fragment.metadata for fragment in pinned.fragments], counters)
    return LanceOperation.Overwrite(pinned.handle.lance_schema, fragments), rewritten


def _listable(
    pinned: Table, fragments: Sequence[FragmentMetadata], counters: Counters
) -> tuple[list[FragmentMetadata], list[FragmentMetadata]]:
    """Return fragments that a later version can list as its own, and those of them that had to be written.

    A deletion file is found by the id of its fragment, which a fragment that comes back may not keep, and an
    overwrite takes no fragment with deletions at all. So the living rows of such a fragment are written again.
    """
    listed: list[FragmentMetadata] = []
    rewritten: list[FragmentMetadata] = []
    for fragment in fragments:
        if fragment.deletion_file is None:
            listed.append(fragment)
            continue
        rows = pinned.read([*pinned.schema.names, ROW_ID], counters=counters, fragment_ids=[fragment.id])
        written = write_into(pinned.handle, rows.drop_columns([ROW_ID]), pinned.pin.location, counters)
        fresh = carry_row_ids(written, rows[ROW_ID].to_numpy())
        listed += fresh
        rewritten += fresh
    return listed, rewritten
