"""What a run asks for, what is counted of its steps on the way, and what became of their rows in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from omnigraph.history.origins import RunOrigins
from omnigraph.records import record
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.loads.written import RowsFile
from omnigraph.spark.steps.reading import StepPart
from omnigraph.spark.steps.rejected import QuarantinePlace, RejectedFile
from omnigraph.spark.steps.rows import PreparedRows
from omnigraph.txn.transaction import CommitView

if TYPE_CHECKING:
    from omnigraph.engine.load.options import Progress
    from omnigraph.txn.manifest.rows import RunMark

_SAMPLES = 5


@record
class StepResult:
    """What became of the rows of a step.

    ``rows`` is the sum of written, unchanged, superseded, deleted, dropped and quarantined. Not rows of the step are
    ``cascaded`` edges that went with their nodes, stored entities that were ``removed`` because the step does not have
    them, and ``stubs`` that were made for missing ends. ``failed`` counts for each rule the rows that it does not hold
    for, and last those whose values do not fit; ``samples`` are some of them, ``stub_ids`` some of the stubs by type.
    ``origins`` counts the rows whose files were kept.
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
    origins: int = 0
    stub_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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
        origins: where it is kept which file rows came from; None keeps nothing.
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
    origins: RunOrigins | None = None
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


@record(frozen=False, kw_only=False)
class CountedStep:
    """What is counted of a step while its rows are on their way."""

    prepared: PreparedRows
    rows: int = 0
    dropped: int = 0
    superseded: int = 0
    failed: list[int] = field(default_factory=list)
    samples: list[list[str]] = field(default_factory=list)
    origins: int = 0
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
        self.origins += part.origins
        self.failed = [one + other for one, other in zip(self.failed, part.failed, strict=True)]
        for mine, theirs in zip(self.samples, part.samples, strict=True):
            mine.extend(theirs[: _SAMPLES - len(mine)])
        self.rejected += part.rejected
        self.originals += part.originals
