"""The batches of a result: pulled from their source once, and kept unless the caller takes them away."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa

from omnigraph.errors import BadValue, OmnigraphError, QueryCancelledError, ResultSpentError


class Batches:
    """Batches that can be iterated any number of times, by several threads, while the source is still giving.

    A source that fails has failed for every reader: what came before must not pass for the whole.
    """

    def __init__(self, source: Iterable[pa.RecordBatch]) -> None:
        self._held: list[pa.RecordBatch] = list(source) if isinstance(source, (list, tuple)) else []
        self._source = None if isinstance(source, (list, tuple)) else iter(source)
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._is_spent = False

    @property
    def is_complete(self) -> bool:
        """Whether all batches are here, so that nothing has to be waited for."""
        return self._source is None and self._failure is None and not self._is_spent

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        position = 0
        while (batch := self._at(position)) is not None:
            yield batch
            position += 1

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Hand every batch over once without keeping it, unless all of them are here already.

        Raises:
            ResultSpentError: that was done before.
        """
        with self._lock:
            self._check_usable()
            if self._source is None:
                return iter(self._held)
            held, self._held = self._held, []
            source, self._source = self._source, None
            self._is_spent = True
        return _chain(held, source)

    def _at(self, position: int) -> pa.RecordBatch | None:
        with self._lock:
            self._check_usable()
            if position == len(self._held) and self._source is not None:
                self._pull(self._source)
            return self._held[position] if position < len(self._held) else None

    def _pull(self, source: Iterator[pa.RecordBatch]) -> None:
        try:
            self._held.append(next(source))
        except StopIteration:
            self._source = None
        except BaseException as problem:
            self._failure, self._source, self._held = problem, None, []
            raise

    def _check_usable(self) -> None:
        if self._is_spent:
            details = BadValue(what="result", value="streamed", expected="rows that are still here")
            raise ResultSpentError("the rows of this result were streamed away", details=details)
        if isinstance(self._failure, OmnigraphError):
            raise self._failure
        if self._failure is not None:
            details = BadValue(what="result", value=type(self._failure).__name__, expected="a read that ended")
            raise QueryCancelledError("reading the rows was interrupted", details=details) from self._failure


def _chain(held: list[pa.RecordBatch], source: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held.reverse()
    while held:
        yield held.pop()
    yield from source
