"""Compaction: fewer, larger fragments without deleted rows; content, row ids and row versions stay."""

from __future__ import annotations

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

    The rows of a compacted fragment have no index until it is extended over them; answers stay right meanwhile.
    """
    table.datasets.handles.check_process()
    handle = table.handle
    with translating("compact a table", table.pin.location, effect=Effect.STAGED), metered(handle, counters):
        options: Any = {"target_rows_per_fragment": target_rows}
        results = [task.execute(handle) for task in Compaction.plan(handle, options).tasks]
    if not results:
        return None
    groups = [LanceOperation.RewriteGroup(_originals(result), result.new_fragments) for result in results]
    return staged_on(
        table,
        LanceOperation.Rewrite(groups, []),
        kind="compaction",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=table.row_count,
        files=data_files([fragment for result in results for fragment in result.new_fragments]),
    )


def _originals(result: Any) -> list[FragmentMetadata]:
    # Lance's own type stubs know this attribute under another name.
    return list(result.original_fragments)
