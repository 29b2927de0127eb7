"""Transactions of clients, which read lists and append to them.

No value is appended to a key twice, so a list tells which transactions wrote it, and in which order. Nothing else is
needed to know the order of the versions of a key; what the database says about itself is not used.
"""

from __future__ import annotations

from typing import Literal

from omnigraph.records import record

Outcome = Literal["committed", "aborted", "unknown"]


@record
class Append:
    """A value that a transaction put at the end of the list of a key."""

    key: str
    value: str


@record
class Read:
    """The list of a key as a transaction saw it."""

    key: str
    values: tuple[str, ...]


@record
class Transaction:
    """One transaction of one client.

    Args:
        id: its name.
        began_ns: when the client began it, by a clock that all clients share.
        ended_ns: when the client had the answer; None if it never came.
        outcome: ``unknown`` if no answer came, or one that leaves it open: it may have happened, even later.
        calls: what it did, in order. Of one whose outcome is unknown, reads may be missing.
    """

    id: str
    began_ns: int
    ended_ns: int | None
    outcome: Outcome
    calls: tuple[Append | Read, ...]

    @property
    def appends(self) -> tuple[Append, ...]:
        """Its appends, in order."""
        return tuple(call for call in self.calls if isinstance(call, Append))

    @property
    def reads(self) -> tuple[Read, ...]:
        """Its reads, in order."""
        return tuple(call for call in self.calls if isinstance(call, Read))
