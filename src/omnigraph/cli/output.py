"""The output layer: commands hand over what they found, and never print.

A :class:`Report` knows its two forms, and an :class:`Output` decides which of them goes where. Results go to standard
output and nothing else does; warnings and errors go to standard error. With JSON, standard output holds exactly one
document: the report, or ``{"error": …}``, and an interrupt does not cut it.

An interrupt that comes while something is written is held back until it is written. A second one is not: a reader that
has stopped reading must not keep a command alive.
"""

from __future__ import annotations

import difflib
import json
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, AnyStr, Generic, Protocol, TextIO

from omnigraph.errors import (
    BadRowsError,
    BadValue,
    Details,
    MappingError,
    MergeConflictsError,
    MissingThing,
    OmnigraphError,
    Violations,
    WriteInterruptedError,
)
from omnigraph.errors.history import FailedCheck, FailedChecks
from omnigraph.errors.txn import HeadMismatch
from omnigraph.records import record

# A document that is larger waits for its end on disk.
_SPOOL_BYTES = 64 << 20
# Lines are written together, in pieces of about this size.
_PIECE = 64 << 10


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold an interrupt back until the block is done; the second one ends the block."""
    found = signal.getsignal(signal.SIGINT)
    # A process that ignores interrupts goes on ignoring them, and only the main thread is told about them.
    if not callable(found) or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_held = False

    def hold(number: int, frame: Any) -> None:
        nonlocal is_held
        if is_held:
            found(number, frame)
        is_held = True

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, found)
    if is_held:
        signal.raise_signal(signal.SIGINT)


def write_whole(text: AnyStr, stream: IO[AnyStr]) -> None:
    """Write a text to its end."""
    with uninterrupted():
        stream.write(text)
        stream.flush()


class LineBuffer(Generic[AnyStr]):
    """A sink for lines in pieces of any size, with ``newline`` between them; they reach the stream line by line.

    As a context it writes what is left when the block is done, and nothing more when the block fails.
    """

    def __init__(self, stream: IO[AnyStr], newline: AnyStr) -> None:
        self._stream: IO[AnyStr] = stream
        self._newline: AnyStr = newline
        self._nothing: AnyStr = newline[:0]
        self._waiting: list[AnyStr] = []
        self._size = 0

    def write(self, piece: AnyStr) -> None:
        """Take a piece."""
        # Joined with nothing, a view of bytes becomes bytes.
        taken = self._nothing.join((piece,))
        self._waiting.append(taken)
        self._size += len(taken)
        if self._size >= _PIECE and self._newline in taken:
            waiting = self._nothing.join(self._waiting)
            end = waiting.rindex(self._newline) + 1
            self._waiting, self._size = [waiting[end:]], len(waiting) - end
            write_whole(waiting[:end], self._stream)

    def __enter__(self) -> LineBuffer[AnyStr]:
        return self

    def __exit__(self, problem: type[BaseException] | None, *_: object) -> None:
        if problem is None:
            write_whole(self._nothing.join(self._waiting), self._stream)


@contextmanager
def whole_document(stream: IO[str]) -> Iterator[LineBuffer[str]]:
    """Give a sink for a document that is made piece by piece; it is written to ``stream`` when the block is done."""
    import shutil  # noqa: PLC0415 - short commands have no use for it
    import tempfile  # noqa: PLC0415 - short commands have no use for it

    # Characters that have no encoding are left to the stream.
    with tempfile.SpooledTemporaryFile(
        _SPOOL_BYTES, "w+", encoding="utf-8", errors="surrogatepass", newline=""
    ) as spool:
        # Its own size is looked at with every piece that the spool is given.
        with LineBuffer(spool, "\n") as pieces:
            yield pieces
        spool.seek(0)
        with uninterrupted():
            shutil.copyfileobj(spool, stream, _PIECE)
            stream.flush()


_NAMES = 8
_MOST_LINES = 50


class Report(Protocol):
    """What a command found, ready to be shown."""

    def to_json(self) -> dict[str, Any] | list[Any]:
        """The report as JSON values."""

    def to_lines(self) -> Iterable[str]:
        """The report as text for standard output."""

    def to_remarks(self) -> Iterable[str]:
        """What accompanies the text on standard error; in JSON it is part of the report."""


class Output(ABC):
    """Where reports, warnings and errors go."""

    @abstractmethod
    def show(self, report: Report) -> None:
        """Show the result of a command."""

    @abstractmethod
    def show_error(self, error: OmnigraphError) -> None:
        """Show the error that a command ended with."""

    def warn(self, message: str) -> None:
        """Tell people something that is no part of the result."""
        write_line(f"warning: {message}", sys.stderr)


class TextOutput(Output):
    """Text for people."""

    def show(self, report: Report) -> None:
        """Write the lines to standard output and the remarks to standard error."""
        for line in report.to_lines():
            write_line(line, sys.stdout)
        # The two streams often end up on one terminal: keep the order in which they were written.
        sys.stdout.flush()
        for line in report.to_remarks():
            write_line(line, sys.stderr)

    def show_error(self, error: OmnigraphError) -> None:
        """Write message, hint and code to standard error."""
        sys.stdout.flush()
        for line in error_lines(error):
            write_line(line, sys.stderr)


class JsonOutput(Output):
    """One JSON document on standard output, two spaces deep."""

    def show(self, report: Report) -> None:
        """Write the report."""
        _write_json(report.to_json())

    def show_error(self, error: OmnigraphError) -> None:
        """Write the error under the key ``error``, and beside it the evidence that has a key of its own."""
        _write_json({"error": error.to_json(), **_own_members(error)})


def _own_members(error: OmnigraphError) -> dict[str, Any]:
    """What scripts look for at the top of a failed command.

    That is which head a conditional write found instead of its own, or the rows of conflicts to decide.
    """
    if isinstance(error, MergeConflictsError):
        return {"conflict_rows": error.conflicts.to_json()}
    match error.details:
        case HeadMismatch(expected=expected, actual=actual):
            return {"precondition_failure": {"expected": expected, "actual": actual}}
        case _:
            return {}


def write_interrupt(interrupt: BaseException, last_commit: tuple[str, str] | None = None) -> bool:
    """Say on standard error what became of a write that could not be cancelled; return whether there was one."""
    told = WriteInterruptedError.within(interrupt)
    if told is None and last_commit is not None:
        told = WriteInterruptedError(*last_commit, lambda: "published")
    if told is None or told.outcome == "cancelled":
        return False
    write_line(str(told), sys.stderr)
    return True


def choose_output(*, as_json: bool) -> Output:
    """Return the output that was asked for."""
    return JsonOutput() if as_json else TextOutput()


def error_lines(error: OmnigraphError) -> Sequence[str]:
    """Lay an error out for people: message (with place and caret if it has one), hint, code.

    >>> from omnigraph.errors import InternalError
    >>> error_lines(InternalError("broken", hint="report it"))
    ['error: broken', 'hint: report it', 'code: internal']
    """
    advice = error.hint or _advice(error.details)
    hint = [f"hint: {advice}"] if advice else []
    evidence = _conflict_lines(error) if isinstance(error, MergeConflictsError) else _violation_lines(error)
    return [*f"error: {error}".split("\n"), *evidence, *hint, f"code: {error.code}"]


def _advice(details: Details | None) -> str | None:
    """What the details of an error without a hint tell people to do; in JSON they stand there themselves."""
    match details:
        case MissingThing(name=name, near=near) if near:
            likely = difflib.get_close_matches(name, near, n=1)
            return f"did you mean {likely[0]}?" if likely else f"existing names: {_listed(near)}"
        case BadValue(expected=expected) if expected:
            return f"expected {expected}"
        case _:
            return None


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _NAMES
    shown = ", ".join(names[:_NAMES])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _conflict_lines(error: MergeConflictsError) -> list[str]:
    """The table of the first conflicts."""
    lines = error.conflicts.table_lines()
    rest = len(lines) - _MOST_LINES
    return [f"  {line}" for line in lines[:_MOST_LINES]] + ([f"  and {rest} more lines"] if rest > 0 else [])


def _violation_lines(error: OmnigraphError) -> list[str]:
    """The rows that an error is about, by their place in a file or by their id, unless its message has said it all."""
    found = error.details
    if isinstance(error, BadRowsError | MappingError):
        # Its text has them.
        return []
    if isinstance(found, FailedChecks):
        return [f"  {item.name}: {told}" for item in found.items for told in _findings(item)]
    if not isinstance(found, Violations) or not found.items:
        return []
    first = found.items[0]
    if found.total == 1 and (first.source is None or error.message.startswith(f"{first.place()}:")):
        return []
    return [f"  {line}" for line in found.lines()]


def _findings(check: FailedCheck) -> list[str]:
    rows = [json.dumps(row, ensure_ascii=False) for row in check.rows]
    more = ["and more"] if check.has_more else []
    return [*rows, *more, *([] if check.problem is None else [check.problem])]


def write_line(line: str, stream: TextIO) -> None:
    """Write one line."""
    stream.write(f"{line}\n")


def _write_json(document: dict[str, Any] | list[Any]) -> None:
    write_whole(json.dumps(document, indent=2, ensure_ascii=False) + "\n", sys.stdout)


@record
class PlainReport:
    """A document, the lines that show it to people, and remarks for standard error."""

    document: dict[str, Any]
    lines: Sequence[str]
    remarks: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return self.document

    def to_lines(self) -> Iterable[str]:
        """The lines."""
        return self.lines

    def to_remarks(self) -> Iterable[str]:
        """The remarks."""
        return self.remarks
