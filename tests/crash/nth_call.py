"""Calls to the object store that fail: in which ways, and what must be true whatever they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from omnigraph.errors import Effect, OmnigraphError
from omnigraph.testing.s3 import FOREVER, Fault, S3Endpoint
from omnigraph.txn.graph_store import GraphStore
from omnigraph.values import MAIN, BranchName


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """How a call fails."""

    name: str
    action: str
    when: str
    times: int = 1

    def on_call(self, nth: int, prefix: str) -> Fault:
        return Fault(action=self.action, when=self.when, times=self.times, nth=nth, key=prefix)


ERROR_BEFORE = Trouble(name="error-before", action="error", when="before")
ERROR_AFTER = Trouble(name="error-after", action="error", when="after")
DROP_BEFORE = Trouble(name="drop-before", action="drop", when="before")
DROP_AFTER = Trouble(name="drop-after", action="drop", when="after")
OUTAGE = Trouble(name="outage", action="error", when="before", times=FOREVER)
LOST_ANSWERS = Trouble(name="lost-answers", action="drop", when="after", times=FOREVER)
TROUBLES = [ERROR_BEFORE, ERROR_AFTER, DROP_BEFORE, DROP_AFTER, OUTAGE, LOST_ANSWERS]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One run of the loop; the plain run leaves out calls between those that it fails.

    ``goes_on``: after the failure the same process writes again. Otherwise it gives up, and somebody else who
    presumes it dead comes next.
    """

    operation: str
    trouble: Trouble
    goes_on: bool
    step: int = 1

    @property
    def name(self) -> str:
        return f"{self.operation}-{self.trouble.name}-{'goes-on' if self.goes_on else 'gives-up'}"


def every_loop(operations: Iterable[str]) -> list[Loop]:
    """Every operation in every trouble, and what comes after in both ways."""
    return [
        Loop(operation=name, trouble=trouble, goes_on=goes_on)
        for name in operations
        for trouble in TROUBLES
        for goes_on in (True, False)
    ]


def fail_call(
    endpoint: S3Endpoint, fault: Fault, graph: GraphStore, run: Callable[[], object]
) -> tuple[OmnigraphError | None, bool]:
    """Run an operation under a fault; return what it raised and whether the call came that was to fail."""
    error = None
    since = endpoint.last_sequence()
    number = endpoint.add_fault(fault)
    try:
        run()
    except OmnigraphError as caught:
        error = caught
    _finish_releases(graph)
    endpoint.clear_faults()
    return error, any(call.fault == number for call in endpoint.calls(since=since))


def assert_effect_is_true(error: OmnigraphError | None, is_there: bool) -> None:
    """Demand that what an error says about its effect is so; no error says that all of it happened."""
    match None if error is None else error.effect:
        case None | Effect.PUBLISHED:
            assert is_there, "an acknowledged change is not there"
        case Effect.NONE | Effect.STAGED:
            assert not is_there, f"the error said that nothing happened: {error!r}"
        case _:
            assert error.effect is Effect.UNKNOWN


def assert_heads_are_pins(graph: GraphStore) -> None:
    """Demand that no table has moved beyond what the graph names."""
    state = graph.snapshot(BranchName(MAIN)).state
    for entry in state.tables.values():
        assert graph.tables.head(entry.pin.location, entry.pin.branch) == entry.pin.version


def _finish_releases(graph):
    for branch_writer in graph._branches.authorities.values():
        last = branch_writer._publisher._releaser._last
        if last is not None:
            last.result()
