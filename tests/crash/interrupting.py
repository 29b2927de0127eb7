"""Interrupts at every line: which lines of chosen files a piece of work passes, and an exception at one of them."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

Line = tuple[str, int]
_NOTHING = dis.opmap["NOP"]


class Interrupt(KeyboardInterrupt):
    """What a test raises; nothing else does."""


@contextmanager
def noting(files: Collection[str]) -> Iterator[list[Line]]:
    """Note every line of the files that any thread passes, each once, in the order of the first time."""
    passed: dict[Line, None] = {}

    def note(line: Line) -> None:
        passed.setdefault(line)

    lines: list[Line] = []
    with _tracing(files, note):
        yield lines
    lines.extend(passed)


@contextmanager
def interrupting(at: Line) -> Iterator[list[bool]]:
    """Interrupt whichever thread comes to a line first, once; the list that is given says whether one did."""
    came: list[bool] = []

    def interrupt(line: Line) -> None:
        if line == at and not came:
            came.append(True)
            raise Interrupt

    with _tracing({at[0]}, interrupt):
        yield came


@contextmanager
def _tracing(files: Collection[str], tell: Callable[[Line], None]) -> Iterator[None]:
    def enter(frame, event, argument):
        return each if frame.f_code.co_filename in files else None

    def each(frame, event, argument):
        # A line such as "try:" or "pass" does nothing that could fail, and Python answers no signal at it.
        if event == "line" and frame.f_code.co_code[frame.f_lasti] != _NOTHING:
            tell((frame.f_code.co_filename, frame.f_lineno))
        return each

    before, before_threads = sys.gettrace(), threading.gettrace()
    # Only threads that start from here on are traced: what is to be interrupted has to be opened inside.
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before_threads)
