"""What callers ask of merges, reverts and differences on Spark: the operations of a graph, done by executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from omnigraph.catalog import Catalog
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import MAX_CONFLICTS
from omnigraph.graph.deciding import execute_decided
from omnigraph.graph.diff import Diff
from omnigraph.graph.state import State, expected_commit, reference_of
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.diff.compare import GraphDiff
from omnigraph.history.merge import MergePreview, MergeResult, Resolution, RevertResult
from omnigraph.history.merge.planning import MergePlan, Sides, Ways
from omnigraph.operations.history import DiffRequest, MergeRequest, PreviewMergeRequest, RevertRequest
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.request import NOTHING, Attachments, Request
from omnigraph.runtime import Failpoints
from omnigraph.spark.history.comparing import ExecutorDiff
from omnigraph.spark.history.merging import ExecutorMerge
from omnigraph.spark.history.ranges import SparkHistorySettings
from omnigraph.spark.runner import Runner, SparkRunner
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, check_instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.deciding import Resolve
    from omnigraph.graph.graph import Graph

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
Response = TypeVar("Response")


def merge(
    graph: Graph | LocalBackend | OpenGraph,
    source: str | State,
    *,
    into: str = MAIN,
    spark: SparkSession | None = None,
    resolve: Resolve = None,
    rest: Resolution | None = None,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | Commit | None = None,
    settings: SparkHistorySettings | None = None,
) -> MergeResult:
    """Bring everything that the branch ``source`` changed into another, as ``Branch.merge`` does.

    Executors compare the rows, decide about them and write them; this process publishes. Conflicts, decisions, checks
    of the schema and the result are those of a merge in one process.

    Args:
        graph: the open graph.
        source: the branch to merge from; it stays as it is.
        into: the branch to merge into.
        spark: the session to work with, the one of this process when None.
        resolve: how to decide rows that both sides changed; all that ``Branch.merge`` takes.
        rest: what decides the rest if ``resolve`` is a mapping or a function.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the target must be at.
        settings: how large the pieces of work are.

    Raises:
        MergeConflictsError: something cannot be decided, or the merged graph would break a rule.
        MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
        BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
        ReadSetChangedError, ExpectedVersionMismatchError, SchemaMovedError: another write moved what it relies on.
        PreconditionFailedError: the target is not at ``expected_head``.
        SparkJobError: a job failed for a reason of its own.
    """
    request = MergeRequest(
        source=reference_of(source),
        target=into,
        actor=actor,
        message=message,
        expected_head=expected_commit(expected_head),
    )
    return execute_decided(ExecutorBackend(graph, spark, settings), request, resolve, rest)


def preview_merge(
    graph: Graph | LocalBackend | OpenGraph,
    source: str | State,
    *,
    into: str = MAIN,
    spark: SparkSession | None = None,
    resolve: Resolve = None,
    rest: Resolution | None = None,
    max_conflicts: int = MAX_CONFLICTS,
    settings: SparkHistorySettings | None = None,
) -> MergePreview:
    """Return what :func:`merge` would do with the branches as they are; nothing is written.

    Raises:
        MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
        BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
        SparkJobError: a job failed for a reason of its own.
    """
    request = PreviewMergeRequest(source=reference_of(source), target=into, max_conflicts=max_conflicts)
    return execute_decided(ExecutorBackend(graph, spark, settings), request, resolve, rest)


def revert(
    graph: Graph | LocalBackend | OpenGraph,
    commit: str | Commit,
    *,
    branch: str = MAIN,
    spark: SparkSession | None = None,
    resolve: Resolve = None,
    rest: Resolution | None = None,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | Commit | None = None,
    settings: SparkHistorySettings | None = None,
) -> RevertResult:
    """Undo what one commit of a branch changed, as ``Branch.revert`` does; executors do the work.

    Raises:
        CommitMissingError: the branch's history has no such commit.
        RevertRefusedError: the commit is the first one, or it is not recorded which rows it wrote.
        MergeConflictsError: later commits touched the same rows, or the graph would break a rule of its schema.
        SparkJobError: a job failed for a reason of its own.
    """
    request = RevertRequest(
        commit=reference_of(commit),
        branch=branch,
        actor=actor,
        message=message,
        expected_head=expected_commit(expected_head),
    )
    return execute_decided(ExecutorBackend(graph, spark, settings), request, resolve, rest)


def diff(
    graph: Graph | LocalBackend | OpenGraph,
    before: str | datetime | Commit | State,
    after: str | datetime | Commit | State = MAIN,
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    kinds: Iterable[str] = (),
    types: Iterable[str] = (),
    ops: Iterable[str] = (),
    ids: Iterable[str] = (),
    settings: SparkHistorySettings | None = None,
) -> Diff:
    """Return what is different from ``before`` in ``after``, as ``Graph.diff`` does.

    Executors compare the rows when the answer is first asked for something. Counts come without a row; changes are read
    back range by range of their ids, in the same order as ever.

    Args:
        graph: the open graph.
        before: a branch, ``main~3``, a commit, ``tag:v1``, a moment, or an object that is one of these.
        after: the same.
        spark: the session to work with, the one of this process when None.
        branch: what a reference without a branch is about.
        kinds: only ``node`` or ``edge``.
        types: only types of these names.
        ops: only ``insert``, ``update`` or ``delete``.
        ids: only entities of these ids; they are looked up without Spark.
        settings: how large the pieces of work are.

    Raises:
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        UsageError: a kind or an operation is none.
        SparkJobError: while the answer is used: a job failed for a reason of its own.
    """
    request = DiffRequest(
        before=reference_of(before),
        after=reference_of(after),
        branch=branch,
        kinds=kinds,
        types=types,
        ops=ops,
        ids=ids,
    )
    return Diff(ExecutorBackend(graph, spark, settings).execute(request))


class ExecutorBackend:
    """Executes requests about merges and differences as the local backend does, the work done by executors."""

    def __init__(
        self,
        graph: Graph | LocalBackend | OpenGraph,
        spark: SparkSession | None = None,
        settings: SparkHistorySettings | None = None,
        *,
        runner: Runner | None = None,
    ) -> None:
        check_instance("settings", settings, SparkHistorySettings)
        self._engine = engine_of(graph)
        self._settings = settings or SparkHistorySettings()
        if spark is not None:
            runner = SparkRunner(spark=session_for(self._engine.store.storage, spark), command="history")
        self._runner = runner or _StartedRunner(self._engine.store.storage)

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._engine.store.storage.root

    @property
    def mode(self) -> Literal["read_write", "read_only"]:
        """The graph itself refuses writes if it is open for reading."""
        return "read_write"

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request; what tasks left for each other is removed at its end."""
        del attached
        with ExecutorHistory(self._engine, self._runner, self._settings) as work:
            return LocalBackend(self._engine, self.mode).execute(request, Attachments(runner=work))

    def close(self) -> None:
        """The graph is closed by those who opened it."""


class ExecutorHistory:
    """Plans merges and works out differences wherever ``runner`` runs tasks; the work of one request."""

    def __init__(self, engine: OpenGraph, runner: Runner, settings: SparkHistorySettings) -> None:
        storage = engine.store.storage
        self._scratch = ScratchPlace(storage=storage, operation_id=str(engine.runtime.ids.ulid()))
        self._merge = ExecutorMerge(storage, runner, self._scratch, settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.clear()

    def plan(
        self, sides: Sides, catalog_at: Callable[[GraphSnapshot], Catalog], ways: Ways, failpoints: Failpoints
    ) -> MergePlan:
        """Decide about every row of a merge or a revert."""
        del failpoints
        return self._merge.plan(sides, catalog_at, ways)

    def compare(self, before: GraphSnapshot, after: GraphSnapshot, wanted: ChangeFilter) -> GraphDiff:
        """Return a difference, worked out when it is asked for something."""
        work = self._merge
        return ExecutorDiff(before, after, wanted, storage=work.storage, runner=work.runner, settings=work.settings)


class _StartedRunner:
    """Runs tasks with the session of this process, which is started when there is work."""

    cores: int | None = None

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def run(self, function: Callable[[_Task], _Answer], tasks: Sequence[_Task], doing: str) -> list[_Answer]:
        """Return the answer to every task, in their order."""
        if not tasks:
            return []
        return SparkRunner(spark=session_for(self._storage, None), command="history").run(function, tasks, doing)
