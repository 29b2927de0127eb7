"""Queries that are one scan of a type: tasks read groups of fragments and make the rows of the result there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.engine.query.runner import PreparedRead
from omnigraph.engine.query.steps import Scan
from omnigraph.ir.model import ReadPlan, TextMatch
from omnigraph.records import record
from omnigraph.spark.query.relations import Task
from omnigraph.spark.query.run import lower
from omnigraph.spark.query.shown import decode_shown, shown_wire
from omnigraph.store.location import Storage


@record
class ScanQuery:
    """A read whose parts have nothing to do with each other. It can be pickled.

    Args:
        read: the read.
        tasks: what makes rows of the result from the number of a part, one after the other.
        parts: how many parts there are.
    """

    read: ReadPlan
    tasks: tuple[Task, ...]
    parts: int

    def rows(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the result that a part makes."""
        batches = iter([pa.record_batch([pa.array([part], pa.int64())], names=["part"])])
        for task in self.tasks:
            batches = task.run(batches)
        for batch in batches:
            rows = pa.Table.from_batches([batch]).cast(shown_wire(self.read))
            yield from decode_shown(self.read, rows).combine_chunks().to_batches()


def as_scan(storage: Storage, prepared: PreparedRead, parts: int) -> ScanQuery | None:
    """Return a read as a scan in about so many parts; None when it is more than one scan of a type."""
    read, steps = prepared.plan.read, prepared.plan.steps
    step = steps[0] if len(steps) == 1 else None
    if not isinstance(step, Scan) or any(isinstance(item, TextMatch) for item in step.filters):
        return None
    if read.groups is not None or read.order or read.limit is not None or read.ranking is not None or not read.outputs:
        return None
    chain = lower(_Chains(), storage, prepared, parts).relation
    return ScanQuery(read=read, tasks=chain.tasks, parts=chain.parts) if isinstance(chain, _Chain) else None


@record
class _Chain:
    """What a scan needs of a relation: tasks that follow each other on every part."""

    tasks: tuple[Task, ...]
    parts: int

    def map(self, task: Task) -> _Chain:
        return replace(self, tasks=(*self.tasks, task))


class _Chains:
    def read(self, task: Task, parts: int) -> Any:
        return _Chain(tasks=(task,), parts=parts)
