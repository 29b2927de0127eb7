"""A plan that can be read: its steps with what was expected of them and, after a run, what they did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa

from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.planner import Facts, plan_read
from omnigraph.engine.query.steps import Block, CountExpand, QueryPlan, Step
from omnigraph.ir.model import (
    Constant,
    DeleteMatchedPlan,
    InsertPlan,
    MatchPlan,
    MutationPlan,
    OutputPlan,
    ReadPlan,
    UpdateMatchedPlan,
    output_lines,
    stage_lines,
)
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.values.printable import Printable
from omnigraph.values.visible import make_visible

if TYPE_CHECKING:
    from omnigraph.engine.query.search.approximate import VectorSearch

T = TypeVar("T")


@record(frozen=False)
class StepTrace:
    """One step: what it is, what was expected of it, and what it did."""

    label: str
    depth: int
    estimated_rows: float
    rows: int | None = None
    calls: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values; what it did only if it ran."""
        found: dict[str, Any] = {"step": self.label, "depth": self.depth, "estimated_rows": round(self.estimated_rows)}
        if self.rows is not None:
            found |= {"rows": self.rows, "calls": self.calls, "ms": round(self.seconds * 1000, 3)}
        return found


@record(frozen=False, kw_only=False)
class Trace:
    """The steps of one run, in the order of the plan. Time and calls are a step's own, without the steps before it."""

    counters: Counters
    steps: dict[int, StepTrace] = field(default_factory=dict)
    # Searches of vectors that the schema lets miss rows.
    searches: list[VectorSearch] = field(default_factory=list)
    # Whether the run is explained, so that what it found may be compared with an exact answer.
    is_explained: bool = False
    _running: list[int] = field(default_factory=list)
    _since: tuple[float, int] = (0.0, 0)

    def again(self, counters: Counters) -> Trace:
        """Return the trace of another run of the same plan, in which nothing was done yet."""
        steps = {
            key: StepTrace(label=step.label, depth=step.depth, estimated_rows=step.estimated_rows)
            for key, step in self.steps.items()
        }
        return Trace(counters, steps)

    def watch(self, step: object, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield the frames of a step, counting them."""
        trace = self.steps.get(id(step))
        if trace is None:
            yield from frames
            return
        trace.rows, key = trace.rows or 0, id(step)
        while True:
            self.switch(key)
            try:
                frame = next(frames, None)
            finally:
                self.switch(None)
            if frame is None:
                return
            trace.rows += int(frame.weights.sum()) if frame.weights is not None else frame.length
            yield frame

    def measure(self, step: object, run: Callable[[], T], rows: Callable[[T], int]) -> T:
        """Run what follows the match as a step."""
        trace = self.steps[id(step)]
        with _Turn(self, id(step)):
            made = run()
        trace.rows = rows(made)
        return made

    def count(self, output: object, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what a stage hands on, counting its rows."""
        trace = self.steps[id(output)]
        trace.rows = trace.rows or 0
        for batch in batches:
            trace.rows += batch.num_rows
            yield batch

    def switch(self, key: int | None) -> None:
        """Give time and calls since the last switch to whoever ran, and go on with another step."""
        now, calls = time.perf_counter(), self.counters.total_calls
        if self._running:
            trace = self.steps[self._running[-1]]
            trace.seconds += now - self._since[0]
            trace.calls += calls - self._since[1]
        self._since = (now, calls)
        if key is None:
            self._running.pop()
        else:
            self._running.append(key)


class _Turn:
    __slots__ = ("_key", "_trace")

    def __init__(self, trace: Trace, key: int) -> None:
        self._trace, self._key = trace, key

    def __enter__(self) -> None:
        self._trace.switch(self._key)

    def __exit__(self, *_: object) -> None:
        self._trace.switch(None)


@record
class Explanation(Printable):
    """The plan of a read, or of a mutation that was not run."""

    name: str
    steps: tuple[StepTrace, ...]
    rules: tuple[str, ...]
    columns: dict[str, tuple[str, ...]]
    kind: Literal["read", "mutation"] = "read"
    searches: tuple[VectorSearch, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values; ``searches`` only where the schema lets a search of vectors miss rows."""
        found = {
            "query_name": self.name,
            "steps": [step.to_json() for step in self.steps],
            "rules": list(self.rules),
            "columns": {table: list(names) for table, names in self.columns.items()},
        }
        return found | ({"searches": [search.to_json() for search in self.searches]} if self.searches else {})

    def describe(self) -> str:
        """Return the plan for people, one step per line."""
        labels = ["  " * step.depth + make_visible(step.label) for step in self.steps]
        width = max((len(label) for label in labels), default=0)
        has_run = any(step.rows is not None for step in self.steps)
        head = f"{'step':<{width}}  {'estimate':>10}" + (f"  {'rows':>10}  {'calls':>5}  {'ms':>9}" if has_run else "")
        lines = [f"{self.kind} {self.name}", head]
        for label, step in zip(labels, self.steps, strict=True):
            line = f"{label:<{width}}  {step.estimated_rows:>10.0f}"
            if has_run:
                rows = "-" if step.rows is None else str(step.rows)
                line += f"  {rows:>10}  {step.calls:>5}  {step.seconds * 1000:>9.2f}"
            lines.append(line.rstrip())
        for table, names in self.columns.items():
            lines.append(f"reads {table}: {', '.join(names) or 'ids only'}")
        lines += [make_visible(str(search)) for search in self.searches]
        return "\n".join(lines)

    def lines(self) -> Iterator[str]:
        """Yield the plan step by step."""
        yield from self.describe().splitlines()


def start_trace(plan: QueryPlan, facts: Facts, counters: Counters) -> Trace:
    """Return a trace with a line for every step, and one for what follows the match."""
    trace = Trace(counters)
    rows = 1.0
    united = 0.0
    for number, sequence in enumerate(plan.stages):
        rows = 1.0
        for stage in sequence:
            rows = _start_steps(trace, stage.steps, facts, rows)
            limit = stage.output.limit
            rows = min(rows, limit.value) if isinstance(limit, Constant) else rows
            if stage is not sequence[-1]:
                label = f"with: {'; '.join(stage_lines(stage.output))}"
                trace.steps[id(stage.output)] = StepTrace(label=label, depth=0, estimated_rows=rows)
        united += rows
        if plan.read.unions:
            label = _union_label(plan.read, number, sequence[-1].output)
            trace.steps[id(sequence[-1].output)] = StepTrace(label=label, depth=0, estimated_rows=rows)
    rows = united if plan.stages else _start_steps(trace, plan.steps, facts, 1.0)
    for label in _output_labels(plan.read):
        rows = rows if plan.read.limit is None else min(rows, plan.read.limit)
        trace.steps[id(plan.read)] = StepTrace(label=label, depth=0, estimated_rows=rows)
    return trace


def _start_steps(trace: Trace, steps: tuple[Step, ...], facts: Facts, rows: float) -> float:
    """Add a line for every step of a match, and return how many rows are expected behind it."""
    last = rows
    for step, depth, expected in _walk(steps, facts, rows, 0):
        trace.steps[id(step)] = StepTrace(label=str(step), depth=depth, estimated_rows=expected)
        last = expected if depth == 0 else last
    return last


def _union_label(read: ReadPlan, number: int, output: OutputPlan) -> str:
    """Return what becomes of the rows of one of the reads that are united."""
    if number == 0:
        word = "first read of a union"
    else:
        word = "union all" if read.unions[number - 1].keeps_duplicates else "union"
    return f"{word}: {'; '.join(stage_lines(output))}"


def explain(plan: QueryPlan, trace: Trace) -> Explanation:
    """Return what a trace holds."""
    return Explanation(
        name=plan.read.name,
        steps=tuple(trace.steps.values()),
        rules=plan.rules,
        columns={table: tuple(names) for table, names in sorted(plan.columns.items())},
        searches=tuple(trace.searches),
    )


def explain_mutation(plan: MutationPlan, facts: Facts) -> Explanation:
    """Return the statements of a mutation with the steps of its matches; what it would change is not looked at."""
    trace, rows = Trace(Counters()), 1.0
    columns: dict[str, tuple[str, ...]] = {}
    matches: list[QueryPlan] = []
    for statement in plan.statements:
        if isinstance(statement, MatchPlan):
            # A trace knows steps by their identity, so the plans stay until it is read.
            matches.append(plan_read(statement.read, facts))
            rows = _start_steps(trace, matches[-1].steps, facts, 1.0)
            columns |= matches[-1].columns
        else:
            depends = isinstance(statement, UpdateMatchedPlan | DeleteMatchedPlan)
            depends = depends or (isinstance(statement, InsertPlan) and statement.for_each is not None)
            expected = rows if depends else 1.0
            trace.steps[id(statement)] = StepTrace(label=str(statement), depth=0, estimated_rows=expected)
    if plan.returned is not None:
        label = f"return {', '.join(output.name for output in plan.returned)}"
        trace.steps[id(plan)] = StepTrace(label=label, depth=0, estimated_rows=rows)
    rules = matches[0].rules if matches else ()
    return Explanation(
        name=plan.name,
        steps=tuple(trace.steps.values()),
        rules=rules,
        columns=dict(sorted(columns.items())),
        kind="mutation",
    )


def _walk(steps: tuple[Step, ...], facts: Facts, rows: float, depth: int) -> Iterator[tuple[Step, int, float]]:
    for step in steps:
        before, rows = rows, facts.estimate(step, rows)
        yield step, depth, rows
        if isinstance(step, Block):
            yield from _walk(step.steps, facts, before, depth + 1)
        elif isinstance(step, CountExpand):
            yield from _walk(step.inner, facts, before, depth + 1)


def _output_labels(read: ReadPlan) -> Iterator[str]:
    if read.stages:
        yield "; ".join(line.strip() for line in output_lines(read))
        return
    parts = []
    if read.groups is not None:
        keys = ", ".join(read.outputs[index].name for index in read.groups)
        parts.append(f"group by {keys}" if keys else "group into one row")
    if read.ranking is not None:
        parts.append(f"rank by {read.ranking}")
    if read.order:
        parts.append(f"order by {', '.join(str(key) for key in read.order)}")
    if read.limit is not None:
        parts.append(f"limit {read.limit}")
    parts.append(f"return {', '.join(output.name for output in read.outputs)}")
    yield "; ".join(parts)
