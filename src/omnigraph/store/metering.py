"""Counting what Lance does on storage, from the statistics its handles keep.

All handles of one session share one set of statistics, so blocks that run side by side may swap calls with each
other; every call is still counted exactly once, and a transaction that runs alone gets exactly its own. How many
calls follow one another can therefore not be read off the statistics: each block says what its work amounts to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lance import LanceDataset

from omnigraph.runtime import Counters

# The newest version is found by one listing, and an upload is one put.
PROBE_STAGES = 1
UPLOAD_STAGES = 1
# A version is found first and read then; with its transaction it is the same.
OPEN_STAGES = 2
# A scan reads the metadata of its files side by side, then their pages; an index adds its own look-up before both.
SCAN_STAGES = 2
LOOKUP_STAGES = 3


@contextmanager
def metered(
    handle: LanceDataset,
    counters: Counters,
    *,
    stages: int | None = None,
    at_most: int | None = None,
    side_by_side: int = 1,
) -> Iterator[None]:
    """Count the calls that the block makes through ``handle``.

    Args:
        handle: the handle whose statistics are read.
        counters: where the calls go.
        stages: how many of the calls follow one another, when the shape of the work tells.
        at_most: how many of them follow one another if nothing that the work needs is in memory.
        side_by_side: how many files the work reads at once.

    When neither is given, every call is taken to wait for the one before it.
    """
    try:
        yield
    finally:
        collect(handle, counters, stages=stages, at_most=at_most, side_by_side=side_by_side)


def collect(
    handle: LanceDataset,
    counters: Counters,
    *,
    stages: int | None = None,
    at_most: int | None = None,
    side_by_side: int = 1,
) -> int:
    """Count the calls made through ``handle`` since its statistics were last read; return how many were reads."""
    stats = handle.io_stats_incremental()
    if stats.read_iops:
        counters.add_calls("lance.read", stats.read_iops, bytes_read=stats.read_bytes)
    if stats.write_iops:
        counters.add_calls("lance.write", stats.write_iops, bytes_written=stats.written_bytes)
    calls = stats.read_iops + stats.write_iops
    if stages is None:
        in_turn = -(-calls // max(1, side_by_side))
        stages = in_turn if at_most is None else min(in_turn, at_most)
    counters.add_serial_stages(stages)
    return int(stats.read_iops)
