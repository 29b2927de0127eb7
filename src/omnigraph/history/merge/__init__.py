"""Merging branches and undoing commits, row by row against a common base."""

from omnigraph.history.merge.conflicts import (
    ConflictKind,
    ConflictRow,
    Conflicts,
    MergeOutcome,
    MergePreview,
    MergeResult,
    RevertResult,
    TableCounts,
)
from omnigraph.history.merge.merge import merge_branch, preview_merge, revert_commit
from omnigraph.history.merge.resolution import RESOLUTIONS, Resolution

__all__ = [
    "RESOLUTIONS",
    "ConflictKind",
    "ConflictRow",
    "Conflicts",
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
