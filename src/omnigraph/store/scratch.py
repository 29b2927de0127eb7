"""Scratch objects of one run, below the graph's root, where every process of the run can reach them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from omnigraph.errors import Effect
from omnigraph.records import record
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import stores_of
from omnigraph.store.translate import translating

SCRATCH_PREFIX = "__scratch"
_PACKING = pa.ipc.IpcWriteOptions(compression="lz4")


@record
class ScratchPlace:
    """The scratch objects of one operation. It can be pickled; nothing but the operation looks at what it holds."""

    storage: Storage
    operation_id: str

    def put(self, name: str, data: bytes | pa.Table) -> None:
        """Write an object, whatever was there; a table as an Arrow stream."""
        if isinstance(data, pa.Table):
            self.write_arrow(name, data)
        else:
            self._objects().put(self._key(name), data)

    def get(self, name: str) -> bytes | None:
        """Return the bytes of an object, or None when there is none."""
        return self._objects().get(self._key(name))

    def write_arrow(
        self, name: str, batches: Iterable[pa.RecordBatch] | pa.Table, *, schema: pa.Schema | None = None
    ) -> int:
        """Write rows as a compressed Arrow stream, as they come, and return how many there were.

        The object appears when all of it is written. Without any batch and without ``schema`` there is none.
        """
        rest = iter(batches.to_batches() if isinstance(batches, pa.Table) else batches)
        if isinstance(batches, pa.Table):
            schema = batches.schema
        if schema is None:
            first = next(rest, None)
            if first is None:
                return 0
            schema, rest = first.schema, chain([first], rest)
        key, count = self._key(name), 0
        with translating("write a scratch object", key, effect=Effect.STAGED), self._objects().writer(key) as target:
            # Closed only when all went well: closing ends the stream, and a part of the rows would look like all.
            stream = pa.ipc.new_stream(pa.PythonFile(_Sink(target), mode="w"), schema, options=_PACKING)
            for batch in rest:
                stream.write_batch(batch)
                count += batch.num_rows
            stream.close()
        return count

    def read_arrow(self, name: str) -> Iterator[pa.RecordBatch]:
        """Stream the rows that :meth:`write_arrow` wrote.

        Raises:
            TableMissingError: there are none.
        """
        key = self._key(name)
        with translating("read a scratch object", key):
            yield from pa.ipc.open_stream(object_file(self._objects().reader(key)))

    def write_pieces(self, name: str, pieces: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Write batches so that each can be read without the others, by its number."""
        key = self._key(name)
        with translating("write a scratch object", key, effect=Effect.STAGED), self._objects().writer(key) as target:
            file = pa.ipc.new_file(pa.PythonFile(_Sink(target), mode="w"), schema, options=_PACKING)
            for piece in pieces:
                file.write_batch(piece)
            file.close()

    def read_piece(self, name: str, number: int) -> pa.RecordBatch:
        """Return one of the batches that :meth:`write_pieces` wrote; they are counted from 0.

        Raises:
            TableMissingError: there is no such object.
        """
        key = self._key(name)
        with translating("read a scratch object", key):
            file = pa.ipc.open_file(object_file(self._objects().reader(key)))
            return file.get_batch(number)

    def names(self) -> tuple[str, ...]:
        """Return the names of all objects, sorted."""
        keys = self._objects().list_keys(self._prefix)
        return tuple(key.removeprefix(f"{self._prefix}/") for key in keys)

    def clear(self) -> None:
        """Remove all objects; harmless when there are none."""
        self._objects().delete_prefix(self._prefix)

    @property
    def _prefix(self) -> str:
        return f"{SCRATCH_PREFIX}/{self.operation_id}"

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _objects(self) -> ControlObjects:
        return stores_of(self.storage).control


def object_file(reader: Any) -> pa.PythonFile:
    """Return an object that is being read as a file of Arrow."""
    return pa.PythonFile(_Source(reader), mode="r")


class _Sink(io.RawIOBase):
    """An object that is being written, as a file. Closing it does not complete the object."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        count = int(self._target.write(bytes(data)))
        self._written += count
        return count


class _Source(io.RawIOBase):
    """An object that is being read, as a file."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        return int(self._source.tell())

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return bytes(self._source.readall())
        pieces, missing = list[bytes](), size
        # The store answers with what it has at hand, and Arrow takes a short answer for the end.
        while missing and (piece := bytes(self._source.read(missing))):
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)
