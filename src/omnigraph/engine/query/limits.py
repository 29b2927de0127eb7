"""The limits of one read: memory, time, rows, and being told to stop. Asked between steps, never in the middle.

Whatever a read has made and still needs counts as held, from the rows that wait between two steps to the batches of the
result. What is about to be made is asked for before it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import (
    BadValue,
    LimitExceeded,
    QueryCancelledError,
    QueryMemoryError,
    QueryRowLimitError,
    QueryTimeoutError,
)
from omnigraph.runtime import Clock, current_call, smallest
from omnigraph.values.counts import counted

# Arrow counts the bytes of texts in 31 bits.
_COLUMN_BYTES = (1 << 31) - 1


class Limits:
    """Watches over one read; ``what`` is what messages call it."""

    def __init__(self, options: QueryOptions, clock: Clock, what: str = "query") -> None:
        # The request that the read belongs to may allow less than the read asks for.
        call = current_call()
        self._what = what
        self._stops = call.stops if options.cancel is None else (*call.stops, options.cancel)
        self._clock = clock
        self._started_s = clock.monotonic_s()
        deadlines = (one for one in (call.deadline_s, call.read_deadline_s) if one is not None)
        left = (max(0, int((one - self._started_s) * 1000)) for one in deadlines)
        self._timeout_ms = smallest(options.timeout_ms, *left)
        self._max_rows = smallest(options.max_rows, call.max_rows)
        self._memory_bytes = smallest(options.most_memory_bytes, call.memory_bytes) or 0
        self._held_bytes = 0
        self._peak_bytes = 0
        # Frames share the columns that a step leaves as they are: each counts once, for as long as some frame has it.
        self._columns: dict[int, int] = {}

    def check(self, extra_bytes: int = 0) -> None:
        """Raise if the read was stopped, is late, or would hold too much with ``extra_bytes`` more for a moment.

        Raises:
            QueryCancelledError, QueryTimeoutError, QueryMemoryError: which of them it is.
        """
        if any(stop.is_set() for stop in self._stops):
            details = BadValue(what=self._what, value="cancelled", expected="running")
            raise QueryCancelledError(f"the {self._what} was cancelled", details=details)
        if self._timeout_ms is not None:
            took_ms = (self._clock.monotonic_s() - self._started_s) * 1000
            if took_ms > self._timeout_ms:
                # A part of a millisecond more than the limit is told as one.
                elapsed_ms = max(int(took_ms), self._timeout_ms + 1)
                spent = LimitExceeded(resource=f"{self._what} time in ms", limit=self._timeout_ms, actual=elapsed_ms)
                message = f"the {self._what} took {elapsed_ms} ms, longer than the limit of {self._timeout_ms} ms"
                raise QueryTimeoutError(message, details=spent)
        needed = self._held_bytes + extra_bytes
        if needed > self._memory_bytes:
            needs = LimitExceeded(resource=f"{self._what} memory in bytes", limit=self._memory_bytes, actual=needed)
            message = f"the {self._what} needs {needed} bytes of memory, more than the limit of {self._memory_bytes}"
            raise QueryMemoryError(message, details=needs)
        self._peak_bytes = max(self._peak_bytes, needed)

    @property
    def peak_bytes(self) -> int:
        """The most that the read has asked for at one time."""
        return self._peak_bytes

    @property
    def elapsed_s(self) -> float:
        """How long the read has taken so far."""
        return self._clock.monotonic_s() - self._started_s

    @property
    def remaining_ms(self) -> int | None:
        """How long the read may still take; None for as long as it likes."""
        if self._timeout_ms is None:
            return None
        return max(1, self._timeout_ms - int((self._clock.monotonic_s() - self._started_s) * 1000))

    def hold(self, size_bytes: int) -> None:
        """Count memory that stays taken until it is let go; a negative size lets go."""
        if size_bytes > 0:
            self.check(size_bytes)
        self._held_bytes += size_bytes

    def check_column(self, size_bytes: int) -> None:
        """Raise as :meth:`check` does, or if a column of so many bytes is more than one array can hold."""
        self.check(size_bytes)
        check_column_bytes(size_bytes)

    def fits_column(self, size_bytes: int) -> bool:
        """Whether a column of so many bytes is within all limits of memory, so that it need not be measured."""
        return size_bytes <= _COLUMN_BYTES and self._held_bytes + size_bytes <= self._memory_bytes

    def keep(self, frame: Frame) -> None:
        """Count the columns of a frame that stays alive until it is dropped."""
        known, size_bytes = self._columns, 0
        for column in _columns(frame):
            key = id(column)
            holders = known.get(key, 0)
            known[key] = holders + 1
            if not holders:
                size_bytes += column.nbytes
        self.hold(size_bytes)

    def drop(self, frame: Frame) -> None:
        """Let go of a frame that was kept; its columns count on while another kept frame has them."""
        known = self._columns
        for column in _columns(frame):
            key = id(column)
            holders = known[key] - 1
            if holders:
                known[key] = holders
            else:
                del known[key]
                self._held_bytes -= column.nbytes

    def holding(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield frames, each counted until the one after it is there: so long does whoever draws them have it."""
        last: Frame | None = None
        try:
            for frame in frames:
                self.keep(frame)
                if last is not None:
                    self.drop(last)
                last = frame
                yield frame
        finally:
            if last is not None:
                self.drop(last)

    def check_rows(self, row_count: int) -> None:
        """Raise if that many rows are too many to return.

        Raises:
            QueryRowLimitError: they are.
        """
        limit = self._max_rows
        if limit is not None and row_count > limit:
            details = LimitExceeded(resource="rows", limit=limit, actual=row_count)
            raise QueryRowLimitError(f"the {self._what} has more than {counted(limit, 'row')}", details=details)


def check_column_bytes(size_bytes: int) -> None:
    """Raise if a column of so many bytes is more than one array can hold.

    Raises:
        QueryMemoryError: it is.
    """
    if size_bytes > _COLUMN_BYTES:
        details = LimitExceeded(resource="bytes of one column", limit=_COLUMN_BYTES, actual=size_bytes)
        message = f"a column needs {size_bytes} bytes, more than the limit of {_COLUMN_BYTES}"
        raise QueryMemoryError(message, details=details)


def _columns(frame: Frame) -> list[npt.NDArray[np.int64] | pa.Array]:
    columns = [*frame.ids.values(), *frame.values.values()]
    if frame.weights is not None:
        columns.append(frame.weights)
    return columns
