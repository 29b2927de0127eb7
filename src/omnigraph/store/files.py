"""Whole files in a folder of their own: a directory, or a prefix of a bucket. Exports are written and read through it.

A file appears under its name when it is complete and not before, so that two writers of the same bytes cannot spoil
each other's file and a writer that dies leaves none.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import obstore

from omnigraph.errors import Effect
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.control import ControlObjects, open_s3, sync_directory
from omnigraph.store.inputs import open_input
from omnigraph.store.location import Storage
from omnigraph.store.translate import translating

_BLOCK_BYTES = 8 << 20
_PART_SUFFIX = ".part"


class FileSink(io.RawIOBase):
    """Where the bytes of one file go; counts and hashes what passes."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        self._target = target
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def writable(self) -> bool:
        """Bytes can be written."""
        return True

    def write(self, data: Any, /) -> int:
        """Take all of the bytes."""
        view = memoryview(data).cast("B")
        self._target.write(view)
        self._hash.update(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.size_bytes

    @property
    def sha256(self) -> str:
        """The checksum of what was written, as hexadecimal digits."""
        return self._hash.hexdigest()


@record
class FileFolder:
    """A folder of files, named by paths relative to it. Can be pickled, so that other processes write into it.

    Args:
        storage: where it is.
        is_durable: whether files of a local folder are synced to the disk.
    """

    storage: Storage
    is_durable: bool = True

    @contextmanager
    def create(self, path: str) -> Iterator[FileSink]:
        """Write one file; it is there when the block ends well, and replaces what was there.

        Raises:
            StorageUnavailableError, StorageDeniedError: the file cannot be written.
        """
        with translating("write a file", self.storage.uri(path), effect=Effect.STAGED):
            if self.storage.is_local:
                with self._local(self.storage.path(path)) as sink:
                    yield sink
                return
            writer = obstore.open_writer(open_s3(self.storage), path)
            sink = FileSink(writer)
            yield sink
            # Only closing makes the object; one that is not closed never was.
            writer.close()

    def put(self, path: str, data: bytes, counters: Counters) -> None:
        """Write a small file at once."""
        with self.create(path) as sink:
            sink.write(data)
        counters.add_calls("control.put", bytes_written=len(data))

    def claim(self, path: str, data: bytes, counters: Counters) -> bool:
        """Create a small file unless there is one; return whether this call created it."""
        return ControlObjects(self.storage).put_if_absent(path, data, counters, sync=self.is_durable)

    def get(self, path: str, counters: Counters) -> bytes | None:
        """Return the bytes of a small file; None when there is none."""
        return ControlObjects(self.storage).get(path, counters)

    def size_of(self, path: str) -> int | None:
        """Return how long a file is; None when there is none."""
        with translating("look for a file", self.storage.uri(path)):
            try:
                if self.storage.is_local:
                    return self.storage.path(path).stat().st_size
                return int(obstore.head(open_s3(self.storage), path)["size"])
            except (FileNotFoundError, NotADirectoryError):
                return None

    def checksum_of(self, path: str) -> str:
        """Return the SHA-256 of a file as hexadecimal digits."""
        digest = hashlib.sha256()
        with translating("read a file", self.storage.uri(path)), self.open(path) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(memoryview(block))
        return digest.hexdigest()

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading; it can be read from any place."""
        with translating("read a file", self.storage.uri(path)):
            if self.storage.is_local:
                return self.storage.path(path).open("rb")
            return open_input(self.storage.uri(path), self.storage.options)

    def is_empty(self) -> bool:
        """Whether there is nothing in the folder, or no folder."""
        with translating("look into a folder", self.storage.root):
            if self.storage.is_local:
                root = self.storage.path()
                return not root.exists() or (root.is_dir() and next(root.iterdir(), None) is None)
            return not any(obstore.list(open_s3(self.storage), chunk_size=1))

    def remove(self, path: str, counters: Counters) -> None:
        """Remove a file; harmless when there is none."""
        ControlObjects(self.storage).delete(path, counters)

    def remove_folder(self, path: str, counters: Counters) -> None:
        """Remove everything below a folder; harmless when there is none."""
        ControlObjects(self.storage).delete_prefix(path, counters)

    @contextmanager
    def _local(self, path: Path) -> Iterator[FileSink]:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART_SUFFIX)
        try:
            with os.fdopen(descriptor, "wb") as file:
                sink = FileSink(file)
                yield sink
                file.flush()
                # Temporary files are private; those of an export are as readable as others of its owner.
                os.fchmod(file.fileno(), 0o666 & ~_umask())
                if self.is_durable:
                    os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
            raise
        if self.is_durable:
            for folder in (path.parent, *path.parent.parents):
                sync_directory(folder)
                if folder == self.storage.path():
                    break


def _umask() -> int:
    # There is no way to ask for it without setting it; Linux tells it without a race.
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
