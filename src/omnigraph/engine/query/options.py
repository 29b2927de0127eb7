"""What a caller may ask of one read besides its text: how to walk edges, and how much it may cost."""

from __future__ import annotations

import os
import threading
from typing import Literal

from omnigraph.records import record
from omnigraph.runtime import memory_bytes
from omnigraph.values import check_choice, check_flag, check_instance, check_whole, checked_names, size_of, unfit

# How much a network of Python objects may hold unless more is asked for: a few hundred megabytes.
MAX_ENTITIES = 100_000

ExpandMode = Literal["auto", "indexed", "csr"]
_MODES = ("auto", "indexed", "csr")
NearestMode = Literal["auto", "exact"]
_NEAREST = ("auto", "exact")
SnapshotSchema = Literal["current", "commit"]
_SCHEMAS = ("current", "commit")

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
        max_hops: how far a walk without an upper bound may go; one that would have to go further fails.
        streams: hand rows out while they are made; what goes wrong then shows when they are drawn.
        schema: what a read of an earlier state calls things: ``current`` by the schema that the branch has now, so that
            a query goes on working after a rename; ``commit`` by the schema of that state.
        nearest: ``auto`` searches vectors approximately where the schema has ``@index(ann)``, and exactly elsewhere;
            ``exact`` searches all of them exactly.
        probes: how many partitions of an index an approximate search looks at; more of them miss fewer rows. None looks
            at 32, and searches so few vectors exactly that comparing all of them takes no longer.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    mode: ExpandMode = "auto"
    rules_off: frozenset[str] = frozenset()
    memory_bytes: int | None = None
    timeout_ms: int | None = None
    max_rows: int | None = None
    cancel: threading.Event | None = None
    streams: bool = False
    max_hops: int = 32
    schema: SnapshotSchema = "current"
    nearest: NearestMode = "auto"
    probes: int | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, _MODES)
        check_choice("schema", self.schema, _SCHEMAS)
        for name in ("memory_bytes", "timeout_ms", "max_rows"):
            check_whole(name, getattr(self, name), optional=True)
        check_choice("nearest", self.nearest, _NEAREST)
        check_whole("max_hops", self.max_hops, least=1)
        check_whole("probes", self.probes, least=1, optional=True)
        object.__setattr__(self, "rules_off", frozenset(checked_names("rules_off", self.rules_off)))
        check_instance("cancel", self.cancel, threading.Event)
        check_flag("streams", self.streams)

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
            raise unfit(_MEMORY_VARIABLE, asked, "a size, such as 256M or 2G")
        return size
