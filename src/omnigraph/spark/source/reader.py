"""Reads of a type, by groups of fragments.

Filters go to storage only when the caller asks for it. Spark 4.3 keeps what a reader made of its filters with the
frame that ``load()`` gave, and uses it for every further query of that frame, whatever its filters are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.runner import PreparedRead, ReadCall
from omnigraph.engine.query.steps import Scan
from omnigraph.ir.model import OutputPlan, ReadPlan, TextMatch
from omnigraph.records import record
from omnigraph.spark.queries.relations import Task
from omnigraph.spark.queries.run import lower
from omnigraph.spark.queries.tasks.wire import decode_output, output_wire_schema, spark_names, spark_result_schema
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinning import PinnedType, reading_engine
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.types import check_columns, to_wire, wire_schema
from omnigraph.store.location import Storage

_BATCH_ROWS = 65_536


class FragmentPartition(InputPartition):
    """A group of fragments that one task reads."""

    def __init__(self, fragment_ids: tuple[int, ...]) -> None:
        super().__init__(fragment_ids)
        self.fragment_ids = fragment_ids


class _Pushing:
    """``pushFilters`` of a reader, such that a session with the pushdown switched off can still use the reader.

    Spark refuses a reader with a method of its own there. It looks at ``__func__``, which here is that of the base.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: TypeReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.take_filters(filters)


class TypeReader(DataSourceReader):
    """Reads the rows of one type at one pinned version."""

    def __init__(self, pinned: PinnedType, schema: StructType, options: SourceOptions) -> None:
        self._pinned = pinned
        self._wire = wire_schema(schema)
        self._partitions = options.partitions or 2 * (os.cpu_count() or 1)
        self._predicates: tuple[str, ...] = ()
        if options.pushdown:
            self.pushFilters = _Pushing(self)  # type: ignore[method-assign] # see there
        check_columns(schema, pinned.schema)

    def take_filters(self, filters: list[Filter]) -> list[Filter]:
        """Remember what storage can decide exactly, and return the other filters."""
        from omnigraph.spark.source.filters import FilterTranslator  # noqa: PLC0415 - workers do without

        self._predicates, rest = FilterTranslator(self._pinned.schema).split(filters)
        return rest

    def partitions(self) -> list[InputPartition]:
        """Return the groups of fragments; one without any when the type has no row."""
        groups = self._pinned.groups(self._partitions)
        return [FragmentPartition(group) for group in groups or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group of fragments."""
        with reporting():
            batches = self._pinned.table.read(
                partition.value,
                self._wire.names or ["id"],
                filter=" AND ".join(self._predicates) or None,
                batch_rows=_BATCH_ROWS,
            )
            for batch in batches:
                if batch.num_rows:
                    yield to_wire(batch, self._wire)


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
            rows = pa.Table.from_batches([batch]).cast(output_wire_schema(self.read))
            yield from decode_output(self.read, rows).combine_chunks().to_batches()


def as_scan(storage: Storage, prepared: PreparedRead, parts: int) -> ScanQuery | None:
    """Return a read as a scan in about so many parts; None when it is more than one scan of a type as it is stored."""
    read, steps = prepared.plan.read, prepared.plan.steps
    step = steps[0] if len(steps) == 1 else None
    if not isinstance(step, Scan) or any(isinstance(item, TextMatch) for item in step.filters) or prepared.is_renamed:
        return None
    if read.groups is not None or read.order or read.limit is not None or read.ranking is not None or not read.outputs:
        return None
    stages = [stage.output for sequence in prepared.plan.stages for stage in sequence]
    if len(stages) > 1 or not all(map(_keeps_rows, stages)):
        return None
    chain = lower(_Chains(), storage, prepared, parts).relation
    return ScanQuery(read=read, tasks=chain.tasks, parts=chain.parts) if isinstance(chain, _Chain) else None


def _keeps_rows(output: OutputPlan) -> bool:
    """Whether a stage makes a row of each row, whatever the others are."""
    is_cut = output.offset is not None or output.limit is not None or bool(output.per)
    return output.keys is None and output.rank is None and not (output.is_distinct or output.order or is_cut)


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


class QueryReader(DataSourceReader):
    """Reads the rows of a query on the commit that it is pinned to."""

    def __init__(self, options: SourceOptions, commit: str, schema: StructType) -> None:
        self._options = replace(options, at=commit)
        self._wire = wire_schema(schema)
        prepared = reading_engine(options.storage).reads.prepare(self._call())
        check_columns(schema, spark_result_schema(prepared.plan.read))
        # Spark sends this object to its workers before it asks for the partitions.
        self._scan = as_scan(options.storage, prepared, options.partitions or 2 * (os.cpu_count() or 1))

    def partitions(self) -> list[InputPartition]:
        """Return the parts of the scan, or the one that stands for everything."""
        return [InputPartition(part) for part in range(1 if self._scan is None else max(1, self._scan.parts))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield rows of the result."""
        with reporting():
            for batch in self._embedded() if self._scan is None else self._scanned(partition.value):
                if batch.num_rows:
                    yield to_wire(batch.rename_columns(spark_names(batch.schema.names)), self._wire)

    def _scanned(self, part: int) -> Iterator[pa.RecordBatch]:
        if self._scan is not None and part < self._scan.parts:
            yield from self._scan.rows(part)

    def _embedded(self) -> Iterator[pa.RecordBatch]:
        engine = reading_engine(self._options.storage)
        yield from engine.calls.run(lambda: engine.reads.run(self._call())).stream()

    def _call(self) -> ReadCall:
        options = self._options
        return ReadCall(
            text=options.query or "",
            name=options.name,
            params=dict(options.params),
            params_form="strict",
            branch=options.branch,
            at=options.at,
            options=QueryOptions(streams=True),
            source_name="<query>",
        )
