"""What a piece of work cost at the endpoint: its calls, and how many of them waited for each other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.testing.s3.calls import Call, ObjectClass, Operation
from omnigraph.testing.s3.endpoint import S3Endpoint


class Measurement:
    """The calls made inside a :func:`measure` block; complete once the block has ended."""

    def __init__(self) -> None:
        self.calls: tuple[Call, ...] = ()

    def __repr__(self) -> str:
        kinds = Counter(f"{call.operation} {call.object_class}" for call in self.calls)
        return f"Measurement({', '.join(f'{kind}: {count}' for kind, count in sorted(kinds.items()))})"

    @property
    def total(self) -> int:
        """All calls together."""
        return len(self.calls)

    @property
    def by_class(self) -> dict[ObjectClass, int]:
        """Calls per object class; a class without calls has no entry."""
        return dict(Counter(call.object_class for call in self.calls))

    @property
    def by_operation(self) -> dict[Operation, int]:
        """Calls per operation; an operation without calls has no entry."""
        return dict(Counter(call.operation for call in self.calls))

    @property
    def by_kind(self) -> dict[tuple[Operation, ObjectClass], int]:
        """Calls per operation and object class."""
        return dict(Counter((call.operation, call.object_class) for call in self.calls))

    @property
    def bytes_in(self) -> int:
        """Bytes sent to the store."""
        return sum(call.bytes_in for call in self.calls)

    @property
    def bytes_out(self) -> int:
        """Bytes received from the store."""
        return sum(call.bytes_out for call in self.calls)


@contextmanager
def measure(endpoint: S3Endpoint) -> Iterator[Measurement]:
    """Collect the calls that begin inside the block; at its end, wait for those still in service.

    Blocks may be nested. Calls that other threads or processes make at the same time are collected too.
    """
    since = endpoint.last_sequence()
    measurement = Measurement()
    try:
        yield measurement
    finally:
        measurement.calls = endpoint.calls(since=since, wait_idle=True)


def serial_hops(
    run: Callable[[], None],
    endpoint: S3Endpoint,
    *,
    latencies_ms: Sequence[float] = (0, 20, 40),
    repeat: int = 3,
) -> float:
    """Return how many calls of ``run`` follow one another: the slope of its wall time over the injected latency.

    ``run`` is timed ``repeat`` times under each latency, the order of latencies alternating so that a drift of the
    machine or of the data hits all of them alike. Noise only ever adds time, so the least time under each latency
    counts; the slope is that of the least-squares line through them. Calls made side by side count once, work of the
    processor not at all. ``run`` must do the same work each time. The latency in force before is restored.

    Raises:
        ValueFormatError: fewer than two different latencies, or no repetition.
    """
    if len(set(latencies_ms)) < 2 or repeat < 1:
        details = BadValue(
            what="latencies_ms", value=str(tuple(latencies_ms)), expected="two or more, repeat 1 or more"
        )
        raise ValueFormatError("no line through fewer than two latencies", details=details)
    least_ms = dict.fromkeys(latencies_ms, float("inf"))
    latency_before_ms = endpoint.settings().latency_ms
    try:
        for round_number in range(repeat):
            for latency_ms in sorted(least_ms, reverse=round_number % 2 == 1):
                endpoint.set_latency_ms(latency_ms)
                started_s = time.monotonic()
                run()
                least_ms[latency_ms] = min(least_ms[latency_ms], (time.monotonic() - started_s) * 1000)
    finally:
        endpoint.set_latency_ms(latency_before_ms)
    return _slope(least_ms)


def _slope(points: dict[float, float]) -> float:
    mean_x = sum(points) / len(points)
    mean_y = sum(points.values()) / len(points)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in points.items())
    return covariance / sum((x - mean_x) ** 2 for x in points)
