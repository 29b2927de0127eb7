"""The steps of a pipeline on their way into a graph: all rows of one run, whatever is done with each type, one commit.

When no step says of its rows what is to be done with them, they are compared with what is stored and written; else all
of them are folded as one change log. Both give the same graph and the same counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import INTEGERS, EdgeType, NodeType, Scalar
from omnigraph.engine.load import ChangeCounts, LoadMode, Source
from omnigraph.engine.load.intake import ProblemList
from omnigraph.engine.load.sources.dialect import Dialect
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.rows.changes import NO_SEQUENCE
from omnigraph.errors import (
    BadValue,
    ConstraintViolationError,
    Effect,
    InternalError,
    KeyExistsError,
    OmnigraphError,
    UsageError,
    Violation,
    Violations,
)
from omnigraph.records import record
from omnigraph.spark.keys import Places
from omnigraph.spark.load.change_log import DecidedLog, LogDecider
from omnigraph.spark.load.decided import DecidedWriter, TableFiles
from omnigraph.spark.load.frames import FrameRows, bind_frame
from omnigraph.spark.load.job import LoadJob, SparkLoadRequest
from omnigraph.spark.load.options import SparkLoadSettings
from omnigraph.spark.load.tables import WrittenTables
from omnigraph.spark.load.written import LoadedType, Outcome, RowsFile, WrittenPart
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.spark.rules import Verdict
from omnigraph.spark.runner import InProcessRunner, SparkRunner
from omnigraph.spark.steps.describing import describing
from omnigraph.spark.steps.reading import StepPart, StepReader, read_step
from omnigraph.spark.steps.rejected import QuarantinePlace, RejectedFile, keep_rejected
from omnigraph.spark.steps.rows import PreparedRows, StepRows, prepare
from omnigraph.spark.steps.screening import (
    EndsTask,
    FoundRows,
    LateTask,
    RejectTask,
    RestTask,
    ScreenOrder,
    StubRows,
    StubTask,
    find_late,
    find_missing_ends,
    find_repeated,
    find_rest,
    find_taken,
    make_stubs,
    reject_found,
    rewritten,
    row_files,
    without,
)
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, WriteTxn, key_exists

if TYPE_CHECKING:
    from omnigraph.engine.load.options import Progress
    from omnigraph.txn.manifest.rows import RunMark

_STORED = "<stored>"
_ORDERING = frozenset({*INTEGERS, Scalar.DATE, Scalar.DATETIME})
_SAMPLES = 5
_FEW_ROWS = 50_000


@record
class StepResult:
    """What became of the rows of a step.

    ``rows`` is the sum of written, unchanged, superseded, deleted, dropped and quarantined. Not rows of the step are
    ``cascaded`` edges that went with their nodes, stored entities that were ``removed`` because the step does not have
    them, and ``stubs`` that were made for missing ends. ``failed`` counts for each rule the rows that it does not hold
    for, and last those whose values do not fit; ``samples`` are some of them.
    """

    name: str
    table_key: str
    rows: int = 0
    written: int = 0
    unchanged: int = 0
    superseded: int = 0
    deleted: int = 0
    dropped: int = 0
    quarantined: int = 0
    cascaded: int = 0
    removed: int = 0
    stubs: int = 0
    inserted: int = 0
    updated: int = 0
    failed: tuple[int, ...] = ()
    samples: tuple[tuple[str, ...], ...] = ()
    stub_ids: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def adds_up(self) -> bool:
        """Whether nothing was lost, and nothing counted twice."""
        parts = (self.written, self.unchanged, self.superseded, self.deleted, self.dropped, self.quarantined)
        return self.rows == sum(parts)


@record
class StepsOrder:
    """What a run asks for.

    Args:
        pipeline: its name.
        run: the name of the run.
        branch: where to write.
        quarantine: where rejected rows are kept.
        actor: who asks for it.
        message: what the commit says.
        settled: looks at what was counted when all rows are read, and raises what forbids to go on.
        mark: makes what the commit says of the run, of what became of the rows.
        guard: looks at every state that the commit is about to be published on, and raises what forbids it.
        is_recorded: a commit is made although every row was as it should be.
        is_trial: nothing is published and nothing kept.
        progress: told how far it is.
        settings: what tasks may use.
    """

    pipeline: str
    run: str
    branch: str
    quarantine: QuarantinePlace
    actor: str | None = None
    message: str | None = None
    settled: Callable[[Sequence[StepResult]], None] | None = None
    mark: Callable[[Sequence[StepResult]], RunMark] | None = None
    guard: Callable[[CommitView], None] | None = None
    is_recorded: bool = False
    is_trial: bool = False
    progress: Progress | None = None
    settings: SparkLoadSettings = field(default_factory=SparkLoadSettings)


@record
class StepsResult:
    """What became of the rows of all steps; ``commit`` is None when there was nothing to publish."""

    steps: tuple[StepResult, ...]
    commit: Any = None
    quarantined: int = 0


def load_steps(engine: OpenGraph, steps: Sequence[StepRows], order: StepsOrder, runner: SparkRunner) -> StepsResult:
    """Bring the rows of all steps into a branch as one commit, or nothing.

    Raises:
        UsageError: two steps are about one type, or a step does not fit the schema.
        OmnigraphError: what ``settled`` and ``guard`` raise, and whatever a load on Spark does.
    """
    return _StepsJob.begin(engine, steps, order, runner).load()


@dataclass(slots=True)
class _Counted:
    """What is counted of a step while its rows are on their way."""

    prepared: PreparedRows
    rows: int = 0
    dropped: int = 0
    superseded: int = 0
    failed: list[int] = field(default_factory=list)
    samples: list[list[str]] = field(default_factory=list)
    rejected: list[RejectedFile] = field(default_factory=list)
    originals: list[RowsFile] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def set_aside(self) -> int:
        """How many rows were put aside while they were read."""
        return sum(file.rows for file in self.rejected)

    def add(self, part: StepPart) -> None:
        """Take over what a task counted."""
        self.rows += part.rows
        self.dropped += part.dropped
        self.superseded += part.superseded
        self.failed = [one + other for one, other in zip(self.failed, part.failed, strict=True)]
        for mine, theirs in zip(self.samples, part.samples, strict=True):
            mine.extend(theirs[: _SAMPLES - len(mine)])
        self.rejected += part.rejected
        self.originals += part.originals


@dataclass(slots=True)
class _Screened:
    """What was read of each type after a look at all rows together, and what that look found.

    It belongs to one state: on a newer one nodes may be there that were missing.
    """

    types: dict[str, LoadedType]
    late: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, list[RejectedFile]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    lacking: dict[str, FoundRows] = field(default_factory=dict)
    stubs: dict[str, StubRows] = field(default_factory=dict)
    made_for: dict[str, int] = field(default_factory=dict)


class _StepsJob(LoadJob):
    """One run. Rows are always put aside first, so that those that turn out to be wrong can still be left out."""

    _steps: dict[str, _Counted]
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
        _refuse_shared(steps)
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
        )
        job = cls(engine, request, runner, writes_directly=False)
        job._order, job._as_log, job._spark_runner = order, as_log, runner
        job._results, job._kept = (), 0
        job._steps = {}
        for step in steps:
            prepared = prepare(step, job._catalog, as_log=as_log)
            count = len(step.rules) + 1
            job._steps[step.table_key] = _Counted(
                prepared=prepared, failed=[0] * count, samples=[[] for _ in range(count)]
            )
        return job

    def load(self) -> StepsResult:
        """Read, check and publish."""
        try:
            result = self.run(self._read_steps)
        except OmnigraphError as error:
            if error.effect is Effect.NONE and self._kept:
                self._order.quarantine.clear()
            raise
        if result.commit is None and self._kept:
            # No commit names them; who rejects the same rows again and again has them from the first time.
            self._order.quarantine.clear()
            self._kept = 0
        return StepsResult(steps=self._results, commit=result.commit, quarantined=self._kept)

    # Reading.

    def _read_steps(self, parts: list[WrittenPart]) -> Places:
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
                bound = _bound(prepared, self.orders.catalog, as_log=self._as_log)
                if isinstance(bound, StepReader):
                    readers[key] = bound
                else:
                    problems.add(bound)
            problems.fail()
        return readers

    # Publishing.

    def _publish_on(self, txn: WriteTxn, outcome: Outcome, problems: ProblemList) -> tuple[WrittenTables, CommitResult]:
        if self._order.settled is not None:
            self._order.settled([self._result_of(key, ChangeCounts()) for key in self._steps])
        if self._order.guard is not None:
            txn.add_check(self._order.guard)
        if sum(loaded.rows for loaded in outcome.types.values()) <= _FEW_ROWS:
            # So few rows are written sooner than a job is started.
            self._runner = InProcessRunner()
        with describing(self._spark_runner.spark, f"{self._order.pipeline}/publish"):
            if self._as_log:
                return self._fold_on(txn, outcome, problems)
            return self._write_on(txn, outcome, problems)

    def _write_on(self, txn: WriteTxn, outcome: Outcome, problems: ProblemList) -> tuple[WrittenTables, CommitResult]:
        """Publish rows that are compared with stored ones and written."""
        screened = _Screened(types=dict(outcome.types))
        order = self._screen_order(txn.snapshot)

        def check(snapshot: GraphSnapshot) -> Verdict:
            return self._check(replace(outcome, types=screened.types), snapshot, problems)

        def judge() -> Verdict:
            verdict = check(txn.snapshot)
            # Which of them counts is not said by anybody.
            unclear = [key for key in verdict.superseded if key in self._steps and not self._is_ordered(key)]
            if unclear:
                raise self._repeated(screened, order, outcome.places, unclear[0])
            return verdict

        verdict = self._screened(judge, lambda: self._screen_rows(screened, order, outcome))
        self.step_done("check")
        self._world.failpoints.hit("spark.load.after_check")
        writer = self._table_writer()
        written = writer.write(self._authority, txn, screened.types, self.orders.tickets, verdict.superseded)
        self.step_done("write")
        self._world.failpoints.hit("spark.load.after_write")
        for change in written.changes:
            txn.change(change)
        counts: dict[str, ChangeCounts] = {}
        for key, loaded in screened.types.items():
            over = verdict.superseded[key].rows if key in verdict.superseded else 0
            rows = loaded.rows - (screened.stubs[key].aside.rows if key in screened.stubs else 0)
            same = written.unchanged.get(key, 0)
            counts[key] = ChangeCounts(rows=rows, written=rows - same - over, unchanged=same, superseded=over)
        updated = {key: written.replaced.get(key, 0) for key in counts}
        changed = {key: (one.written - updated[key], updated[key]) for key, one in counts.items()}
        self._settle(screened, counts, changed, outcome.places)

        def check_again(view: CommitView) -> None:
            if view.snapshot.state.version != txn.snapshot.state.version:
                self._refuse_moved(txn, replace(outcome, types=screened.types), view)
                check(view.snapshot)

        if written.changes:
            txn.add_check(check_again)
        return written, self._commit(txn)

    def _fold_on(self, txn: WriteTxn, outcome: Outcome, problems: ProblemList) -> tuple[WrittenTables, CommitResult]:
        """Publish rows of which each says what is to be done with it."""
        screened = _Screened(types=dict(outcome.types))
        order = self._screen_order(txn.snapshot)
        log, decided = self._decide(screened, order, outcome.places, problems)
        held = [decided]

        def judge() -> None:
            self._judge(log, held[0], txn.snapshot, problems)

        def screen() -> bool:
            found = self._screen_decided(screened, order, held[0], outcome.places)
            if found is not None:
                held[0] = found
            return found is not None

        self._screened(judge, screen)
        decided = held[0]
        self.step_done("check")
        self._world.failpoints.hit("spark.load.after_check")
        changed = {
            key: (sum(file.rows for file in files.inserts), sum(file.rows for file in files.updates))
            for key, files in decided.tables.items()
        }
        self._settle(screened, decided.by_table, changed, outcome.places)
        if self._order.is_trial:
            # There is nothing in the transaction, so that nothing is published.
            return WrittenTables(changes=(), unchanged={}), self._authority.commit(txn)
        settings = self._request.settings
        writer = DecidedWriter(
            runner=self._runner,
            storage=self.storage,
            scratch=self.scratch,
            write_rows=settings.merge_rows,
            write_bytes=settings.flush_bytes,
            fragment_rows=settings.fragment_rows,
        )
        changes = tuple(writer.write(self._authority, txn, decided.tables))
        self.step_done("write")
        self._world.failpoints.hit("spark.load.after_write")
        for change in changes:
            txn.change(change)
        for table_key in decided.reads:
            txn.read_table(table_key)

        def check_again(view: CommitView) -> None:
            if view.snapshot.state.version != txn.snapshot.state.version:
                self._judge(log, decided, view.snapshot, problems)

        if changes:
            txn.add_check(check_again)
        return WrittenTables(changes=changes, unchanged={}), self._commit(txn)

    def _decide(
        self, screened: _Screened, order: ScreenOrder, places: Places, problems: ProblemList
    ) -> tuple[LogDecider, DecidedLog]:
        """Fold all rows, but for those that cannot count."""
        self._leave_out_late(screened, order)
        self._remove_rest(screened, order, places)
        log = self._decider(screened, places)
        problems.add(log.mixed_sequences())
        problems.fail()
        decided = log.decide(order.state)
        unclear = [
            key
            for key, counts in decided.by_table.items()
            if counts.superseded and key in self._steps and not self._is_ordered(key)
        ]
        for key in unclear:
            if not self._leave_out_repeated(screened, order, key):
                raise self._repeated(screened, order, places, key)
        if unclear:
            log = self._decider(screened, places)
            decided = log.decide(order.state)
        problems.add(decided.problems)
        problems.fail()
        self._refuse_taken(screened, order)
        return log, decided

    def _commit(self, txn: WriteTxn) -> CommitResult:
        order = self._order
        txn.is_recorded = order.is_recorded
        if order.mark is not None:
            txn.run = order.mark(self._results)
        self._world.failpoints.hit("spark.steps.before_publish")
        done = self._authority.commit(txn)
        self._world.failpoints.hit("spark.steps.after_publish")
        return done

    # A look at all rows together.

    def _screen_order(self, snapshot: GraphSnapshot) -> ScreenOrder:
        return ScreenOrder(catalog=self._catalog, scratch=self.scratch, state=PinnedState.of(self.storage, snapshot))

    def _screened(self, judge: Callable[[], Any], screen: Callable[[], bool]) -> Any:
        """Ask the rules; if they do not hold, look for rows that can be left out, or for nodes that can be made up.

        Most runs have none, and do not pay for the look.
        """
        try:
            return judge()
        except (ConstraintViolationError, KeyExistsError):
            if not screen():
                raise
        return judge()

    def _screen_rows(self, screened: _Screened, order: ScreenOrder, outcome: Outcome) -> bool:
        """Leave out what can be left out of rows that are written as they are, and make up what can be made up."""
        is_changed = False
        for key in self._steps:
            if key in screened.types and not self._is_ordered(key):
                is_changed |= self._leave_out_repeated(screened, order, key)
        nodes = {
            loaded.owner.name: row_files(loaded)
            for loaded in screened.types.values()
            if isinstance(loaded.owner, NodeType)
        }
        tasks = [
            EndsTask(table_key=key, files=row_files(screened.types[key]), coming=nodes, going={})
            for key in self._screened_edges()
            if key in screened.types
        ]
        for key, found in self._find_missing_ends(order, tasks, screened):
            screened.types[key] = without(self._runner, self.scratch, screened.types[key], [found])
            is_changed = True
        if self._make_stubs(screened, order, outcome.places):
            for key, stubs in screened.stubs.items():
                screened.types[key] = _with_stubs(screened.types.get(key), self._catalog.nodes[key[5:]], stubs)
            is_changed = True
        return is_changed

    def _screen_decided(
        self, screened: _Screened, order: ScreenOrder, decided: DecidedLog, places: Places
    ) -> DecidedLog | None:
        """Leave out what can be left out of rows that were folded, and make up what can be made up."""
        tables, counts = dict(decided.tables), dict(decided.by_table)
        is_changed = False
        nodes = {key[5:]: files for key, files in tables.items() if key.startswith("node:")}
        tasks = [
            EndsTask(
                table_key=key,
                files=tuple(file.name for file in (*tables[key].inserts, *tables[key].updates)),
                coming={name: tuple(file.name for file in one.inserts) for name, one in nodes.items()},
                going={name: tuple(file.name for file in one.deletes) for name, one in nodes.items()},
            )
            for key in self._screened_edges()
            if key in tables
        ]
        for key, found in self._find_missing_ends(order, tasks, screened):
            files, names = tables[key], (found.name,)
            tables[key] = replace(
                files,
                inserts=_filled(rewritten(self._runner, self.scratch, files.inserts, names)),
                updates=_filled(rewritten(self._runner, self.scratch, files.updates, names)),
            )
            left = counts[key]
            counts[key] = replace(left, rows=left.rows - found.rows, written=left.written - found.rows)
            is_changed = True
        if self._make_stubs(screened, order, places):
            for key, stubs in screened.stubs.items():
                known = tables.get(key, TableFiles())
                tables[key] = replace(known, inserts=(*known.inserts, stubs.aside))
            is_changed = True
        if not is_changed:
            return None
        left_tables = {key: files for key, files in sorted(tables.items()) if not files.is_empty}
        return replace(decided, tables=left_tables, by_table=counts)

    def _screened_edges(self) -> list[str]:
        """Return the edge types whose rows may lack an end."""
        return [
            key
            for key, counted in self._steps.items()
            if key.startswith("edge:") and counted.prepared.step.missing_end != "fail"
        ]

    def _find_missing_ends(
        self, order: ScreenOrder, tasks: Sequence[EndsTask], screened: _Screened
    ) -> list[tuple[str, FoundRows]]:
        """Reject edges that lack an end, and return them; note those that get one."""
        found = self._runner.run(partial(find_missing_ends, order), tasks, "find missing ends")
        rejected = []
        for task, one in zip(tasks, found, strict=True):
            if one is None:
                continue
            if self._steps[task.table_key].prepared.step.missing_end == "quarantine":
                edge = self._catalog.edges[task.table_key[5:]]
                says = {
                    "src": f"there is no {edge.from_type} '{{}}' for the source of the edge",
                    "dst": f"there is no {edge.to_type} '{{}}' for the target of the edge",
                }
                self._reject(screened, task.table_key, one, "missing_end", says)
                rejected.append((task.table_key, one))
            else:
                screened.lacking[task.table_key] = one
        return rejected

    def _make_stubs(self, screened: _Screened, order: ScreenOrder, places: Places) -> bool:
        """Make nodes for the edges that lack one."""
        wanted: dict[str, list[tuple[str, str, str]]] = {}
        for key, found in screened.lacking.items():
            edge = self._catalog.edges[key[5:]]
            for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
                wanted.setdefault(name, []).append((key, found.name, side))
        tasks = [
            StubTask(node=name, found=tuple((file, side) for _, file, side in some), place=len(places.names) - 1)
            for name, some in wanted.items()
        ]
        made = self._runner.run(partial(make_stubs, order), tasks, "make nodes for missing ends")
        for task, stubs in zip(tasks, made, strict=True):
            if stubs is None:
                continue
            screened.stubs[f"node:{task.node}"] = stubs
            for (key, _, _), count in zip(wanted[task.node], stubs.counts, strict=True):
                screened.made_for[key] = screened.made_for.get(key, 0) + count
        return bool(screened.stubs)

    def _leave_out_repeated(self, screened: _Screened, order: ScreenOrder, key: str) -> bool:
        """Reject rows whose key an earlier row has, if the step keeps what it rejects."""
        counted, loaded = self._steps[key], screened.types[key]
        if not _keeps_originals(counted.prepared.step):
            return False
        files = row_files(loaded)
        (found,) = self._runner.run(partial(find_repeated, order), [files], "find repeated keys")
        if found is None:
            return False
        self._reject(screened, key, found, "duplicate_key", {"id": "an earlier row of the run has the key '{}'"})
        screened.types[key] = without(self._runner, self.scratch, loaded, [found])
        return True

    def _leave_out_late(self, screened: _Screened, order: ScreenOrder) -> None:
        """Leave out rows that are older than what earlier runs have stored, where a property tells."""
        tasks = []
        for key, counted in self._steps.items():
            loaded, name = screened.types.get(key), _sequence_property(counted.prepared)
            if loaded is not None and loaded.aside and name is not None:
                tasks.append(LateTask(table_key=key, files=row_files(loaded), property=name))
        done = self._runner.run(partial(find_late, order), tasks, "find late rows")
        for task, found in zip(tasks, done, strict=True):
            if found is not None:
                screened.late[task.table_key] = found.rows
                loaded = screened.types[task.table_key]
                screened.types[task.table_key] = without(self._runner, self.scratch, loaded, [found])

    def _remove_rest(self, screened: _Screened, order: ScreenOrder, places: Places) -> None:
        """Add rows that delete what a step does not have, where it says so."""
        tasks = []
        for key, counted in self._steps.items():
            if counted.prepared.step.removes_missing or self._request.mode_of(key) == "overwrite":
                loaded = screened.types.get(key)
                kind = NO_SEQUENCE if loaded is None or not loaded.kinds else min(loaded.kinds)
                files = () if loaded is None else row_files(loaded)
                tasks.append(RestTask(table_key=key, files=files, kind=kind, place=len(places.names) - 1))
        done = self._runner.run(partial(find_rest, order), tasks, "find what is not there any more")
        for task, file in zip(tasks, done, strict=True):
            if file is None:
                continue
            known = screened.types.get(task.table_key) or _nothing_of(self._steps[task.table_key].prepared.owner)
            screened.types[task.table_key] = replace(
                known, rows=known.rows + file.rows, aside=(*known.aside, file), deletes=known.deletes + file.rows
            )
            screened.removed[task.table_key] = file.rows

    def _refuse_taken(self, screened: _Screened, order: ScreenOrder) -> None:
        """Refuse rows of an append whose ids are stored.

        Raises:
            KeyExistsError: there are some.
        """
        tasks = [
            (key, row_files(loaded)) for key, loaded in screened.types.items() if self._request.mode_of(key) == "append"
        ]
        for (key, _), taken in zip(
            tasks, self._runner.run(partial(find_taken, order), tasks, "find stored ids"), strict=True
        ):
            if taken.count:
                raise key_exists(key, taken.ids)

    def _reject(self, screened: _Screened, key: str, found: FoundRows, rule: str, says: Mapping[str, str]) -> None:
        originals = tuple(file.name for file in self._steps[key].originals)
        task = RejectTask(found=found.name, originals=originals, rule=rule, says=dict(says))
        (files,) = self._runner.run(partial(reject_found, self.scratch), [task], "keep the rejected rows")
        screened.rejected.setdefault(key, []).extend(files)
        screened.quarantined[key] = screened.quarantined.get(key, 0) + sum(file.rows for file in files)

    def _repeated(self, screened: _Screened, order: ScreenOrder, places: Places, key: str) -> ConstraintViolationError:
        """Return the error for rows of a run that have one key, when nobody says which of them counts."""
        owner = self._steps[key].prepared.owner
        files = row_files(screened.types[key])
        (found,) = self._runner.run(partial(find_repeated, order), [files], "find repeated keys")
        name, line = ("", 0) if found is None else places.of(found.first)
        text = f"{owner.name}: an earlier row of the run has the same key"
        item = Violation(rule="unique", type_name=owner.name, message=text, source=name or None, line=line or None)
        details = Violations(items=(item,), total=1 if found is None else found.rows)
        return ConstraintViolationError(
            text, details=details, hint="say which row counts with `dedupe` or `sequence`, or quarantine the others"
        )

    def _is_ordered(self, key: str) -> bool:
        return self._steps[key].prepared.step.is_ordered

    def _decider(self, screened: _Screened, places: Places) -> LogDecider:
        keeps = frozenset(
            key
            for key, counted in self._steps.items()
            if counted.prepared.step.on_delete == "refuse" or self._request.mode_of(key) == "overwrite"
        )
        return LogDecider(
            runner=self._runner,
            catalog=self._catalog,
            scratch=self.scratch,
            types=screened.types,
            places=places,
            on_delete="cascade",
            settings=self._request.settings,
            keeps_edges=keeps,
        )

    # What became of the rows.

    def _settle(
        self,
        screened: _Screened,
        counts: Mapping[str, ChangeCounts],
        changed: Mapping[str, tuple[int, int]],
        places: Places,
    ) -> None:
        """Note what became of the rows, and keep those that were rejected."""
        self._results = tuple(
            self._result_of(key, counts.get(key, ChangeCounts()), screened, changed.get(key, (0, 0)))
            for key in self._steps
        )
        for result in self._results:
            if not result.adds_up:
                raise InternalError(f"the rows of step '{result.name}' do not add up: {result}")
        order = self._order
        if order.is_trial:
            return
        rejected = [
            (self._beside(counted), (*counted.rejected, *screened.rejected.get(key, ())))
            for key, counted in self._steps.items()
        ]
        if any(files for _, files in rejected):
            # Another attempt may have kept more.
            order.quarantine.clear()
            self._kept = keep_rejected(self._runner, self.scratch, order.quarantine, rejected, places.offsets)
            self._world.failpoints.hit("spark.steps.after_quarantine")

    def _beside(self, counted: _Counted) -> dict[str, str]:
        step = counted.prepared.step
        return {
            "pipeline": self._order.pipeline,
            "run": self._order.run,
            "step": step.name,
            "type": step.table_key,
            "source": ", ".join(step.sources),
            "columns": step.frame.schema.json(),
        }

    def _result_of(
        self,
        key: str,
        counts: ChangeCounts,
        screened: _Screened | None = None,
        changed: tuple[int, int] = (0, 0),
    ) -> StepResult:
        counted = self._steps[key]
        screened = screened or _Screened(types={})
        removed = screened.removed.get(key, 0)
        folded = removed if self._as_log else 0
        stubs = screened.stubs.get(key)
        inserted = changed[0] - (stubs.aside.rows if stubs is not None and self._as_log else 0)
        return StepResult(
            name=counted.prepared.step.name,
            table_key=key,
            rows=counted.rows,
            written=counts.written,
            unchanged=counts.unchanged,
            superseded=counts.superseded + counted.superseded + screened.late.get(key, 0),
            deleted=counts.deleted - folded,
            dropped=counted.dropped,
            quarantined=counted.set_aside + screened.quarantined.get(key, 0),
            cascaded=counts.cascaded,
            removed=removed,
            stubs=screened.made_for.get(key, 0),
            inserted=inserted,
            updated=changed[1],
            failed=tuple(counted.failed),
            samples=tuple(tuple(some) for some in counted.samples),
            stub_ids=() if stubs is None else stubs.ids,
            seconds=counted.seconds,
        )


def _mode(step: StepRows) -> LoadMode:
    return "merge" if step.mode == "patch" else step.mode


def _refuse_shared(steps: Sequence[StepRows]) -> None:
    owners: dict[str, str] = {}
    for step in steps:
        if step.table_key in owners:
            details = BadValue(what="step", value=step.name, expected="one step for each type")
            raise UsageError(
                f"steps '{owners[step.table_key]}' and '{step.name}' are both about {step.table_key}",
                details=details,
                hint="join their rows in a view with UNION ALL",
            )
        owners[step.table_key] = step.name


def _keeps_originals(step: StepRows) -> bool:
    quarantines = any(rule.outcome == "quarantine" for rule in step.rules)
    return step.missing_end == "quarantine" or (quarantines and not step.is_ordered)


def _sequence_property(prepared: PreparedRows) -> str | None:
    """Return the property that holds what rows are ordered by, if one does."""
    step = prepared.step
    if step.sequence is None:
        return None
    said = step.sequence.strip().strip("`")
    for prop in prepared.owner.properties:
        if prop.type.is_list or prop.type.scalar not in _ORDERING:
            continue
        if step.set.get(prop.name, prop.name).strip().strip("`") == said:
            is_column = prop.name in step.set or prop.name in prepared.originals
            return prop.name if is_column else None
    return None


def _bound(prepared: PreparedRows, catalog: Catalog, *, as_log: bool) -> StepReader | list[Violation]:
    """Return how the rows of a step are read, or what is wrong with its columns."""
    step = prepared.step
    title = f"<{step.name}>"
    columns = prepared.frame.limit(0).toArrow().schema
    for end in prepared.ends:
        columns = columns.append(pa.field(end.target, pa.string()))
    source = Source(
        path=title,
        format="parquet",
        type_name=step.table_key,
        columns=prepared.mapped,
        dialect=Dialect(ignore_extra_columns=True),
        takes_changes=as_log,
    )
    # A column that another one stands for is not taken by its name as well.
    hidden = {name for name in prepared.mapped if name in columns.names and name not in prepared.mapped.values()}
    aliases = {"from": "src", "to": "dst"} if isinstance(prepared.owner, EdgeType) else {}
    hidden |= {aliases[name] for name in prepared.mapped if name in aliases and aliases[name] in columns.names}
    seen = pa.schema([at for at in columns if at.name not in hidden])
    bound = bind_frame(source, catalog, seen)
    if not isinstance(bound, FrameRows) or bound.binding is None:
        problems = bound if isinstance(bound, tuple) else ()
        return [one for problem in problems for one in problem.violations(title)]
    return StepReader(
        title=title,
        binding=bound.binding,
        originals=prepared.originals,
        rules=step.rules,
        rule_columns=prepared.rule_columns,
        ends=prepared.ends,
        place=prepared.place,
        keeps_originals=_keeps_originals(step),
    )


def _filled(files: Sequence[RowsFile]) -> tuple[RowsFile, ...]:
    return tuple(file for file in files if file.rows)


def _nothing_of(owner: NodeType | EdgeType) -> LoadedType:
    return LoadedType(owner=owner, rows=0, has_fresh_ids=False, keys=(), fragments=(), aside=())


def _with_stubs(known: LoadedType | None, node: NodeType, stubs: StubRows) -> LoadedType:
    known = known or _nothing_of(node)
    return replace(
        known,
        rows=known.rows + stubs.aside.rows,
        has_fresh_ids=False,
        keys=(*known.keys, stubs.keys),
        aside=(*known.aside, stubs.aside),
    )
