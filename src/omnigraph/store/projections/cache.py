"""Copies of projections of an object store on this machine's disk, so that they can be mapped; bounded in bytes."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import xxhash

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import current_counters
from omnigraph.runtime.caches import cache_folder
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage

# Names how many bytes of projections this machine keeps.
SIZE_VARIABLE = "OMNIGRAPH_CACHE_BYTES"
_DEFAULT_BYTES = 8 << 30
_PIECE_BYTES = 8 << 20
_log = logging.getLogger(__name__)


class ProjectionCache:
    """Files by key, least recently used out first. Several processes may share the folder.

    Args:
        folder: where the files are; None keeps none.
        capacity_bytes: how much they may take together.
    """

    def __init__(self, folder: Path | None, capacity_bytes: int = _DEFAULT_BYTES) -> None:
        self._folder = folder
        self._capacity_bytes = capacity_bytes

    @classmethod
    def of(cls, storage: Storage) -> ProjectionCache:
        """Return the cache of a graph: none for one on a local disk, whose files are mapped where they are."""
        if storage.is_local:
            return cls(None)
        given = os.environ.get(SIZE_VARIABLE, "")
        capacity_bytes = int(given) if given.isdecimal() else _DEFAULT_BYTES
        place = f"{storage.options.get('endpoint', '')} {storage.root}"
        folder = cache_folder("projections", os.environ) / xxhash.xxh3_64_hexdigest(place.encode())
        return cls(folder, capacity_bytes)

    def get(self, key: str, control: ControlObjects) -> Path | None:
        """Return a file with the object's bytes, fetched if it is not there; None where none can be kept."""
        if self._folder is None:
            return None
        path = self._path(self._folder, key)
        with suppress(OSError):
            os.utime(path)
            return path
        try:
            return self._fetch(path, key, control)
        except OSError as error:
            _log.info("projection %s is not cached on this machine: %s", key, error)
            return None

    def drop(self, key: str) -> None:
        """Remove a file."""
        if self._folder is not None:
            with suppress(OSError):
                self._path(self._folder, key).unlink()

    @property
    def size_bytes(self) -> int:
        """What all files take."""
        return sum(size for _, size, _ in self._files())

    def _fetch(self, path: Path, key: str, control: ControlObjects) -> Path | None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, staged = tempfile.mkstemp(dir=path.parent, prefix="fetched-")
        try:
            with os.fdopen(handle, "wb") as target:
                reader = control.reader(key)
                if reader.size > self._capacity_bytes:
                    return None
                while piece := reader.read(_PIECE_BYTES):
                    target.write(memoryview(piece))
            current_counters().add_calls("projection.get", bytes_read=reader.size)
            current_counters().add_serial_stages()
            Path(staged).replace(path)
        except OmnigraphError:
            return None
        finally:
            Path(staged).unlink(missing_ok=True)
        self._make_room(path)
        return path

    def _make_room(self, spared: Path) -> None:
        files = sorted(self._files())
        size_bytes = sum(size for _, size, _ in files)
        for _, size, path in files:
            if size_bytes <= self._capacity_bytes:
                return
            if path != spared:
                with suppress(OSError):
                    path.unlink()
                size_bytes -= size

    def _files(self) -> list[tuple[int, int, Path]]:
        found = []
        if self._folder is not None:
            with suppress(OSError), os.scandir(self._folder) as entries:
                for entry in entries:
                    with suppress(OSError):
                        told = entry.stat()
                        found.append((told.st_mtime_ns, told.st_size, Path(entry.path)))
        return found

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / f"{xxhash.xxh3_64_hexdigest(key.encode())}-{key.rpartition('/')[2]}"
