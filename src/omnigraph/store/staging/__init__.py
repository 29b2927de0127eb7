"""Staging: writing what a table's next version needs without moving its head."""

from omnigraph.store.staging.change import DEFAULT_TAIL_LIMIT, stage_change
from omnigraph.store.staging.commit import StagedCommit
from omnigraph.store.staging.compaction import CompactedFragments, stage_compaction
from omnigraph.store.staging.indexes import (
    BuiltIndex,
    IndexBuild,
    SkippedIndex,
    StagedIndexes,
    stage_indexes,
)
from omnigraph.store.staging.steps import TableStep, stage_steps
from omnigraph.store.staging.tables import (
    stage_columns,
    stage_create,
    stage_overwrite,
    stage_undo,
    stage_written,
    stage_written_whole,
)

__all__ = [
    "DEFAULT_TAIL_LIMIT",
    "BuiltIndex",
    "CompactedFragments",
    "IndexBuild",
    "SkippedIndex",
    "StagedCommit",
    "StagedIndexes",
    "TableStep",
    "stage_change",
    "stage_columns",
    "stage_compaction",
    "stage_create",
    "stage_indexes",
    "stage_overwrite",
    "stage_steps",
    "stage_undo",
    "stage_written",
    "stage_written_whole",
]
