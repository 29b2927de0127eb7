"""Batches of one type into the bytes of a file: JSONL records, CSV records, Parquet row groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.export.options import ExportFormat
from omnigraph.engine.export.texts import check_finite, csv_texts, join, json_texts
from omnigraph.engine.results.texts import quote_json

# A row group is what a reader has in memory at once.
_GROUP_ROWS = 122_880
_GROUP_BYTES = 64 << 20
_COMPRESSION = "zstd"
_COMPRESSION_LEVEL = 1


def column_names(owner: NodeType | EdgeType) -> list[str]:
    """Return the columns of a type in the order in which they are written."""
    return [*_system_names(owner), *(prop.name for prop in owner.properties)]


def _system_names(owner: NodeType | EdgeType) -> list[str]:
    return ["id", "src", "dst"] if isinstance(owner, EdgeType) else ["id"]


class Encoder(ABC):
    """Writes batches to a sink; ``longest_bytes`` is the length of the longest record so far, where records are lines.

    Args:
        owner: the type of the rows, whose columns the batches have in the order of :func:`column_names`.
        sink: takes the bytes.
    """

    def __init__(self, owner: NodeType | EdgeType, sink: Any) -> None:
        self.owner = owner
        self.sink = sink
        self.longest_bytes = 0

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            ChangeValueError: a value has no form in which it could be read back.
        """

    def close(self) -> None:
        """Write what is left; the sink stays open."""
        self.sink.flush()

    def abandon(self) -> None:  # noqa: B027 - most formats keep nothing that would have to be let go
        """Write nothing more: the file will never be whole."""

    def _write_lines(self, lines: pa.Array) -> None:
        if len(lines):
            self.longest_bytes = max(self.longest_bytes, pc.max(pc.binary_length(lines)).as_py())
            self.sink.write(_bytes_of(lines))


class JsonlEncoder(Encoder):
    """One envelope per line, as loads take it: ``id`` first, then every property, nulls included."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._write_lines(json_lines(self.owner, batch))


class CsvEncoder(Encoder):
    """A header and one record per row."""

    def __init__(self, owner: NodeType | EdgeType, sink: Any) -> None:
        super().__init__(owner, sink)
        sink.write((",".join(column_names(owner)) + "\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        parts: list[pa.Array | str] = []
        for name in column_names(self.owner):
            parts += [csv_texts(batch.column(name), name), ","]
        self._write_lines(join(*parts[:-1], "\n"))


class ParquetEncoder(Encoder):
    """Row groups of a bounded size, in types that keep every value: instants as timestamps, vectors as lists."""

    def __init__(self, owner: NodeType | EdgeType, sink: Any) -> None:
        super().__init__(owner, sink)
        self._schema = parquet_schema(owner)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression=_COMPRESSION,
            compression_level=_COMPRESSION_LEVEL,
            # A load compares them, so that a damaged page is noticed wherever the file has been since.
            write_page_checksum=True,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._waiting.append(_parquet_batch(batch, self._schema))
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the footer."""
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more; Arrow would write a footer on its own otherwise, to a sink that is closed by then."""
        self._waiting = []
        self._writer.is_open = False

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._rows, self._bytes = [], 0, 0


def new_encoder(form: ExportFormat, owner: NodeType | EdgeType, sink: Any) -> Encoder:
    """Return what writes files of a format."""
    match form:
        case "jsonl":
            return JsonlEncoder(owner, sink)
        case "csv":
            return CsvEncoder(owner, sink)
        case "parquet":
            return ParquetEncoder(owner, sink)
        case _:
            assert_never(form)


def json_lines(owner: NodeType | EdgeType, batch: pa.RecordBatch) -> pa.Array:
    """Return the envelope of every row, its line break included."""
    texts = {name: json_texts(batch.column(name), name) for name in column_names(owner)}
    parts: list[pa.Array | str]
    if isinstance(owner, EdgeType):
        head = f'{{"edge":{quote_json(owner.name)},"from":'
        parts = [head, texts["src"], ',"to":', texts["dst"], ',"data":{"id":', texts["id"]]
    else:
        parts = [f'{{"type":{quote_json(owner.name)},"data":{{"id":', texts["id"]]
    for prop in owner.properties:
        parts += [f",{quote_json(prop.name)}:", texts[prop.name]]
    return join(*parts, "}}\n")


def parquet_schema(owner: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of a Parquet file of a type."""
    system = [pa.field(name, pa.string(), nullable=False) for name in _system_names(owner)]
    return pa.schema([*system, *(pa.field(prop.name, _parquet_type(prop.type)) for prop in owner.properties)])


def _parquet_type(kind: PropertyType) -> pa.DataType:
    if kind.is_vector:
        return pa.list_(pa.float32())
    # Parquet has days for what Arrow calls date64, and would drop the time of day.
    single = (
        pa.timestamp("ms", "UTC") if kind.scalar is Scalar.DATETIME else arrow_type(PropertyType(scalar=kind.scalar))
    )
    return pa.list_(single) if kind.is_list else single


def _parquet_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([_parquet_column(batch.column(field.name), field) for field in schema], schema=schema)


def _parquet_column(column: pa.Array, field: pa.Field) -> pa.Array:
    of = column.type
    if pa.types.is_floating(of):
        check_finite(column, field.name)
    elif pa.types.is_list(of) or pa.types.is_fixed_size_list(of):
        if pa.types.is_floating(of.value_type):
            check_finite(column.flatten(), field.name)
        if pa.types.is_date64(of.value_type):
            counts = column.flatten().view(field.type.value_type)
            return pa.ListArray.from_arrays(_offsets(column), counts, type=field.type, mask=column.is_null())
    elif pa.types.is_date64(of):
        return column.view(field.type)
    return column.cast(field.type)


def _offsets(column: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def _bytes_of(texts: pa.Array) -> Any:
    _, offsets, data = texts.buffers()
    first, last = (
        int.from_bytes(offsets[place * 8 : place * 8 + 8].to_pybytes(), "little")
        for place in (texts.offset, texts.offset + len(texts))
    )
    return data.slice(first, last - first)
