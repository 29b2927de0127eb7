"""Compaction: fewer, larger fragments without deleted rows; content, row ids and row versions stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction

from omnigraph.errors import Effect
from omnigraph.runtime import Counters, World
from omnigraph.store.metering import metered
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, staged_on
from omnigraph.store.table import Table
from omnigraph.store.translate import translating


def stage_compaction(
    table: Table,
    *,
    operation_id: str,
    world: World,
    counters: Counters,
    target_rows: int = 1024 * 1024,
) -> StagedCommit | None:
    """Write compacted fragments for one commit; None when there is nothing to compact.

    An index on scalar values does not cover the compacted fragments until it is extended; answers stay right.
    """
    table.datasets.handles.check_process()
    handle = table.handle
    with translating("compact a table", table.pin.location, effect=Effect.STAGED), metered(handle, counters):
        options: Any = {"target_rows_per_fragment": target_rows}
        results = [task.execute(handle) for task in Compaction.plan(handle, options).tasks]
    if not results:
        return None
    # Lance builds these lists anew on each access, so numbers given to a fragment would be lost on the second.
    groups = [LanceOperation.RewriteGroup(_originals(result), list(result.new_fragments)) for result in results]
    written = [fragment for group in groups for fragment in group.new_fragments]
    _number(table, written, counters)
    return staged_on(
        table,
        LanceOperation.Rewrite(groups, []),
        kind="compaction",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=table.row_count,
        files=data_files(written),
    )


def _number(table: Table, fragments: Sequence[FragmentMetadata], counters: Counters) -> None:
    """Give fragments ids that no fragment of this version has and no index mentions.

    Left at zero, Lance would number them, but let full-text and vector indexes claim to cover fragment zero.
    """
    used = {fragment.metadata.id for fragment in table.fragments}.union(
        *(index.fragment_ids for index in table.indexes(counters))
    )
    for fragment_id, fragment in enumerate(fragments, start=max(used, default=0) + 1):
        fragment.id = fragment_id


def _originals(result: Any) -> list[FragmentMetadata]:
    # Lance's own type stubs know this attribute under another name.
    return list(result.original_fragments)
