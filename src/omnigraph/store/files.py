"""Files outside a graph's tables, local or in a bucket: what loads read, and the folders that exports write."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import obstore
from obstore.store import S3Store

from omnigraph.errors import Effect
from omnigraph.records import record
from omnigraph.runtime import current_counters
from omnigraph.store.control import ControlObjects, open_s3, sync_directory
from omnigraph.store.location import Storage
from omnigraph.store.translate import translating

_S3 = "s3://"
_BUFFER_BYTES = 4 << 20
_CHANGED = "it changed while it was read"


def is_remote(path: str) -> bool:
    """Whether a path names an object of a bucket."""
    return path.startswith(_S3)


def is_hidden(name: str) -> bool:
    """Whether a file or a folder is none of the data, by its name, as Spark decides it.

    >>> is_hidden("_SUCCESS"), is_hidden("_day=1"), is_hidden(".a.crc")
    (True, False, True)
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def open_input(path: str, options: Mapping[str, str], *, is_buffered: bool = True) -> BinaryIO:
    """Open a file for reading from any position; an object is read in ranges of some megabytes.

    Without a buffer it is read in ranges as they are asked for, and a call may return fewer bytes.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    if not is_remote(path):
        return Path(path).open("rb") if is_buffered else Path(path).open("rb", buffering=0)
    found = _Object.find(path, options)
    raw = _ObjectFile(found, _size(found))
    return io.BufferedReader(raw, _BUFFER_BYTES) if is_buffered else cast("BinaryIO", raw)


def input_size(path: str, options: Mapping[str, str]) -> int:
    """Return how many bytes a file has.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    return _size(_Object.find(path, options)) if is_remote(path) else Path(path).stat().st_size


def read_object(path: str, options: Mapping[str, str], *, most: int) -> bytes:
    """Return the content of an object of a bucket.

    Raises:
        OSError: there is no such object, it cannot be read, has more than ``most`` bytes, or changed meanwhile.
    """
    found = _Object.find(path, options)
    before = _head(found)
    size = int(before["size"])
    _refuse_long(path, size, most)
    try:
        # By its length, so that no more comes than was asked for, however much the object has grown.
        data = bytes(obstore.get_range(found.bucket, found.key, start=0, length=size)) if size else b""
    except Exception as error:
        raise _as_os_error(path, error) from error
    current_counters().add_calls("blob.get", bytes_read=len(data))
    if len(data) != size or _head(found)["e_tag"] != before["e_tag"]:
        raise OSError(errno.ESTALE, _CHANGED, path)
    return data


def read_below(folder: str, parts: Sequence[str], *, most: int) -> bytes:
    """Return the content of a file below a folder. No symbolic link is followed on the way, whoever puts one there.

    Raises:
        OSError: there is no such file, it cannot be read, is none, has more than ``most`` bytes, or changed meanwhile.
    """
    with open_below(folder, parts) as file:
        before = os.fstat(file.fileno())
        _refuse_long("/".join(parts), before.st_size, most)
        data = file.read(before.st_size + 1)
        after = os.fstat(file.fileno())
    current_counters().add_calls("blob.get", bytes_read=len(data))
    if len(data) != before.st_size or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise OSError(errno.ESTALE, _CHANGED, "/".join(parts))
    return data


def open_below(folder: str, parts: Sequence[str]) -> BinaryIO:
    """Open a regular file below a folder without following symbolic links below it.

    Raises:
        OSError: there is no such file, it cannot be read, or it is something else.
    """
    name = "/".join(parts)
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number, part in enumerate(parts, 1):
            # A pipe that nobody writes to must not be waited for.
            flags = os.O_NONBLOCK if number == len(parts) else os.O_DIRECTORY
            try:
                inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=here)
            except OSError as problem:
                raise _why(part, here, name, problem) from problem
            os.close(here)
            here = inner
        if not stat.S_ISREG(os.fstat(here).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", name)
        opened, here = here, -1
        return os.fdopen(opened, "rb")
    finally:
        if here >= 0:
            os.close(here)


def _why(part: str, here: int, name: str, problem: OSError) -> OSError:
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISLNK(os.lstat(part, dir_fd=here).st_mode):
            return OSError(errno.ELOOP, "symbolic links are not followed", name)
    return OSError(problem.errno or errno.EIO, (problem.strerror or "unreadable").lower(), name)


def _refuse_long(name: str, size: int, most: int) -> None:
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size} bytes, more than {most}", name)


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


def list_stored_files(pattern: str, options: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    """Yield path, size and version of the objects that a path with ``*`` or ``?``, or a folder's name, stands for.

    Raises:
        OSError: the bucket cannot be listed.
    """
    for path in list_objects(pattern, options):
        found = _Object.find(path, options)
        if not is_hidden(found.key.rpartition("/")[2]):
            try:
                told = obstore.head(found.bucket, found.key)
            except Exception as error:
                raise _as_os_error(path, error) from error
            yield path, int(told["size"]), str(told["e_tag"] or told["last_modified"])


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
    return int(_head(found)["size"])


def _head(found: _Object) -> Any:
    try:
        return obstore.head(found.bucket, found.key)
    except Exception as error:
        raise _as_os_error(found.path, error) from error


def _as_os_error(path: str, error: Exception) -> OSError:
    # What the object store says may quote the request, and the request its signature.
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(2, "no such object", path)
    return OSError(5, f"the object store failed ({type(error).__name__})", path)


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

    def put(self, path: str, data: bytes) -> None:
        """Write a small file at once."""
        with self.create(path) as sink:
            sink.write(data)
        current_counters().add_calls("control.put", bytes_written=len(data))

    def claim(self, path: str, data: bytes) -> bool:
        """Create a small file unless there is one; return whether this call created it."""
        return ControlObjects(self.storage).put_if_absent(path, data, sync=self.is_durable)

    def get(self, path: str) -> bytes | None:
        """Return the bytes of a small file; None when there is none."""
        return ControlObjects(self.storage).get(path)

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

    def remove(self, path: str) -> None:
        """Remove a file; harmless when there is none."""
        ControlObjects(self.storage).delete(path)

    def remove_folder(self, path: str) -> None:
        """Remove everything below a folder; harmless when there is none."""
        ControlObjects(self.storage).delete_prefix(path)

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
                os.fchmod(file.fileno(), 0o666 & ~file_mode_mask())
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


def file_mode_mask() -> int:
    """Return the permissions that files of this process are created without."""
    # There is no way to ask for it without setting it; Linux tells it without a race.
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
