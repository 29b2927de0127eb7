"""A supply of decisions read from bytes: cheap to draw, and small bytes give the simplest of everything.

Hypothesis draws and shrinks one piece of bytes much faster than hundreds of small strategies; a supply that has run
out keeps answering with the first choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices:
    """Decisions, one byte each."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[next(self._bytes, 0) % len(items)]

    def coin(self) -> bool:
        """Return yes or no, at even odds."""
        return next(self._bytes, 0) % 2 == 1

    def chance(self, one_in: int) -> bool:
        """Return yes once in ``one_in`` times."""
        return next(self._bytes, 0) % one_in == one_in - 1

    def number(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both included."""
        return low + next(self._bytes, 0) % (high - low + 1)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in some order."""
        rest, found = list(items), []
        while rest:
            found.append(rest.pop(next(self._bytes, 0) % len(rest)))
        return found


def choices(size: int) -> st.SearchStrategy[Choices]:
    """Draw a supply of ``size`` decisions."""
    return st.binary(min_size=size, max_size=size).map(Choices)
