"""Decoded rows until they are all there: in memory up to a budget, beyond it in temporary files.

A file holds the columns exactly as they are in memory, so what is read back through a memory map costs no copy and
the system may drop its pages at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.scratch import ScratchFolder, sweep_scratch
from omnigraph.errors import BadValue, FileAccessError
from omnigraph.records import record
from omnigraph.runtime import Failpoints


@record(frozen=False, kw_only=False)
class _Part:
    """The rows of one type so far."""

    owner: NodeType | EdgeType
    tables: list[pa.Table] = field(default_factory=list)
    writer: Any = None
    path: Path | None = None
    count: int = 0
    is_fresh: bool = True
    whole: pa.Table | None = None


class Spool:
    """Rows by type, in the order they came. Made by :func:`open_spool`."""

    def __init__(self, memory_bytes: int, failpoints: Failpoints) -> None:
        self._memory_bytes = memory_bytes
        self._failpoints = failpoints
        self._held_bytes = 0
        self._parts: dict[str, _Part] = {}
        self._folder: ScratchFolder | None = None
        self._maps: list[pa.MemoryMappedFile] = []

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each table has, by table key."""
        return {key: part.count for key, part in sorted(self._parts.items())}

    @property
    def owners(self) -> dict[str, NodeType | EdgeType]:
        """The types that have rows, by table key."""
        return {key: part.owner for key, part in sorted(self._parts.items())}

    @property
    def fresh(self) -> frozenset[str]:
        """The tables all of whose ids were made up by this load."""
        return frozenset(key for key, part in self._parts.items() if part.is_fresh)

    def add(self, owner: NodeType | EdgeType, rows: pa.Table, *, has_fresh_ids: bool) -> None:
        """Take over rows of a type.

        Raises:
            FileAccessError: there is no space for temporary files.
        """
        part = self._parts.setdefault(owner.table_key, _Part(owner))
        part.is_fresh = part.is_fresh and has_fresh_ids
        part.count += rows.num_rows
        part.tables.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._memory_bytes:
            self._spill()
        self._failpoints.hit("engine.spool.after_rows")

    def forget(self) -> None:
        """Let go of all rows; what comes later is still counted."""
        for part in self._parts.values():
            part.tables.clear()
        self._held_bytes = 0

    def table(self, table_key: str) -> pa.Table:
        """Return all rows of a type; nothing may be added to it afterwards."""
        part = self._parts[table_key]
        if part.whole is not None:
            return part.whole
        tables = list(part.tables)
        if part.writer is not None and part.path is not None:
            part.writer.close()
            part.writer = None
            mapped = pa.memory_map(str(part.path), "r")
            self._maps.append(mapped)
            tables.insert(0, pa.ipc.open_file(mapped).read_all())
        part.whole = pa.concat_tables(tables)
        return part.whole

    def column(self, table_key: str, name: str) -> pa.Array:
        """Return a column of all rows of a type as one array; if rows were spilled, it lies in a file too.

        Raises:
            FileAccessError: there is no space for temporary files.
        """
        chunks = self.table(table_key).column(name).chunks
        whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        path = self._parts[table_key].path
        if path is None:
            return whole
        mapped_to = path.with_suffix(f".{len(self._maps)}.arrow")
        with self._writing(), pa.ipc.new_file(str(mapped_to), pa.schema([(name, whole.type)])) as writer:
            writer.write_batch(pa.record_batch([whole], names=[name]))
        mapped = pa.memory_map(str(mapped_to), "r")
        self._maps.append(mapped)
        found: pa.Array = pa.ipc.open_file(mapped).get_batch(0).column(0)
        return found

    def replace(self, table_key: str, rows: pa.Table) -> None:
        """Put other rows, as many, in the place of all rows of a type; nothing may be added to it afterwards."""
        self._parts[table_key].whole = rows

    def close(self) -> None:
        """Remove the temporary files."""
        for part in self._parts.values():
            if part.writer is not None:
                part.writer.close()
        if self._folder is not None:
            self._folder.close()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = ScratchFolder.make("load")
        with self._writing():
            for number, part in enumerate(self._parts.values()):
                if part.tables:
                    _append(part, self._folder.path / f"{number}.arrow")
                    self._failpoints.hit("engine.spool.after_file")
        self._held_bytes = 0

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            where = "" if self._folder is None else str(self._folder.path)
            details = BadValue(what="folder", value=where, expected="space for temporary files")
            raise FileAccessError(
                f"cannot write temporary files to '{where}': {str(error).lower()}", details=details
            ) from error


def _append(part: _Part, path: Path) -> None:
    if part.writer is None:
        part.path = path
        part.writer = pa.ipc.new_file(str(path), part.tables[0].schema)
    for table in part.tables:
        part.writer.write_table(table)
    part.tables.clear()


@contextmanager
def open_spool(memory_bytes: int, failpoints: Failpoints) -> Iterator[Spool]:
    """Make a spool that leaves no file behind, and take away what spools of killed processes left."""
    sweep_scratch()
    spool = Spool(memory_bytes, failpoints)
    try:
        yield spool
    finally:
        spool.close()
