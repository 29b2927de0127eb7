"""The figures of a server, as monitoring reads them: requests, operations, admission, commits, streams, memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from omnigraph.errors import OmnigraphError
from omnigraph.history.feed.batch import FeedBatch
from omnigraph.history.feed.reader import ChangeFeedPage
from omnigraph.operations.local.backend import LocalBackend
from omnigraph.operations.request import Backend
from omnigraph.runtime import Clock, Cost, Counters
from omnigraph.server.control.admission import Admission
from omnigraph.txn.manifest.rows import Commit

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# What the tally of a graph counts, by the name of the figure.
_EVENTS = {
    "commits": "Commits that this process published.",
    "publishes": "Versions that this process published; one may hold several commits.",
    "rebases": "Writes that were rebased on a version of another writer.",
    "recoveries": "Interrupted publishes that this process recovered.",
    "claims_waited": "Writes that waited for the claim of another process.",
    "turns_waited": "Writes that waited for a process of the same machine.",
    "offers_made": "Writes that were offered to other processes while they waited.",
    "offers_published": "Writes of this process that another one published.",
    "offers_taken": "Writes of other processes that this one published.",
    "offers_withdrawn": "Offered writes that were withdrawn before another process published them.",
    "groups": "Versions that contain writes of other processes and of this one.",
}

_STATES = {
    "cache_bytes": "Memory of the caches of a graph.",
    "mapped_bytes": "Files that reads of a graph have mapped; other processes share them.",
    "writes_waiting": "Writes that are queued for publishing.",
}
# Shown once maintenance of this process has looked.
_SEEN = {
    "projection_bytes": "Storage used by projections.",
    "projection_coverage": "Share of published rows that the least complete projection covers.",
}


class ServerMetrics:
    """The figures of one server.

    Args:
        admission: counts the writes under way.
        clock: measures requests.
    """

    def __init__(self, admission: Admission, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        own = self.registry
        self._requests = Counter(
            "omnigraph_requests", "Requests by route and status.", ["method", "route", "status"], registry=own
        )
        self._seconds = Histogram(
            "omnigraph_request_seconds",
            "Time until the answer was complete.",
            ["route"],
            buckets=_SECONDS,
            registry=own,
        )
        self._operations = Counter(
            "omnigraph_operations", "Operations by name and outcome.", ["operation", "outcome"], registry=own
        )
        self._operation_seconds = Histogram(
            "omnigraph_operation_seconds", "Time of operations.", ["operation"], buckets=_SECONDS, registry=own
        )
        self._calls = Counter("omnigraph_storage_calls", "Calls to storage by operation.", ["operation"], registry=own)
        self._feed_lag = Histogram(
            "omnigraph_feed_lag_seconds",
            "Time from a commit until a change feed delivered it to a reader.",
            buckets=_SECONDS,
            registry=own,
        )
        self._figures = _Figures(admission)
        own.register(self._figures)

    def show(self, graphs: Mapping[str, Backend]) -> None:
        """Show the figures of these graphs from now on."""
        self._figures.backends = graphs

    @contextmanager
    def operation(self, name: str, counters: Counters) -> Iterator[_Timed]:
        """Measure an operation, whose calls to storage are counted by ``counters`` as far as it does not itself."""
        began_s = self._clock.monotonic_s()
        timed = _Timed()
        outcome = "succeeded"
        try:
            yield timed
        except OmnigraphError as error:
            outcome = error.kind.word
            raise
        except BaseException:
            outcome = "internal"
            raise
        finally:
            self._operations.labels(name, outcome).inc()
            self._operation_seconds.labels(name).observe(self._clock.monotonic_s() - began_s)
            own = 0 if timed.cost is None else timed.cost.total_calls
            self._calls.labels(name).inc(counters.cost().total_calls + own)
            for commit in timed.delivered:
                self._feed_lag.observe(max(0.0, (self._clock.now_ms() - commit.published_at_ms) / 1000))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all figures in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Timed:
    """What an operation tells of itself."""

    __slots__ = ("cost", "delivered")

    def __init__(self) -> None:
        self.cost: Cost | None = None
        self.delivered: tuple[Commit, ...] = ()

    def told(self, response: object) -> None:
        """Take what a response says: its cost, if it has one, and the commits that a feed delivers by it."""
        cost = getattr(response, "cost", None)
        self.cost = cost if isinstance(cost, Cost) else None
        if isinstance(response, FeedBatch | ChangeFeedPage):
            self.delivered = tuple(block.cause.commit for block in response.blocks)


class _Figures(Collector):
    """Figures that are asked for when they are read: admission, and the open graphs."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.backends: Mapping[str, Backend] = {}

    def collect(self) -> Iterable[Metric]:
        """Return the figures."""
        yield GaugeMetricFamily(
            "omnigraph_writes_under_way", "Admitted writes that are running.", self._admission.under_way
        )
        yield CounterMetricFamily(
            "omnigraph_writes_refused", "Writes that were rejected by admission control.", self._admission.refused
        )
        events = {
            name: CounterMetricFamily(f"omnigraph_{name}", text, labels=["graph"]) for name, text in _EVENTS.items()
        }
        states = {
            name: GaugeMetricFamily(f"omnigraph_{name}", text, labels=["graph"]) for name, text in _STATES.items()
        }
        seen = {name: GaugeMetricFamily(f"omnigraph_{name}", text, labels=["graph"]) for name, text in _SEEN.items()}
        for graph_id, backend in self.backends.items():
            figures = backend.figures() if isinstance(backend, LocalBackend) else {}
            for name, event in events.items():
                event.add_metric([graph_id], figures.get(name, 0))
            for name, state in states.items():
                state.add_metric([graph_id], figures.get(name, 0))
            for name, state in seen.items():
                if name in figures:
                    state.add_metric([graph_id], figures[name])
        yield from (*events.values(), *states.values(), *seen.values())
