"""The projections of a graph: files below ``__projections``, found by table and kind, mapped when they are used.

Nothing here is ever needed for an answer. A file that is missing or damaged is as if it had never been written, a file
that cannot be written stays away, and neither is an error: whoever asks builds what it needs from the table.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.runtime import Failpoints, LRUCache, current_counters
from omnigraph.store.control import ControlObjects, StoredObject
from omnigraph.store.projections.cache import ProjectionCache
from omnigraph.store.projections.format import (
    HEADER_GUESS_BYTES,
    PRELUDE_BYTES,
    Arrays,
    CoveredTable,
    Header,
    header_bytes,
    is_other_format,
    pack,
    unpack_arrays,
    unpack_header,
)
from omnigraph.store.translate import translating

PROJECTIONS_PREFIX = "__projections"
_SUFFIX = ".arrays"
_KEPT_HEADERS = 1024
# More than are put together for one version, so that readers of some versions do not take them from each other.
_KEPT_LOADED = 8
_log = logging.getLogger(__name__)


@record
class StoredProjection:
    """A projection as a listing shows it; ``is_known`` tells whether its name is one that this version writes."""

    key: str
    location: str
    kind: str
    of: str
    size: int
    modified_ms: int
    is_known: bool = True


class Projection:
    """A projection whose header was read. Safe to share between threads."""

    def __init__(self, key: str, header: Header, owner: ProjectionStore) -> None:
        self.key = key
        self.header = header
        self._owner = owner
        self._lock = threading.Lock()
        self._arrays: Arrays | None = None
        self._is_damaged = False
        # Bytes of the arrays that are mapped from a file, and those that had to be copied into this process.
        self.mapped_bytes = 0
        self.private_bytes = 0

    def __repr__(self) -> str:
        return f"Projection({self.key}, bytes={self.header.body_bytes})"

    @property
    def facts(self) -> Mapping[str, Any]:
        """Numbers and texts about the arrays."""
        return self.header.facts

    @property
    def tables(self) -> tuple[CoveredTable, ...]:
        """What it covers, its own table first."""
        return self.header.tables

    @property
    def is_loaded(self) -> bool:
        """Whether the arrays are here, checked."""
        return self._arrays is not None

    def load(self) -> Arrays | None:
        """Return the arrays, checked once; None when they are damaged or gone, and then the file is dropped."""
        with self._lock:
            if self._arrays is None and not self._is_damaged:
                self._arrays = self._owner.read_arrays(self)
                self._is_damaged = self._arrays is None
            found = self._arrays
        # Not inside of the lock: another one may be let go for it.
        if found is not None:
            self._owner.note_use(self)
        return found

    def let_go(self) -> None:
        """Keep the arrays no longer than somebody uses them; the next :meth:`load` brings them back."""
        with self._lock:
            self._arrays = None


class ProjectionStore:
    """Finds, writes and drops the projections of one graph. Safe to share between threads.

    Args:
        control: the objects of the graph.
        failpoints: where a test can make a writer die.
        cache: where files of an object store are kept on this machine.
    """

    def __init__(
        self, control: ControlObjects, failpoints: Failpoints | None = None, cache: ProjectionCache | None = None
    ) -> None:
        self._control = control
        self._storage = control.storage
        self._failpoints = failpoints or Failpoints()
        self._cache = cache or ProjectionCache.of(self._storage)
        self._lock = threading.Lock()
        self._listed: dict[str, tuple[object, tuple[StoredProjection, ...]]] = {}
        self._opened: LRUCache[str, Projection] = LRUCache(_KEPT_HEADERS)
        # Those whose arrays are here, by table, kind and property: a mapped file is an open file.
        self._loaded: dict[tuple[str, str, str], LRUCache[str, Projection]] = {}

    def find(self, location: str, kind: str, of: str = "", *, refresh: bool = False) -> tuple[Projection, ...]:
        """Return the projections of a kind of a table, the newest first.

        Args:
            location: the table.
            kind: which structure.
            of: what of the table it is about.
            refresh: look again for what other processes have written; a local folder is always looked at.
        """
        with suppress(OmnigraphError, OSError):
            newest = _newest_of(self._list(location, refresh=refresh), kind, of)
            return tuple(found for item in newest if (found := self._open(item.key)) is not None)
        return ()

    def loaded(self, location: str, kind: str, of: str = "") -> tuple[Projection, ...]:
        """Return those whose arrays this process has loaded, the newest first; never a call."""
        with self._lock:
            _, listed = self._listed.get(location, (None, ()))
        opened = (self._opened.get(item.key) for item in _newest_of(listed, kind, of))
        return tuple(found for found in opened if found is not None and found.is_loaded)

    def save(
        self, kind: str, of: str, tables: Sequence[CoveredTable], arrays: Arrays, facts: Mapping[str, Any]
    ) -> Projection | None:
        """Write a projection of the first of ``tables``; None when it cannot be written.

        Two processes that write the same write one file: it is named by its content and by what it covers.
        """
        pieces = pack(kind, of, tables, arrays, facts)
        content = xxhash.xxh3_64_hexdigest(bytes(pieces[0]))
        coverage = xxhash.xxh3_64_hexdigest(repr([_identity(table) for table in tables]).encode())[:8]
        name = f"{kind}.{of}.{coverage}-{content}{_SUFFIX}"
        key = f"{_folder(tables[0].location)}/{name}"
        try:
            self._write(key, pieces)
            self._failpoints.hit("store.projection.after_write")
        except (OmnigraphError, OSError) as error:
            _log.info("could not keep projection %s: %s", key, error)
            return None
        with self._lock:
            self._listed.pop(tables[0].location, None)
        return self._open(key)

    def drop(self, key: str) -> None:
        """Forget a projection and remove its file; whoever has it mapped goes on with it."""
        self.forget(key)
        with suppress(OmnigraphError, OSError):
            self._control.delete(key)

    def forget(self, key: str) -> None:
        """Let go of what this process and this machine keep of a projection, whose file is gone or about to go."""
        self._opened.remove(key)
        self._cache.drop(key)
        stored = _stored(key, 0, 0)
        with self._lock:
            self._listed.clear()
            loaded = self._loaded.get((stored.location, stored.kind, stored.of))
        if loaded is not None:
            loaded.remove(key)

    def list_all(self) -> tuple[StoredProjection, ...]:
        """Return every file below the prefix.

        Raises:
            OmnigraphError: the store cannot be listed.
        """
        return tuple(stored_projection(item) for item in self._control.list_objects(PROJECTIONS_PREFIX))

    def leftovers(self) -> tuple[StoredObject, ...]:
        """Return files of writers that have not ended, or never will; listings leave them out."""
        if not self._storage.is_local:
            return ()
        root, found = self._storage.path(), list[StoredObject]()
        for path in sorted(self._storage.path(PROJECTIONS_PREFIX).rglob("*#*")):
            with suppress(OSError):
                told, key = path.stat(), path.relative_to(root).as_posix()
                found.append(StoredObject(key=key, size=told.st_size, modified_ms=told.st_mtime_ns // 1_000_000))
        return tuple(found)

    def is_foreign(self, stored: StoredProjection) -> bool:
        """Whether a file is a projection of another format, which another version of omnigraph may read."""
        with suppress(OmnigraphError, OSError):
            start = self._control.get_start(stored.key, PRELUDE_BYTES)
            return start is not None and is_other_format(start)
        return False

    def header_of(self, stored: StoredProjection) -> Header | None:
        """Return what a stored projection says about itself; None when it is damaged or gone."""
        with suppress(OmnigraphError, OSError):
            found = self._open(stored.key)
            return None if found is None else found.header
        return None

    def is_intact(self, stored: StoredProjection) -> bool:
        """Whether a file is whole: its header and its arrays are what was written. Drops nothing."""
        with suppress(OmnigraphError, OSError):
            data = self._control.get(stored.key)
            header = None if data is None else unpack_header(data)
            if data is not None and header is not None:
                start = header_bytes(data) or 0
                return unpack_arrays(header, np.frombuffer(data, dtype=np.uint8)[start:]) is not None
        return False

    def note_use(self, projection: Projection) -> None:
        """Take note that arrays are used, and let go of those of its kind that were not for longest."""
        stored = _stored(projection.key, 0, 0)
        with self._lock:
            loaded = self._loaded.setdefault(
                (stored.location, stored.kind, stored.of), LRUCache(_KEPT_LOADED, on_drop=Projection.let_go)
            )
        loaded.put(projection.key, projection)

    def read_arrays(self, projection: Projection) -> Arrays | None:
        """Map the arrays of a projection, or copy them where they cannot be mapped; used by :class:`Projection`."""
        key = projection.key
        try:
            body, is_mapped = self._body(key)
        except (OmnigraphError, OSError, ValueError):
            body, is_mapped = None, False
        found = None if body is None else unpack_arrays(projection.header, body)
        if found is None or body is None:
            _log.warning("projection %s is damaged or missing; it is rebuilt when it is needed", key)
            self.drop(key)
            return None
        projection.mapped_bytes = len(body) if is_mapped else 0
        projection.private_bytes = 0 if is_mapped else len(body)
        return found

    def _body(self, key: str) -> tuple[np.ndarray | None, bool]:
        path = self._storage.path(key) if self._storage.is_local else self._cache.get(key, self._control)
        if path is None:
            data = self._control.get(key)
            return (None if data is None else _behind_header(np.frombuffer(data, dtype=np.uint8))), False
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
        current_counters().add_calls("projection.map", bytes_read=len(mapped))
        return _behind_header(np.asarray(mapped)), True

    def _open(self, key: str) -> Projection | None:
        known = self._opened.get(key)
        if known is not None:
            return known
        header = self._read_header(key)
        if header is None:
            return None
        opened = Projection(key, header, self)
        self._opened.put(key, opened)
        return opened

    def _read_header(self, key: str) -> Header | None:
        start = self._control.get_start(key, HEADER_GUESS_BYTES)
        length = None if start is None else header_bytes(start)
        if start is None or length is None:
            return None
        if length > len(start):
            start = self._control.get_start(key, length)
        return None if start is None else unpack_header(start)

    def _write(self, key: str, pieces: Sequence[bytes | memoryview]) -> None:
        if not self._storage.is_local:
            with translating("write a projection", key), self._control.writer(key) as target:
                for piece in filter(len, pieces):
                    target.write(bytes(piece))
                self._failpoints.hit("store.projection.before_write")
            return
        path = self._storage.path(key)
        # The name tells what is in it; a file of that name that cannot be read is damaged.
        if path.exists() and self._read_header(key) is not None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        staged, descriptor = _open_staged(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for piece in pieces:
                    file.write(piece)
            self._failpoints.hit("store.projection.before_write")
            # Not waited for: after a power failure the checksum tells whether it is whole.
            staged.replace(path)
        finally:
            staged.unlink(missing_ok=True)

    def _list(self, location: str, *, refresh: bool) -> tuple[StoredProjection, ...]:
        mark = _folder_mark(self._storage.path(_folder(location))) if self._storage.is_local else None
        with self._lock:
            known = self._listed.get(location)
        if known is not None and known[0] == mark and (self._storage.is_local or not refresh):
            return known[1]
        if self._storage.is_local:
            found = tuple(_scan(self._storage.path(_folder(location)), _folder(location)))
        else:
            listed = self._control.list_objects(_folder(location))
            found = tuple(_stored(item.key, item.size, item.modified_ms) for item in listed)
        found = tuple(item for item in found if item.is_known and item.location == location)
        with self._lock:
            self._listed[location] = (mark, found)
        return found


def _newest_of(listed: Sequence[StoredProjection], kind: str, of: str) -> list[StoredProjection]:
    wanted = [item for item in listed if (item.kind, item.of) == (kind, of)]
    return sorted(wanted, key=lambda item: (-item.modified_ms, item.key))


def _folder(location: str) -> str:
    return f"{PROJECTIONS_PREFIX}/{location}"


def _folder_mark(folder: Path) -> object:
    try:
        told = folder.stat()
    except OSError:
        return None
    return told.st_mtime_ns, told.st_ino


def _scan(folder: Path, prefix: str) -> list[StoredProjection]:
    found = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) and entry.is_file():
                told = entry.stat()
                found.append(_stored(f"{prefix}/{entry.name}", told.st_size, told.st_mtime_ns // 1_000_000))
    return found


def _stored(key: str, size: int, modified_ms: int) -> StoredProjection:
    folder, _, name = key.rpartition("/")
    parts = name.removesuffix(_SUFFIX).split(".")
    is_known = name.endswith(_SUFFIX) and len(parts) == 3
    return StoredProjection(
        key=key,
        location=folder.removeprefix(f"{PROJECTIONS_PREFIX}/"),
        kind=parts[0] if is_known else "",
        of=parts[1] if is_known else "",
        size=size,
        modified_ms=modified_ms,
        is_known=is_known,
    )


def stored_projection(item: StoredObject) -> StoredProjection:
    """Return what the name of an object below the prefix says about it."""
    return _stored(item.key, item.size, item.modified_ms)


def _open_staged(path: Path) -> tuple[Path, int]:
    """Open a file beside ``path`` that no other writer has; listings leave out names that end like this one."""
    for number in count(1):
        staged = path.with_name(f"{path.name}#{number}")
        with suppress(FileExistsError):
            return staged, os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    raise AssertionError("there is always another number")


def _identity(table: CoveredTable) -> object:
    return table.location, [(fragment.files, fragment.deletion) for fragment in table.fragments]


def _behind_header(data: np.ndarray) -> np.ndarray | None:
    start = header_bytes(data[:64].tobytes())
    return None if start is None else data[start:]
