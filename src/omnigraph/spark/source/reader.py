"""Reads of a type, by groups of fragments.

Filters go to storage only when the caller asks for it. Spark 4.3 keeps what a reader made of its filters with the
frame that ``load()`` gave, and uses it for every further query of that frame, whatever its filters are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinned import PinnedType
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.types import check_columns, to_wire, wire_schema

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
