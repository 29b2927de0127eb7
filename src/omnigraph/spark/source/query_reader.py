"""Reads of a query: by groups of fragments when it is one scan, else by the embedded engine in one task."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.run import result_schema
from omnigraph.engine.query.runner import ReadCall
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.scan_query import as_scan
from omnigraph.spark.source.sessions import reading_session
from omnigraph.spark.source.types import check_columns, to_wire, wire_schema


class QueryReader(DataSourceReader):
    """Reads the rows of a query on the commit that it is pinned to."""

    def __init__(self, options: SourceOptions, commit: str, schema: StructType) -> None:
        self._options = replace(options, at=commit)
        self._wire = wire_schema(schema)
        prepared = reading_session(options.storage).prepare(self._call())
        check_columns(schema, result_schema(prepared.plan.read))
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
                    yield to_wire(batch, self._wire)

    def _scanned(self, part: int) -> Iterator[pa.RecordBatch]:
        if self._scan is not None and part < self._scan.parts:
            yield from self._scan.rows(part)

    def _embedded(self) -> Iterator[pa.RecordBatch]:
        call = self._call()
        result = reading_session(self._options.storage).query(
            call.text,
            call.params,
            call.name,
            params_form=call.params_form,
            branch=call.branch,
            at=call.at,
            options=call.options,
        )
        yield from result.stream()

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
