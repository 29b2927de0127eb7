"""What merges and reverts tell about themselves."""

from __future__ import annotations

from enum import Enum
from typing import Any

from omnigraph.errors import MergeConflict
from omnigraph.errors.details import details_to_json
from omnigraph.records import record
from omnigraph.runtime import Cost
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import BranchName, CommitId


class MergeOutcome(Enum):
    """How two branches stood to each other."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@record
class TableCounts:
    """What happens to one type's rows on the target, and how many of them could not be decided."""

    type_key: str
    inserted: int
    updated: int
    deleted: int
    resolved: int
    conflicts: int

    @property
    def is_empty(self) -> bool:
        """Whether the merge found nothing to do or to decide here."""
        return not (self.inserted or self.updated or self.deleted or self.resolved or self.conflicts)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        kind, _, name = self.type_key.partition(":")
        return {
            "entity_kind": kind,
            "type_name": name,
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "resolved": self.resolved,
            "conflicts": self.conflicts,
        }


@record
class MergePreview:
    """What a merge would do, found without doing it; it can be done when there are no conflicts."""

    source: BranchName
    target: BranchName
    outcome: MergeOutcome
    base: CommitId
    source_head: CommitId
    target_head: CommitId
    tables: tuple[TableCounts, ...]
    conflicts: tuple[MergeConflict, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the preview as JSON values."""
        return {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.value,
            "base_commit_id": self.base,
            "source_commit_id": self.source_head,
            "target_commit_id": self.target_head,
            "tables": [table.to_json() for table in self.tables],
            "conflicts": [details_to_json(conflict) for conflict in self.conflicts],
        }


@record
class MergeResult:
    """What a merge did. ``commit`` is None when the target had everything already."""

    source: BranchName
    target: BranchName
    outcome: MergeOutcome
    base: CommitId
    tables: tuple[TableCounts, ...]
    commit: Commit | None
    manifest_version: int
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.value,
            "actor_id": None if self.commit is None else self.commit.actor,
            "base_commit_id": self.base,
            "graph_commit_id": None if self.commit is None else self.commit.id,
            "tables": [table.to_json() for table in self.tables],
        }


@record
class RevertResult:
    """What a revert did. ``commit`` is None when nothing of the reverted commit was left to undo."""

    branch: BranchName
    reverted: CommitId
    tables: tuple[TableCounts, ...]
    commit: Commit | None
    manifest_version: int
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "branch": self.branch,
            "reverted_commit_id": self.reverted,
            "actor_id": None if self.commit is None else self.commit.actor,
            "graph_commit_id": None if self.commit is None else self.commit.id,
            "tables": [table.to_json() for table in self.tables],
        }
