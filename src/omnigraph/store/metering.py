"""Counting what Lance does on storage, from the statistics its handles keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lance import LanceDataset

from omnigraph.runtime import Counters

# A scan reads the metadata of its files side by side, then their pages; an index adds its own look-up before both.
SCAN_STAGES = 2
LOOKUP_STAGES = 3


@contextmanager
def metered(handle: LanceDataset, counters: Counters, *, stages: int | None = None) -> Iterator[None]:
    """Count the calls that the block makes through ``handle`` or a handle made from it.

    Handles share their statistics with those they were made from. Concurrent blocks on one handle may therefore
    swap calls with each other, but every call is counted exactly once.

    Args:
        handle: the handle whose statistics are read.
        counters: where the calls go.
        stages: how many of the calls at most follow one another; all of them when not given.
    """
    try:
        yield
    finally:
        collect(handle, counters, stages=stages)


def collect(handle: LanceDataset, counters: Counters, *, stages: int | None = None) -> None:
    """Count the calls made through ``handle`` since its statistics were last read."""
    stats = handle.io_stats_incremental()
    if stats.read_iops:
        counters.add_calls("lance.read", stats.read_iops, bytes_read=stats.read_bytes)
    if stats.write_iops:
        counters.add_calls("lance.write", stats.write_iops, bytes_written=stats.written_bytes)
    calls = stats.read_iops + stats.write_iops
    counters.add_serial_stages(calls if stages is None else min(calls, stages))
