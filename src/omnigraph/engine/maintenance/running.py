"""Doing the work of optimizing: reading and writing files that nothing names yet. It may happen anywhere."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from omnigraph.engine.maintenance.planning import CompactionJob, IndexJob
from omnigraph.store.location import Storage
from omnigraph.store.pins import TablePin
from omnigraph.store.portable import IndexWork, TableTicket, build_segment, merge_segments, run_compaction_task
from omnigraph.store.staging import BuiltIndex

# Lance lets nobody else use a handle while it builds an index, and handles are shared within a process.
_WORKING = threading.Lock()


class MaintenanceRunner(Protocol):
    """Who does the work. Results come in the order of the jobs."""

    group_rows: int

    def compact(self, jobs: Sequence[CompactionJob]) -> Sequence[tuple[str, ...]]:
        """Write the compacted fragments of every job and say what became of them."""

    def build(self, jobs: Sequence[IndexJob]) -> Sequence[tuple[BuiltIndex, ...]]:
        """Write the index segments of every job."""


class LocalRunner:
    """Does the work on threads of this process."""

    # Here nothing is gained by building an index in pieces.
    group_rows = 1 << 62

    def __init__(self, storage: Storage, threads: int) -> None:
        self._storage = storage
        self._threads = max(1, threads)

    def compact(self, jobs: Sequence[CompactionJob]) -> Sequence[tuple[str, ...]]:
        """Write the compacted fragments of every job and say what became of them."""
        with _WORKING, ThreadPoolExecutor(self._threads, thread_name_prefix="omnigraph-optimize") as pool:
            running = [
                [pool.submit(run_compaction_task, self._ticket(job.base), task) for task in job.tasks] for job in jobs
            ]
            return [tuple(piece.result() for piece in pieces) for pieces in running]

    def build(self, jobs: Sequence[IndexJob]) -> Sequence[tuple[BuiltIndex, ...]]:
        """Write the index segments of every job."""
        with _WORKING, ThreadPoolExecutor(self._threads, thread_name_prefix="omnigraph-optimize") as pool:
            running = [pool.submit(self._build_table, job) for job in jobs]
            return [table.result() for table in running]

    def _build_table(self, job: IndexJob) -> tuple[BuiltIndex, ...]:
        return tuple(self._build_one(job.base, work) for work in job.works)

    def _build_one(self, pin: TablePin, work: IndexWork) -> BuiltIndex:
        ticket = self._ticket(pin)
        segments = [build_segment(ticket, work.build, group) for group in work.groups]
        merged = merge_segments(ticket, work.build, segments)
        return BuiltIndex(build=work.build, segments=(merged,), rebuilds=work.rebuilds)

    def _ticket(self, pin: TablePin) -> TableTicket:
        return TableTicket(storage=self._storage, pin=pin)
