"""Errors of the write path: conflicts, claims, recovery, lifecycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from omnigraph.errors.base import Effect, ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, FormatMismatch, LimitExceeded, MissingThing
from omnigraph.records import record


@record
class VersionMismatch(Details):
    """A table that a write depends on is not at the version that the write expects."""

    table_key: str
    expected: int
    actual: int


@record
class HeadMismatch(Details):
    """The branch head is not the commit that the caller expected."""

    branch: str
    expected: str
    actual: str


@record
class EntityMismatch(Details):
    """An entity that a write insists on, the version it must be at, and the one it is at; None when it is not there."""

    table_key: str
    id: str | None
    expected: str
    actual: str | None


@record
class ClaimHeld(Details):
    """Which writer holds the branch, how long this write waited for it, and how many waiting writes are older."""

    branch: str
    version: int
    holder: str
    waited_s: float
    ahead: int = 0


@record
class TableDrift(Details):
    """Table commits that no manifest names and omnigraph did not make."""

    table_key: str
    published: int
    head: int


@record
class CommitOutcome(Details):
    """The commit to look for before retrying a write."""

    branch: str
    commit_id: str
    operation_id: str


@record
class FormatRange(Details):
    """The storage format found, and the range that this version supports."""

    found: int
    oldest: int
    newest: int


@record
class RepeatedBatch(Details):
    """A stream batch that was already delivered, and the last batch of its application on the branch."""

    app: str
    number: int
    last: int


@record
class RepeatedRequest(Details):
    """The commit that was made for an idempotency key, and the request that asked for it."""

    branch: str
    commit_id: str | None
    request_id: str | None


class ExpectedVersionMismatchError(OmnigraphError):
    """A table has changed that a merge, a schema change, or a write that refuses to be run again was based on."""

    row = ErrorRow(
        code="write.conflict",
        kind=Kind.CONFLICT,
        details=VersionMismatch,
        retry=Retry.AFTER_REFRESH,
        hint="read the current state and decide again",
    )


class TransactionConflictError(OmnigraphError):
    """Another writer changed rows that the transaction had read, before the transaction was published."""

    row = ErrorRow(
        code="transaction.conflict",
        kind=Kind.CONFLICT,
        details=VersionMismatch,
        retry=Retry.AFTER_REFRESH,
        hint="run the whole transaction again on the current state; run_transaction does so",
    )


class TransactionEndedError(OmnigraphError):
    """The transaction was committed, rolled back or has failed, and takes no further calls."""

    row = ErrorRow(
        code="transaction.ended",
        kind=Kind.INVALID,
        details=BadValue,
        hint="begin another transaction",
    )


class WriteSweptError(OmnigraphError):
    """A cleanup ran during the write and may have removed files that the write refers to."""

    row = ErrorRow(
        code="write.swept",
        kind=Kind.CONFLICT,
        details=VersionMismatch,
        retry=Retry.AFTER_REFRESH,
        hint="repeat the write",
    )


class SchemaMovedError(OmnigraphError):
    """The accepted schema changed during the write."""

    row = ErrorRow(
        code="write.schema_moved",
        kind=Kind.CONFLICT,
        details=BadValue,
        retry=Retry.AFTER_REFRESH,
        hint="repeat the write against the accepted schema",
    )


class PreconditionFailedError(OmnigraphError):
    """The branch head is not the commit that the caller expected."""

    row = ErrorRow(
        code="write.precondition",
        kind=Kind.PRECONDITION,
        details=HeadMismatch,
        retry=Retry.AFTER_REFRESH,
    )


class EntityChangedError(OmnigraphError):
    """An entity does not have the version that the statement expects: it was changed or removed since it was read."""

    row = ErrorRow(
        code="write.version",
        kind=Kind.CONFLICT,
        details=EntityMismatch,
        retry=Retry.AFTER_REFRESH,
        hint="read it again with version($x), and decide on its present values",
    )


class ClaimBusyError(OmnigraphError, TimeoutError):
    """Other writers kept the branch busy, or kept changing rows that the write depends on, for too long."""

    row = ErrorRow(
        code="write.busy",
        kind=Kind.BUSY,
        details=ClaimHeld,
        retry=Retry.AS_IS,
        hint="try again; if the same writer blocks the branch for minutes, check its process",
    )


class WriteOutcomeError(OmnigraphError):
    """Storage failed at a point where the write may or may not have been published."""

    row = ErrorRow(
        code="write.outcome_unknown",
        kind=Kind.INDETERMINATE,
        details=CommitOutcome,
        retry=Retry.AFTER_RECOVERY,
        effect=Effect.UNKNOWN,
        hint="look for the commit; the next write or open of the branch completes or undoes it",
    )


class BatchRepeatedError(OmnigraphError):
    """The stream batch is already in the branch; delivering it again changes nothing."""

    row = ErrorRow(
        code="write.batch_repeated",
        kind=Kind.CONFLICT,
        details=RepeatedBatch,
        hint="continue with the next batch",
        effect=Effect.PUBLISHED,
    )


class RequestRepeatedError(OmnigraphError):
    """A write was published under this idempotency key before; sending it again changes nothing."""

    row = ErrorRow(
        code="write.request_repeated",
        kind=Kind.CONFLICT,
        details=RepeatedRequest,
        hint="the commit in the details is the outcome of the first request",
        effect=Effect.PUBLISHED,
    )


class IdempotencyKeyError(OmnigraphError):
    """An idempotency key was used before, for a different write."""

    row = ErrorRow(
        code="write.key_reused",
        kind=Kind.INVALID,
        details=RepeatedRequest,
        hint="use a new key for every write, and resend a write under its own key",
    )


class RequestDeadlineError(OmnigraphError, TimeoutError):
    """The deadline of the request passed before its write was published; nothing was changed."""

    row = ErrorRow(
        code="write.deadline",
        kind=Kind.BUSY,
        details=LimitExceeded,
        hint="try again, or allow more time",
        retry=Retry.AS_IS,
    )


class TableDriftError(OmnigraphError):
    """A table was changed outside the publish protocol; writes to it are refused."""

    row = ErrorRow(
        code="table.drift",
        kind=Kind.UNAVAILABLE,
        details=TableDrift,
        hint="run 'omnigraph repair' to inspect the drift and to adopt or discard it",
    )


class RecoveryInvariantError(OmnigraphError):
    """A table is behind the version that the manifest names; recovery stops and keeps the sidecar."""

    row = ErrorRow(
        code="recovery.invariant",
        kind=Kind.INTEGRITY,
        details=TableDrift,
        hint="stop writing to this graph and restore the missing table version",
    )


class SidecarCorruptError(OmnigraphError):
    """A recovery sidecar cannot be read; it is kept for inspection, and writes to its branch stop."""

    row = ErrorRow(
        code="recovery.sidecar",
        kind=Kind.INTEGRITY,
        details=FormatMismatch,
        hint="run 'omnigraph repair' on its branch to inspect and resolve it; reads and other branches work",
    )


Outcome = Literal["published", "cancelled", "unknown"]


class WriteInterruptedError(KeyboardInterrupt):
    """Ctrl-C came when a write could not be cancelled any more. It is an interrupt and no :class:`OmnigraphError`.

    Args:
        branch: what it writes to.
        commit_id: the commit to look for.
        look: returns what is known of it at this moment.
    """

    def __init__(self, branch: str, commit_id: str, look: Callable[[], Outcome]) -> None:
        super().__init__(branch, commit_id)
        self.branch = branch
        self.commit_id = commit_id
        self._look = look

    @property
    def outcome(self) -> Outcome:
        """What is known of the write; closing the graph waits for what is ``unknown`` until then."""
        return self._look()

    def __str__(self) -> str:
        place = f"commit '{self.commit_id}' on branch '{self.branch}'"
        match self.outcome:
            case "published":
                return f"interrupted: published as {place}"
            case "cancelled":
                return "interrupted: nothing was written"
            case _:
                return f"interrupted: outcome unknown, look for {place}"

    @classmethod
    def within(cls, error: BaseException | None) -> WriteInterruptedError | None:
        """Return the one that an interrupt is or was raised on the way of."""
        while error is not None and not isinstance(error, cls):
            error = error.__context__
        return error


class GraphReplacedError(OmnigraphError):
    """The opened graph is gone, and another one was created in its place."""

    row = ErrorRow(
        code="graph.replaced",
        kind=Kind.GONE,
        details=MissingThing,
        hint="open the graph again",
    )


class ManifestCorruptError(OmnigraphError):
    """The manifest holds rows that no version of omnigraph writes."""

    row = ErrorRow(code="manifest.corrupt", kind=Kind.INTEGRITY, details=FormatMismatch)


class TypeMissingError(OmnigraphError, KeyError):
    """The graph has no such node or edge type in this snapshot."""

    row = ErrorRow(code="type.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class BranchMissingError(OmnigraphError, KeyError):
    """No branch has that name."""

    row = ErrorRow(code="branch.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class CommitMissingError(OmnigraphError, KeyError):
    """No existing branch has this commit in its history."""

    row = ErrorRow(code="commit.not_found", kind=Kind.NOT_FOUND, details=MissingThing)

    @classmethod
    def of(cls, commit_id: str) -> CommitMissingError:
        """Return the error about a commit; a commit that may not be seen gets the same."""
        return cls(f"commit '{commit_id}' not found", details=MissingThing(what="commit", name=commit_id))


class BranchExistsError(OmnigraphError):
    """A branch with that name, or with an overlapping name, already exists."""

    row = ErrorRow(code="branch.exists", kind=Kind.CONFLICT, details=BadValue)


class GraphMissingError(OmnigraphError, FileNotFoundError):
    """There is no graph at that address."""

    row = ErrorRow(
        code="graph.not_found", kind=Kind.NOT_FOUND, details=MissingThing, hint="create it with 'omnigraph init'"
    )


class GraphExistsError(OmnigraphError):
    """There is already a graph at that address; init never overwrites one."""

    row = ErrorRow(code="graph.exists", kind=Kind.CONFLICT, details=BadValue)


class FormatUnsupportedError(OmnigraphError):
    """The graph has a storage format that this version does not support."""

    row = ErrorRow(code="graph.format", kind=Kind.UNSUPPORTED, details=FormatRange)


class ReadOnlyError(OmnigraphError):
    """A write was attempted on a graph that was opened read-only."""

    row = ErrorRow(
        code="graph.read_only", kind=Kind.DENIED, details=BadValue, hint="open the graph for reading and writing"
    )


class GraphClosedError(OmnigraphError):
    """The graph object was closed before this call."""

    row = ErrorRow(code="graph.closed", kind=Kind.INVALID, details=BadValue, hint="open the graph again")
