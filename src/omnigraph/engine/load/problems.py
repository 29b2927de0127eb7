"""The rows that are no rows: the first few kept for the error, all of them written to a file when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from omnigraph.engine.rows.cells import EXTERNAL_BLOB_RULE, INLINE_BLOB
from omnigraph.engine.rows.problem import MAX_PROBLEMS
from omnigraph.errors import BadRowsError, BadValue, ExternalBlobError, FileAccessError, Violation, Violations
from omnigraph.errors.details import details_to_json

_ENCODER = msgspec.json.Encoder()


class ProblemList(AbstractContextManager["ProblemList"]):
    """Counts problems, keeps the first ``limit`` and writes each as a line of JSON to ``errors_to``.

    The file is made when the first problem comes, so a good load leaves none behind. ``is_cut`` says that the input was
    not read to its end because of them.
    """

    def __init__(self, limit: int, errors_to: str | Path | None) -> None:
        self._limit = max(limit, 1)
        self._path = None if errors_to is None else Path(errors_to)
        self._file: BinaryIO | None = None
        self._items: list[Violation] = []
        self.total = 0
        self.is_cut = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def has_file(self) -> bool:
        """Whether all problems are wanted in a file."""
        return self._path is not None

    @property
    def is_full(self) -> bool:
        """Whether so much is wrong that there is no point in reading on."""
        return self.total >= MAX_PROBLEMS

    def add(self, violations: Iterable[Violation]) -> None:
        """Take over problems in the order of the input.

        Raises:
            FileAccessError: the file for them cannot be written.
        """
        for violation in violations:
            self.total += 1
            if len(self._items) < self._limit:
                self._items.append(violation)
            if self._path is not None:
                self._write(self._path, violation)

    def add_counted(self, count: int, violations: Callable[[], Iterable[Violation]]) -> None:
        """Take over ``count`` problems; they are only looked at when one of them is kept or written.

        Raises:
            FileAccessError: the file for them cannot be written.
        """
        if self._path is not None or len(self._items) < self._limit:
            self.add(violations())
        else:
            self.total += count

    def fail(self) -> None:
        """Return if there was no problem.

        Raises:
            ExternalBlobError: the first one is a blob outside of the graph.
            BadRowsError: there was one.
        """
        if not self.total:
            return
        first = self._items[0]
        if first.rule == EXTERNAL_BLOB_RULE:
            value = BadValue(what="blob", value=first.value or "", expected=f"{INLINE_BLOB}…")
            raise ExternalBlobError(f"{first.source}:{first.line}: {first.message}", details=value)
        more = (
            "" if self.total == 1 else f" (and {self.total - 1} more{'; the rest was not read' if self.is_cut else ''})"
        )
        raise BadRowsError(
            f"{first.source}:{first.line}: {first.message}{more}",
            details=Violations(items=tuple(self._items), total=self.total),
        )

    def _write(self, path: Path, violation: Violation) -> None:
        try:
            if self._file is None:
                self._file = path.open("wb")
            self._file.write(_ENCODER.encode(details_to_json(violation)) + b"\n")
        except OSError as error:
            details = BadValue(what="file", value=str(path), expected="a writable file")
            reason = (error.strerror or str(error)).lower()
            raise FileAccessError(f"file is not writable: {reason}: path={path}", details=details) from error
