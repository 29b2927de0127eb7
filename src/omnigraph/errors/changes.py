"""Errors of reading history as changes: what cannot be derived, and cursors that do not fit."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Details, LimitExceeded
from omnigraph.errors.kinds import Kind
from omnigraph.records import record


@record
class FeedGap(Details):
    """Where a feed cannot go on: the caller's cursor, if there was one, and the first commit that is out of reach."""

    cursor: str | None
    first_unreadable_commit_id: str


@record
class DiffRefusal(Details):
    """Why two states cannot be told apart row by row.

    ``reason`` is ``parentless_commit`` or ``schema_boundary``; the commit is None between states that are none.
    """

    reason: str
    graph_commit_id: str | None = None
    type_name: str | None = None


class ChangeSchemaBoundaryError(OmnigraphError):
    """The schema of a type differs between two states, and schema changes are never shown as changes of rows."""

    row = Row(
        code="changes.schema_boundary",
        kind=Kind.CONFLICT,
        details=DiffRefusal,
        hint="take a baseline after the schema change and go on from there",
    )


class CommitHasNoParentError(OmnigraphError):
    """The first commit of a graph has nothing that it could be compared with."""

    row = Row(code="changes.no_parent", kind=Kind.CONFLICT, details=DiffRefusal)


class ChangeFeedGapError(OmnigraphError):
    """A commit that a feed has to deliver needs history that was reclaimed."""

    row = Row(code="changes.gap", kind=Kind.GONE, details=FeedGap, hint="take a baseline and go on from there")


class ChangeCursorError(OmnigraphError):
    """A cursor or page token is damaged, or was made for another graph, branch, commit or filter."""

    row = Row(
        code="changes.cursor",
        kind=Kind.INVALID,
        details=BadValue,
        hint="use a token only for the request that it was an answer to",
    )


class ChangeLimitError(OmnigraphError):
    """A page of changes was asked for that is larger than one may be."""

    row = Row(code="changes.limit", kind=Kind.TOO_LARGE, details=LimitExceeded)


class ChangeValueError(OmnigraphError):
    """A stored value has no form in which it could be exported, such as a float that is not finite."""

    row = Row(code="changes.value", kind=Kind.UNSUPPORTED, details=BadValue)
