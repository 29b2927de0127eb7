"""A write that waits for others: edges whose ends another stream is about to write.

Two streams into one graph commit for themselves, in whichever order their micro-batches come. Edges that come first
name nodes that do not exist yet.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import ConstraintViolationError, Violations
from omnigraph.runtime import Clock, Runtime
from omnigraph.values import BranchName

_ENDPOINT = "endpoint"
_LOOK_EVERY_S = 0.1


def when_ends_exist(
    session: OpenGraph, branch: str, patience_s: float, publish: Callable[[], None], *, clock: Clock | None = None
) -> None:
    """Publish rows; if all that is wrong with them is that nodes are missing, do so again when the branch has moved.

    Raises:
        ConstraintViolationError: nodes are still missing after ``patience_s`` seconds, or something else is wrong.
    """
    clock = clock or Runtime.system().clock
    until = clock.monotonic_s() + patience_s

    def version() -> int:
        return session.store.snapshot(BranchName.parse(branch)).state.version

    while True:
        seen = version()
        try:
            return publish()
        except ConstraintViolationError as error:
            found = error.details
            if not isinstance(found, Violations) or any(item.rule != _ENDPOINT for item in found.items):
                raise
            is_moved = False
            while not is_moved and clock.monotonic_s() < until:
                clock.sleep(_LOOK_EVERY_S)
                is_moved = version() != seen
            if not is_moved:
                raise
