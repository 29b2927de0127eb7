"""The rows of a frame: columns of one type, lines of the load format, or changes of a feed.

The changes are those that the change stream gives. Of one type they have their values in the columns of a struct, of
all types in JSON texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.engine.load.reading.parquet import arrow_reader, misfits
from omnigraph.engine.load.reading.tables import ColumnBinding, bind, owner_of
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.rows import DecodedChunk, DecodedRow, RowDecoder, RowProblem, rows_of
from omnigraph.engine.rows.changes import OP, SEQ, change_envelope
from omnigraph.engine.rows.columnar import complete_upserts
from omnigraph.engine.rows.decoder import read_object
from omnigraph.records import record
from omnigraph.spark.loads.parts import take_rows
from omnigraph.spark.loads.text_lines import are_lines, line_decoder
from omnigraph.spark.loads.written import LoadedPart, PartWriter, WriteOrders

_FEED = frozenset({"op", "kind", "type", "id", "sequence", "after"})


def is_feed(columns: pa.Schema) -> bool:
    """Whether rows are changes of a feed."""
    return set(columns.names) >= _FEED


def has_every_type(columns: pa.Schema) -> bool:
    """Whether rows are changes of a feed of all types, so that each says of which type it is."""
    return is_feed(columns) and not pa.types.is_struct(columns.field("after").type)


@record
class FrameRows:
    """How the rows of a frame are read; ``binding`` is None where each row says of which type it is."""

    binding: ColumnBinding | None
    is_feed: bool = False
    are_lines: bool = False

    @property
    def table_keys(self) -> tuple[str, ...]:
        """The tables that the frame is about, as far as its columns tell."""
        return () if self.binding is None else (self.binding.owner.table_key,)

    def read(self, orders: WriteOrders, writer: PartWriter, batches: Iterator[pa.RecordBatch]) -> LoadedPart:
        """Read rows that come as Arrow batches, as a part of the input; their lines count from 1."""
        with orders.taking_blobs(None if self.binding is None else self.binding.owner.table_key):
            return self._read(orders, writer, batches)

    def _read(self, orders: WriteOrders, writer: PartWriter, batches: Iterator[pa.RecordBatch]) -> LoadedPart:
        catalog = orders.opened or orders.catalog
        table = None if self.binding is None else arrow_reader(catalog, self.binding, truncate=orders.truncate)
        changes = RowDecoder(catalog, truncate=orders.truncate, takes_changes=True)
        lines = line_decoder(orders) if self.are_lines else None
        line = 1
        for batch in batches:
            first, line = line, line + batch.num_rows
            numbers = np.arange(first, line)
            if lines is not None:
                take_rows(orders, writer, lines(batch, first))
            elif table is not None:
                take_rows(orders, writer, table.read(_flat(batch) if self.is_feed else batch, numbers))
            else:
                take_rows(orders, writer, _decode(changes, batch, numbers.tolist()))
        return writer.finish(lines=line - 1)


def bind_frame(source: Source, catalog: Catalog, columns: pa.Schema) -> FrameRows | tuple[RowProblem, ...]:
    """Return how rows of these columns are read, or what is wrong with the columns.

    Raises:
        TypeMissingError: the schema has no type for them.
        UsageError: the name of the type is that of a node type and of an edge type.
    """
    if source.type_name is None and are_lines(columns):
        return FrameRows(binding=None, are_lines=True)
    feeds = source.takes_changes and is_feed(columns)
    if feeds and has_every_type(columns):
        return FrameRows(binding=None, is_feed=True)
    if feeds:
        columns = _flat_columns(columns)
        # Its columns are named as those of the table.
        source = Source(
            path=source.path, format="parquet", type_name=source.type_name, is_exported=True, takes_changes=True
        )
    bound = bind(source, owner_of(source, catalog), columns.names)
    if isinstance(bound, tuple):
        return bound
    found = misfits(source, bound, columns)
    if found:
        return found
    return FrameRows(binding=bound, is_feed=feeds)


def _flat_columns(columns: pa.Schema) -> pa.Schema:
    image = columns.field("after").type
    fields = [image.field(at) for at in range(image.num_fields) if image.field(at).name != "id"]
    return pa.schema([pa.field("id", pa.string()), *fields, pa.field(OP, pa.string()), pa.field(SEQ, pa.int64())])


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return changes of one type as rows of it; what the source has no property for stays as it is."""
    image = batch.column("after")
    columns = {image.type.field(at).name: column for at, column in enumerate(image.flatten())}
    columns["id"] = batch.column("id")
    columns[OP] = pc.if_else(pc.equal(batch.column("op"), "delete"), "delete", "patch")
    columns[SEQ] = batch.column("sequence")
    return pa.RecordBatch.from_pydict(columns)


def _decode(decoder: RowDecoder, batch: pa.RecordBatch, lines: Sequence[int]) -> DecodedChunk:
    problems: list[RowProblem] = []
    rows: dict[str, list[DecodedRow]] = {}
    for change, line in zip(batch.select(sorted(_FEED)).to_pylist(), lines, strict=True):
        found = _decode_change(decoder, change, line)
        if isinstance(found, RowProblem):
            problems.append(found)
        else:
            rows.setdefault(found.owner.table_key, []).append(found)
    types = {key: rows_of(some[0].owner, some, is_patch=True) for key, some in sorted(rows.items())}
    return complete_upserts(DecodedChunk(types=types, problems=tuple(problems)))


def _decode_change(decoder: RowDecoder, change: dict[str, Any], line: int) -> DecodedRow | RowProblem:
    if change["after"] is not None:
        after = read_object(change["after"].encode(), line)
        if isinstance(after, RowProblem):
            return after
        change = {**change, "after": after}
    envelope = change_envelope(change, change["sequence"], line)
    return envelope if isinstance(envelope, RowProblem) else decoder.decode_envelope(envelope, line)
