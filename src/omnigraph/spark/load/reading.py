"""The task that reads one part of the input, with the very decoders of an embedded load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.engine.load.binding import Binding
from omnigraph.engine.load.chunks import iter_chunks
from omnigraph.engine.load.csv import read_csv
from omnigraph.engine.load.embedding import settle_vectors, vectors_missing
from omnigraph.engine.load.jsonl import ReadChunk, read_jsonl
from omnigraph.engine.load.parquet import parse_values, read_parquet
from omnigraph.engine.load.tables import TableReader
from omnigraph.engine.rows import ChunkDecoder, DecodedChunk
from omnigraph.errors import BadValue, SparkUnsupportedError
from omnigraph.spark.load.parts import SourcePart
from omnigraph.spark.load.ranges import RangeStream
from omnigraph.spark.load.written import PartWriter, WriteOrders, WrittenPart


def read_part(orders: WriteOrders, part: SourcePart) -> WrittenPart:
    """Read one part of a source and write what it holds.

    Raises:
        FileAccessError, SourceTooLargeError, TypeMissingError, UsageError: the source cannot be read at all.
    """
    writer = PartWriter(orders, number=part.number, source_number=part.source_number, source_name=part.source.name)
    bytes_read = 0
    for chunk in _chunks(part, orders):
        bytes_read = chunk.bytes_read
        _take(orders, writer, chunk.decoded)
    return writer.finish(bytes_read=max(bytes_read - part.start, 0))


def read_batches(
    orders: WriteOrders, binding: Binding, writer: PartWriter, batches: Iterator[pa.RecordBatch]
) -> WrittenPart:
    """Read rows that come as Arrow batches of the bound columns; their lines count from 1."""
    table = TableReader(orders.opened or orders.catalog, binding, parse_values, is_patch=False)
    line = 1
    for batch in batches:
        decoded = table.read(batch, np.arange(line, line + batch.num_rows))
        line += batch.num_rows
        _take(orders, writer, decoded)
    return writer.finish(lines=line - 1)


def _take(orders: WriteOrders, writer: PartWriter, decoded: DecodedChunk) -> None:
    if orders.opened is not None:
        decoded = settle_vectors(orders.catalog, decoded)
    writer.refuse(problem.violation(writer.source_name) for problem in decoded.problems)
    for rows in decoded.types.values():
        missing = None if orders.opened is None else vectors_missing(rows)
        if missing is not None:
            name = f"{rows.owner.name}.{missing}"
            details = BadValue(what="property", value=name, expected="a vector in every row")
            raise SparkUnsupportedError(f"vectors are not computed on Spark property={name}", details=details)
        writer.add(rows)


def _chunks(part: SourcePart, orders: WriteOrders) -> Iterator[ReadChunk]:
    source, settings = part.source, orders.settings.read
    catalog = orders.opened or orders.catalog
    match source.kind:
        case "jsonl":
            decoder = ChunkDecoder(catalog)
            return read_jsonl(source, decoder, settings) if part.end is None else _range(part, decoder, orders)
        case "csv":
            return read_csv(source, catalog, settings, is_patch=False)
        case "parquet":
            chunks = read_parquet(source, catalog, settings, is_patch=False, only=part.groups)
            # What is wrong with the columns of a file is said once.
            is_first = part.groups is None or not part.groups.rows_before
            return chunks if is_first else (chunk for chunk in chunks if chunk.bytes_read)
        case _:
            assert_never(source.kind)


def _range(part: SourcePart, decoder: ChunkDecoder, orders: WriteOrders) -> Iterator[ReadChunk]:
    settings = orders.settings.read
    with part.source.open() as raw:
        stream = RangeStream(part.source.name, raw, part.start, part.end or 0)
        chunks = iter_chunks(
            stream,
            part.source.name,
            chunk_bytes=settings.chunk_bytes,
            max_line_bytes=max(settings.max_line_bytes, part.source.longest_bytes),
            first_line=part.first_line,
        )
        for chunk in chunks:
            yield ReadChunk(decoded=decoder.decode(chunk.data, chunk.first_line), bytes_read=chunk.bytes_read)
