"""Faults on demand: fail, drop, cut or delay chosen calls, before or after they take effect."""

from __future__ import annotations

import re
from typing import Final, Literal

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.records import record
from omnigraph.testing.s3.calls import ObjectClass, Operation

FOREVER: Final = 1 << 62
"""As ``times`` of a fault: every matching call from the n-th on."""

Moment = Literal["before", "after"]
Action = Literal["error", "drop", "cut", "delay"]


@record
class Fault:
    """What to do to which calls.

    A call matches when every one of ``operation``, ``object_class`` and ``key`` (a regular expression, searched) that
    is given fits. Matching calls are counted from the moment the fault is added; those numbered ``nth`` up to
    ``nth + times - 1`` are hit. ``before`` means the call does not take effect, ``after`` that it did and only its
    answer is lost; a delayed call takes effect in either case. Actions: ``error`` answers ``status``, ``drop`` closes
    the connection without an answer, ``cut`` closes it in the middle of the answer to a call that takes effect,
    ``delay`` waits ``delay_ms`` longer.

    Clients repeat calls by themselves after a 5xx answer or a closed connection, and each repetition is a matching
    call of its own. To make an operation fail, either set ``times`` to :data:`FOREVER` and clear the fault later, or
    open the client with the endpoint's options that forbid repetition. 4xx answers are not repeated.
    """

    action: Action
    when: Moment = "before"
    operation: Operation | None = None
    object_class: ObjectClass | None = None
    key: str | None = None
    nth: int = 1
    times: int = 1
    status: int = 500
    delay_ms: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a fault that could never do what it says.

        Raises:
            ValueFormatError: a number out of range or a broken regular expression.
        """
        _check(self.nth >= 1, "nth", self.nth, "1 or more")
        _check(self.times >= 1, "times", self.times, "1 or more")
        _check(400 <= self.status <= 599, "status", self.status, "an HTTP error, 400 to 599")
        _check(self.delay_ms >= 0, "delay_ms", self.delay_ms, "0 or more")
        _check((self.delay_ms > 0) == (self.action == "delay"), "delay_ms", self.delay_ms, "set for a delay only")
        try:
            re.compile(self.key or "")
        except re.error as error:
            details = BadValue(what="key", value=str(self.key), expected="a regular expression")
            raise ValueFormatError(f"fault key is no regular expression: {error}", details=details) from error

    def matches(self, operation: Operation, object_class: ObjectClass, key: str) -> bool:
        """Whether a call is one of those this fault counts."""
        return (
            self.operation in {None, operation}
            and self.object_class in {None, object_class}
            and (self.key is None or re.search(self.key, key) is not None)
        )


def _check(holds: bool, what: str, value: float, expected: str) -> None:
    if not holds:
        details = BadValue(what=what, value=str(value), expected=expected)
        raise ValueFormatError(f"fault out of range: {what}={value}", details=details)


@record
class Hit:
    """A fault that is due on a call."""

    fault_id: int
    fault: Fault


class FaultRules:
    """The faults that are on, each with its own count."""

    def __init__(self) -> None:
        self._rules: dict[int, Fault] = {}
        self._seen: dict[int, int] = {}
        self._last_id = 0

    def add(self, fault: Fault) -> int:
        """Switch a fault on and return its id."""
        self._last_id += 1
        self._rules[self._last_id] = fault
        self._seen[self._last_id] = 0
        return self._last_id

    def clear(self) -> None:
        """Switch all faults off."""
        self._rules.clear()
        self._seen.clear()

    def hit(self, operation: Operation, object_class: ObjectClass, key: str) -> Hit | None:
        """Count a call with every fault it matches and return the first one that is due."""
        due: Hit | None = None
        for fault_id, fault in self._rules.items():
            if not fault.matches(operation, object_class, key):
                continue
            self._seen[fault_id] += 1
            if due is None and fault.nth <= self._seen[fault_id] < fault.nth + fault.times:
                due = Hit(fault_id=fault_id, fault=fault)
        return due
