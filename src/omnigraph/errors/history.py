"""Errors of history: merges and reverts that cannot be made as asked."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Details, MissingThing
from omnigraph.errors.kinds import Kind, Retry
from omnigraph.errors.storage import VersionMissingError
from omnigraph.records import record


@record
class MergeConflict(Details):
    """One thing that a merge cannot decide.

    ``kind`` is the stable word of the conflict. ``properties`` names what both sides changed, when that is known. The
    images are the row as the common base, the source and the target have it; None where it is not there.
    """

    kind: str
    message: str
    type_key: str | None = None
    entity_id: str | None = None
    properties: tuple[str, ...] = ()
    base: dict[str, Any] | None = field(default=None, hash=False)
    source: dict[str, Any] | None = field(default=None, hash=False)
    target: dict[str, Any] | None = field(default=None, hash=False)


@record
class MergeConflicts(Details):
    """Every conflict of a merge in a stable order."""

    items: tuple[MergeConflict, ...]


@record
class ReadSetChange(Details):
    """Something that an operation was decided on and that is different by now; ``actual`` is None when it is gone."""

    member: str
    expected: str
    actual: str | None


class MergeConflictsError(OmnigraphError):
    """Both sides of a merge changed the same thing, or the merged graph would break a rule; nothing was written."""

    row = Row(
        code="merge.conflicts",
        kind=Kind.CONFLICT,
        details=MergeConflicts,
        hint="change one of the sides and try again, or say how to resolve rows",
    )


class ReadSetChangedError(OmnigraphError):
    """What an operation was decided on has changed before it could take effect; nothing was written."""

    row = Row(
        code="read_set.changed",
        kind=Kind.CONFLICT,
        details=ReadSetChange,
        retry=Retry.AFTER_REFRESH,
        hint="look at the current state and decide again",
    )


class MergeBaseMissingError(OmnigraphError):
    """Two branches share no commit that is still known, so nothing tells which side changed what."""

    row = Row(code="merge.no_base", kind=Kind.UNSUPPORTED, details=BadValue)


class RevertRefusedError(OmnigraphError):
    """A commit that cannot be undone by itself: the first one, or one that was published together with others."""

    row = Row(code="revert.refused", kind=Kind.UNSUPPORTED, details=BadValue)


@record
class GoneState(Details):
    """A state of the graph whose data was reclaimed."""

    commit_id: str
    branch: str
    table_key: str | None = None


@record
class BranchInUse(Details):
    """A branch that something else needs: a branch that was forked from it, or a tag that names a commit of it."""

    branch: str
    needed_by: str
    name: str


class HistoryGoneError(VersionMissingError):
    """The data of an earlier state was reclaimed; its commit is still listed."""

    row = Row(
        code="history.gone",
        kind=Kind.GONE,
        details=GoneState,
        hint="read a later commit; a tag protects a commit from being reclaimed",
    )


class TagMissingError(OmnigraphError, KeyError):
    """There is no tag of that name."""

    row = Row(code="tag.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class TagExistsError(OmnigraphError):
    """A tag of that name exists; tags are never moved."""

    row = Row(code="tag.exists", kind=Kind.CONFLICT, details=BadValue)


class BranchInUseError(OmnigraphError):
    """A branch cannot be deleted while branches or tags depend on it."""

    row = Row(
        code="branch.in_use",
        kind=Kind.CONFLICT,
        details=BranchInUse,
        hint="delete what depends on it first",
    )


class BranchClosingError(OmnigraphError):
    """A branch is being deleted, so that nothing can be forked from it and none of its commits tagged."""

    row = Row(
        code="branch.closing",
        kind=Kind.CONFLICT,
        details=BadValue,
        retry=Retry.AS_IS,
        hint="send it again: the branch is gone then, or was kept",
    )
