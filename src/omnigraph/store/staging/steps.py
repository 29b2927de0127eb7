"""Steps of maintenance: compactions and index builds of one table that follow one another and land together.

Each step is worked out on the version that the steps before it lead to. Such a version is detached: it can be read by
its number, is never the head of its table, and leaves no trace when it is discarded. What lands are the same steps in
the same order, on the table as it is by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import assert_never

from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.errors import Effect, OmnigraphError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.control import ControlObjects
from omnigraph.store.handles import metered
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, moved_since, staged_at
from omnigraph.store.staging.compaction import CompactedFragments, is_same_fragment, rewrite_of
from omnigraph.store.staging.indexes import IndexSegments, index_files
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.table import Table
from omnigraph.store.transactions import fresh_uuid, transaction_of
from omnigraph.store.translate import translating
from omnigraph.store.versions import dataset_folder, transaction_file, version_file

TableStep = CompactedFragments | IndexSegments

# How often a random number may turn out to be taken.
_NUMBERS_TRIED = 5


@record
class DetachedVersion:
    """The version that some steps lead to, and the file of the transaction that made it."""

    pin: TablePin
    transaction_file: str


def detach(table: Table, step: TableStep, runtime: Runtime) -> DetachedVersion:
    """Take a step on a version of a table, without moving its head; return what it leads to."""
    table.datasets.handles.check_process()
    pin, uuid = table.pin, fresh_uuid(runtime)
    operation = _operation(pin, step)
    transaction = transaction_of(operation, read_version=pin.version, identity=uuid, properties={})
    with (
        translating("try a step of maintenance", pin.location, effect=Effect.STAGED, handle=table.handle),
        metered(table.handle),
    ):
        made = LanceDataset.commit(table.handle, transaction, detached=True, max_retries=_NUMBERS_TRIED)
    detached = pin.at(made.version)
    table.datasets.handles.remember(detached, made)
    return DetachedVersion(pin=detached, transaction_file=transaction_file(pin, uuid))


def discard(control: ControlObjects, versions: Sequence[DetachedVersion]) -> None:
    """Remove detached versions; the files that they list stay. Cleanup finds what cannot be removed now."""
    with suppress(OmnigraphError):
        for version in versions:
            control.delete(version_file(version.pin))
            control.delete(version.transaction_file)


def stage_steps(
    table: Table, base: Table, steps: Sequence[TableStep], *, operation_id: str, runtime: Runtime
) -> tuple[StagedCommit, ...]:
    """Stage steps that were worked out on ``base``: one commit for each, every one on top of the one before.

    The table may have moved since ``base``, as long as the fragments and the indexes that the steps deal with are still
    as they were.

    Raises:
        TableMovedError: one of them has changed or left, or a fragment has got an id that the steps had chosen.
    """
    table.datasets.handles.check_process()
    check_unmoved(table, base, steps)
    origin = Origin(operation_id=operation_id, runtime=runtime)
    staged: list[StagedCommit] = []
    pin = table.pin
    for step in steps:
        operation = _operation(pin, step)
        kind, files = _written(operation)
        commit = staged_at(
            pin,
            operation,
            kind=kind,
            origin=origin,
            row_count=table.row_count,
            files=tuple(f"{dataset_folder(pin)}/{file}" for file in files),
        )
        staged.append(commit)
        pin = commit.after
    return tuple(staged)


def _operation(pin: TablePin, step: TableStep) -> LanceOperation.Rewrite | LanceOperation.CreateIndex:
    match step:
        case CompactedFragments():
            return rewrite_of(pin.location, step)
        case IndexSegments():
            return step.operation(pin.location)
        case _:
            assert_never(step)


def _written(operation: LanceOperation.Rewrite | LanceOperation.CreateIndex) -> tuple[str, tuple[str, ...]]:
    if isinstance(operation, LanceOperation.CreateIndex):
        return "index", index_files(operation)
    return "compaction", data_files([fragment for group in operation.groups for fragment in group.new_fragments])


def check_unmoved(table: Table, base: Table, steps: Sequence[TableStep]) -> None:
    """Return if steps that were worked out on ``base`` can be taken on ``table``, a later version.

    Raises:
        TableMovedError: a fragment or an index that they deal with has changed.
    """
    if table.pin == base.pin:
        return
    if _segments(table) != _segments(base):
        raise moved_since(base.pin, table, "the indexes have changed")
    present = {fragment.metadata.id: fragment.metadata for fragment in table.fragments}
    known = {fragment.metadata.id: fragment.metadata for fragment in base.fragments}
    made: set[int] = set()
    for step in steps:
        operation = _operation(table.pin, step)
        if isinstance(operation, LanceOperation.CreateIndex):
            covered = {number for segment in operation.new_indices for number in segment.fragment_ids} - made
            for number in covered:
                # Rows that were deleted meanwhile may be in an index; rows that were replaced are in other fragments.
                if number not in present or _files(present[number]) != _files(known[number]):
                    raise moved_since(base.pin, table, f"indexed fragment {number} is gone")
            continue
        for original in [fragment for group in operation.groups for fragment in group.old_fragments]:
            found = present.get(original.id)
            if original.id not in made and (found is None or not is_same_fragment(found, original)):
                raise moved_since(base.pin, table, f"compacted fragment {original.id} has changed")
        fresh = {fragment.id for group in operation.groups for fragment in group.new_fragments}
        if any(number in present and number not in known for number in fresh):
            raise moved_since(base.pin, table, f"a fragment was added with an id of {sorted(fresh)}")
        made |= fresh


def _segments(table: Table) -> set[tuple[str, str]]:
    return {(index.name, segment.uuid) for index in table.indexes() for segment in index.segments}


def _files(fragment: FragmentMetadata) -> tuple[str, ...]:
    return tuple(data_files([fragment]))
