"""Folding of lineage: how commits move from the state fragment into ever larger fragments.

A publish keeps the newest commits inside the state fragment it writes anyway. When ``RECENT_LIMIT`` of them have
gathered they are flushed into a fragment of their own, and whenever ``FAN_IN`` neighbouring fragments have reached
the same size class they are merged. One publish does at most one of the two, so its extra cost has a bound, and the
number of fragments grows with the logarithm of history: calls and bytes of a publish do not feel how old a graph is.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.records import record

RECENT_LIMIT = 32
FAN_IN = 4


@record
class Flush:
    """Move every recent commit but those of this publish into a new, newest lineage fragment."""


@record
class Merge:
    """Replace the lineage fragments ``[start, stop)`` by one that holds their commits in the same order."""

    start: int
    stop: int


def plan_fold(recent_count: int, fragment_rows: Sequence[int]) -> Flush | Merge | None:
    """Decide what the next publish folds.

    Args:
        recent_count: commits in the state fragment before the publish.
        fragment_rows: rows of each lineage fragment, oldest first.

    >>> plan_fold(32, [])
    Flush()
    >>> plan_fold(3, [128, 32, 32, 32, 32])
    Merge(start=1, stop=5)
    """
    if recent_count >= RECENT_LIMIT:
        return Flush()
    run_start = 0
    for position in range(1, len(fragment_rows) + 1):
        at_end = position == len(fragment_rows)
        if at_end or _size_class(fragment_rows[position]) != _size_class(fragment_rows[run_start]):
            if position - run_start >= FAN_IN:
                return Merge(start=run_start, stop=run_start + FAN_IN)
            run_start = position
    return None


def _size_class(rows: int) -> int:
    level, capacity = 0, RECENT_LIMIT
    # A flush may carry more than the limit when one publish brought many commits; it still counts as the class
    # below the next capacity, so that neighbours of like size meet.
    while rows >= capacity * FAN_IN:
        level, capacity = level + 1, capacity * FAN_IN
    return level
