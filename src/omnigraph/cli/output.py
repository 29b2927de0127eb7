"""The output layer: commands hand over what they found, and never print.

A :class:`Report` knows its two forms, and an :class:`Output` decides which of them goes where. Results go to standard
output and nothing else does; warnings and errors go to standard error. With JSON, standard output holds exactly one
document: the report, or ``{"error": …}``, and an interrupt does not cut it.
"""

from __future__ import annotations

import difflib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TextIO

from omnigraph.cli.whole import write_whole
from omnigraph.errors import BadValue, Details, MissingThing, OmnigraphError, Violations

_NAMES = 8


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
        """Write the error under the key ``error``."""
        _write_json({"error": error.to_json()})


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
    return [*f"error: {error}".split("\n"), *_violation_lines(error), *hint, f"code: {error.code}"]


def _advice(details: Details | None) -> str | None:
    """What the details of an error without a hint tell people to do; in JSON they stand there themselves."""
    match details:
        case MissingThing(name=name, near=near) if near:
            likely = difflib.get_close_matches(name, near, n=1)
            return f"did you mean {likely[0]}?" if likely else f"there {_listed(near)}"
        case BadValue(expected=expected) if expected:
            return f"expected {expected}"
        case _:
            return None


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _NAMES
    shown = ", ".join(names[:_NAMES])
    verb = "is" if len(names) == 1 else "are"
    return f"{verb} {shown} and {rest} more" if rest > 0 else f"{verb} {shown}"


def _violation_lines(error: OmnigraphError) -> list[str]:
    """The rows of files that an error is about, unless its message has said it all."""
    found = error.details
    if not isinstance(found, Violations) or not found.items or found.items[0].source is None:
        return []
    if found.total == 1 and error.message.startswith(f"{found.items[0].source}:"):
        return []
    lines = [f"  {item.source}:{item.line}: {item.message}" for item in found.items]
    rest = found.total - len(lines)
    return [*lines, f"  and {rest} more"] if rest else lines


def write_line(line: str, stream: TextIO) -> None:
    """Write one line."""
    stream.write(f"{line}\n")


def _write_json(document: dict[str, Any] | list[Any]) -> None:
    write_whole(json.dumps(document, indent=2, ensure_ascii=False) + "\n", sys.stdout)
