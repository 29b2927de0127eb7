"""The steps of a pipeline on their way into a graph: all rows of one run, whatever is done with each type, one commit.

When no step says of its rows what is to be done with them, they are compared with what is stored and written; else all
of them are folded as one change log. Both give the same graph and the same counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from omnigraph.engine.load import ChangeCounts, LoadMode
from omnigraph.engine.load.intake import ProblemList
from omnigraph.engine.load.sequences import StreamMemory
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import ConstraintViolationError, Effect, InternalError, KeyExistsError, OmnigraphError
from omnigraph.spark.jobs import describing
from omnigraph.spark.keys import Places
from omnigraph.spark.loads.change_log import LogChange, LogDecider
from omnigraph.spark.loads.job import LoadJob, SparkLoadRequest
from omnigraph.spark.loads.tables import TableChanges
from omnigraph.spark.loads.written import LoadedInput, LoadedPart
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.spark.rules import Verdict
from omnigraph.spark.runner import InProcessRunner, SparkRunner
from omnigraph.spark.steps.binding import bound_reader, refuse_shared
from omnigraph.spark.steps.model import CountedStep, StepResult, StepsOrder, StepsResult
from omnigraph.spark.steps.reading import StepPart, StepReader, read_step
from omnigraph.spark.steps.rejected import keep_rejected
from omnigraph.spark.steps.rows import StepRows, prepare
from omnigraph.spark.steps.screener import Screener
from omnigraph.spark.steps.screening import ScreenOrder
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, WriteTxn

_Answer = TypeVar("_Answer")
_STORED = "<stored>"
_FEW_ROWS = 50_000


def load_steps(engine: OpenGraph, steps: Sequence[StepRows], order: StepsOrder, runner: SparkRunner) -> StepsResult:
    """Bring the rows of all steps into a branch as one commit, or nothing.

    Raises:
        UsageError: two steps are about one type, or a step does not fit the schema.
        OmnigraphError: what ``settled`` and ``guard`` raise, and whatever a load on Spark does.
    """
    return _StepsJob.begin(engine, steps, order, runner).load()


class _StepsJob(LoadJob):
    """One run. Rows are always put aside first, so that those that turn out to be wrong can still be left out."""

    _steps: dict[str, CountedStep]
    _order: StepsOrder
    _as_log: bool
    _spark_runner: SparkRunner
    _results: tuple[StepResult, ...]
    _kept: int

    @classmethod
    def begin(cls, engine: OpenGraph, steps: Sequence[StepRows], order: StepsOrder, runner: SparkRunner) -> _StepsJob:
        """Return the job, with the frames of all steps made ready."""
        # What a trial would do is known once rows are folded, before anything is written to a table; and rows that
        # replace all others are compared with them only when they are folded.
        as_log = order.is_trial or any(
            step.is_log or step.removes_missing or step.mode == "overwrite" for step in steps
        )
        refuse_shared(steps)
        modes: dict[str, LoadMode] = {step.table_key: _mode(step) for step in steps}
        usual: LoadMode = "append" if set(modes.values()) == {"append"} else "merge"
        catalog = engine.catalog(order.branch)
        tables = [
            *(one.table_key for one in catalog.nodes.values()),
            *(one.table_key for one in catalog.edges.values()),
        ]
        request = SparkLoadRequest(
            mode="apply" if as_log else usual,
            modes={key: modes.get(key, "merge") for key in tables},
            branch=order.branch,
            actor=order.actor,
            message=order.message,
            progress=order.progress,
            settings=order.settings,
            stream=f"pipelines/{order.pipeline}",
        )
        job = cls(engine, request, runner, writes_directly=False)
        job._order, job._as_log, job._spark_runner = order, as_log, runner
        job._results, job._kept = (), 0
        job._steps = {}
        for step in steps:
            prepared = prepare(step, job._catalog, as_log=as_log, keeps_files=order.origins is not None)
            count = len(step.rules) + 1
            job._steps[step.table_key] = CountedStep(
                prepared=prepared, failed=[0] * count, samples=[[] for _ in range(count)]
            )
        return job

    def load(self) -> StepsResult:
        """Read, check and publish."""
        try:
            result = self.run(self._read_steps)
        except OmnigraphError as error:
            if error.effect is Effect.NONE:
                self._clear()
            raise
        if result.commit is None:
            # No commit names them; who rejects the same rows again and again has them from the first time.
            self._clear()
        return StepsResult(steps=self._results, commit=result.commit, quarantined=self._kept)

    def _clear(self) -> None:
        """Remove what was kept beside the graph, when no commit tells of it."""
        if self._kept:
            self._order.quarantine.clear()
            self._kept = 0
        if self._order.origins is not None:
            self._order.origins.clear()

    # Reading.

    def _read_steps(self, parts: list[LoadedPart]) -> Places:
        names: list[str] = []
        offsets: list[int] = []
        readers = self._bind()
        self.name_tables(self._steps)
        for key, counted in self._steps.items():
            step = counted.prepared.step
            since = self._world.clock.monotonic_s()
            work = partial(read_step, self.orders, readers[key], len(names))
            with describing(self._spark_runner.spark, f"{self._order.pipeline}/{step.name}"):
                found = dict(self._spark_runner.collect(counted.prepared.frame, work, f"read the rows of {step.name}"))
            rows = 0
            for number in range(len(names), max(found, default=-1) + 1):
                part: StepPart | None = found.get(number)
                names.append(f"<{step.name}>")
                offsets.append(rows)
                if part is not None:
                    counted.add(part)
                    parts.append(part.part)
                    rows += part.part.lines
            counted.seconds = self._world.clock.monotonic_s() - since
        # What is stored has no place in the input.
        return Places(names=(*names, _STORED), offsets=(*offsets, 0))

    def _bind(self) -> dict[str, StepReader]:
        readers: dict[str, StepReader] = {}
        with ProblemList(self._request.limit, None) as problems:
            for key, counted in self._steps.items():
                prepared = counted.prepared
                bound = bound_reader(prepared, self.orders.catalog, as_log=self._as_log, origins=self._order.origins)
                if isinstance(bound, StepReader):
                    readers[key] = bound
                else:
                    problems.add(bound)
            problems.fail()
        return readers

    # Publishing.

    def _publish_on(
        self, txn: WriteTxn, outcome: LoadedInput, problems: ProblemList
    ) -> tuple[TableChanges, CommitResult]:
        if self._order.settled is not None:
            self._order.settled([self._read_result(counted) for counted in self._steps.values()])
        if self._order.guard is not None:
            txn.add_check(self._order.guard)
        if sum(loaded.rows for loaded in outcome.types.values()) <= _FEW_ROWS:
            # So few rows are written sooner than a job is started.
            self._runner = InProcessRunner()
        with describing(self._spark_runner.spark, f"{self._order.pipeline}/publish"):
            if self._as_log:
                return self._fold_on(txn, outcome, problems)
            return self._write_on(txn, outcome, problems)

    def _write_on(
        self, txn: WriteTxn, outcome: LoadedInput, problems: ProblemList
    ) -> tuple[TableChanges, CommitResult]:
        """Publish rows that are compared with stored ones and written."""
        screener = self._screener(txn.snapshot, outcome)

        def check(snapshot: GraphSnapshot) -> Verdict:
            return self._check(replace(outcome, types=screener.types), snapshot, problems)

        def judge() -> Verdict:
            verdict = check(txn.snapshot)
            for key in verdict.superseded:
                if not screener.is_ordered(key):
                    raise screener.repeated_error(key)
            return verdict

        verdict = _judged(judge, screener.screen_rows)
        self.step_done("check")
        self._world.failpoints.hit("spark.load.after_check")
        writer = self._table_writer()
        written = writer.write(self._authority, txn, screener.types, self.orders.tickets, verdict.superseded)
        self.step_done("write")
        self._world.failpoints.hit("spark.load.after_write")
        for change in written.changes:
            txn.change(change)
        counts: dict[str, ChangeCounts] = {}
        for key, loaded in screener.types.items():
            over = verdict.superseded[key].rows if key in verdict.superseded else 0
            rows = loaded.rows - (screener.stubs[key].aside.rows if key in screener.stubs else 0)
            same = written.unchanged.get(key, 0)
            counts[key] = ChangeCounts(rows=rows, written=rows - same - over, unchanged=same, superseded=over)
        updated = {key: written.replaced.get(key, 0) for key in counts}
        changed = {key: (one.written - updated[key], updated[key]) for key, one in counts.items()}
        self._settle(screener, counts, changed)

        def check_again(view: CommitView) -> None:
            if view.snapshot.state.version != txn.snapshot.state.version:
                self._refuse_moved(txn, replace(outcome, types=screener.types), view)
                check(view.snapshot)

        if written.changes:
            txn.add_check(check_again)
        return written, self._commit(txn)

    def _fold_on(self, txn: WriteTxn, outcome: LoadedInput, problems: ProblemList) -> tuple[TableChanges, CommitResult]:
        """Publish rows of which each says what is to be done with it."""
        screener = self._screener(txn.snapshot, outcome, self._memory(txn, outcome.types))
        log, decided = self._decide(screener, problems)
        held = [decided]

        def judge() -> None:
            self._judge(log, held[0], txn.snapshot, problems)

        def screen() -> bool:
            is_changed = screener.screen_log(held[0])
            if is_changed:
                held[0] = screener.with_stubs(self._decider(screener).decide(screener.order.state))
            return is_changed

        _judged(judge, screen)
        decided = held[0]
        self.step_done("check")
        self._world.failpoints.hit("spark.load.after_check")
        changed = {
            key: (sum(file.rows for file in files.inserts), sum(file.rows for file in files.updates))
            for key, files in decided.tables.items()
        }
        self._settle(screener, decided.by_table, changed)
        if self._order.is_trial:
            # There is nothing in the transaction, so that nothing is published.
            return TableChanges(changes=(), unchanged={}), self._authority.commit(txn)
        return self._publish_log(txn, log, decided, problems)

    def _decide(self, screener: Screener, problems: ProblemList) -> tuple[LogDecider, LogChange]:
        """Fold all rows, but for those that cannot count."""
        # What is late is there all the same.
        screener.remove_rest()
        screener.leave_out_late()
        log = self._decider(screener)
        problems.add(log.mixed_sequences())
        problems.fail()
        decided = log.decide(screener.order.state)
        # Which of them counts is not said by anybody.
        unclear = [key for key, one in decided.by_table.items() if one.superseded and not screener.is_ordered(key)]
        for key in unclear:
            if not screener.leave_out_repeated(key):
                raise screener.repeated_error(key)
        if unclear:
            decided = self._decider(screener).decide(screener.order.state)
        problems.add(decided.problems)
        problems.fail()
        screener.refuse_taken()
        return log, decided

    def _commit(self, txn: WriteTxn) -> CommitResult:
        order = self._order
        txn.is_recorded = order.is_recorded
        if order.mark is not None:
            txn.run = order.mark(self._results)
        self._world.failpoints.hit("spark.steps.before_publish")
        done = super()._commit(txn)
        self._world.failpoints.hit("spark.steps.after_publish")
        return done

    def _screener(self, snapshot: GraphSnapshot, outcome: LoadedInput, memory: StreamMemory | None = None) -> Screener:
        order = ScreenOrder(
            catalog=self._catalog,
            scratch=self.scratch,
            state=PinnedState.of(self.storage, snapshot),
            reader=None if memory is None else memory.reader,
        )
        return Screener(
            runner=self._runner,
            order=order,
            steps=self._steps,
            modes=self._request.modes,
            places=outcome.places,
            types=dict(outcome.types),
            memory=memory,
            keeps_edges=frozenset(
                key
                for key, counted in self._steps.items()
                if counted.prepared.step.on_delete == "refuse" or self._request.mode_of(key) == "overwrite"
            ),
        )

    def _decider(self, screener: Screener) -> LogDecider:
        return LogDecider(
            runner=self._runner,
            catalog=self._catalog,
            scratch=self.scratch,
            types=dict(screener.types),
            places=screener.places,
            on_delete="cascade",
            settings=self._request.settings,
            keeps_edges=screener.keeps_edges,
            memory=screener.memory,
            unordered=screener.stored_place,
        )

    # What became of the rows.

    def _settle(
        self, screener: Screener, counts: Mapping[str, ChangeCounts], changed: Mapping[str, tuple[int, int]]
    ) -> None:
        """Note what became of the rows, and keep those that were rejected."""
        self._results = tuple(
            self._step_result(key, counts.get(key, ChangeCounts()), screener, changed.get(key, (0, 0)))
            for key in self._steps
        )
        for result in self._results:
            if not result.adds_up:
                raise InternalError(f"the rows of step '{result.name}' do not add up: {result}")
        order = self._order
        if order.is_trial:
            return
        rejected = [
            (self._beside(counted), (*counted.rejected, *screener.rejected.get(key, ())))
            for key, counted in self._steps.items()
        ]
        if self._kept:
            # Another attempt has kept others.
            order.quarantine.clear()
            self._kept = 0
        if any(files for _, files in rejected):
            self._kept = keep_rejected(self._runner, self.scratch, order.quarantine, rejected, screener.places.offsets)
            self._world.failpoints.hit("spark.steps.after_quarantine")

    def _beside(self, counted: CountedStep) -> dict[str, str]:
        step = counted.prepared.step
        return {
            "pipeline": self._order.pipeline,
            "run": self._order.run,
            "step": step.name,
            "type": step.table_key,
            "source": ", ".join(step.sources),
            "columns": step.frame.schema.json(),
        }

    def _read_result(self, counted: CountedStep) -> StepResult:
        """Return what is known of a step when its rows are read."""
        return StepResult(
            name=counted.prepared.step.name,
            table_key=counted.prepared.step.table_key,
            rows=counted.rows,
            superseded=counted.superseded,
            dropped=counted.dropped,
            quarantined=counted.set_aside,
            origins=counted.origins,
            failed=tuple(counted.failed),
            samples=tuple(tuple(some) for some in counted.samples),
            seconds=counted.seconds,
        )

    def _step_result(self, key: str, counts: ChangeCounts, screener: Screener, changed: tuple[int, int]) -> StepResult:
        """Return what became of the rows of a step."""
        read = self._read_result(self._steps[key])
        removed, stubs = screener.removed.get(key, 0), screener.stubs.get(key)
        is_first = key == next(iter(screener.made_for), None)
        return replace(
            read,
            written=counts.written,
            unchanged=counts.unchanged,
            superseded=read.superseded + counts.superseded + screener.late.get(key, 0),
            # Rows that were added to remove what the step does not have were folded with its own.
            deleted=counts.deleted - removed,
            quarantined=read.quarantined + screener.quarantined.get(key, 0),
            cascaded=counts.cascaded,
            removed=removed,
            stubs=screener.made_for.get(key, 0),
            stub_ids={one[5:]: made.ids for one, made in screener.stubs.items()} if is_first else {},
            inserted=changed[0] - (stubs.aside.rows if stubs is not None and self._as_log else 0),
            updated=changed[1],
        )


def _judged(judge: Callable[[], _Answer], screen: Callable[[], bool]) -> _Answer:
    """Ask the rules; if they do not hold, look for rows that can be left out, or for nodes that can be made up.

    Most runs have none, and do not pay for the look.
    """
    try:
        return judge()
    except (ConstraintViolationError, KeyExistsError):
        if not screen():
            raise
    return judge()


def _mode(step: StepRows) -> LoadMode:
    return "merge" if step.mode == "patch" else step.mode
