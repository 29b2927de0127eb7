"""What an operation cost: storage calls by class, bytes, and how many of them had to wait for each other.

Whoever makes a call counts it into the :func:`current_counters`, which are part of the context: :func:`counting` sets
them for a block, :func:`counting_each` while an iterator is drawn from, and :func:`in_context` takes them along into
another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token, copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from omnigraph.records import record

if TYPE_CHECKING:
    from concurrent.futures import Executor

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


@record
class Cost:
    """The cost of an operation. ``serial_stages`` is how many round trips followed one another."""

    calls: Mapping[str, int]
    serial_stages: int
    bytes_read: int
    bytes_written: int

    @property
    def total_calls(self) -> int:
        """Calls of every class together."""
        return sum(self.calls.values())

    def to_json(self) -> dict[str, Any]:
        """Return the cost as metrics and results show it."""
        return {
            "storage.calls": self.total_calls,
            "storage.calls_by_class": dict(sorted(self.calls.items())),
            "storage.serial_stages": self.serial_stages,
            "storage.bytes_read": self.bytes_read,
            "storage.bytes_written": self.bytes_written,
        }


class Counters:
    """Collects the cost of one operation; threads of the operation may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, int] = {}
        self._total_calls = 0
        self._serial_stages = 0
        self._bytes_read = 0
        self._bytes_written = 0

    def add_calls(self, call_class: str, count: int = 1, *, bytes_read: int = 0, bytes_written: int = 0) -> None:
        """Count calls of one class with the bytes they moved."""
        with self._lock:
            self._calls[call_class] = self._calls.get(call_class, 0) + count
            self._total_calls += count
            self._bytes_read += bytes_read
            self._bytes_written += bytes_written

    def add_serial_stages(self, count: int = 1) -> None:
        """Count round trips that could not begin before everything counted so far had ended."""
        with self._lock:
            self._serial_stages += count

    def add(self, cost: Cost) -> None:
        """Take over what another collector counted, as something that came after everything counted so far."""
        self.add_parallel((cost,))

    def add_parallel(self, costs: Iterable[Cost]) -> None:
        """Take over what ran side by side: calls and bytes add up, of the serial stages only the longest counts."""
        together = tuple(costs)
        with self._lock:
            for cost in together:
                for call_class, count in cost.calls.items():
                    self._calls[call_class] = self._calls.get(call_class, 0) + count
                    self._total_calls += count
                self._bytes_read += cost.bytes_read
                self._bytes_written += cost.bytes_written
            self._serial_stages += max((cost.serial_stages for cost in together), default=0)

    @property
    def total_calls(self) -> int:
        """How many calls were counted until this moment."""
        return self._total_calls

    def cost(self) -> Cost:
        """Return what was counted until this moment."""
        with self._lock:
            return Cost(
                calls=dict(self._calls),
                serial_stages=self._serial_stages,
                bytes_read=self._bytes_read,
                bytes_written=self._bytes_written,
            )


class _NoCounters(Counters):
    """What is current while nobody counts: it keeps nothing."""

    def add_calls(self, call_class: str, count: int = 1, *, bytes_read: int = 0, bytes_written: int = 0) -> None:
        """Forget the calls."""

    def add_serial_stages(self, count: int = 1) -> None:
        """Forget the round trips."""

    def add_parallel(self, costs: Iterable[Cost]) -> None:
        """Forget the costs."""


_NOBODY = _NoCounters()
_current: ContextVar[Counters] = ContextVar("omnigraph_counters", default=_NOBODY)


def current_counters() -> Counters:
    """Return what counts the calls that are made here and now."""
    return _current.get()


class _Counting:
    """A block whose calls are counted. A class of its own: every read enters several, and a generator costs more."""

    __slots__ = ("_counters", "_token")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._token: Token[Counters] | None = None

    def __enter__(self) -> Counters:
        self._token = _current.set(self._counters)
        return self._counters

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)


def counting(counters: Counters | None = None) -> AbstractContextManager[Counters]:
    """Count what the block asks of storage, into new counters when none are given, and nowhere else.

    The block must not contain a ``yield``: the counters would stay current for whoever draws from the generator. That
    is what :func:`counting_each` is for.
    """
    return _Counting(Counters() if counters is None else counters)


def counting_each(items: Iterable[_Item], counters: Counters) -> Iterator[_Item]:
    """Yield the items, counting what it takes to draw each of them, and to end early, into ``counters``."""
    source = iter(items)
    try:
        while True:
            with counting(counters):
                try:
                    item = next(source)
                except StopIteration:
                    return
            yield item
    finally:
        # What is drawn from may be something that has no end of its own, such as a list.
        close = getattr(source, "close", None)
        if close is not None:
            with counting(counters):
                close()


def in_context(run: Callable[_Params, _Result], counters: Counters | None = None) -> Callable[_Params, _Result]:
    """Return ``run`` for another thread: it runs in a copy of the context that this is called in.

    Args:
        run: what runs there, as often as it is called.
        counters: what counts its calls, when that are not the current ones: of what runs side by side, each part has
            its own until :meth:`Counters.add_parallel` joins them.
    """
    context = copy_context()

    def carried(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        # A context can be entered once at a time, and a pool may call this from many threads.
        return context.copy().run(counted, *args, **kwargs)

    def counted(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        if counters is None:
            return run(*args, **kwargs)
        with counting(counters):
            return run(*args, **kwargs)

    return carried


def side_by_side(pool: Executor, run: Callable[[_Item], _Result], items: Sequence[_Item]) -> tuple[_Result, ...]:
    """Run the same step for several items at once, in order; all of them end before the first failure is raised."""
    if len(items) <= 1:
        return tuple(run(item) for item in items)
    own = [Counters() for _ in items]
    futures = [pool.submit(in_context(run, count), item) for item, count in zip(items, own, strict=True)]
    failures = [future.exception() for future in futures]
    current_counters().add_parallel(count.cost() for count in own)
    for failure in failures:
        if failure is not None:
            raise failure
    return tuple(future.result() for future in futures)
