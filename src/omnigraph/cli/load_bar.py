"""The bar that a load draws on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.engine.load import LoadProgress

if TYPE_CHECKING:
    from omnigraph.spark.progress import TaskCount

_PHASES = {"read": "reading", "check": "checking", "write": "writing"}


@dataclass(slots=True, kw_only=True)
class LoadBar:
    """How far a load is, drawn anew whenever it says so."""

    bar: Any
    task: Any
    state: LoadProgress

    def show(self, state: LoadProgress) -> None:
        """Draw what a load tells."""
        self.state = state
        self.bar.update(self.task, description=_PHASES[state.phase], rows=f"{state.rows:,}")
        if state.phase == "read":
            self.bar.update(self.task, completed=state.bytes_read, total=state.bytes_total)

    def show_tasks(self, count: TaskCount) -> None:
        """Draw what is known of a load that tells nothing while its tasks run: which part of them has ended."""
        if self.state.phase == "read" and self.state.bytes_total:
            self.bar.update(self.task, completed=int(self.state.bytes_total * count.share))


@contextmanager
def open_bar(*, is_wanted: bool) -> Iterator[LoadBar | None]:
    """Show a bar on standard error while a load runs, if it is wanted."""
    if not is_wanted:
        yield None
        return
    # Only a terminal pays for the library that draws.
    from rich import console  # noqa: PLC0415 - see above
    from rich import progress as drawing  # noqa: PLC0415 - see above

    columns = (
        drawing.TextColumn("{task.description}"),
        drawing.BarColumn(),
        drawing.DownloadColumn(binary_units=True),
        drawing.TextColumn("{task.fields[rows]} rows"),
        drawing.TimeElapsedColumn(),
    )
    with drawing.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        yield LoadBar(bar=bar, task=bar.add_task("reading", total=None, rows=0), state=LoadProgress(phase="read"))
