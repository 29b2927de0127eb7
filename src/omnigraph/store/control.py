"""Control objects: small keyed blobs beside the datasets, with the one atomic operation the protocol needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import obstore
from obstore.store import LocalStore, S3Store

from omnigraph.errors import Effect
from omnigraph.records import record
from omnigraph.runtime import current_counters
from omnigraph.store.location import Storage
from omnigraph.store.translate import FaultKind, fault_of, translating

if TYPE_CHECKING:
    from obstore import Bytes, ReadableFile, WritableFile

_KEYS_PER_CALL = 1000
# How often an object is read again that was replaced while it was read.
_REREADS = 3
# Making a client takes ten milliseconds of a processor, and each has connections of its own.
_KEPT_CLIENTS = 32
# Where Lance keeps the versions of a dataset.
VERSIONS = "_versions"
_CLIENT_OPTIONS = frozenset({"timeout", "connect_timeout", "proxy_url", "user_agent"})
# Options of Lance's own client that the object store library takes elsewhere or not at all.
_LANCE_ONLY = frozenset({"client_max_retries", "client_retry_timeout", "download_retry_count"})


@record
class StoredObject:
    """An object as a listing shows it: its key, its size, and when it was written by the clock of the store."""

    key: str
    size: int
    modified_ms: int


class ControlObjects:
    """Objects below a graph's root, named by keys relative to it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._opened: LocalStore | S3Store | None = None
        self._linked: set[str] = set()

    @property
    def storage(self) -> Storage:
        """The storage these objects live in."""
        return self._storage

    def put_if_absent(self, key: str, data: bytes, *, sync: bool = False) -> bool:
        """Create the object unless there is one; return whether this call created it.

        Atomic across processes and machines. A lost answer that the client resends can come back as ``False``
        although the object is ours, so a caller whose data is unique should read it back before giving up.
        """
        current_counters().add_calls("control.put", bytes_written=len(data))
        current_counters().add_serial_stages()
        with translating("create a control object", key, effect=Effect.UNKNOWN):
            if sync and self._storage.is_local:
                return self._put_durably(key, data, is_new=True)
            try:
                obstore.put(self._writable(), self._key(key), data, mode="create", use_multipart=False)
            except Exception as error:
                if fault_of(error) is FaultKind.EXISTS:
                    return False
                raise
        return True

    def put(self, key: str, data: bytes, *, sync: bool = False) -> None:
        """Write the object, whatever was there."""
        current_counters().add_calls("control.put", bytes_written=len(data))
        current_counters().add_serial_stages()
        with translating("write a control object", key, effect=Effect.UNKNOWN):
            if sync and self._storage.is_local:
                self._put_durably(key, data, is_new=False)
            else:
                obstore.put(self._writable(), self._key(key), data, use_multipart=False)

    def mark(self, key: str) -> None:
        """Leave an empty file on a local disk without waiting for the disk; nothing on an object store.

        For what only has to outlive this process. After a power failure it may be missing.
        """
        if self._storage.is_local:
            with translating("write a control object", key, effect=Effect.UNKNOWN):
                os.close(os.open(self._storage.path_text(key), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))

    def is_marked(self, key: str) -> bool:
        """Tell whether there is a file that :meth:`mark` left."""
        return self._storage.is_local and os.path.exists(self._storage.path_text(key))

    def unmark(self, key: str) -> None:
        """Remove what :meth:`mark` left."""
        if self._storage.is_local:
            with translating("delete a control object", key, effect=Effect.UNKNOWN), suppress(FileNotFoundError):
                os.unlink(self._storage.path_text(key))

    def get(self, key: str) -> bytes | None:
        """Return the object's bytes, or ``None`` when there is none."""
        return self._read("read a control object", key, lambda store: obstore.get(store, self._key(key)).bytes())

    def get_start(self, key: str, length: int) -> bytes | None:
        """Return the first bytes of an object, fewer when it is shorter, or ``None`` when there is none."""
        return self._read(
            "read the start of an object",
            key,
            lambda store: obstore.get_range(store, self._key(key), start=0, length=length),
        )

    def _read(self, doing: str, key: str, read: Callable[[LocalStore | S3Store], Bytes]) -> bytes | None:
        """Return the bytes of one object as it is at one moment, or ``None`` when there is none.

        A client whose connection breaks in the middle of an answer fetches the rest. By then the object may be gone, or
        another one may have its name: then the whole of that one is read.
        """
        store, data = self._readable(), None
        with translating(doing, key):
            for is_last in (False,) * _REREADS + (True,):
                current_counters().add_serial_stages()
                try:
                    data = None if store is None else bytes(read(store))
                except Exception as error:
                    fault = fault_of(error)
                    if fault is FaultKind.REPLACED and not is_last:
                        continue
                    if fault is not FaultKind.MISSING:
                        raise
                    _refuse_missing_bucket(error)
                break
        current_counters().add_calls("control.get", bytes_read=len(data or b""))
        return data

    def writer(self, key: str) -> WritableFile:
        """Open an object for writing in pieces; it appears when the context ends well, and not at all otherwise."""
        return obstore.open_writer(self._writable(), self._key(key))

    def reader(self, key: str) -> ReadableFile:
        """Open an object for reading in pieces.

        Raises:
            FileNotFoundError: there is none.
        """
        return obstore.open_reader(self._writable(), self._key(key))

    def exists(self, key: str) -> bool:
        """Tell whether there is an object of that key."""
        current_counters().add_calls("control.head")
        current_counters().add_serial_stages()
        store = self._readable()
        if store is None:
            return False
        with translating("look for a control object", key):
            try:
                obstore.head(store, self._key(key))
            except FileNotFoundError as error:
                _refuse_missing_bucket(error)
                return False
        return True

    def list_keys(self, prefix: str) -> tuple[str, ...]:
        """Return the keys below the folder ``prefix``, at any depth, sorted."""
        store = self._readable()
        keys: tuple[str, ...] = ()
        if store is not None:
            with translating("list control objects", prefix):
                keys = tuple(sorted(meta["path"] for meta in obstore.list(store, self._key(prefix)).collect()))
        pages = max(1, -(-len(keys) // _KEYS_PER_CALL))
        current_counters().add_calls("control.list", pages)
        current_counters().add_serial_stages(pages)
        return keys

    def list_objects(self, prefix: str) -> tuple[StoredObject, ...]:
        """Return the objects below the folder ``prefix``, at any depth, with their sizes and ages, by key."""
        store = self._readable()
        found: list[StoredObject] = []
        if store is not None:
            with translating("list stored objects", prefix):
                for meta in obstore.list(store, self._key(prefix) if prefix else None).collect():
                    modified_ms = int(meta["last_modified"].timestamp() * 1000)
                    found.append(StoredObject(key=meta["path"], size=meta["size"], modified_ms=modified_ms))
        pages = max(1, -(-len(found) // _KEYS_PER_CALL))
        current_counters().add_calls("control.list", pages)
        current_counters().add_serial_stages(pages)
        return tuple(sorted(found, key=lambda item: item.key))

    def delete_keys(self, keys: Sequence[str], *, prune: bool = True) -> None:
        """Remove many objects; harmless for those that are not there.

        ``prune`` removes folders of a local disk that become empty, which nobody may be about to put something into.
        """
        for start in range(0, len(keys), _KEYS_PER_CALL):
            piece = keys[start : start + _KEYS_PER_CALL]
            current_counters().add_calls("control.delete")
            current_counters().add_serial_stages()
            with translating("delete stored objects", piece[0], effect=Effect.UNKNOWN):
                if not self._storage.is_local:
                    obstore.delete(self._writable(), list(piece))
                    continue
                for key in piece:
                    self._storage.path(key).unlink(missing_ok=True)
        if prune and self._storage.is_local:
            self._prune({self._storage.path(key).parent for key in keys})

    def _prune(self, folders: set[Path]) -> None:
        """Remove folders that became empty: Lance takes one that is left behind for a half-made dataset."""
        root = self._storage.path()
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            at = folder
            with suppress(OSError):
                # The folders of a dataset that is in use stay: writers sync a folder's own place once and for all.
                while at != root and not _is_in_use(at.parent):
                    at.rmdir()
                    at = at.parent

    def delete(self, key: str) -> None:
        """Remove the object; harmless when there is none."""
        current_counters().add_calls("control.delete")
        current_counters().add_serial_stages()
        store = self._readable()
        if store is None:
            return
        with translating("delete a control object", key, effect=Effect.UNKNOWN):
            try:
                obstore.delete(store, self._key(key))
            except FileNotFoundError:
                return

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below the folder ``prefix``; what appears meanwhile may survive."""
        keys = self.list_keys(prefix)
        if self._storage.is_local:
            with translating("delete control objects", prefix, effect=Effect.UNKNOWN):
                # Lance takes an empty directory that is left behind for a half-made dataset.
                shutil.rmtree(self._storage.path(prefix), ignore_errors=not self._storage.path(prefix).exists())
        elif keys:
            with translating("delete control objects", prefix, effect=Effect.UNKNOWN):
                obstore.delete(self._writable(), keys)
        if keys:
            calls = -(-len(keys) // _KEYS_PER_CALL)
            current_counters().add_calls("control.delete", calls)
            current_counters().add_serial_stages(calls)

    def _key(self, key: str) -> str:
        self._storage.uri(key)
        return key

    def _put_durably(self, key: str, data: bytes, *, is_new: bool) -> bool:
        """Write an object whose name appears when its bytes are on the disk, and wait until the name is, too.

        The other way round a power failure could leave a name with nothing behind it.
        """
        path = self._storage.path_text(key)
        holder, root = os.path.dirname(path), self._storage.root
        staged = _write_staged(path, data)
        try:
            if not is_new:
                os.replace(staged, path)
            else:
                try:
                    os.link(staged, path)
                except FileExistsError:
                    return False
        finally:
            with suppress(FileNotFoundError):
                os.unlink(staged)
        sync_directory(holder)
        # A folder's own place in the tree is synced once.
        folder = holder
        while holder not in self._linked and folder != root:
            folder = os.path.dirname(folder)
            sync_directory(folder)
        self._linked.add(holder)
        # What was removed before it was durable stands for nothing.
        return os.path.exists(path)

    def _readable(self) -> LocalStore | S3Store | None:
        # A graph that does not exist yet has no directory, and looking for one must not create it.
        if self._opened is None and self._storage.is_local and not self._storage.path().is_dir():
            return None
        return self._writable()

    def _writable(self) -> LocalStore | S3Store:
        if self._opened is None:
            if self._storage.is_local:
                with translating("open the graph's root", self._storage.root):
                    self._opened = LocalStore(self._storage.path(), mkdir=True)
            else:
                self._opened = open_s3(self._storage)
        return self._opened


def _is_in_use(folder: Path) -> bool:
    """Whether a folder is a dataset that has a version."""
    try:
        return any((folder / VERSIONS).iterdir())
    except OSError:
        return False


def _write_staged(path: str, data: bytes) -> str:
    """Write bytes beside ``path`` and wait for the disk; listings leave out names that end like this one."""
    numbers = count(1)
    staged = f"{path}#{next(numbers)}"
    while True:
        try:
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            break
        except FileExistsError:
            staged = f"{path}#{next(numbers)}"
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return staged


def sync_file(path: Path | str) -> None:
    """Wait until a file's bytes are on the disk."""
    _sync_descriptor(os.open(path, os.O_RDONLY))


def sync_directory(path: Path | str) -> None:
    """Wait until a directory's entries are on the disk."""
    _sync_descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY))


def _sync_descriptor(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_missing_bucket(error: Exception) -> None:
    # An absent object is an answer; an absent bucket is a wrong address.
    if "NoSuchBucket" in str(error):
        raise error


def open_s3(storage: Storage) -> S3Store:
    """Return the client of an S3 root, one for everything that this process does there; touches nothing."""
    # Where an option is not given, the environment has its say when the client is made.
    environment = frozenset((name, text) for name, text in os.environ.items() if name.startswith("AWS_"))
    return _client(os.getpid(), storage.root, frozenset(storage.options.items()), environment)


@lru_cache(maxsize=_KEPT_CLIENTS)
def _client(_process: int, root: str, given: frozenset[tuple[str, str]], _environment: object) -> S3Store:
    storage = Storage(root=root, options=dict(given))
    config = {key: value for key, value in given if key not in _LANCE_ONLY | _CLIENT_OPTIONS}
    client = {key: value for key, value in given if key in _CLIENT_OPTIONS}
    retry: dict[str, Any] = {}
    with translating("open the graph's bucket", root):
        if "client_max_retries" in storage.options:
            retry["max_retries"] = int(storage.options["client_max_retries"])
        if "client_retry_timeout" in storage.options:
            retry["retry_timeout"] = timedelta(seconds=int(storage.options["client_retry_timeout"]))
        return S3Store(
            storage.bucket,
            prefix=storage.prefix or None,
            config=cast("Any", config),
            client_options=cast("Any", client) or None,
            retry_config=cast("Any", retry) or None,
        )
