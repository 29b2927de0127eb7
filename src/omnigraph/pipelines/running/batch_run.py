"""One run of a pipeline: what is new of its sources becomes one commit, with how far they were read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import (
    BrokenExpectation,
    CheckFailedError,
    Effect,
    ExpectationFailedError,
    MergeConflictsError,
    OmnigraphError,
    RunConflictError,
)
from omnigraph.history.origins import RunOrigins, plain_path
from omnigraph.pipelines.check.validation import validate
from omnigraph.pipelines.declare import Pipeline
from omnigraph.pipelines.model import Declaration, Publish, TypeStep
from omnigraph.pipelines.order import ordered_types
from omnigraph.pipelines.results import RunOutcome, RunProgress, RunReport
from omnigraph.pipelines.running.frames import Frames, step_rows
from omnigraph.pipelines.running.leftovers import remove_leftovers
from omnigraph.pipelines.running.options import RunOptions, checked_options, declaration_of, opened
from omnigraph.pipelines.running.progress import ReadSoFar, expect_unmoved, read_so_far
from omnigraph.pipelines.running.publish import Publication, RunBranch
from omnigraph.pipelines.running.reading import FILES, SEEN, Reading, SourceRows, read_frames
from omnigraph.pipelines.running.reporting import changes_something, with_results
from omnigraph.pipelines.running.resolutions import Resolutions, expect_undecided, has_decisions
from omnigraph.runtime import Runtime
from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.spark.steps import QuarantinePlace, StepResult, StepRows, StepsOrder, StepsResult, load_steps
from omnigraph.spark.steps.rejected import rejected_rows
from omnigraph.store.location import Storage
from omnigraph.txn.manifest.rows import RunMark
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView
from omnigraph.values import BranchName

QUARANTINE_FOLDER = "__quarantine"
# What the mark of a micro-batch stands under, before the name of its stream; no source is called so.
STREAM = "stream:"
_Report = TypeVar("_Report", RunReport, RunReport | None)
_ATTEMPTS = 3
_SEVERAL = 2


def run(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    pipeline: Declaration | Pipeline,
    graph: Any = None,
    *,
    spark: Any = None,
    branch: str | None = None,
    publish: Publish | None = None,
    full_refresh: bool = False,
    since: str | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Callable[[RunProgress], None] | None = None,
    quarantine_to: str | Path | None = None,
    actor: str | None = None,
) -> RunReport:
    """Bring what is new of the sources of a pipeline into its graph, as one commit or not at all.

    Args:
        pipeline: what was declared.
        graph: an open graph, or where one is; that of the declaration when None.
        spark: the session to work with; that of this process, or one that is started, when None.
        branch: where to write; the branch of the declaration when None.
        publish: how; as the declaration says when None.
        full_refresh: read everything, and remove what is not there any more where steps say so.
        since: for sources that are read further by a column, the value to read from, whatever was read before.
        limit: read so many rows of each source, to try something out; how far sources were read stays as it was.
        dry_run: publish nothing, and only say what would become of the rows.
        progress: told how far the run is, and in the end the whole report, also of a run that failed.
        quarantine_to: a folder for rejected rows; a folder of the graph when None.
        actor: who asks for it.

    Raises:
        PipelineInvalidError: the declaration makes no sense, or a function of it raises something.
        ExpectationFailedError: rows are not as they should be.
        CheckFailedError: a check does not hold on what would be published.
        RunConflictError: other runs of the pipeline were first, again and again.
        OmnigraphError: whatever a load on Spark, a merge or a mutation does.
    """
    declaration = declaration_of(pipeline)
    options = checked_options(
        declaration,
        branch=branch,
        publish=publish,
        full_refresh=full_refresh,
        since=since,
        limit=limit,
        dry_run=dry_run,
        progress=progress,
        quarantine_to=None if quarantine_to is None else str(quarantine_to),
        actor=actor,
    )
    with opened(graph, declaration) as engine:
        validate(declaration, engine.catalog(options.branch))
        session = session_for(engine.store.storage, spark)
        attempt = 0
        while True:
            attempt += 1
            try:
                return Run(engine, declaration, options, session).run()
            except RunConflictError:
                # The other run has read what this one has; it goes on behind it.
                if attempt >= _ATTEMPTS:
                    raise


class Run:
    """One run: made once, run once."""

    def __init__(self, engine: OpenGraph, declaration: Declaration, options: RunOptions, spark: Any) -> None:
        self.engine = engine
        self.declaration = declaration
        self.options = options
        self._spark = spark
        self._world: Runtime = engine.runtime
        self.id = str(self._world.ids.ulid())
        self._since_s = self._world.clock.monotonic_s()
        self._seconds: dict[str, float] = {}
        # What resolutions write beside the steps.
        self._kept_types: Mapping[str, TypeStep] = {}
        self._frames: Frames | None = None
        self._files: frozenset[str] = frozenset()
        self._report = RunReport(
            pipeline=declaration.name,
            run=self.id,
            branch=options.branch,
            publish=options.publish,
            outcome="nothing",
            digest=declaration.digest,
            started_at_ms=self._world.clock.now_ms(),
        )

    def run(self) -> RunReport:
        """Do all of it."""
        return self._reporting(self._run)

    def take_batch(self, sources: Mapping[str, SourceRows], query: str, number: int) -> RunReport | None:
        """Publish a micro-batch of a stream; None when the branch has it already."""
        mark = {f"{STREAM}{query}": {"by": "stream", "batch": number}}
        return self._reporting(lambda: self._take_batch(sources, mark))

    def replay(self, places: Mapping[str, QuarantinePlace]) -> RunReport:
        """Run steps over the rows that earlier runs have rejected."""
        self._report = replace(self._report, replayed=tuple(places))
        return self._reporting(lambda: self._replay(tuple(places.values())))

    def _reporting(self, work: Callable[[], _Report]) -> _Report:
        self._tell("begin")
        try:
            report = work()
        except ExpectationFailedError:
            self._ended("expectation_failed")
            raise
        except CheckFailedError:
            self._ended("check_failed")
            raise
        except (RunConflictError, MergeConflictsError):
            self._ended("conflict")
            raise
        return report

    def _run(self) -> RunReport:
        self._remove_leftovers()
        # A branch of its own is made only for a run that has something to write. Whatever happens to the target in
        # between is noticed when the run is published.
        target = self.engine.store.snapshot(BranchName.parse(self.options.branch))
        so_far = read_so_far(self.engine, target, self.declaration.name)
        self._note_digest(so_far)
        sources = self._read_sources(so_far)
        has_news = any(rows.has_news for rows in sources.values()) or not sources
        has_news = has_news or has_decisions(self.engine, target, self.declaration)
        if not has_news and not self.options.full_refresh:
            return self._ended("nothing")
        with RunBranch.begin(self.engine, self.declaration, self.options, self.id) as place:
            return self._load(place, so_far, sources)

    def _remove_leftovers(self) -> None:
        """Remove what runs of the pipeline have left that were killed."""
        if self.options.dry_run:
            return
        for note in remove_leftovers(self.engine, self.declaration.name, actor=self.options.actor):
            # Nothing names their rejected rows any more.
            quarantine_place(self.engine, self.declaration, note.quarantine, note.run).clear()
            replace(self.origins, run=note.run).clear()

    def _take_batch(self, sources: Mapping[str, SourceRows], mark: Mapping[str, Any]) -> RunReport | None:
        self._remove_leftovers()
        with RunBranch.begin(self.engine, self.declaration, self.options, self.id) as place:
            so_far = read_so_far(self.engine, place.base, self.declaration.name)
            self._note_digest(so_far)
            ((name, told),) = mark.items()
            if so_far.marks.get(name, {"batch": -1})["batch"] >= told["batch"]:
                return None
            return self._load(place, so_far, sources, mark)

    def _replay(self, places: Sequence[QuarantinePlace]) -> RunReport:
        self._remove_leftovers()
        with RunBranch.begin(self.engine, self.declaration, self.options, self.id) as place:
            so_far = read_so_far(self.engine, place.base, self.declaration.name)
            self._note_digest(so_far)
            catalog = self.engine.catalog(place.name)
            steps = []
            for step in ordered_types(self.declaration):
                found = [rejected_rows(self._spark, one, step.name) for one in places]
                frames = [frame for frame in found if frame is not None]
                if frames:
                    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
                    steps.append(step_rows(step, frame, catalog))
            done = self.load_steps(steps, place, so_far, {}, is_recorded=bool(steps))
            if done.commit is None:
                return self._ended("nothing")
            return self.publish(place, so_far, done)

    def _load(
        self,
        place: RunBranch,
        so_far: ReadSoFar,
        sources: Mapping[str, SourceRows],
        mark: Mapping[str, Any] | None = None,
    ) -> RunReport:
        catalog = self.engine.catalog(place.name)
        found = read_frames(self.declaration.name, self._spark, self.declaration.sources, sources)
        # Expressions that Spark does not understand are mistakes at their lines; no job is started for that.
        validate(self.declaration, catalog, self._spark, found, is_stream=mark is not None)
        resolutions = Resolutions(
            self.engine,
            self.declaration,
            place.base,
            full_refresh=self.options.full_refresh,
            is_stream=mark is not None,
        )
        frames = Frames(self.declaration, found, self._spark, resolutions)
        self._frames = frames
        try:
            steps = frames.steps(catalog, full_refresh=self.options.full_refresh)
            self._kept_types = resolutions.types
            progress = {name: dict(rows.progress) for name, rows in sources.items() if rows.progress}
            progress |= {name: dict(told) for name, told in (mark or {}).items()}
            self._note_files(frames, progress)
            self._report = replace(self._report, progress=progress)
            is_further = any(_moves(told, so_far.marks.get(name, {})) for name, told in progress.items())
            done = self.load_steps(steps, place, so_far, progress, is_recorded=is_further)
        finally:
            frames.close()
        if self.options.dry_run:
            place.drop()
            return self._ended("tried" if changes_something(done.steps) else "nothing")
        if done.commit is None and steps:
            place.drop()
            return self._ended("nothing")
        return self.publish(place, so_far, done)

    def load_steps(
        self,
        steps: Sequence[StepRows],
        place: RunBranch,
        so_far: ReadSoFar,
        progress: Mapping[str, Any],
        *,
        is_recorded: bool,
    ) -> StepsResult:
        """Bring rows into the branch that they go to first."""
        self._tell("load")
        order = StepsOrder(
            pipeline=self.declaration.name,
            run=self.id,
            branch=place.name,
            quarantine=self.quarantine,
            origins=self.origins if self._keeps_origins() else None,
            actor=self.options.actor,
            message=f"run {self.id} of pipeline {self.declaration.name}",
            settled=self._settle,
            mark=lambda results: self._mark(results, progress),
            guard=None if place.is_own else self._guard(so_far),
            is_recorded=is_recorded,
            is_trial=self.options.dry_run,
        )
        done = load_steps(self.engine, steps, order, SparkRunner(spark=self._spark, command=self.declaration.name))
        self._take(done.steps)
        kept = self.quarantine.uri if done.quarantined else None
        self._report = replace(self._report, quarantine=kept)
        return done

    def publish(self, place: RunBranch, so_far: ReadSoFar, done: StepsResult) -> RunReport:
        """Make what was loaded visible where it belongs, after what follows and what must hold."""
        if not place.is_own:
            self._report = replace(self._report, commit=done.commit.id)
            return self._ended("published")
        try:
            return self._publish(place, so_far)
        except OmnigraphError as error:
            if error.effect is Effect.NONE and not place.is_kept and self._report.quarantine is not None:
                # Its branch goes, and with it what names them.
                self.quarantine.clear()
            if error.effect is Effect.NONE and not place.is_kept:
                self.origins.clear()
            raise

    def _publish(self, place: RunBranch, so_far: ReadSoFar) -> RunReport:
        publication = Publication(
            engine=self.engine, declaration=self.declaration, options=self.options, run=self.id, place=place
        )
        for name, seconds in publication.run_afters(lambda step: self._tell("after", step)):
            self._seconds[name] = seconds
        self._report = replace(self._report, steps=(*self._report.steps, *publication.after_reports(self._seconds)))
        self._tell("check")
        self._report = replace(self._report, checks=publication.run_checks())
        publication.refuse_failed(self._report.checks)
        self._tell("publish")
        if self.options.publish == "propose":
            number = publication.propose(self._report)
            self._report = replace(self._report, proposal=number, left_branch=place.name)
            return self._ended("proposed")
        commit = publication.merge(
            lambda snapshot: self._expect_unmoved(snapshot, so_far),
            self._mark_of(replace(self._report, outcome="published")),
        )
        self._report = replace(self._report, commit=commit)
        return self._ended("published")

    @property
    def quarantine(self) -> QuarantinePlace:
        """Where rejected rows of the run are kept."""
        return quarantine_place(self.engine, self.declaration, self.options.quarantine_to, self.id)

    @property
    def origins(self) -> RunOrigins:
        """Where it is kept which file the rows of the run came from."""
        return RunOrigins(storage=self.engine.store.storage, pipeline=self.declaration.name, run=self.id)

    def _keeps_origins(self) -> bool:
        """Whether it has to be kept: of one file the commit itself tells."""
        if self.options.dry_run or self.declaration.origins == "none" or self._frames is None:
            return False
        return len(self._files) >= _SEVERAL

    def _note_files(self, frames: Frames, progress: Mapping[str, dict[str, Any]]) -> None:
        """Note which files are read, as far as it matters: the only one there is stands in the commit."""
        found = frames.files(_SEVERAL)
        self._files = frozenset(file for files in found.values() for file in files)
        if len(self._files) == 1:
            for name, files in found.items():
                if files and progress.get(name, {}).get("by") == "column":
                    progress[name][FILES] = [[plain_path(file)] for file in files]

    def _guard(self, so_far: ReadSoFar) -> Callable[[CommitView], None]:
        def guard(view: CommitView) -> None:
            self._expect_unmoved(view.snapshot, so_far)

        return guard

    def _expect_unmoved(self, snapshot: GraphSnapshot, so_far: ReadSoFar) -> None:
        """Return if what the run builds upon is as it was when it began.

        Raises:
            RunConflictError: it is not.
        """
        expect_unmoved(self.engine, snapshot, so_far, pipeline=self.declaration.name, run=self.id)
        expect_undecided(self.engine, snapshot, self.declaration, head=so_far.head, run=self.id)

    def _read_sources(self, so_far: ReadSoFar) -> dict[str, SourceRows]:
        reading = Reading(
            pipeline=self.declaration.name,
            spark=self._spark,
            so_far=so_far,
            full_refresh=self.options.full_refresh,
            since=self.options.since,
            limit=self.options.limit,
            storage_options=self.engine.store.storage.options,
        )

        found, seconds = reading.look(
            self.declaration.sources, self._world.clock, lambda name: self._tell("read", name)
        )
        self._seconds |= seconds
        return found

    def _note_digest(self, so_far: ReadSoFar) -> None:
        if so_far.digest is not None and so_far.digest != self.declaration.digest:
            self._report = replace(self._report, previous_digest=so_far.digest)

    def _settle(self, results: Sequence[StepResult]) -> None:
        """Look at what was counted when all rows were read.

        Raises:
            ExpectationFailedError: an expectation does not hold for too many rows.
        """
        self._take(results)
        for one in self._report.expectations:
            if not one.is_kept:
                sample = json.dumps(one.samples[0], ensure_ascii=False) if one.samples else None
                raise ExpectationFailedError(
                    f"expectation '{one.name}' of step '{one.step}' does not hold for {one.failed} of {one.rows} rows",
                    details=BrokenExpectation(
                        pipeline=self.declaration.name,
                        run=self.id,
                        step=one.step,
                        expectation=one.name,
                        rows=one.rows,
                        failed=one.failed,
                        sample=sample,
                    ),
                )

    def _take(self, results: Sequence[StepResult]) -> None:
        """Put what was counted into the report."""
        counts = {} if self._frames is None else self._frames.rows_of()
        self._report = with_results(
            self._report, self.declaration, results, rows=counts, seconds=self._seconds, kept=self._kept_types
        )

    def _mark(self, results: Sequence[StepResult], progress: Mapping[str, Any]) -> RunMark:
        self._take(results)
        rejected = any(result.quarantined for result in results)
        told = replace(self._report, outcome="published", quarantine=self.quarantine.uri if rejected else None)
        return self._mark_of(replace(told, progress=progress))

    def _mark_of(self, report: RunReport) -> RunMark:
        seconds = self._world.clock.monotonic_s() - self._since_s
        told = replace(report, seconds=seconds).to_json()
        # It stands beside the report already.
        progress = told.pop("progress", {})
        return RunMark(
            pipeline=self.declaration.name, run=self.id, digest=self.declaration.digest, progress=progress, report=told
        )

    def _ended(self, outcome: RunOutcome) -> RunReport:
        seconds = self._world.clock.monotonic_s() - self._since_s
        self._report = replace(self._report, outcome=outcome, seconds=seconds)
        self._tell("end", report=self._report)
        return self._report

    def _tell(self, phase: Any, step: str | None = None, report: RunReport | None = None) -> None:
        if self.options.progress is not None:
            self.options.progress(RunProgress(run=self.id, phase=phase, step=step, report=report))


def quarantine_place(engine: OpenGraph, declaration: Declaration, asked: str | None, run_id: str) -> QuarantinePlace:
    """Return where rejected rows of a run are kept."""
    where = asked or declaration.quarantine
    if where is None:
        folder = f"{QUARANTINE_FOLDER}/{declaration.name}/run={run_id}"
        return QuarantinePlace(storage=engine.store.storage, folder=folder)
    storage = Storage.open(where, dict(engine.store.storage.options))
    return QuarantinePlace(storage=storage, folder=f"{declaration.name}/run={run_id}")


def _moves(told: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether what is told of a source says that it was read further than before."""
    if told.get("by") == "files":
        return bool(told["files"])
    # Other files without a row beyond the last one are no progress.
    return told.get("by") in {"column", "stream"} and _without_files(told) != _without_files(before)


def _without_files(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in {SEEN, FILES}}
