"""Conflicts of a merge: their kinds, their words, and the rows they are about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Self

import pyarrow as pa

from omnigraph.catalog.migration import Step
from omnigraph.catalog.model import ENDPOINTS, EdgeType
from omnigraph.engine.results.info import ReadInfo
from omnigraph.engine.results.result import Result
from omnigraph.errors import (
    ConstraintRule,
    MergeConflict,
    MergeConflicts,
    MergeConflictsError,
    Violation,
    details_to_json,
)
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import BranchName, CommitId, Ulid
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_SHOWN = 3
_CHANGE_A_SIDE = "change or delete one of the named entities on either side, and try again; no resolution settles these"


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


def conflicts_error(conflicts: Conflicts, what: str) -> MergeConflictsError:
    """Return the error that carries the conflicts; its text shows the first few."""
    shown = "; ".join(_shown(conflict) for conflict in conflicts[:_SHOWN])
    more = f"; and {conflicts.total - _SHOWN} more" if conflicts.total > _SHOWN else ""
    # Choosing a side settles rows that both changed; a rule that the merged graph breaks is another matter.
    hint = None if any(conflict.kind in DECIDABLE for conflict in conflicts) else _CHANGE_A_SIDE
    details = MergeConflicts(items=tuple(conflicts), total=conflicts.total)
    return MergeConflictsError(f"{what} conflicts: {shown}{more}", details=details, hint=hint)


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

    def plus(self, other: TableCounts | None) -> TableCounts:
        """Return what this and another part of the same type's rows amount to."""
        if other is None:
            return self
        return TableCounts(
            type_key=self.type_key,
            inserted=self.inserted + other.inserted,
            updated=self.updated + other.updated,
            deleted=self.deleted + other.deleted,
            resolved=self.resolved + other.resolved,
            conflicts=self.conflicts + other.conflicts,
        )

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
    conflicts: Conflicts
    schema_steps: tuple[Step, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what the merge would be, what it would do by type, and the table of what could not be decided."""
        verdict = counted(self.conflicts.total, "conflict") if self.conflicts else "no conflicts"
        yield f"merging {self.source} into {self.target} would be {self.outcome.value}, {verdict}"
        yield from (f"  schema: {step.describe()}" for step in self.schema_steps)
        yield from (f"  {table}" for table in self.tables)
        yield from (f"  {line}" for line in self.conflicts.table_lines())

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
            "conflict_count": self.conflicts.total,
            "conflict_rows": self.conflicts.to_json(),
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

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> MergeResult:
        """Return what a repeated request is told: commit and counts of the first; steps of the schema are not kept."""
        return cls(
            source=BranchName(receipt["source"]),
            target=commit.branch,
            outcome=MergeOutcome(receipt["outcome"]),
            base=CommitId(Ulid.parse(receipt["base"])),
            tables=_tables(receipt),
            commit=commit,
            manifest_version=commit.manifest_version,
            cost=Counters().cost(),
        )

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


def table_receipts(tables: Iterable[TableCounts]) -> list[list[Any]]:
    """Return counts by type as a receipt holds them."""
    return [[one.type_key, one.inserted, one.updated, one.deleted, one.resolved] for one in tables]


def _tables(receipt: Mapping[str, Any]) -> tuple[TableCounts, ...]:
    return tuple(
        TableCounts(
            type_key=type_key, inserted=inserted, updated=updated, deleted=deleted, resolved=resolved, conflicts=0
        )
        for type_key, inserted, updated, deleted, resolved in receipt["tables"]
    )


@record
class RevertResult(Printable):
    """What a revert did. ``commit`` is None when nothing of the reverted commit was left to undo."""

    branch: BranchName
    reverted: CommitId
    tables: tuple[TableCounts, ...]
    commit: Commit | None
    manifest_version: int
    cost: Cost

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> RevertResult:
        """Return what a repeated request is told: commit and counts of the first."""
        return cls(
            branch=commit.branch,
            reverted=CommitId(Ulid.parse(receipt["reverted"])),
            tables=_tables(receipt),
            commit=commit,
            manifest_version=commit.manifest_version,
            cost=Counters().cost(),
        )

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


# The two ends of an edge are decided together. No property can have this name.
ENDS = "from/to"
SIDES = ("base", "ours", "theirs")
_COLUMNS = ("kind", "type", "id", "property", *SIDES, "message")
_SCHEMA = pa.schema([(name, pa.string()) for name in _COLUMNS])
_CELL_WIDTH = 40
# About a row which both sides changed, so that a decision settles it. A broken rule is settled by changing a side.
DECIDABLE = {ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE}
_WITH_PROPERTIES = {ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE}


@record
class ConflictRow(Printable):
    """One property that cannot be decided, or one entity as a whole.

    Args:
        kind: the word of the conflict.
        type: the entity's type, such as ``node:Person``; None for a conflict about the schema.
        id: its id; None where a rule is broken by a value or by a number of entities.
        property: what both sides gave different values; ``from/to`` stands for both ends of an edge. None stands for
            the whole entity: one side deleted it, or the sides changed different properties of it.
        base: the value in the common base, in the encoding of exports; the whole row where ``property`` is None.
        ours: the value on the target.
        theirs: the value on the source.
        message: the conflict in words.
    """

    kind: str
    type: str | None
    id: str | None
    property: str | None
    base: Any
    ours: Any
    theirs: Any
    message: str

    def lines(self) -> Iterator[str]:
        """Yield the entity and what each side has."""
        about = " ".join(filter(None, (self.type, self.id, self.property)))
        sides = ", ".join(f"{side} {_text(getattr(self, side))}" for side in SIDES)
        yield f"{self.kind} {about}: {sides}" if about else f"{self.kind}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values, with a place for a decision: the form that decisions are read in."""
        return {**{name: getattr(self, name) for name in _COLUMNS}, "resolution": None}


class Conflicts(tuple[MergeConflict, ...]):  # noqa: SLOT001 - a tuple has no room for slots of its own
    """Conflicts in a stable order, which are rows too: one for each property in conflict.

    ``total`` says how many there are; when that is more than are held here, these are the first.
    """

    total: int

    def __new__(cls, items: Iterable[MergeConflict] = (), *, total: int | None = None) -> Self:
        """Hold the first ``items`` of ``total`` conflicts, all of them when it is not given."""
        made = super().__new__(cls, items)
        made.total = len(made) if total is None else total
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (tuple(self), self.total)

    def rows(self) -> list[ConflictRow]:
        """Return the rows, those of one entity together."""
        return [row for conflict in self for row in rows_of(conflict)]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as JSON values, each with an empty ``resolution``."""
        return [row.to_json() for row in self.rows()]

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; ``base``, ``ours`` and ``theirs`` hold JSON texts."""
        rows = self.rows()
        return pa.table({name: [_cell(row, name) for row in rows] for name in _COLUMNS}, schema=_SCHEMA)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas frame.

        Raises:
            LibraryMissingError: pandas is not installed.
        """
        return self._result().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a polars frame.

        Raises:
            LibraryMissingError: polars is not installed.
        """
        return self._result().to_polars()

    def to_csv(self) -> str:
        """Return the rows as CSV; NULL is the text ``null``."""
        return self._result().to_csv()

    def table_lines(self) -> list[str]:
        """Return the rows as the lines of a table for people."""
        if not self:
            return []
        headline, *lines = self._result(without=("message",)).to_table(max_column_width=_CELL_WIDTH).splitlines()
        del headline
        # What is about no entity has nothing to show but its words.
        words = [f"{one.kind}: {one.message}" for one in self if one.kind not in DECIDABLE]
        more = self.total - len(self)
        return [*(line.rstrip() for line in lines), *words, *([f"… and {more} more conflicts"] if more else [])]

    def __str__(self) -> str:
        return "\n".join(self.table_lines())

    def _repr_html_(self) -> str:
        return self._result()._repr_html_()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows to any library that speaks the Arrow C stream protocol."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _result(self, *, without: tuple[str, ...] = ()) -> Result:
        table = self.to_arrow().drop_columns(list(without))
        return Result(table.schema, table, ReadInfo(query_name="conflicts"))


def _restored(items: tuple[MergeConflict, ...], total: int) -> Conflicts:
    return Conflicts(items, total=total)


def rows_of(conflict: MergeConflict) -> Iterator[ConflictRow]:
    """Yield the rows of one conflict.

    A divergent insert or update has one for each property in conflict. What is left has one for the entity: it was
    deleted on one side, the sides changed different properties of it, or it breaks a rule.
    """
    images = {"base": conflict.base, "ours": conflict.target, "theirs": conflict.source}
    if conflict.kind in _WITH_PROPERTIES and conflict.properties:
        for name in decided_together(conflict.properties):
            yield _row(conflict, name, {side: _value(image, name) for side, image in images.items()})
        return
    named = None if conflict.kind in DECIDABLE else ", ".join(conflict.properties) or None
    yield _row(conflict, named, images)


def decided_together(names: Iterable[str]) -> list[str]:
    """Return columns as decisions name them: both ends of an edge are one.

    >>> decided_together(["src", "dst", "note"])
    ['from/to', 'note']
    """
    return list(dict.fromkeys(ENDS if name in ENDPOINTS else name for name in names))


def _row(conflict: MergeConflict, name: str | None, values: Mapping[str, Any]) -> ConflictRow:
    return ConflictRow(
        kind=conflict.kind,
        type=conflict.type_key,
        id=conflict.entity_id,
        property=name,
        message=conflict.message,
        **values,
    )


def _value(image: Mapping[str, Any] | None, name: str) -> Any:
    if image is None:
        return None
    return image.get("endpoints") if name == ENDS else image["properties"].get(name)


def _cell(row: ConflictRow, name: str) -> str | None:
    value = getattr(row, name)
    if value is None or name not in SIDES:
        found: str | None = value
        return found
    return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
