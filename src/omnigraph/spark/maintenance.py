"""Optimizing a branch with Spark: planned and published as ever, the work itself done by executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from omnigraph.engine.maintenance.building import OpenTable, ProjectionJob, build_each
from omnigraph.engine.maintenance.optimize import OptimizeResult
from omnigraph.engine.maintenance.outcomes import ProjectionOutcome
from omnigraph.engine.maintenance.planning import CompactionJob, IndexJob
from omnigraph.engine.maintenance.projections import Check
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.local.maintenance import optimize
from omnigraph.operations.maintenance import OptimizeRequest
from omnigraph.operations.request import Attachments
from omnigraph.records import record
from omnigraph.spark.runner import Runner, SparkRunner
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.store.location import Storage
from omnigraph.store.staging import BuiltIndex, IndexBuild
from omnigraph.store.staging.compaction import CompactionPolicy
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import IndexWork, TableTicket, build_segment, merge_segments, run_compaction_task
from omnigraph.store.tables.table import Table
from omnigraph.values import MAIN, check_callable, check_instance, checked_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.graph import Graph

# Fewer rows are indexed sooner by one task than their segments are searched by everybody.
_GROUP_ROWS = 1 << 20


@record
class OptimizeStep:
    """One job of an optimization, told when it begins and when it has ended: what it does, in how many pieces."""

    doing: Literal["compact", "index", "merge", "project"]
    pieces: int
    is_done: bool


Progress = Callable[[OptimizeStep], None]


def optimize_on_spark(
    graph: Graph | LocalBackend | OpenGraph,
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    types: Sequence[str] | None = None,
    actor: str | None = None,
    message: str | None = None,
    policy: CompactionPolicy | None = None,
    progress: Progress | None = None,
) -> OptimizeResult:
    """Compact the tables of a branch and bring their indexes and projections up to date; executors do the work.

    Args:
        graph: the open graph.
        spark: the session to work with, the one of this process when None.
        branch: whose tables; those that it inherits are left to the branch that owns them.
        types: only these, ``Person`` or ``node:Person``.
        actor: who asks for it.
        message: what its commits say.
        policy: when fragments are merged.
        progress: told of every job.

    Raises:
        BranchMissingError, TypeMissingError: there is no such branch or type.
        ReadOnlyError: the graph is open for reading only.
        SparkJobError: a job failed for a reason of its own.
    """
    engine = engine_of(graph)
    # Before there is a session of Spark.
    check_instance("policy", policy, CompactionPolicy)
    check_callable("progress", progress)
    if types is not None:
        types = checked_names("types", types)
    tasks = SparkRunner(spark=session_for(engine.store.storage, spark), command="optimize")
    runner = ExecutorMaintenance(engine.store.storage, tasks, progress=progress)
    request = OptimizeRequest(branch=branch, types=types, actor=actor, message=message, policy=policy)
    return engine.calls.run(lambda: optimize(engine, request, Attachments(runner=runner)))


class ExecutorMaintenance:
    """Does the work of optimizing piece by piece, each wherever ``runner`` runs it."""

    def __init__(
        self, storage: Storage, runner: Runner, *, group_rows: int = _GROUP_ROWS, progress: Progress | None = None
    ) -> None:
        self.group_rows = group_rows
        self._storage = storage
        self._runner = runner
        self._progress = progress or (lambda _: None)

    def compact(self, jobs: Sequence[CompactionJob]) -> Sequence[tuple[str, ...]]:
        """Write the compacted fragments of every job and say what became of them."""
        pieces = [
            CompactionPiece(ticket=TableTicket(storage=self._storage, pin=job.base), task=task)
            for job in jobs
            for task in job.tasks
        ]
        self._tell("compact", len(pieces), is_done=False)
        results = iter(self._runner.run(run_compaction_piece, pieces, "compact tables"))
        self._tell("compact", len(pieces), is_done=True)
        return [tuple(next(results) for _ in job.tasks) for job in jobs]

    def build(self, jobs: Sequence[IndexJob]) -> Sequence[tuple[BuiltIndex, ...]]:
        """Write the index segments of every job."""
        pieces = [self._piece(job, work, group) for job in jobs for work in job.works for group in work.groups]
        self._tell("index", len(pieces), is_done=False)
        built = iter(self._runner.run(run_index_piece, pieces, "build indexes"))
        self._tell("index", len(pieces), is_done=True)
        segments = [[tuple(next(built) for _ in work.groups) for work in job.works] for job in jobs]
        merged = iter(self._merge(jobs, segments))
        return [
            tuple(
                BuiltIndex(
                    build=work.build,
                    segments=(next(merged),) if _is_merged(work) else segments[number][at],
                    rebuilds=work.rebuilds,
                )
                for at, work in enumerate(job.works)
            )
            for number, job in enumerate(jobs)
        ]

    def project(
        self, jobs: Sequence[ProjectionJob], open_table: OpenTable, check: Check
    ) -> Sequence[tuple[ProjectionOutcome, ...]]:
        """Build the projections of every job, each by one executor, which needs memory for all rows of its tables."""
        del open_table
        if not jobs:
            return []
        check(0)
        pieces = [ProjectionPiece(storage=self._storage, job=job) for job in jobs]
        self._tell("project", len(pieces), is_done=False)
        built = self._runner.run(run_projection_piece, pieces, "build projections")
        self._tell("project", len(pieces), is_done=True)
        return built

    def _piece(self, job: IndexJob, work: IndexWork, group: tuple[int, ...]) -> IndexPiece:
        ticket = TableTicket(storage=self._storage, pin=job.base)
        return IndexPiece(ticket=ticket, build=work.build, fragment_ids=group, is_whole=len(work.groups) == 1)

    def _merge(self, jobs: Sequence[IndexJob], segments: Sequence[Sequence[tuple[str, ...]]]) -> list[str]:
        pieces = [
            MergePiece(
                ticket=TableTicket(storage=self._storage, pin=job.base),
                build=work.build,
                segments=segments[number][at],
            )
            for number, job in enumerate(jobs)
            for at, work in enumerate(job.works)
            if _is_merged(work)
        ]
        if not pieces:
            return []
        self._tell("merge", len(pieces), is_done=False)
        merged = self._runner.run(run_merge_piece, pieces, "merge indexes")
        self._tell("merge", len(pieces), is_done=True)
        return merged

    def _tell(self, doing: Literal["compact", "index", "merge", "project"], pieces: int, *, is_done: bool) -> None:
        self._progress(OptimizeStep(doing=doing, pieces=pieces, is_done=is_done))


@record
class CompactionPiece:
    """One compaction task of a table."""

    ticket: TableTicket
    task: str


@record
class IndexPiece:
    """One group of fragments to index; ``is_whole``: it is all that the index gets."""

    ticket: TableTicket
    build: IndexBuild
    fragment_ids: tuple[int, ...]
    is_whole: bool


@record
class MergePiece:
    """Segments of an index that are to become one."""

    ticket: TableTicket
    build: IndexBuild
    segments: tuple[str, ...]


@record
class ProjectionPiece:
    """One projection to build, or several that are built at once; ``storage`` is where the tables are."""

    storage: Storage
    job: ProjectionJob


def run_projection_piece(piece: ProjectionPiece) -> tuple[ProjectionOutcome, ...]:
    """Build the projections of a piece and say what became of them."""

    def open_table(pin: TablePin) -> Table:
        return TableTicket(storage=piece.storage, pin=pin).open()

    (outcomes,) = build_each([piece.job], open_table, lambda _: None)
    return outcomes


def run_compaction_piece(piece: CompactionPiece) -> str:
    """Write the compacted fragments of a piece."""
    return run_compaction_task(piece.ticket, piece.task)


def run_index_piece(piece: IndexPiece) -> str:
    """Write the segment of a piece, fit to be committed when it is the only one."""
    segment = build_segment(piece.ticket, piece.build, piece.fragment_ids)
    return merge_segments(piece.ticket, piece.build, [segment]) if piece.is_whole else segment


def run_merge_piece(piece: MergePiece) -> str:
    """Write the one segment that those of a piece make up."""
    return merge_segments(piece.ticket, piece.build, piece.segments)


def _is_merged(work: IndexWork) -> bool:
    """Whether the groups of an index are brought together: words are weighed against all texts of a segment."""
    return work.build.kind == "fulltext" and len(work.groups) > 1
