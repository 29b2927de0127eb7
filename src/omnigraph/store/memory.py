"""Memory that is freed, given back before a large piece of work begins."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.runtime import trim_heap


def give_back_memory() -> None:
    """Give back what Arrow and native code keep for later; of pieces in turn it would add up to more than any needs."""
    pa.default_memory_pool().release_unused()
    trim_heap()
