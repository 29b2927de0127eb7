"""Merging branches and undoing commits, row by row against a common base."""

from omnigraph.history.merge.conflicts import ConflictKind
from omnigraph.history.merge.resolve import RESOLUTIONS, Resolution
from omnigraph.history.merge.results import MergeOutcome, MergePreview, MergeResult, RevertResult, TableCounts
from omnigraph.history.merge.revert import revert_commit
from omnigraph.history.merge.run import merge_branch, preview_merge

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
