"""Errors of the write path: conflicts, claims, recovery, lifecycle."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Details, FormatMismatch, MissingThing
from omnigraph.errors.kinds import Effect, Kind, Retry
from omnigraph.records import record


@record
class VersionMismatch(Details):
    """A table that a write depends on is at another version than the write was made for."""

    table_key: str
    expected: int
    actual: int


@record
class HeadMismatch(Details):
    """The branch head is another commit than the caller demanded."""

    branch: str
    expected: str
    actual: str


@record
class ClaimHeld(Details):
    """Who stands in the way of a write, and for how long it was waited for."""

    branch: str
    version: int
    holder: str
    waited_s: float


@record
class TableDrift(Details):
    """Table commits that no manifest names and that omnigraph did not make."""

    table_key: str
    published: int
    head: int


@record
class CommitOutcome(Details):
    """The commit to look for before sending a write again."""

    branch: str
    commit_id: str
    operation_id: str


@record
class FormatRange(Details):
    """The storage format found and the ones this version serves."""

    found: int
    oldest: int
    newest: int


@record
class RepeatedBatch(Details):
    """A piece of a stream that was delivered before, and the last one that the branch has of its application."""

    app: str
    number: int
    last: int


class ExpectedVersionMismatchError(OmnigraphError):
    """A table that an update, delete, overwrite, merge or schema change was decided on has moved."""

    row = Row(
        code="write.conflict",
        kind=Kind.CONFLICT,
        details=VersionMismatch,
        retry=Retry.AFTER_REFRESH,
        hint="read the current state and decide again",
    )


class WriteSweptError(OmnigraphError):
    """A cleanup ran while a write was being made, and may have removed files that the write names."""

    row = Row(
        code="write.swept",
        kind=Kind.CONFLICT,
        details=VersionMismatch,
        retry=Retry.AFTER_REFRESH,
        hint="make the write again",
    )


class SchemaMovedError(OmnigraphError):
    """The accepted schema changed while a write was being made."""

    row = Row(
        code="write.schema_moved",
        kind=Kind.CONFLICT,
        details=BadValue,
        retry=Retry.AFTER_REFRESH,
        hint="make the write again against the accepted schema",
    )


class PreconditionFailedError(OmnigraphError):
    """The branch head is not the commit that the caller demanded."""

    row = Row(
        code="write.precondition",
        kind=Kind.PRECONDITION,
        details=HeadMismatch,
        retry=Retry.AFTER_REFRESH,
    )


class ClaimBusyError(OmnigraphError, TimeoutError):
    """Other writers kept the branch busy for longer than the write was willing to wait."""

    row = Row(
        code="write.busy",
        kind=Kind.BUSY,
        details=ClaimHeld,
        retry=Retry.AS_IS,
        hint="send it again; if the same writer stands in the way for minutes, look at its process",
    )


class WriteOutcomeError(OmnigraphError):
    """Storage failed at a moment when the write may or may not have been published."""

    row = Row(
        code="write.outcome_unknown",
        kind=Kind.INDETERMINATE,
        details=CommitOutcome,
        retry=Retry.AFTER_RECOVERY,
        effect=Effect.UNKNOWN,
        hint="look for the commit; the next write or open of the branch finishes or undoes it",
    )


class BatchRepeatedError(OmnigraphError):
    """A piece of a stream is in the branch already; delivering it again changes nothing."""

    row = Row(
        code="write.batch_repeated",
        kind=Kind.CONFLICT,
        details=RepeatedBatch,
        hint="go on with the next batch",
        effect=Effect.PUBLISHED,
    )


class TableDriftError(OmnigraphError):
    """A table was changed by something that does not follow the publish protocol; writes to it are refused."""

    row = Row(
        code="table.drift",
        kind=Kind.UNAVAILABLE,
        details=TableDrift,
        hint="run 'omnigraph repair' to see the drift and to adopt or discard it",
    )


class RecoveryInvariantError(OmnigraphError):
    """A table is behind the version that the manifest names; recovery stops and keeps the sidecar."""

    row = Row(
        code="recovery.invariant",
        kind=Kind.INTEGRITY,
        details=TableDrift,
        hint="stop writing to this graph and restore the missing table version",
    )


class SidecarCorruptError(OmnigraphError):
    """A recovery sidecar cannot be understood; it is kept for inspection and writes stop."""

    row = Row(
        code="recovery.sidecar",
        kind=Kind.INTEGRITY,
        details=FormatMismatch,
        hint="inspect the object; a read-only open still works",
    )


class GraphReplacedError(OmnigraphError):
    """The graph that was opened is gone, and another one was made in its place."""

    row = Row(
        code="graph.replaced",
        kind=Kind.GONE,
        details=MissingThing,
        hint="open the graph again",
    )


class ManifestCorruptError(OmnigraphError):
    """The manifest holds rows that no version of ours writes."""

    row = Row(code="manifest.corrupt", kind=Kind.INTEGRITY, details=FormatMismatch)


class TypeMissingError(OmnigraphError, KeyError):
    """The graph has no such node or edge type at this snapshot."""

    row = Row(code="type.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class BranchMissingError(OmnigraphError, KeyError):
    """There is no branch of that name."""

    row = Row(code="branch.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class CommitMissingError(OmnigraphError, KeyError):
    """No live branch has such a commit in its history."""

    row = Row(code="commit.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class BranchExistsError(OmnigraphError):
    """A branch of that name, or one whose name overlaps with it, is live."""

    row = Row(code="branch.exists", kind=Kind.CONFLICT, details=BadValue)


class GraphMissingError(OmnigraphError, FileNotFoundError):
    """There is no graph at that address."""

    row = Row(code="graph.not_found", kind=Kind.NOT_FOUND, details=MissingThing, hint="create it with 'omnigraph init'")


class GraphExistsError(OmnigraphError):
    """A graph is already there; initialising never overwrites one."""

    row = Row(code="graph.exists", kind=Kind.CONFLICT, details=BadValue)


class FormatUnsupportedError(OmnigraphError):
    """The graph was written in a storage format outside the range that this version serves."""

    row = Row(code="graph.format", kind=Kind.UNSUPPORTED, details=FormatRange)


class ReadOnlyError(OmnigraphError):
    """A write was attempted through a graph that was opened for reading only."""

    row = Row(code="graph.read_only", kind=Kind.DENIED, details=BadValue, hint="open the graph for reading and writing")


class GraphClosedError(OmnigraphError):
    """The graph object was closed before this call."""

    row = Row(code="graph.closed", kind=Kind.INVALID, details=BadValue, hint="open the graph again")
