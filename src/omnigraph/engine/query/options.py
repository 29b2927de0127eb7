"""What a caller may ask of one read besides its text: how to walk edges, and how much it may cost."""

from __future__ import annotations

import os
import threading
from typing import Literal, cast

from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.runtime import memory_bytes
from omnigraph.values import check_instance, check_texts, size_of

ExpandMode = Literal["auto", "indexed", "csr"]

_MODES = ("auto", "indexed", "csr")
_MODE_VARIABLE = "OMNIGRAPH_TRAVERSAL_MODE"
_MEMORY_VARIABLE = "OMNIGRAPH_QUERY_MEMORY"
# One read of several at a time, beside what they share and what else the process does.
_MEMORY_SHARE = 4


@record
class QueryOptions:
    """Options of one read. None means no limit, except for memory.

    Args:
        mode: walk edges through indexes, through adjacency in memory, or by what seems cheaper. The rows are the same.
        rules_off: names of rewrite rules that are not to be used. The rows are the same.
        memory_bytes: how much the read may hold at one time; None leaves it to ``OMNIGRAPH_QUERY_MEMORY``, which is a
            size such as ``2G``, or else to a quarter of the memory that the process may use.
        timeout_ms: how long the read may take.
        max_rows: how many rows it may return.
        cancel: set from another thread to stop the read.
        streams: hand rows out while they are made; what goes wrong then shows when they are drawn.
    """

    mode: ExpandMode = "auto"
    rules_off: frozenset[str] = frozenset()
    memory_bytes: int | None = None
    timeout_ms: int | None = None
    max_rows: int | None = None
    cancel: threading.Event | None = None
    streams: bool = False

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise _unfit("mode", self.mode, " | ".join(_MODES))
        for name in ("memory_bytes", "timeout_ms", "max_rows"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise _unfit(name, value, "an integer that is not negative, or none")
        if not isinstance(self.rules_off, frozenset | set):
            raise _unfit("rules_off", self.rules_off, "a set of names")
        check_texts("rules_off", self.rules_off)
        check_instance("cancel", self.cancel, threading.Event)

    @property
    def most_memory_bytes(self) -> int:
        """How much the read may hold at one time, by this option, the environment or the machine."""
        if self.memory_bytes is not None:
            return self.memory_bytes
        asked = os.environ.get(_MEMORY_VARIABLE, "").strip()
        if not asked:
            return memory_bytes() // _MEMORY_SHARE
        size = size_of(asked)
        if size is None:
            raise _unfit(_MEMORY_VARIABLE, asked, "a size, such as 256M or 2G")
        return size

    @property
    def expand_mode(self) -> ExpandMode:
        """The mode asked for, or the one that the environment forces when none is."""
        forced = os.environ.get(_MODE_VARIABLE, "").strip()
        if self.mode != "auto" or not forced:
            return self.mode
        if forced not in _MODES:
            raise _unfit(_MODE_VARIABLE, forced, " | ".join(_MODES))
        return cast("ExpandMode", forced)


def _unfit(what: str, value: object, expected: str) -> UsageError:
    details = BadValue(what=what, value=str(value), expected=expected)
    return UsageError(f"query option {what} does not fit: value={value}", details=details)
