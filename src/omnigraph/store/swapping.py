"""Compare and set: control objects that are replaced only while they are what somebody has read."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions as obstore_errors

from omnigraph.errors import Effect, OmnigraphError, StorageUnavailableError
from omnigraph.records import record
from omnigraph.runtime import current_counters
from omnigraph.runtime.environment import IdSource
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.store.translate import FaultKind, fault_of, translating

if TYPE_CHECKING:
    from obstore import PutMode

# Who wrote an object, kept beside its bytes: two writers may write the same bytes, and only one of them has won.
_WRITE_ID = "omnigraph-write"
_REFUSED = (obstore_errors.PreconditionError, obstore_errors.AlreadyExistsError, FileNotFoundError)


@record
class TaggedObject:
    """An object as it was read; ``tag`` is another one after every change of its bytes."""

    data: bytes
    tag: str


class SwapObjects(ControlObjects):
    """Control objects of which one can be replaced if nobody else has done so since it was read.

    On S3 the store compares: the object is put under the condition that it still has its ETag. On a local disk the
    folder of the object is locked while it is compared and replaced; the lock ends with the process that holds it.

    Args:
        storage: where the objects are.
        ids: gives every write an id of its own.
    """

    def __init__(self, storage: Storage, ids: IdSource) -> None:
        super().__init__(storage)
        self._ids = ids

    def read_tagged(self, key: str) -> TaggedObject | None:
        """Return the object with its tag, or ``None`` when there is none."""
        if self._storage.is_local:
            data = self.get(key)
            return None if data is None else TaggedObject(data=data, tag=_tag(data))
        found = self._get_attributed(key)
        return None if found is None else found[0]

    def stamp(self, key: str) -> str | None:
        """Return what changes whenever the object is replaced, without reading it; ``None`` when there is none."""
        current_counters().add_calls("control.head")
        current_counters().add_serial_stages()
        with translating("look for a control object", key):
            try:
                if self._storage.is_local:
                    found = self._storage.path(key).stat()
                    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
                return obstore.head(self._writable(), self._key(key))["e_tag"]
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

    def create(self, key: str, data: bytes) -> bool:
        """Create the object durably unless there is one; return whether this call created it.

        Raises:
            StorageUnavailableError: storage did not answer, and it cannot be told whether the object was created.
        """
        if self._storage.is_local:
            return self.put_if_absent(key, data, sync=True)
        return self._put_attributed(key, data, "create", doing="create a control object")

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """Replace the object durably if it still has this tag; return whether this call replaced it.

        Raises:
            StorageUnavailableError: storage did not answer, and it cannot be told whether the object was replaced.
        """
        doing = "replace a control object"
        if not self._storage.is_local:
            return self._put_attributed(key, data, {"e_tag": tag}, doing=doing)
        current_counters().add_calls("control.put", bytes_written=len(data))
        current_counters().add_serial_stages()
        path = self._storage.path(key)
        with translating(doing, key, effect=Effect.UNKNOWN), _locked_folder(path.parent):
            if not path.is_file() or _tag(path.read_bytes()) != tag:
                return False
            return self._put_durably(key, data, is_new=False)

    def _put_attributed(self, key: str, data: bytes, mode: PutMode, *, doing: str) -> bool:
        """Put an object to S3 under a condition; an answer that was lost is looked up."""
        current_counters().add_calls("control.put", bytes_written=len(data))
        current_counters().add_serial_stages()
        write_id = str(self._ids.ulid())
        try:
            with translating(doing, key, effect=Effect.UNKNOWN):
                try:
                    obstore.put(
                        self._writable(),
                        self._key(key),
                        data,
                        mode=mode,
                        attributes={_WRITE_ID: write_id},
                        use_multipart=False,
                    )
                except _REFUSED as error:
                    if fault_of(error) is FaultKind.MISSING and "NoSuchBucket" in str(error):
                        raise
                    # A put whose answer was lost is sent again and is then refused because of itself.
                    return self._was_written(key, write_id)
        except StorageUnavailableError:
            with suppress(OmnigraphError):
                if self._was_written(key, write_id):
                    return True
            raise
        return True

    def _was_written(self, key: str, write_id: str) -> bool:
        found = self._get_attributed(key)
        return found is not None and found[1] == write_id

    def _get_attributed(self, key: str) -> tuple[TaggedObject, str | None] | None:
        """Return an object of S3 with its ETag, and the id of the write that made it what it is."""
        current_counters().add_serial_stages()
        current_counters().add_calls("control.get")
        with translating("read a control object", key):
            try:
                found = obstore.get(self._writable(), self._key(key))
                data = bytes(found.bytes())
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None
        return TaggedObject(data=data, tag=found.meta["e_tag"] or ""), found.attributes.get(_WRITE_ID)


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Keep every other process and thread from replacing what is in a folder, as far as it asks."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
