"""Files that a graph is fed from: on this machine, or in an S3-compatible bucket."""

from __future__ import annotations

import io
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.store import S3Store

from omnigraph.records import record
from omnigraph.store.control import open_s3
from omnigraph.store.location import Storage

_S3 = "s3://"
_BUFFER_BYTES = 4 << 20


def is_remote(path: str) -> bool:
    """Whether a path names an object of a bucket."""
    return path.startswith(_S3)


def open_input(path: str, options: Mapping[str, str]) -> io.BufferedReader:
    """Open a file for reading from any position; an object is read in ranges of some megabytes.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    if not is_remote(path):
        return Path(path).open("rb")
    found = _Object.find(path, options)
    return io.BufferedReader(_ObjectFile(found, _size(found)), _BUFFER_BYTES)


def input_size(path: str, options: Mapping[str, str]) -> int:
    """Return how many bytes a file has.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    return _size(_Object.find(path, options)) if is_remote(path) else Path(path).stat().st_size


def list_objects(pattern: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of the objects that a path with ``*`` or ``?``, or a folder's name, stands for, sorted.

    Raises:
        OSError: the bucket cannot be listed.
    """
    wanted = _Object.find(pattern, options)
    folder = wanted.key.rstrip("/")
    has_magic = any(sign in wanted.key for sign in "*?[")
    prefix = folder.partition("*")[0].partition("?")[0].partition("[")[0].rpartition("/")[0] if has_magic else folder
    if not has_magic and _exists(wanted):
        return (pattern,)
    try:
        listed = obstore.list(wanted.bucket, prefix or None).collect()
    except Exception as error:
        raise _as_os_error(pattern, error) from error
    bucket = urlsplit(pattern).netloc
    keys = (str(item["path"]) for item in listed)
    return tuple(sorted(f"{_S3}{bucket}/{key}" for key in keys if not has_magic or fnmatchcase(key, folder)))


@record
class _Object:
    bucket: S3Store
    key: str
    path: str

    @classmethod
    def find(cls, path: str, options: Mapping[str, str]) -> _Object:
        parts = urlsplit(path, allow_fragments=False)
        bucket = open_s3(Storage(root=f"{_S3}{parts.netloc}", options=options))
        return cls(bucket=bucket, key=path.removeprefix(f"{_S3}{parts.netloc}").lstrip("/"), path=path)


class _ObjectFile(io.RawIOBase):
    def __init__(self, source: _Object, size: int) -> None:
        self._source = source
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        count = min(len(view), self._size - self._at)
        if count <= 0:
            return 0
        try:
            data = obstore.get_range(self._source.bucket, self._source.key, start=self._at, length=count)
        except Exception as error:
            raise _as_os_error(self._source.path, error) from error
        view[:count] = memoryview(data).cast("B")
        self._at += count
        return count


def _exists(found: _Object) -> bool:
    try:
        _size(found)
    except FileNotFoundError:
        return False
    return True


def _size(found: _Object) -> int:
    try:
        return int(obstore.head(found.bucket, found.key)["size"])
    except Exception as error:
        raise _as_os_error(found.path, error) from error


def _as_os_error(path: str, error: Exception) -> OSError:
    # What the object store says may quote the request, and the request its signature.
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(2, "no such object", path)
    return OSError(5, f"the object store failed ({type(error).__name__})", path)
