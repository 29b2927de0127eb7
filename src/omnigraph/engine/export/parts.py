"""The files of an export: which fragments go into which, and one of them from its scan to its checksum.

Nothing here knows who does it, so that the session and any other process write the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.export.encoders import column_names, new_encoder
from omnigraph.engine.export.manifest import FOLDERS, ExportedFile
from omnigraph.engine.export.options import ExportFormat
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.files import FileFolder
from omnigraph.store.table import Table

BATCH_ROWS = 8_192
BATCH_BLOB_ROWS = 64


@record
class ExportPart:
    """One file to write: whole fragments of one table."""

    table_key: str
    path: str
    fragment_ids: tuple[int, ...]
    rows: int


def plan_parts(owner: NodeType | EdgeType, table: Table, form: ExportFormat, rows_per_file: int) -> list[ExportPart]:
    """Return the files of a table, in the order of its rows; none when it has no rows."""
    groups: list[list[tuple[int, int]]] = []
    for fragment in table.fragments:
        if not fragment.row_count:
            continue
        if not groups or sum(rows for _, rows in groups[-1]) >= rows_per_file:
            groups.append([])
        groups[-1].append((fragment.metadata.id, fragment.row_count))
    folder = FOLDERS["edge" if isinstance(owner, EdgeType) else "node"]
    return [
        ExportPart(
            table_key=owner.table_key,
            path=f"{folder}/{owner.name}/part-{number:05d}.{form}",
            fragment_ids=tuple(fragment_id for fragment_id, _ in group),
            rows=sum(rows for _, rows in group),
        )
        for number, group in enumerate(groups)
    ]


def write_part(
    table: Table,
    owner: NodeType | EdgeType,
    part: ExportPart,
    form: ExportFormat,
    folder: FileFolder,
    counters: Counters,
    wrote: Callable[[int, int], None] | None = None,
) -> ExportedFile:
    """Write one file and say what is in it.

    Args:
        table: the pinned table.
        owner: the type of its rows.
        part: which file.
        form: how it is written.
        folder: where it goes.
        counters: where the calls to storage go.
        wrote: told the rows and bytes of each batch.

    Raises:
        ChangeValueError: a value has no form in which it could be read back.
        StorageUnavailableError, StorageDeniedError: the file cannot be written.
    """
    rows = 0
    with folder.create(part.path) as sink:
        encoder = new_encoder(form, owner, sink)
        try:
            for batch in scan_part(table, owner, part, counters):
                before = sink.size_bytes
                encoder.write(batch)
                rows += batch.num_rows
                if wrote is not None:
                    wrote(batch.num_rows, sink.size_bytes - before)
            encoder.close()
        except BaseException:
            encoder.abandon()
            raise
    return ExportedFile(
        path=part.path,
        rows=rows,
        size_bytes=sink.size_bytes,
        sha256=sink.sha256,
        longest_bytes=encoder.longest_bytes,
    )


def scan_part(
    table: Table, owner: NodeType | EdgeType, part: ExportPart, counters: Counters
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in stored order, columns in the order in which they are written."""
    names = column_names(owner)
    size = BATCH_BLOB_ROWS if table.blobs else BATCH_ROWS
    for batch in table.scan(names, counters=counters, fragment_ids=part.fragment_ids, batch_size=size):
        yield batch.select(names)
