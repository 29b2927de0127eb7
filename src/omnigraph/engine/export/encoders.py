"""Batches of one type into the bytes of a file: JSONL records, CSV records, Parquet row groups.

What is written here is read back by ``engine.rows`` and ``engine.load`` to the very same value: floats are the
shortest text that names the double, and always look like one, since ``-0`` as an integer would lose its sign.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.decimals import decimal_texts
from omnigraph.engine.export.options import ExportFormat
from omnigraph.engine.results.encodings import quote_json
from omnigraph.errors import BadValue, ChangeValueError
from omnigraph.values.blobs import INLINE_BLOB, blob_text
from omnigraph.values.temporal import format_date, parse_date, parse_datetime

TEXT = pa.large_string()
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_WHOLE = r"^-?[0-9]+$"
# Between these Arrow writes the calendar exactly as we read it.
_DAYS = (parse_date("0001-01-01"), parse_date("9999-12-31"))
_MILLIS = (parse_datetime("0001-01-01T00:00:00Z"), parse_datetime("9999-12-31T23:59:59.999Z"))


def json_texts(column: pa.Array, name: str) -> pa.Array:
    """Return the JSON of every value; days and milliseconds as integers, blobs as base64 text, absence as ``null``.

    Raises:
        ChangeValueError: a float is not finite, which JSON cannot say.
    """
    return _json(column, name).fill_null("null")


def csv_texts(column: pa.Array, name: str) -> pa.Array:
    """Return every value as a cell of CSV; texts are quoted, absence is the empty cell, a list is JSON in quotes.

    Raises:
        ChangeValueError: a float is not finite.
    """
    of = column.type
    if _is_list(of):
        cells = quote_csv(_json(column, name))
    elif pa.types.is_date32(of):
        cells = _calendar(column.view(pa.int32()), _DAYS, lambda days: days.view(pa.date32()).cast(TEXT), format_date)
    elif pa.types.is_date64(of):
        cells = _calendar(column.view(pa.int64()), _MILLIS, _instants, lambda millis: f"{millis:+d}")
    elif pa.types.is_string(of):
        cells = quote_csv(column)
    elif pa.types.is_large_binary(of):
        # Base64 needs no quotes, an address may.
        texts = _blobs(column)
        cells = pc.if_else(pc.starts_with(texts, INLINE_BLOB), texts, quote_csv(texts))
    elif pa.types.is_decimal(of):
        cells = decimal_texts(column).cast(TEXT)
    else:
        cells = _json(column, name)
    return cells.fill_null("")


def quote_csv(texts: pa.Array) -> pa.Array:
    """Return texts in double quotes, those inside doubled."""
    return join('"', pc.replace_substring(texts.cast(TEXT), pattern='"', replacement='""'), '"')


def join(*parts: pa.Array | str) -> pa.Array:
    """Return the parts of each row as one text; null where a part is."""
    return pc.binary_join_element_wise(*(_part(part) for part in parts), _part(""))


def _part(part: pa.Array | str) -> pa.Array | pa.Scalar:
    return pa.scalar(part, TEXT) if isinstance(part, str) else part


def _json(column: pa.Array, name: str) -> pa.Array:
    of = column.type
    if _is_list(of):
        return _lists(column, json_texts(column.flatten(), name))
    if pa.types.is_string(of):
        return _quoted(column.cast(TEXT))
    if pa.types.is_large_binary(of):
        return join('"', _blobs(column), '"')
    if pa.types.is_floating(of):
        return _floats(column, name)
    if pa.types.is_decimal(of):
        # As texts, because readers of JSON round numbers.
        return join('"', decimal_texts(column).cast(TEXT), '"')
    if pa.types.is_date32(of):
        return column.view(pa.int32()).cast(TEXT)
    if pa.types.is_date64(of):
        return column.view(pa.int64()).cast(TEXT)
    return column.cast(TEXT)


def _is_list(of: pa.DataType) -> bool:
    return bool(pa.types.is_list(of) or pa.types.is_fixed_size_list(of))


def _lists(column: pa.Array, items: pa.Array) -> pa.Array:
    # Flattening left out what stands below nulls, so the bounds are counted again.
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    grouped = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items)
    texts = join("[", pc.binary_join(grouped, _part(",")), "]")
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, TEXT)) if column.null_count else texts


def _quoted(texts: pa.Array) -> pa.Array:
    odd = pc.fill_null(pc.match_substring_regex(texts, _NEEDS_ESCAPE), fill_value=False)
    quoted = join('"', texts, '"')
    if not pc.any(odd, min_count=0).as_py():
        return quoted
    escaped = [quote_json(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(escaped, TEXT))


def _floats(column: pa.Array, name: str) -> pa.Array:
    check_finite(column, name)
    texts = column.cast(pa.float64()).cast(TEXT)
    whole = pc.match_substring_regex(texts, _WHOLE)
    return pc.if_else(whole, join(texts, ".0"), texts)


def check_finite(column: pa.Array, name: str) -> None:
    """Refuse floats that a load would refuse.

    Raises:
        ChangeValueError: one of them is not finite.
    """
    finite = pc.is_finite(column)
    if not pc.all(finite, min_count=0).as_py():
        found = str(column.filter(pc.invert(finite))[0].as_py())
        details = BadValue(what=name, value=found, expected="a finite number")
        raise ChangeValueError(f"value {found} of property '{name}' cannot be exported", details=details)


def _blobs(column: pa.Array) -> pa.Array:
    values = column.to_pylist()
    return pa.array([None if value is None else blob_text(value) for value in values], TEXT)


def _calendar(
    counts: pa.Array, bounds: tuple[int, int], usual: Callable[[pa.Array], pa.Array], unusual: Callable[[int], str]
) -> pa.Array:
    is_usual = pc.and_(pc.greater_equal(counts, bounds[0]), pc.less_equal(counts, bounds[1]))
    if pc.all(is_usual, min_count=0).as_py():
        return usual(counts)
    texts = usual(pc.if_else(is_usual, counts, pa.scalar(0, counts.type)))
    odd = pc.fill_null(pc.invert(is_usual), fill_value=False)
    rest = [unusual(count) for count in counts.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(rest, TEXT))


def _instants(millis: pa.Array) -> pa.Array:
    texts = millis.view(pa.timestamp("ms")).cast(TEXT)
    return join(pc.replace_substring(texts, pattern=" ", replacement="T"), "Z")


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
    single = pa.timestamp("ms", "UTC") if kind.scalar is Scalar.DATETIME else arrow_type(kind.single)
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
