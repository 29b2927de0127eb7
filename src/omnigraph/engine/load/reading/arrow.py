"""Arrow sources: all rows of one type, as files of Arrow's own format or as a program has handed them over."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.reading.jsonl import ReadChunk, read_ahead
from omnigraph.engine.load.reading.parquet import arrow_reader, misfits
from omnigraph.engine.load.reading.tables import bind, owner_of
from omnigraph.engine.load.sources.source import Source, reading
from omnigraph.engine.rows import DecodedChunk

_FILE_MAGIC = b"ARROW1"


def read_arrow(
    source: Source, catalog: Catalog, settings: LoadSettings, *, is_patch: bool, truncate: bool = False
) -> Generator[ReadChunk]:
    """Yield the rows of an Arrow source, a batch at a time. Lines count rows.

    Raises:
        FileAccessError: it cannot be read.
        TypeMissingError: the schema has no type for it.
    """
    owner = owner_of(source, catalog)
    with ExitStack() as held:
        schema, batches = open_batches(source, held)
        names = source.dialect.names(schema.names)
        schema = pa.schema([one.with_name(name) for one, name in zip(schema, names, strict=True)])
        binding = bind(source, owner, names)
        problems = binding if isinstance(binding, tuple) else misfits(source, binding, schema)
        if isinstance(binding, tuple) or problems:
            yield ReadChunk(decoded=DecodedChunk(types={}, problems=tuple(problems)), bytes_read=0)
            return
        table = arrow_reader(catalog, binding, is_patch=is_patch, truncate=truncate, dialect=source.dialect)
        row, bytes_read = source.first_row, 0
        # Closed before the file is, because another thread is reading it.
        with closing(read_ahead(_slices(batches, settings.batch_rows))) as slices:
            for batch in slices:
                bytes_read += batch.nbytes
                decoded = table.read(batch.rename_columns(names), np.arange(row, row + batch.num_rows))
                row += batch.num_rows
                yield ReadChunk(decoded=decoded, bytes_read=min(bytes_read, source.size_bytes or bytes_read))


def open_batches(source: Source, held: ExitStack) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns of an Arrow source, and its batches one by one; ``held`` closes it.

    Raises:
        FileAccessError: it cannot be read.
    """
    raw = held.enter_context(source.open())
    with reading(source.name):
        if raw.peek(len(_FILE_MAGIC)).startswith(_FILE_MAGIC):  # type: ignore[attr-defined]  # it is buffered
            file = held.enter_context(pa.ipc.open_file(raw))
            return file.schema, _reading(source, (file.get_batch(at) for at in range(file.num_record_batches)))
        batches = held.enter_context(pa.ipc.open_stream(raw))
        return batches.schema, _reading(source, batches)


def _reading(source: Source, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        with reading(source.name):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _slices(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
