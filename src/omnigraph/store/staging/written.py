"""Rows that other processes have uploaded, as one strict commit; none of them is read here."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lance import LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.runtime import World
from omnigraph.store.fragments import fragment_from_json
from omnigraph.store.staging.change import deletion_files, field_ids, sentinel_of
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, moved_since, staged_on
from omnigraph.store.table import Table
from omnigraph.store.translate import translating


def stage_written(
    table: Table,
    fragments: Sequence[str],
    *,
    shrunk: Sequence[str] = (),
    removed: Sequence[int] = (),
    operation_id: str,
    world: World,
) -> StagedCommit | None:
    """Stage uploaded rows on top of a table; None when nothing changes.

    Args:
        table: the version to build on. Without ``shrunk`` and ``removed`` it may be a later one than the rows were
            written for, as long as it is on the same branch and has the same columns.
        fragments: the uploaded rows, as JSON texts of their fragments.
        shrunk: fragments of the table that lose rows, with their longer deletion lists.
        removed: fragments of the table that lose all of their rows.
        operation_id: written into the commit, so that recovery knows it as ours.
        world: where the commit's uuid comes from.

    Raises:
        TableMovedError: the table has no such fragment to shrink or to remove.
    """
    table.datasets.handles.check_process()
    origin = Origin(operation_id=operation_id, world=world)
    new, updated = _read(table, fragments), _read(table, shrunk)
    if not new and not updated and not removed:
        return None
    before = {fragment.metadata.id: fragment.metadata for fragment in table.fragments}
    touched = {*removed, *(item.id for item in updated)}
    if not touched <= before.keys():
        raise moved_since(table.pin, table, "a fragment to shrink is not there")
    leaving = sum(before[number].num_rows for number in touched) - sum(item.num_rows for item in updated)
    operation: LanceOperation.BaseOperation
    if table.fragments:
        sentinel = sentinel_of(table)
        operation = LanceOperation.Update(
            removed_fragment_ids=list(removed),
            updated_fragments=updated if sentinel.id in touched else [sentinel, *updated],
            new_fragments=new,
            fields_for_preserving_frag_bitmap=field_ids(table),
            update_mode="rewrite_rows",
        )
    else:
        # Without a fragment there is no sentinel; a Merge conflicts with every other data commit instead.
        operation = LanceOperation.Merge(new, table.handle.lance_schema)
    return staged_on(
        table,
        operation,
        kind="change",
        origin=origin,
        row_count=table.row_count + sum(item.num_rows for item in new) - leaving,
        files=(*data_files(new), *deletion_files(updated)),
    )


def stage_written_whole(table: Table, fragments: Sequence[str], *, operation_id: str, world: World) -> StagedCommit:
    """Stage a version that holds exactly the uploaded rows, possibly none; drops all indexes."""
    table.datasets.handles.check_process()
    new = _read(table, fragments)
    return staged_on(
        table,
        LanceOperation.Overwrite(table.handle.lance_schema, new),
        kind="overwrite",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=sum(item.num_rows for item in new),
        files=data_files(new),
    )


def _read(table: Table, fragments: Sequence[str]) -> list[FragmentMetadata]:
    with translating("read a fragment's description", table.pin.location):
        return [fragment_from_json(json.loads(fragment)) for fragment in fragments]
