"""Randomness, as something that can be handed in: the system's, or a seeded sequence that repeats."""

from __future__ import annotations

import random
from typing import Protocol


class Randomness(Protocol):
    """Bits for ids and fractions for jitter."""

    def bits(self, count: int) -> int:
        """Return a number of ``count`` random bits."""

    def fraction(self) -> float:
        """Return a number in ``[0, 1)``."""


class SystemRandomness:
    """The operating system's source; safe to share between threads and across fork."""

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def bits(self, count: int) -> int:
        """Return a number of ``count`` random bits."""
        return self._source.getrandbits(count)

    def fraction(self) -> float:
        """Return a number in ``[0, 1)``."""
        return self._source.random()


class SeededRandomness:
    """The same numbers for the same seed, so that a failing run can be repeated."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def bits(self, count: int) -> int:
        """Return the next number of ``count`` bits."""
        return self._source.getrandbits(count)

    def fraction(self) -> float:
        """Return the next number in ``[0, 1)``."""
        return self._source.random()
