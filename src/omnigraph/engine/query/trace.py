"""What each step of a run did: rows, calls, time. Collected always, shown when asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from omnigraph.engine.query.frame import Frame
from omnigraph.runtime import Counters

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
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


@dataclass(slots=True)
class Trace:
    """The steps of one run, in the order of the plan. Time and calls are a step's own, without the steps before it."""

    counters: Counters
    steps: dict[int, StepTrace] = field(default_factory=dict)
    _running: list[int] = field(default_factory=list)
    _since: tuple[float, int] = (0.0, 0)

    def watch(self, step: object, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield the frames of a step, counting them."""
        trace = self.steps.get(id(step))
        if trace is None:
            yield from frames
            return
        trace.rows = trace.rows or 0
        while True:
            with _Turn(self, id(step)):
                frame = next(frames, None)
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

    def switch(self, key: int | None) -> None:
        """Give time and calls since the last switch to whoever ran, and go on with another step."""
        now, calls = time.perf_counter(), self.counters.cost().total_calls
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
