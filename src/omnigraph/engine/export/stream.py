"""An export as one stream of JSONL: tables by their key, edges first, and the rows of each by id."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.export.encoders import JsonlEncoder, column_names
from omnigraph.engine.export.folder import BATCH_BLOB_ROWS, BATCH_ROWS
from omnigraph.engine.export.options import ExportCut, ExportedType, ExportProgress, ExportResult, Progress
from omnigraph.runtime import Runtime, current_counters
from omnigraph.store.tables.pinned import KEY, ROW_ID
from omnigraph.store.tables.table import Table
from omnigraph.values import unfit

# No piece of output is larger, so that a slow reader holds up little memory.
_CHUNK_BYTES = 64 << 10


class ByteSink(Protocol):
    """Where bytes go: an open file, standard output, a response."""

    def write(self, data: bytes, /) -> object:
        """Take the bytes."""


def check_sink(sink: object) -> None:
    """Refuse what takes no bytes: a path, a file for texts, one that is closed or open for reading.

    Raises:
        UsageError: it is such a thing.
    """
    is_open = not getattr(sink, "closed", False) and (not isinstance(sink, io.IOBase) or sink.writable())
    if not callable(getattr(sink, "write", None)) or isinstance(sink, io.TextIOBase | type) or not is_open:
        raise unfit("sink", sink, "a binary file that is open for writing")


def export_stream(
    cut: ExportCut, sink: ByteSink, *, runtime: Runtime, progress: Progress | None = None
) -> ExportResult:
    """Write every row of a cut as JSONL envelopes. A stream that ends in an error is to be thrown away.

    Its cost is what the current counters hold.

    Raises:
        ChangeValueError: a value has no form in which it could be read back.
        HistoryGoneError: the state was reclaimed.
    """
    started_s = runtime.clock.monotonic_s()
    out = _Chunked(sink)
    types: list[ExportedType] = []
    done = 0
    for owner in sorted(cut.owners, key=lambda owner: owner.table_key):
        rows, before = 0, out.size_bytes
        encoder = JsonlEncoder(owner, out)
        with cut.snapshot.reading():
            for batch in _by_id(cut.snapshot.table(owner.table_key), owner):
                encoder.write(batch)
                rows += batch.num_rows
                if progress is not None:
                    progress(ExportProgress(rows=done + rows, rows_total=cut.row_count, bytes_written=out.size_bytes))
        done += rows
        types.append(
            ExportedType(
                kind="edge" if isinstance(owner, EdgeType) else "node",
                name=owner.name,
                rows=rows,
                files=0,
                bytes_written=out.size_bytes - before,
            )
        )
    head = cut.snapshot.state.head
    return ExportResult(
        target=None,
        format="jsonl",
        branch=head.branch,
        commit_id=str(head.commit),
        types=tuple(types),
        elapsed_s=runtime.clock.monotonic_s() - started_s,
        cost=current_counters().cost(),
    )


class _Chunked:
    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self.size_bytes = 0

    def write(self, data: pa.Buffer) -> None:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _CHUNK_BYTES):
            self._sink.write(view[start : start + _CHUNK_BYTES])  # type: ignore[arg-type]  # as good as bytes to any stream
        self.size_bytes += len(view)


def _by_id(table: Table, owner: NodeType | EdgeType) -> Iterator[pa.RecordBatch]:
    """Yield all rows by id, a bounded number at a time; only ids and row ids are in memory for the whole table."""
    if not table.row_count:
        return
    names = column_names(owner)
    size = BATCH_BLOB_ROWS if table.blobs else BATCH_ROWS
    keys = table.read([KEY, ROW_ID])
    order = pc.sort_indices(keys.column(KEY)).to_numpy()
    if (np.diff(order.astype(np.int64)) == 1).all():
        for batch in table.scan(names, batch_size=size):
            yield batch.select(names)
        return
    row_ids = keys.column(ROW_ID).to_numpy()[order]
    for start in range(0, len(row_ids), size):
        rows = _take(table, row_ids[start : start + size].tolist(), names)
        rows = rows.take(pc.sort_indices(rows.column(KEY)))
        yield from rows.combine_chunks().to_batches()


def _take(table: Table, row_ids: list[int], names: list[str]) -> pa.Table:
    if not table.blobs:
        return table.take(row_ids, names).select(names)
    # Only a scan gives the bytes of blobs.
    listed = f"{ROW_ID} IN ({', '.join(map(str, row_ids))})"
    return table.read(names, listed).select(names)
