"""What a run of a pipeline did, as it is shown, stored with its commit, and read back from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from omnigraph.pipelines.model import Outcome, Publish
from omnigraph.records import record
from omnigraph.values.temporal import format_datetime, parse_datetime

StepKind = Literal["source", "view", "node", "edge", "resolve", "after"]
RunOutcome = Literal["published", "proposed", "tried", "nothing", "expectation_failed", "check_failed", "conflict"]


@record
class StepReport:
    """What one step did with its rows.

    ``rows_in`` is the sum of written, unchanged, superseded, deleted, dropped and quarantined. Rows of the step are
    neither the ``stubs`` that were made for missing ends, nor ``removed`` entities that a full refresh or an overwrite
    did not find any more, nor edges that ``cascaded`` with their nodes. Of a source ``rows_in`` are the rows that it
    read, of a view those of its inputs; ``rows_out`` are those that it gave. ``is_counted``: whether rows were counted,
    which is not so where no type needs them.
    """

    name: str
    kind: StepKind
    type_name: str | None = None
    rows_in: int = 0
    rows_out: int = 0
    written: int = 0
    unchanged: int = 0
    superseded: int = 0
    deleted: int = 0
    dropped: int = 0
    quarantined: int = 0
    stubs: int = 0
    removed: int = 0
    cascaded: int = 0
    seconds: float = 0.0
    inputs: tuple[str, ...] = ()
    is_counted: bool = True


@record
class ExpectationReport:
    """For how many rows of a step a rule did not hold, with a few of these rows."""

    step: str
    name: str
    condition: str
    outcome: Outcome
    rows: int
    failed: int
    max_ratio: float | None = None
    samples: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether the run may go on."""
        if self.outcome == "fail" and self.failed:
            return False
        return self.max_ratio is None or self.failed <= self.max_ratio * self.rows


@record
class CheckReport:
    """A query over the new state: it passes when it returns nothing. ``samples`` are some of the rows it returned."""

    name: str
    rows: int
    samples: tuple[Mapping[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it returned nothing."""
        return not self.rows


def _plain(value: object) -> Any:
    """Return a value that JSON has no form of as one that it has: read-only mappings, and ids, which are texts."""
    return dict(value) if isinstance(value, Mapping) else str(value)


@record
class RunReport:
    """Everything that is told about a run.

    ``changes`` counts what the commit inserted, updated and deleted, by type. ``progress`` is how far each source was
    read. ``previous_digest`` stands for what was declared when the last run was made, if that was something else.
    ``stubs`` are ids of nodes that were made for missing ends, by type. ``left_branch`` is the branch that was left for
    a look, ``proposal`` the number of the proposal. ``is_undone``: its commit was reverted later. ``replayed`` are runs
    whose rejected rows it has taken. ``origins`` counts the rows of which it was kept which file they
    came from. A dry run is only ``tried``: nothing was published.
    """

    pipeline: str
    run: str
    branch: str
    publish: Publish
    outcome: RunOutcome
    digest: str = ""
    started_at_ms: int = 0
    seconds: float = 0.0
    commit: str | None = None
    steps: tuple[StepReport, ...] = ()
    expectations: tuple[ExpectationReport, ...] = ()
    checks: tuple[CheckReport, ...] = ()
    changes: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    progress: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    quarantine: str | None = None
    left_branch: str | None = None
    proposal: int | None = None
    previous_digest: str | None = None
    stubs: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    is_undone: bool = False
    replayed: tuple[str, ...] = ()
    origins: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the report with the field names of the public contract; times are UTC, as ISO 8601 text."""
        told: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_plain)
        told["started_at"] = format_datetime(told.pop("started_at_ms"))
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> RunReport:
        """Return the report that :meth:`to_json` gave."""
        started = told.get("started_at")
        given = {name: value for name, value in told.items() if name != "started_at"}
        return msgspec.convert(
            given if started is None else {**given, "started_at_ms": parse_datetime(started)}, cls, strict=False
        )


@record
class RunProgress:
    """How far a run is: the step that begins, or how it ended, with the whole report, also of a run that failed."""

    run: str
    phase: Literal["begin", "read", "load", "after", "check", "publish", "end"]
    step: str | None = None
    report: RunReport | None = None
