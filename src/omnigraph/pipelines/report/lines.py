"""A run, and the history of runs, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from omnigraph.pipelines.results import CheckReport, ExpectationReport, RunOutcome, RunReport, StepReport
from omnigraph.values.counts import counted
from omnigraph.values.temporal import format_datetime

_BARS = "▁▂▃▄▅▆▇█"
_OUTCOMES: dict[RunOutcome, str] = {
    "published": "published",
    "proposed": "proposed",
    "tried": "only tried",
    "nothing": "nothing to do",
    "expectation_failed": "an expectation failed",
    "check_failed": "a check failed",
    "conflict": "another run was faster",
}
PASSING = frozenset({"source", "view", "resolve"})
"""Steps whose rows pass through: what comes in is made into what goes out."""
COUNTS = ("written", "unchanged", "superseded", "deleted", "dropped", "quarantined")
"""What becomes of the rows that come into a step; together they are all of them."""


def rows_text(count: int) -> str:
    """Return a number of rows, thousands apart.

    >>> rows_text(1), rows_text(1200)
    ('1 row', '1,200 rows')
    """
    return f"{count:,} row{'' if count == 1 else 's'}"


def has_counts(step: StepReport) -> bool:
    """Whether it is known how many rows went through a step."""
    return step.kind != "after" and step.is_counted


def outcome_text(outcome: RunOutcome) -> str:
    """Return how a run ended, in words."""
    return _OUTCOMES[outcome]


def run_lines(report: RunReport) -> Iterator[str]:
    """Yield what a run did: a line for how it ended, the tree of its steps, checks, and where to look further."""
    commit = "" if report.commit is None else f" {report.commit}"
    yield f"{report.pipeline}: {outcome_text(report.outcome)}{commit} on {report.branch} ({report.seconds:.1f} s)"
    yield from step_lines(report.steps, report.expectations)
    for check in report.checks:
        yield f"check {check.name}: {_verdict(check)}"
    for type_name, counts in report.changes.items():
        told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        if told:
            yield f"changes of {type_name}: {told}"
    if report.proposal is not None:
        yield f"proposal {report.proposal} waits for a review"
    if report.left_branch is not None:
        yield f"branch {report.left_branch} was left for inspection"
    if report.quarantine is not None:
        yield f"quarantine: {report.quarantine}"


def step_lines(steps: Sequence[StepReport], expectations: Sequence[ExpectationReport] = ()) -> Iterator[str]:
    """Yield the steps as a tree: each with what became of its rows, and below it the expectations it had."""
    rows = [(f"{step.kind} {step.name}", _counts(step), f"{step.seconds:.1f} s") for step in steps]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    for number, (step, row) in enumerate(zip(steps, rows, strict=True)):
        is_last = number == len(steps) - 1
        name, told, seconds = row
        yield f"{'└─' if is_last else '├─'} {name:<{widths[0]}}  {told:<{widths[1]}}  {seconds:>{widths[2]}}".rstrip()
        for one in expectations:
            if one.step == step.name:
                share = f"{one.failed:,} of {rows_text(one.rows)}"
                mark = "" if one.is_kept else ", which is too many"
                yield f"{'  ' if is_last else '│ '}    {one.outcome} {one.name}: {share}{mark}"


def history_lines(reports: Sequence[RunReport]) -> Iterator[str]:
    """Yield runs, newest first, a line for each, and the rows they wrote as a small plot, oldest first."""
    for report in reports:
        when = format_datetime(report.started_at_ms)
        failed = sum(not check.passed for check in report.checks)
        # The commit of a proposed run is older than its checks, and records none.
        checks = (
            f"  {len(report.checks) - failed} of {counted(len(report.checks), 'check')} passed" if report.checks else ""
        )
        counts = ", ".join(
            filter(
                None, (f"{_total(report, 'written'):,} written", _some(report, "deleted"), _some(report, "quarantined"))
            )
        )
        yield f"{report.run}  {when}  {outcome_text(report.outcome)}  {counts}{checks}  {report.seconds:.1f} s"
    if len(reports) > 1:
        yield f"rows written: {spark_line(_total(report, 'written') for report in reversed(reports))}"


def spark_line(values: Iterable[float]) -> str:
    """Return numbers as a plot of one line.

    >>> spark_line([0, 1, 2, 4])
    '▁▃▅█'
    >>> spark_line([])
    ''
    """
    given = list(values)
    highest = max(given, default=0) or 1
    return "".join(_BARS[min(len(_BARS) - 1, int(value / highest * len(_BARS)))] for value in given)


def _counts(step: StepReport) -> str:
    if not has_counts(step):
        return ""
    if step.kind in PASSING:
        made = f" of {step.rows_in:,}" if step.inputs and step.rows_in != step.rows_out else ""
        return f"{rows_text(step.rows_out)}{made}"
    parts = [f"{getattr(step, name):,} {name}" for name in COUNTS if getattr(step, name)]
    stubs = [counted(step.stubs, "stub")] if step.stubs else []
    return f"{rows_text(step.rows_in)}: {', '.join([*parts, *stubs]) or 'nothing changed'}"


def _verdict(check: CheckReport) -> str:
    return "passed" if check.passed else f"failed, {rows_text(check.rows)}"


def _total(report: RunReport, name: str) -> int:
    return sum(getattr(step, name) for step in report.steps)


def _some(report: RunReport, name: str) -> str:
    total = _total(report, name)
    return f"{total:,} {name}" if total else ""
