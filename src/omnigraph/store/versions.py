"""Version files of datasets on a local disk: whether one is whole, what the hint says, and putting a torn one aside.

Lance links a version under its name before the disk has its bytes. A power failure right then leaves a name with
nothing, zeros or half of it behind, and Lance either fails to read that or takes zeros for an empty dataset. On an
object store a version appears as a whole or not at all, so that there nothing here ever finds anything.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from omnigraph.errors import Effect
from omnigraph.store.control import VERSIONS, sync_directory
from omnigraph.store.location import Storage
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.translate import translating

TORN_PREFIX = "__torn"

_MAX_VERSION = (1 << 64) - 1
_SUFFIX = ".manifest"
_HINT = "latest_version_hint.json"
# A version ends in the place of its message, two numbers of the format, and these letters.
_FOOTER = struct.Struct("<QHH4s")
_MAGIC = b"LANC"
_LENGTH = struct.Struct("<I")


def dataset_folder(pin: TablePin) -> str:
    """Return the folder below the graph's root that files of this branch go to."""
    return pin.location if pin.branch is None else f"{pin.location}/tree/{pin.branch}"


def version_file(pin: TablePin) -> str:
    """Return the file of a version below the graph's root; the newest sorts first."""
    if pin.is_detached:
        return f"{dataset_folder(pin)}/{VERSIONS}/d{pin.version}{_SUFFIX}"
    return f"{dataset_folder(pin)}/{VERSIONS}/{_MAX_VERSION - pin.version:020d}{_SUFFIX}"


def transaction_file(pin: TablePin, uuid: str) -> str:
    """Return the file of a transaction that was made on ``pin``, below the graph's root."""
    return f"{dataset_folder(pin)}/_transactions/{pin.version}-{uuid}.txn"


class VersionFiles:
    """The version files of one graph."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        # The version that was last asked for, which is asked for again and again, and its path.
        self._asked: tuple[TablePin, str] | None = None

    def newest(self, location: str, branch: str | None) -> int | None:
        """Return the highest version that has a file; None when there is none, or on an object store."""
        if not self._storage.is_local:
            return None
        folder = self._path(TablePin(location=location, branch=branch, version=0)).parent
        with suppress(FileNotFoundError, NotADirectoryError):
            return max((_MAX_VERSION - int(number) for number in _numbers(folder)), default=None)
        return None

    def hinted(self, location: str, branch: str | None) -> int | None:
        """Return the version that was the newest when one was last written, as far as the hint still says so."""
        if not self._storage.is_local:
            return None
        hint = self._path(TablePin(location=location, branch=branch, version=0)).with_name(_HINT)
        try:
            version = msgspec.json.decode(hint.read_bytes(), type=dict[str, int]).get("version")
        except (OSError, msgspec.MsgspecError):
            # Lance writes it without care, and nothing depends on it.
            return None
        return version

    def exists(self, pin: TablePin) -> bool:
        """Whether a version has a file; always on an object store, where nothing is looked at."""
        return not self._storage.is_local or self._path(pin).exists()

    def identity(self, pin: TablePin) -> tuple[int, int, int] | None:
        """Return what tells the file of a version from another one of its name; None on an object store, or if gone."""
        if not self._storage.is_local:
            return None
        asked = self._asked
        if asked is None or asked[0] != pin:
            asked = self._asked = (pin, self._storage.path_text(version_file(pin)))
        try:
            found = os.stat(asked[1])  # noqa: PTH116 - making a path costs more than the look, which every read takes
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def is_torn(self, pin: TablePin) -> bool:
        """Whether the file of a version is there and not whole: cut off, or with pieces that were never written."""
        if not self._storage.is_local:
            return False
        try:
            data = self._path(pin).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return not _is_whole(data)

    def put_aside(self, pin: TablePin) -> str | None:
        """Move a torn version to where nothing looks for it; return where, or None when it is whole or gone.

        The caller knows that the version was never acknowledged. Whoever else does the same waits meanwhile: the
        number may be used again as soon as it is free, and that version must stay.
        """
        path = self._path(pin)
        aside = f"{TORN_PREFIX}/{version_file(pin).replace('/', ',')}"
        target = self._storage.path(aside)
        with translating("put a torn version aside", pin.location, effect=Effect.UNKNOWN), _alone(path.parent):
            if not self.is_torn(pin):
                return None
            target.parent.mkdir(exist_ok=True)
            path.replace(target)
            if (self.hinted(pin.location, pin.branch) or 0) >= pin.version:
                path.with_name(_HINT).unlink(missing_ok=True)
            for folder in (target.parent, target.parent.parent, path.parent):
                sync_directory(folder)
        return aside

    def _path(self, pin: TablePin) -> Path:
        return self._storage.path(version_file(pin))


def _numbers(folder: Path) -> Iterator[str]:
    for file in folder.iterdir():
        if file.suffix == _SUFFIX and file.stem.isdigit():
            yield file.stem


def _is_whole(data: bytes) -> bool:
    """Whether the footer names a message that fills the file up to it and is a message from end to end."""
    end = len(data) - _FOOTER.size
    if end < _LENGTH.size:
        return False
    place, _, _, magic = _FOOTER.unpack_from(data, end)
    if magic != _MAGIC or place + _LENGTH.size > end:
        return False
    (length,) = _LENGTH.unpack_from(data, place)
    start = place + _LENGTH.size
    return 0 < length == end - start and _is_message(data, start, end)


def _is_message(data: bytes, at: int, end: int) -> bool:
    """Whether fields follow each other as protocol buffers have them; zeros in their midst have no field number."""
    while at < end:
        key, at = _varint(data, at, end)
        if key >> 3 == 0:
            return False
        match key & 7:
            case 0:
                _, at = _varint(data, at, end)
            case 1:
                at += 8
            case 2:
                length, at = _varint(data, at, end)
                at += length
            case 5:
                at += 4
            case _:
                return False
    return at == end


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
