"""One run of a pipeline: what is new of its sources becomes one commit, with how far they were read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import (
    BadValue,
    BrokenExpectation,
    CheckFailedError,
    Effect,
    ExpectationFailedError,
    MergeConflictsError,
    OmnigraphError,
    RunConflictError,
    UsageError,
)
from omnigraph.pipelines.check.resolutions import is_partial
from omnigraph.pipelines.check.validate import validate
from omnigraph.pipelines.declare import Pipeline
from omnigraph.pipelines.model import ByColumn, Declaration, Publish, SourceStep, TypeStep
from omnigraph.pipelines.order import ordered_types
from omnigraph.pipelines.results import ExpectationReport, RunOutcome, RunProgress, RunReport, StepReport
from omnigraph.pipelines.running.frames import Frames, Reading, SourceRows, step_rows
from omnigraph.pipelines.running.progress import ReadSoFar, expect_unmoved, read_so_far
from omnigraph.pipelines.running.publish import Publication, RunBranch
from omnigraph.pipelines.running.resolutions import Resolutions, expect_undecided, has_decisions
from omnigraph.records import record
from omnigraph.runtime import Runtime, side_by_side
from omnigraph.spark.jobs import describing
from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.spark.steps import QuarantinePlace, StepResult, StepRows, StepsOrder, StepsResult, load_steps
from omnigraph.spark.steps.reading import DECODES
from omnigraph.spark.steps.rejected import rejected_rows
from omnigraph.store.location import Storage
from omnigraph.txn.manifest.rows import RunMark
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView
from omnigraph.values import check_choice, check_flag, check_text, check_whole, checked_text

QUARANTINE_FOLDER = "__quarantine"
# What the mark of a micro-batch stands under, before the name of its stream; no source is called so.
STREAM = "stream:"
_Report = TypeVar("_Report", RunReport, RunReport | None)
_ATTEMPTS = 3
_SOURCES_AT_ONCE = 4


@record
class RunOptions:
    """What a run is asked for beyond its declaration; :func:`run` says what each of it means."""

    branch: str
    publish: Publish
    full_refresh: bool = False
    since: str | None = None
    limit: int | None = None
    dry_run: bool = False
    progress: Callable[[RunProgress], None] | None = None
    quarantine_to: str | None = None
    actor: str | None = None


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


def declaration_of(pipeline: object) -> Declaration:
    """Return what was declared.

    Raises:
        PipelineInvalidError: a part of it makes no sense.
        UsageError: it is no pipeline.
    """
    if isinstance(pipeline, Declaration):
        return pipeline
    if isinstance(pipeline, Pipeline):
        return pipeline.declaration()
    details = BadValue(what="pipeline", value=type(pipeline).__name__, expected="a pipeline or a declaration")
    raise UsageError("there is no pipeline to run", details=details)


def checked_options(
    declaration: Declaration, *, branch: str | None, publish: Publish | None, **rest: Any
) -> RunOptions:
    """Return the options of a run.

    Raises:
        UsageError: an option is of another type or out of bounds, or two of them contradict each other.
    """
    check_whole("limit", rest.get("limit"), least=1, optional=True)
    for name in ("full_refresh", "dry_run"):
        check_flag(name, rest.get(name, False))
    for name in ("since", "actor"):
        checked_text(name, rest.get(name))
    if publish is not None:
        check_choice("publish", publish, ("direct", "audit", "propose"))
    if branch is not None:
        check_text("branch", branch)
    if rest.get("since") is not None and rest.get("full_refresh"):
        details = BadValue(what="since", value=str(rest["since"])[:80], expected="no full refresh")
        raise UsageError("a full refresh reads from the beginning", details=details)
    if rest.get("since") is not None and not any(isinstance(one.incremental, ByColumn) for one in declaration.sources):
        details = BadValue(
            what="since", value=str(rest["since"])[:80], expected="a source that is incremental by a column"
        )
        raise UsageError(f"no source of pipeline '{declaration.name}' is read further by a column", details=details)
    removes = any(step.removes_missing and rest.get("full_refresh") for step in declaration.types)
    removes |= any(step.mode == "overwrite" for step in declaration.types)
    removes |= any(step.same_as is not None and not is_partial(declaration, step) for step in declaration.resolves)
    if rest.get("limit") is not None and removes and not rest.get("dry_run"):
        details = BadValue(what="limit", value=str(rest["limit"]), expected="a dry run")
        raise UsageError("some rows alone would remove all the others", details=details)
    return RunOptions(branch=branch or declaration.branch, publish=publish or declaration.publish, **rest)


@contextmanager
def opened(graph: Any, declaration: Declaration) -> Iterator[OpenGraph]:
    """Give the open graph that a caller has, or open that of an address.

    Raises:
        UsageError: neither the caller nor the declaration names one.
    """
    where = declaration.graph if graph is None else graph
    if where is None:
        details = BadValue(what="graph", value="", expected="a graph")
        raise UsageError(f"pipeline '{declaration.name}' names no graph, and none was given", details=details)
    if not isinstance(where, str | Path):
        yield engine_of(where)
        return
    with OpenGraph.open(Storage.open(str(where))) as engine:
        yield engine


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
        with RunBranch.begin(self.engine, self.declaration, self.options, self.id) as place:
            so_far = read_so_far(self.engine, place.base, self.declaration.name)
            self._note_digest(so_far)
            sources = self._read_sources(so_far)
            has_news = any(rows.has_news for rows in sources.values()) or not sources
            has_news = has_news or has_decisions(self.engine, place.base, self.declaration)
            if not has_news and not self.options.full_refresh:
                place.drop()
                return self._ended("nothing")
            return self._load(place, so_far, sources)

    def _take_batch(self, sources: Mapping[str, SourceRows], mark: Mapping[str, Any]) -> RunReport | None:
        with RunBranch.begin(self.engine, self.declaration, self.options, self.id) as place:
            so_far = read_so_far(self.engine, place.base, self.declaration.name)
            self._note_digest(so_far)
            ((name, told),) = mark.items()
            if so_far.marks.get(name, {"batch": -1})["batch"] >= told["batch"]:
                return None
            return self._load(place, so_far, sources, mark)

    def _replay(self, places: Sequence[QuarantinePlace]) -> RunReport:
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
        # Expressions that Spark does not understand are mistakes at their lines; no job is started for that.
        storage = self.engine.store.storage.options
        validate(self.declaration, catalog, self._spark, is_stream=mark is not None, storage=storage)
        resolutions = Resolutions(
            self.engine,
            self.declaration,
            place.base,
            full_refresh=self.options.full_refresh,
            is_stream=mark is not None,
        )
        found = {name: rows.frame for name, rows in sources.items()}
        frames = Frames(self.declaration, found, self._spark, resolutions)
        try:
            steps = frames.steps(catalog, full_refresh=self.options.full_refresh)
            self._kept_types = resolutions.types
            progress = {name: dict(rows.progress) for name, rows in sources.items() if rows.progress}
            progress |= {name: dict(told) for name, told in (mark or {}).items()}
            self._report = replace(self._report, progress=progress)
            is_further = any(_moves(told) and told != so_far.marks.get(name) for name, told in progress.items())
            done = self.load_steps(steps, place, so_far, progress, is_recorded=is_further)
        finally:
            frames.close()
        if self.options.dry_run:
            place.drop()
            return self._ended("tried" if _changes_something(done.steps) else "nothing")
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

        def read(source: SourceStep) -> SourceRows:
            self._tell("read", source.name)
            since = self._world.clock.monotonic_s()
            with describing(self._spark, f"{self.declaration.name}/{source.name}"):
                rows = reading.rows_of(source)
            self._seconds[source.name] = self._world.clock.monotonic_s() - since
            return rows

        # Looking for news is a small job for each source. Functions of people are called one after another.
        plain = [source for source in self.declaration.sources if source.function is None]
        with ThreadPoolExecutor(_SOURCES_AT_ONCE, "omnigraph-source") as threads:
            found = dict(zip([source.name for source in plain], side_by_side(threads, read, plain), strict=True))
        found |= {source.name: read(source) for source in self.declaration.sources if source.function is not None}
        return {source.name: found[source.name] for source in self.declaration.sources}

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
        types = {step.name: step for step in self.declaration.types} | dict(self._kept_types)
        steps: list[StepReport] = [
            StepReport(name=source.name, kind="source", seconds=self._seconds.get(source.name, 0.0))
            for source in self.declaration.sources
        ]
        steps += [StepReport(name=view.name, kind="view", inputs=view.inputs) for view in self.declaration.views]
        steps += [StepReport(name=one.name, kind="resolve", inputs=one.inputs) for one in self.declaration.resolves]
        steps += [_step_report(types[result.name], result) for result in results]
        expectations = [one for result in results for one in _expectations(types[result.name], result)]
        changes = {}
        for result in results:
            gone = result.deleted + result.removed + result.cascaded
            counts = {"inserted": result.inserted, "updated": result.updated, "deleted": gone}
            if any(counts.values()):
                changes[types[result.name].type_name] = counts
        stubs = {name: ids for result in results for name, ids in result.stub_ids.items()}
        self._report = replace(
            self._report, steps=tuple(steps), expectations=tuple(expectations), changes=changes, stubs=stubs
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


def _moves(told: Mapping[str, Any]) -> bool:
    """Whether what is told of a source says that it was read further."""
    return told.get("by") in {"column", "stream"} or (told.get("by") == "files" and bool(told["files"]))


def _changes_something(results: Sequence[StepResult]) -> bool:
    return any(one.written or one.deleted or one.removed or one.cascaded or one.stubs for one in results)


def _step_report(step: TypeStep, result: StepResult) -> StepReport:
    return StepReport(
        name=result.name,
        kind=step.kind,
        type_name=step.type_name,
        rows_in=result.rows,
        rows_out=result.written + result.deleted,
        written=result.written,
        unchanged=result.unchanged,
        superseded=result.superseded,
        deleted=result.deleted,
        dropped=result.dropped,
        quarantined=result.quarantined,
        stubs=result.stubs,
        removed=result.removed,
        cascaded=result.cascaded,
        seconds=result.seconds,
        inputs=step.inputs,
    )


def _expectations(step: TypeStep, result: StepResult) -> Iterator[ExpectationReport]:
    for number, one in enumerate(step.expect):
        yield ExpectationReport(
            step=step.name,
            name=one.name,
            condition=one.condition,
            outcome=one.outcome,
            rows=result.rows,
            failed=result.failed[number],
            max_ratio=one.max_ratio,
            samples=tuple(json.loads(text) for text in result.samples[number]),
        )
    if result.failed and result.failed[-1]:
        yield ExpectationReport(
            step=step.name,
            name=DECODES,
            condition="every value fits its property",
            outcome="quarantine",
            rows=result.rows,
            failed=result.failed[-1],
            samples=tuple(json.loads(text) for text in result.samples[-1]),
        )
