"""What a merge may hold in memory."""

from __future__ import annotations

from omnigraph.errors import LimitExceeded, MemoryBudgetError

DEFAULT_MEMORY_BYTES = 4 << 30


class Budget:
    """Counts the bytes of the rows that a merge holds, and ends it before they are too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = 0

    def check(self, held: int) -> None:
        """Return if ``held`` bytes fit beside what is kept already.

        Raises:
            MemoryBudgetError: they do not.
        """
        actual = self._kept + held
        if actual > self._limit:
            details = LimitExceeded(resource="merge difference bytes", limit=self._limit, actual=actual)
            raise MemoryBudgetError(
                f"the difference to merge does not fit its memory limit={self._limit} actual={actual}", details=details
            )

    def keep(self, held: int) -> None:
        """Count bytes that stay in memory until the merge is over; raises what :meth:`check` does."""
        self.check(held)
        self._kept += held
