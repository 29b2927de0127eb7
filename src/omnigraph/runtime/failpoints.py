"""Failpoints: named places where a test can make the running program fail, stop or die.

A place is reached with ``failpoints.hit(NAME)``. Names come from one catalogue, so that a misspelt one is an error
and not a test that tests nothing. Switched off, a hit is one attribute look-up and one comparison.

From outside a process the variable ``OMNIGRAPH_FAILPOINTS`` switches them on: ``name=action`` pairs separated by
``;``, an action optionally followed by ``@n`` (only the n-th hit). Actions: ``kill`` (SIGKILL to itself), ``stop``
(SIGSTOP to itself), ``error`` (raise :class:`FailpointError`), ``pause:<file>`` (create ``<file>.reached`` and wait
until ``<file>`` exists).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from omnigraph.errors import BadValue, FailpointError, ValueFormatError

ENVIRONMENT_VARIABLE = "OMNIGRAPH_FAILPOINTS"
_PAUSE_POLL_S = 0.005

Action = Callable[[], None]


class Failpoints:
    """The failpoints of one runtime; any number of them may be on."""

    def __init__(self, catalogue: Iterable[str] = ()) -> None:
        self._catalogue = frozenset(catalogue)
        self._lock = threading.Lock()
        # None while nothing is on, which is what keeps a hit free.
        self._active: dict[str, Action] | None = None

    @classmethod
    def from_environment(cls, catalogue: Iterable[str], environment: Mapping[str, str]) -> Failpoints:
        """Return failpoints with those on that the environment variable asks for.

        Raises:
            ValueFormatError: the variable names an unknown failpoint or action.
        """
        failpoints = cls(catalogue)
        for entry in filter(None, environment.get(ENVIRONMENT_VARIABLE, "").split(";")):
            name, _, action = entry.partition("=")
            failpoints.enable(name.strip(), _parse_action(name.strip(), action.strip()))
        return failpoints

    @property
    def catalogue(self) -> frozenset[str]:
        """Every name that can be hit."""
        return self._catalogue

    def hit(self, name: str) -> None:
        """Reach the place called ``name``; whatever is switched on there happens."""
        active = self._active
        if active is not None:
            action = active.get(name)
            if action is not None:
                action()

    def enable(self, name: str, action: Action) -> None:
        """Run ``action`` whenever ``name`` is hit.

        Raises:
            ValueFormatError: the catalogue does not hold ``name``.
        """
        if name not in self._catalogue:
            details = BadValue(what="failpoint", value=name, expected=", ".join(sorted(self._catalogue)))
            raise ValueFormatError(f"no failpoint of that name: {name!r}", details=details)
        with self._lock:
            self._active = {**(self._active or {}), name: action}

    def disable(self, name: str) -> None:
        """Switch ``name`` off again; harmless when it was not on."""
        with self._lock:
            rest = {other: action for other, action in (self._active or {}).items() if other != name}
            self._active = rest or None


def fail(name: str) -> Action:
    """Return an action that raises :class:`FailpointError`."""

    def action() -> None:
        raise FailpointError(f"failpoint {name}", details=BadValue(what="failpoint", value=name, expected="off"))

    return action


def on_nth(count: int, action: Action) -> Action:
    """Return an action that acts on the ``count``-th hit only."""
    lock = threading.Lock()
    remaining = count

    def counted() -> None:
        nonlocal remaining
        with lock:
            remaining -= 1
            due = remaining == 0
        if due:
            action()

    return counted


def pause_until(gate: Path) -> Action:
    """Return an action that reports its arrival as ``<gate>.reached`` and waits for ``gate`` to exist."""

    def action() -> None:
        gate.with_name(gate.name + ".reached").touch()
        while not gate.exists():
            time.sleep(_PAUSE_POLL_S)

    return action


def _parse_action(name: str, text: str) -> Action:
    word, separator, nth = text.partition("@")
    if separator and not (nth.isascii() and nth.isdigit() and int(nth) > 0):
        raise _bad_action(text)
    action: Action
    match word:
        case "kill":
            action = _send_self(signal.SIGKILL)
        case "stop":
            action = _send_self(signal.SIGSTOP)
        case "error":
            action = fail(name)
        case _ if word.startswith("pause:"):
            action = pause_until(Path(word.removeprefix("pause:")))
        case _:
            raise _bad_action(text)
    return on_nth(int(nth), action) if separator else action


def _send_self(number: signal.Signals) -> Action:
    def action() -> None:
        os.kill(os.getpid(), number)

    return action


def _bad_action(text: str) -> ValueFormatError:
    expected = "kill, stop, error or pause:<file>, optionally followed by @<n>"
    details = BadValue(what="failpoint action", value=text, expected=expected)
    return ValueFormatError(f"not a failpoint action: {text!r}", details=details)
