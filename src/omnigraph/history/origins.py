"""Which file the rows of a run came from, by entity: kept beside the graph by runs that read more than one file.

It is written by the tasks that read the rows, before the run is published, and found through the mark of its commit.
Nothing else depends on it: where it is missing, the run is known and the file is not.
"""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.records import record
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import stores_of
from omnigraph.txn.manifest.rows import RunMark

ORIGINS_FOLDER = "__origins"
ORIGINS = pa.schema([("id", pa.string()), ("file", pa.dictionary(pa.int32(), pa.string()))])
_KEPT = "origins"


@record
class RunOrigins:
    """The files of the rows of one run. It can be pickled."""

    storage: Storage
    pipeline: str
    run: str

    def put(self, table_key: str, part: str, rows: pa.Table) -> None:
        """Write the ids and files of some rows of a type, whatever was there under the name of the part."""
        sink = io.BytesIO()
        pq.write_table(rows.cast(ORIGINS), sink, compression="zstd")
        stores_of(self.storage).control.put(f"{self._of_type(table_key)}/{part}.parquet", sink.getvalue())

    def find(self, table_key: str, entity_id: str) -> tuple[str, ...]:
        """Return the files that rows of an entity came from, sorted; more than one only if several rows made it."""
        control = stores_of(self.storage).control
        found: set[str] = set()
        for key in control.list_keys(self._of_type(table_key)):
            data = control.get(key)
            if data is not None:
                rows: Any = pq.read_table(io.BytesIO(data), filters=[("id", "=", entity_id)])
                found.update(plain_path(file) for file in rows.column("file").to_pylist())
        return tuple(sorted(found))

    def clear(self) -> None:
        """Remove everything; harmless when there is nothing."""
        stores_of(self.storage).control.delete_prefix(self._folder)

    @property
    def _folder(self) -> str:
        return f"{ORIGINS_FOLDER}/{self.pipeline}/run={self.run}"

    def _of_type(self, table_key: str) -> str:
        return f"{self._folder}/{table_key.replace(':', '-')}"


def origins_of(storage: Storage, mark: RunMark | None, table_key: str, entity_id: str) -> tuple[str, ...]:
    """Return the files that an entity came from in a run; none where they were not kept."""
    if mark is None or not mark.report.get(_KEPT):
        return ()
    return RunOrigins(storage=storage, pipeline=mark.pipeline, run=mark.run).find(table_key, entity_id)


def plain_path(uri: str) -> str:
    """Return the path of a file as people write it; of another store its whole address.

    >>> plain_path("file:///a%20b/c.csv"), plain_path("s3://raw/c.csv")
    ('/a b/c.csv', 's3://raw/c.csv')
    """
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri
