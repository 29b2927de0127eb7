"""The limits of one read: memory, time, rows, and being told to stop. Asked between steps, never in the middle."""

from __future__ import annotations

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import (
    BadValue,
    LimitExceeded,
    QueryCancelledError,
    QueryMemoryError,
    QueryRowLimitError,
    QueryTimeoutError,
)
from omnigraph.runtime import Clock


class Limits:
    """Watches over one read."""

    def __init__(self, options: QueryOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._held_bytes = 0

    def check(self, extra_bytes: int = 0) -> None:
        """Raise if the read was stopped, is late, or would hold too much with ``extra_bytes`` more for a moment.

        Raises:
            QueryCancelledError, QueryTimeoutError, QueryMemoryError: which of them it is.
        """
        options = self._options
        if options.cancel is not None and options.cancel.is_set():
            details = BadValue(what="query", value="cancelled", expected="running")
            raise QueryCancelledError("the query was cancelled", details=details)
        if options.timeout_ms is not None:
            elapsed_ms = int((self._clock.monotonic_s() - self._started_s) * 1000)
            if elapsed_ms > options.timeout_ms:
                spent = LimitExceeded(resource="query time in ms", limit=options.timeout_ms, actual=elapsed_ms)
                message = f"the query took too long: limit_ms={options.timeout_ms} elapsed_ms={elapsed_ms}"
                raise QueryTimeoutError(message, details=spent)
        needed = self._held_bytes + extra_bytes
        if options.memory_bytes is not None and needed > options.memory_bytes:
            needs = LimitExceeded(resource="query memory in bytes", limit=options.memory_bytes, actual=needed)
            message = f"the query needs too much memory: limit_bytes={options.memory_bytes} needed_bytes={needed}"
            raise QueryMemoryError(message, details=needs)

    @property
    def elapsed_s(self) -> float:
        """How long the read has taken so far."""
        return self._clock.monotonic_s() - self._started_s

    @property
    def remaining_ms(self) -> int | None:
        """How long the read may still take; None for as long as it likes."""
        if self._options.timeout_ms is None:
            return None
        return max(1, self._options.timeout_ms - int((self._clock.monotonic_s() - self._started_s) * 1000))

    def hold(self, size_bytes: int) -> None:
        """Count memory that stays taken until it is let go; a negative size lets go."""
        if size_bytes > 0:
            self.check(size_bytes)
        self._held_bytes += size_bytes

    def check_rows(self, row_count: int) -> None:
        """Raise if that many rows are too many to return.

        Raises:
            QueryRowLimitError: they are.
        """
        limit = self._options.max_rows
        if limit is not None and row_count > limit:
            details = LimitExceeded(resource="rows", limit=limit, actual=row_count)
            raise QueryRowLimitError(f"the query has too many rows: limit={limit}", details=details)
