"""What a task keeps of which file its rows came from."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.history.origins import ORIGINS, RunOrigins

_ROWS_PER_FILE = 1 << 20


class OriginWriter:
    """Takes the ids and files of the rows of one partition.

    Names follow from the partition, so that another attempt at it writes the same.
    """

    def __init__(self, origins: RunOrigins, owner: NodeType | EdgeType, number: int) -> None:
        self._origins = origins
        self._table_key = owner.table_key
        self._number = number
        self._waiting: list[pa.Table] = []
        self._held = 0
        self._files = 0
        self._rows = 0

    def add(self, ids: pa.ChunkedArray, files: pa.Array) -> None:
        """Take some rows; those without a file, and those whose ids are yet to be made up, cannot be found later."""
        rows = pa.table([ids, files.dictionary_encode()], names=ORIGINS.names)
        rows = rows.filter(pc.and_(pc.is_valid(rows.column("id")), pc.is_valid(files)))
        if rows.num_rows:
            self._waiting.append(rows)
            self._held += rows.num_rows
        if self._held >= _ROWS_PER_FILE:
            self._flush()

    def finish(self) -> int:
        """Write what is left, and return how many rows there were."""
        self._flush()
        return self._rows

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting).unify_dictionaries().combine_chunks()
        self._origins.put(self._table_key, f"{self._number:06}-{self._files:04}", rows)
        self._files += 1
        self._rows += self._held
        self._waiting, self._held = [], 0
