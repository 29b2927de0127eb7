"""``OmnigraphSource``: the data source that Spark finds under the name ``omnigraph``.

Every process that plans, reads or writes loads this module, so that each method imports what it alone needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from omnigraph.errors import BadValue, UsageError
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinning import PinnedType, chosen_columns
from omnigraph.spark.source.reader import TypeReader
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.spark.source.writer import BatchWriter, StreamWriter

NAME = "omnigraph"


class OmnigraphSource(DataSource):
    """Types, queries and changes of a graph.

    Spark makes one per ``load()`` and hands copies of it to the processes that plan and read, so that what was pinned
    when the schema was asked for stays pinned for every action on the frame.
    """

    _pinned: PinnedType | None = None
    _commit: str | None = None

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` takes."""
        return NAME

    def schema(self) -> StructType:
        """Pin the state and return the columns.

        Raises:
            OmnigraphError: the options do not name something that can be read.
        """
        from omnigraph.spark.source.changes import change_schema  # noqa: PLC0415 - see the module
        from omnigraph.spark.source.pinning import pin_query, pin_type  # noqa: PLC0415 - see the module

        with reporting():
            options = SourceOptions.parse(self.options)
            if options.changes:
                return change_schema(options)
            if options.query is not None:
                self._commit, columns = pin_query(options)
                return spark_schema(chosen_columns(columns, options.columns))
            self._pinned = pin_type(options)
            return spark_schema(chosen_columns(self._pinned.schema, options.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a type or of a query."""
        with reporting():
            options = SourceOptions.parse(self.options)
            if options.changes:
                details = BadValue(what="changes", value="true", expected="spark.readStream")
                raise UsageError("changes can only be read as a stream", details=details)
            if self._pinned is not None:
                return TypeReader(self._pinned, schema, options)
            from omnigraph.spark.source.pinning import pin_query, pin_type  # noqa: PLC0415 - see the module
            from omnigraph.spark.source.reader import QueryReader  # noqa: PLC0415 - see the module

            if options.query is not None:
                return QueryReader(options, self._commit or pin_query(options)[0], schema)
            return TypeReader(pin_type(options), schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of one commit."""
        from omnigraph.spark.source.writer import BatchWriter  # noqa: PLC0415 - see the module

        with reporting():
            return BatchWriter.begin(SourceOptions.parse(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of the change feed."""
        from omnigraph.spark.source.changes import ChangeStreamReader  # noqa: PLC0415 - see the module

        with reporting():
            options = SourceOptions.parse(self.options)
            if not options.changes:
                details = BadValue(what="changes", value="false", expected="true")
                raise UsageError("a stream from a graph needs the option 'changes'", details=details)
            return ChangeStreamReader(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of one commit per micro-batch."""
        from omnigraph.spark.source.writer import StreamWriter  # noqa: PLC0415 - see the module

        with reporting():
            return StreamWriter.begin(SourceOptions.parse(self.options), schema, overwrite=overwrite)


def register(spark: SparkSession) -> None:
    """Make the data source known to a session under the name ``omnigraph``, where Spark does not find it by itself."""
    spark.dataSource.register(OmnigraphSource)
