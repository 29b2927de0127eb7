"""Conflicts of a merge: their kinds, their words, and the rows they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from omnigraph.catalog.migration import Step
from omnigraph.catalog.model import EdgeType
from omnigraph.errors import (
    ConstraintRule,
    MergeConflict,
    MergeConflicts,
    MergeConflictsError,
    Violation,
    details_to_json,
)
from omnigraph.records import record
from omnigraph.runtime import Cost
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import BranchName, CommitId
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_SHOWN = 3


class ConflictKind(StrEnum):
    """What a merge may be unable to decide; the value is the word that results carry."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    SCHEMA_DIVERGENCE = "schema_divergence"


_KIND_OF_RULE: dict[ConstraintRule, ConflictKind] = {
    "type": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    "required": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    "enum": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    "range": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    "check": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    "id": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    "unique": ConflictKind.UNIQUE_VIOLATION,
    "key": ConflictKind.UNIQUE_VIOLATION,
    "endpoint": ConflictKind.ORPHAN_EDGE,
    "orphan": ConflictKind.ORPHAN_EDGE,
    "cardinality": ConflictKind.CARDINALITY_VIOLATION,
}
# Conflicts that are about one row; the others are about a value or about how many rows there are.
_WITH_ENTITY = {ConflictKind.ORPHAN_EDGE, ConflictKind.UNIQUE_VIOLATION}


def row_message(kind: ConflictKind, entity_id: str) -> str:
    """Return what a row conflict says.

    >>> row_message(ConflictKind.DIVERGENT_INSERT, "eve")
    "divergent insert for id 'eve'"
    """
    words = "delete/update conflict" if kind is ConflictKind.DELETE_VS_UPDATE else kind.value.replace("_", " ")
    return f"{words} for id '{entity_id}'"


def schema_conflict(detail: str) -> MergeConflict:
    """Return the conflict of branches that do not follow one schema."""
    return MergeConflict(kind=ConflictKind.SCHEMA_DIVERGENCE.value, message=f"the schemas differ: {detail}")


def violation_conflict(violation: Violation, owner_key: str, edge: EdgeType | None) -> MergeConflict:
    """Return a broken rule of the merged graph as a conflict."""
    kind = _KIND_OF_RULE[violation.rule]  # type: ignore[index] # the evaluator writes no other words
    message = violation.message
    if violation.rule == "orphan" and edge is not None:
        node = edge.from_type if violation.property == "src" else edge.to_type
        message = f"{violation.property} '{violation.value}' not found in {node}"
    return MergeConflict(
        kind=kind.value,
        message=message,
        type_key=owner_key,
        entity_id=violation.entity_id if kind in _WITH_ENTITY else None,
        properties=() if violation.property is None else (violation.property,),
    )


def conflicts_error(conflicts: Sequence[MergeConflict], what: str) -> MergeConflictsError:
    """Return the error that carries all conflicts; its text shows the first few."""
    shown = "; ".join(_shown(conflict) for conflict in conflicts[:_SHOWN])
    more = f"; and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
    return MergeConflictsError(f"{what} conflicts: {shown}{more}", details=MergeConflicts(items=tuple(conflicts)))


def _shown(conflict: MergeConflict) -> str:
    if conflict.type_key is None:
        return f"{conflict.message} ({conflict.kind})"
    kind, _, name = conflict.type_key.partition(":")
    about = conflict.message if conflict.entity_id is None else f"entity id '{conflict.entity_id}'"
    return f"{kind} type '{name}', {about} ({conflict.kind})"


class MergeOutcome(StrEnum):
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

    def __str__(self) -> str:
        parts = {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "resolved": self.resolved,
        }
        told = [f"{count} {what}" for what, count in parts.items() if count]
        if self.conflicts:
            told.append(counted(self.conflicts, "conflict"))
        return f"{self.type_key}: {', '.join(told)}"

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
class MergePreview(Printable):
    """What a merge would do, found without doing it; it can be done when there are no conflicts."""

    source: BranchName
    target: BranchName
    outcome: MergeOutcome
    base: CommitId
    source_head: CommitId
    target_head: CommitId
    tables: tuple[TableCounts, ...]
    conflicts: tuple[MergeConflict, ...]
    schema_steps: tuple[Step, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what the merge would be, what it would do by type, and what could not be decided."""
        verdict = counted(len(self.conflicts), "conflict") if self.conflicts else "no conflicts"
        yield f"merging {self.source} into {self.target} would be {self.outcome.value}, {verdict}"
        yield from (f"  schema: {step.describe()}" for step in self.schema_steps)
        yield from (f"  {table}" for table in self.tables)
        yield from (f"  conflict {conflict.kind}: {conflict.message}" for conflict in self.conflicts)

    def to_json(self) -> dict[str, Any]:
        """Return the preview as JSON values."""
        return {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.value,
            "base_commit_id": self.base,
            "source_commit_id": self.source_head,
            "target_commit_id": self.target_head,
            "schema_steps": [step.to_json() for step in self.schema_steps],
            "tables": [table.to_json() for table in self.tables],
            "conflicts": [details_to_json(conflict) for conflict in self.conflicts],
        }


@record
class MergeResult(Printable):
    """What a merge did. ``commit`` is None when the target had everything already."""

    source: BranchName
    target: BranchName
    outcome: MergeOutcome
    base: CommitId
    tables: tuple[TableCounts, ...]
    commit: Commit | None
    manifest_version: int
    cost: Cost
    schema_steps: tuple[Step, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield how the branches stood to each other, and what happened to the schema and by type."""
        yield f"merged {self.source} into {self.target}: {self.outcome.value}"
        yield from (f"  schema: {step.describe()}" for step in self.schema_steps)
        yield from (f"  {table}" for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.value,
            "actor_id": None if self.commit is None else self.commit.actor,
            "base_commit_id": self.base,
            "graph_commit_id": None if self.commit is None else self.commit.id,
            "schema_steps": [step.to_json() for step in self.schema_steps],
            "tables": [table.to_json() for table in self.tables],
        }


@record
class RevertResult(Printable):
    """What a revert did. ``commit`` is None when nothing of the reverted commit was left to undo."""

    branch: BranchName
    reverted: CommitId
    tables: tuple[TableCounts, ...]
    commit: Commit | None
    manifest_version: int
    cost: Cost

    def lines(self) -> Iterator[str]:
        """Yield which commit was undone by which."""
        outcome = "nothing left to undo" if self.commit is None else f"commit {self.commit.id}"
        yield f"reverted {self.reverted} on {self.branch}: {outcome}"

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "branch": self.branch,
            "reverted_commit_id": self.reverted,
            "actor_id": None if self.commit is None else self.commit.actor,
            "graph_commit_id": None if self.commit is None else self.commit.id,
            "tables": [table.to_json() for table in self.tables],
        }
