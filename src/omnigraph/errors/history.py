"""Errors of history: merges, reverts, tags and branches, and reading history as changes."""

from __future__ import annotations

import json
from dataclasses import field
from importlib import import_module
from typing import Any

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, LimitExceeded, MissingThing
from omnigraph.errors.storage import VersionMissingError
from omnigraph.records import record


@record
class MergeConflict(Details):
    """One conflict that a merge cannot resolve by itself.

    ``kind`` is the stable word of the conflict. ``properties`` names what both sides changed, if known. ``base``,
    ``source`` and ``target`` are the row in the common base and on each side; None where the row does not exist. Where
    schemas are in conflict they hold one ``declaration`` each.
    """

    kind: str
    message: str
    type_key: str | None = None
    entity_id: str | None = None
    properties: tuple[str, ...] = ()
    base: dict[str, Any] | None = field(default=None, hash=False)
    source: dict[str, Any] | None = field(default=None, hash=False)
    target: dict[str, Any] | None = field(default=None, hash=False)

    def __str__(self) -> str:
        """The conflict, then a line for each side of the row: what differs, or that the row does not exist there."""
        subject = " ".join(filter(None, ((self.type_key or "").rpartition(":")[2], self.entity_id)))
        if self._is_about_declarations:
            subject = ".".join((subject, *self.properties))
        sides = (("base", self.base), ("source", self.source), ("target", self.target))
        known = any(row is not None for _, row in sides)
        lines = [f"  {name}: {self._side(row)}" for name, row in sides] if known else []
        return "\n".join(
            [f"{self.kind} {subject}: {self.message}" if subject else f"{self.kind}: {self.message}", *lines]
        )

    @property
    def _is_about_declarations(self) -> bool:
        return any(row is not None and "declaration" in row for row in (self.base, self.source, self.target))

    def _side(self, row: dict[str, Any] | None) -> str:
        if row is None:
            return "not declared" if self._is_about_declarations else "no row"
        if self._is_about_declarations:
            return "\n    ".join(str(row["declaration"]).splitlines())
        values = {**row.get("endpoints", {}), **row.get("properties", {})}
        shown = self.properties or tuple(values)
        return ", ".join(f"{name} = {json.dumps(values.get(name), ensure_ascii=False, default=str)}" for name in shown)


# So many conflicts are told one by one, unless a caller asks for more.
MAX_CONFLICTS = 10_000


@record
class MergeConflicts(Details):
    """The conflicts of a merge, in a stable order: the first of them, and how many there are.

    ``total`` is None where an error of an earlier version did not say it; ``items`` are all of them then.
    """

    items: tuple[MergeConflict, ...]
    total: int | None = None


@record
class DecisionProblem(Details):
    """A decision about a conflict that cannot be followed; ``place`` is its file and line, if it came from a file."""

    message: str
    place: str | None = None
    type_name: str | None = None
    entity_id: str | None = None
    property: str | None = None


@record
class DecisionProblems(Details):
    """All decisions of one merge or revert that cannot be followed, in the order in which they were given."""

    items: tuple[DecisionProblem, ...]


@record
class ReadSetChange(Details):
    """Something an operation was based on that has since changed; ``actual`` is None if it no longer exists."""

    member: str
    expected: str
    actual: str | None


class MergeConflictsError(OmnigraphError):
    """Both sides of a merge changed the same thing, or the result would violate the schema; nothing was written."""

    row = ErrorRow(
        code="merge.conflicts",
        kind=Kind.CONFLICT,
        details=MergeConflicts,
        hint="decide the rows in conflict with resolve (--resolve, --resolve-with), or change one side and try again",
    )

    @property
    def conflicts(self) -> Any:
        """The conflicts as ``Conflicts``: a tuple of them that is also a table with a row per property in conflict."""
        # A table is Arrow, of which errors know nothing; where one is asked for, the whole package is there.
        rows = import_module("omnigraph.history.merge.conflicts")
        found = self.details
        if not isinstance(found, MergeConflicts):
            raise TypeError
        return rows.Conflicts(found.items, total=found.total)


class MergeDecisionError(OmnigraphError):
    """A decision about a conflict names none, has a value that does not fit, or is out of date; nothing was written."""

    row = ErrorRow(
        code="merge.decision",
        kind=Kind.INVALID,
        details=DecisionProblems,
        hint="write the conflicts out again (--preview --conflicts-out FILE) and decide those",
    )


class ReadSetChangedError(OmnigraphError):
    """Something the operation was based on changed before it could take effect; nothing was written."""

    row = ErrorRow(
        code="read_set.changed",
        kind=Kind.CONFLICT,
        details=ReadSetChange,
        retry=Retry.AFTER_REFRESH,
        hint="read the current state and decide again",
    )


class MergeBaseMissingError(OmnigraphError):
    """The two branches share no known commit, so it is unknown which side changed what."""

    row = ErrorRow(code="merge.no_base", kind=Kind.UNSUPPORTED, details=BadValue)


class RevertRefusedError(OmnigraphError):
    """The commit cannot be reverted: it is the first one, or an early version of omnigraph did not record its rows."""

    row = ErrorRow(code="revert.refused", kind=Kind.UNSUPPORTED, details=BadValue)


@record
class GoneState(Details):
    """A state of the graph whose data was reclaimed."""

    commit_id: str
    branch: str
    table_key: str | None = None


@record
class BranchInUse(Details):
    """A branch that another one was forked from, or that has a tag on one of its commits."""

    branch: str
    needed_by: str
    name: str


class HistoryGoneError(VersionMissingError):
    """The data of an earlier state was reclaimed; its commit is still listed."""

    row = ErrorRow(
        code="history.gone",
        kind=Kind.GONE,
        details=GoneState,
        hint="read a later commit; a tag protects a commit from cleanup",
    )


class TagMissingError(OmnigraphError, KeyError):
    """No tag has that name."""

    row = ErrorRow(code="tag.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class TagExistsError(OmnigraphError):
    """A tag with that name already exists; tags are never moved."""

    row = ErrorRow(code="tag.exists", kind=Kind.CONFLICT, details=BadValue)


class BranchInUseError(OmnigraphError):
    """A branch cannot be deleted while other branches or tags depend on it."""

    row = ErrorRow(
        code="branch.in_use",
        kind=Kind.CONFLICT,
        details=BranchInUse,
        hint="delete the dependent branches and tags first",
    )


class BranchClosingError(OmnigraphError):
    """The branch is being deleted: it cannot be forked, and its commits cannot be tagged."""

    row = ErrorRow(
        code="branch.closing",
        kind=Kind.CONFLICT,
        details=BadValue,
        retry=Retry.AS_IS,
        hint="try again: the deletion has then succeeded or failed",
    )


@record
class FeedGap(Details):
    """Where a feed cannot continue: the caller's cursor, if any, and the first commit that cannot be read."""

    cursor: str | None
    first_unreadable_commit_id: str


@record
class DiffRefusal(Details):
    """Why two states cannot be compared row by row.

    ``reason`` is ``parentless_commit`` or ``schema_boundary``; the commit is None for states that are not commits.
    """

    reason: str
    graph_commit_id: str | None = None
    type_name: str | None = None


class ChangeSchemaBoundaryError(OmnigraphError):
    """Rows before and after a schema change cannot be read in one schema, so they cannot be compared."""

    row = ErrorRow(
        code="changes.schema_boundary",
        kind=Kind.CONFLICT,
        details=DiffRefusal,
        hint="take a new baseline after the change and continue from its cursor: "
        "'omnigraph changes baseline GRAPH --out FILE', or graph.baseline() in Python",
    )


class CommitHasNoParentError(OmnigraphError):
    """The first commit of a graph has no parent to compare it with."""

    row = ErrorRow(code="changes.no_parent", kind=Kind.CONFLICT, details=DiffRefusal)


class ChangeFeedGapError(OmnigraphError):
    """The feed would have to deliver a commit whose history was reclaimed."""

    row = ErrorRow(
        code="changes.gap",
        kind=Kind.GONE,
        details=FeedGap,
        hint="take a new baseline and continue from its cursor: "
        "'omnigraph changes baseline GRAPH --out FILE', or graph.baseline() in Python",
    )


class ChangeCursorError(OmnigraphError):
    """A cursor or page token is damaged, or was made for another graph, branch, commit or filter."""

    row = ErrorRow(
        code="changes.cursor",
        kind=Kind.INVALID,
        details=BadValue,
        hint="use a token only with the request that returned it",
    )


@record
class FeedBreak(Details):
    """A batch that does not follow what a graph has applied of its feed; ``token`` is where the feed must go on."""

    source: str
    token: str


class FeedBreakError(OmnigraphError):
    """The batch begins after the last applied change of its feed: the changes between them would be lost."""

    row = ErrorRow(
        code="changes.break",
        kind=Kind.CONFLICT,
        details=FeedBreak,
        retry=Retry.AFTER_REFRESH,
        hint="continue the feed with the token in the details; 'omnigraph changes applied' shows it too",
    )


@record
class FeedMisfit(Details):
    """What the schema of a graph lacks to take changes of a feed, and the commit of the source that has it."""

    commit_id: str
    problem: str


class FeedSchemaError(OmnigraphError):
    """The graph has no schema that can take the changes of the feed; nothing of the batch was written."""

    row = ErrorRow(code="changes.schema", kind=Kind.CONFLICT, details=FeedMisfit, retry=Retry.AFTER_REFRESH)


class ChangeLimitError(OmnigraphError):
    """The requested page of changes, or its token, exceeds the maximum size."""

    row = ErrorRow(code="changes.limit", kind=Kind.TOO_LARGE, details=LimitExceeded)


class ChangeValueError(OmnigraphError):
    """A stored value cannot be exported, such as a float that is not finite."""

    row = ErrorRow(code="changes.value", kind=Kind.UNSUPPORTED, details=BadValue)


class ProposalMissingError(OmnigraphError, KeyError):
    """No proposal has that number."""

    row = ErrorRow(
        code="proposal.not_found",
        kind=Kind.NOT_FOUND,
        details=MissingThing,
        hint="list the proposals to see their numbers",
    )


class ProposalStateError(OmnigraphError):
    """The proposal was merged or closed, or one of its branches was deleted; nothing was written."""

    row = ErrorRow(code="proposal.state", kind=Kind.CONFLICT, details=BadValue)


@record
class FailedCheck(Details):
    """A check that found something: its first rows, and whether there are more; or why it could not run."""

    name: str
    rows: tuple[dict[str, Any], ...] = field(default=(), hash=False)
    has_more: bool = False
    problem: str | None = None


@record
class FailedChecks(Details):
    """All checks of a proposal that did not pass."""

    proposal: int
    items: tuple[FailedCheck, ...]


class ProposalChecksError(OmnigraphError):
    """A check of the proposal found rows in the merged state, or could not run on it; nothing was merged."""

    row = ErrorRow(
        code="proposal.checks",
        kind=Kind.CONFLICT,
        details=FailedChecks,
        hint="change the source branch until every check returns no row, and merge again",
    )


@record
class MissingApprovals(Details):
    """How many approvals a proposal needs, who gave one for the source as it is, and who for an earlier state."""

    proposal: int
    required: int
    given: tuple[str, ...]
    stale: tuple[str, ...]


class ProposalApprovalsError(OmnigraphError):
    """The current head of the source has fewer approvals than the proposal requires; nothing was merged."""

    row = ErrorRow(
        code="proposal.approvals",
        kind=Kind.CONFLICT,
        details=MissingApprovals,
        retry=Retry.AFTER_REFRESH,
        hint="ask people other than the author to approve the current head of the source",
    )
