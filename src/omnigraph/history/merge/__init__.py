"""Merging branches and undoing commits, row by row against a common base."""

from omnigraph.history.merge.conflicts import (
    ConflictKind,
    MergeOutcome,
    MergePreview,
    MergeResult,
    RevertResult,
    TableCounts,
)
from omnigraph.history.merge.merge import merge_branch, preview_merge, revert_commit
from omnigraph.history.merge.three_way import RESOLUTIONS, Resolution

__all__ = [
    "RESOLUTIONS",
    "ConflictKind",
    "MergeOutcome",
    "MergePreview",
    "MergeResult",
    "Resolution",
    "RevertResult",
    "TableCounts",
    "merge_branch",
    "preview_merge",
    "revert_commit",
]
