"""Where rows come from: files, folders, globs, objects of a bucket and standard input, plain or compressed."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from omnigraph.engine.export.manifest import check_files, read_manifest
from omnigraph.errors import (
    BadValue,
    FileAccessError,
    FileMissingError,
    LimitExceeded,
    MissingThing,
    SourceTooLargeError,
    UsageError,
)
from omnigraph.records import record
from omnigraph.store.files import FileFolder, input_size, is_remote, list_objects, open_input
from omnigraph.store.location import Storage

STDIN = "-"
STDIN_NAME = "<stdin>"
SourceFormat = Literal["jsonl", "csv", "parquet"]

_FORMATS: Mapping[str, SourceFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSED = {".gz", ".zst", ".zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC_BYTES = 4
# What a packed file holds is not known before it is unpacked, so that a few kilobytes can keep a load busy for hours.
# So much is always read, and beyond it so many times as much as is stored, which no rows are packed to.
_UNPACKED_BYTES = 1 << 30
_UNPACKED_TIMES = 250


@record
class Source:
    """One input.

    Args:
        path: a file, an ``s3://`` address, or ``-`` for standard input.
        format: how it is written; the file's extension tells when it is not given.
        type_name: the type of all its rows, for CSV and Parquet; the file's name tells when it is not given. A name
            that a node type and an edge type share is written ``node:Name`` or ``edge:Name``.
        columns: the file's column for a property (or ``id``, ``from``, ``to``) where the two names differ.
        options: how a bucket is reached; they may hold credentials, so they are never shown.
        is_exported: an export wrote it, so that its columns are named exactly as those of the table.
        longest_bytes: its longest record, if somebody measured it; readers make room for it.
        called: what messages call it, where that is not its path.
        takes_changes: its rows are those of a change log, and may have an operation and a sequence.
    """

    path: str
    format: SourceFormat | None = None
    type_name: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    is_exported: bool = False
    longest_bytes: int = 0
    called: str | None = None
    takes_changes: bool = False

    @property
    def name(self) -> str:
        """What messages call it."""
        if self.called is not None:
            return self.called
        return STDIN_NAME if self.path == STDIN else self.path

    @property
    def kind(self) -> SourceFormat:
        """How it is written.

        Raises:
            UsageError: the extension does not tell.
        """
        if self.format is not None:
            return self.format
        extension = "" if self.path == STDIN else _plain_path(self.path).suffix.lower()
        found = "jsonl" if self.path == STDIN else _FORMATS.get(extension)
        if found is None:
            details = BadValue(what="file", value=self.path, expected=" ".join(sorted(_FORMATS)))
            raise UsageError(f"cannot tell the format of '{self.path}' from its extension", details=details)
        return found

    @property
    def is_jsonl(self) -> bool:
        """Whether it is known to be JSONL before it is looked at; folders and globs are not."""
        found = _FORMATS.get(_plain_path(self.path).suffix.lower()) if self.format is None else self.format
        return found == "jsonl"

    @property
    def is_packed(self) -> bool:
        """Whether the file's name says that it is compressed."""
        return Path(self.path).suffix.lower() in _COMPRESSED

    @property
    def stem(self) -> str:
        """The file's name without directory and extensions."""
        return _plain_path(self.path).stem

    @property
    def size_bytes(self) -> int | None:
        """How much there is to read, as stored; None when nobody knows."""
        if self.path == STDIN:
            return None
        try:
            return input_size(self.path, self.options)
        except OSError:
            return None

    def open(self) -> BinaryIO:
        """Open the stored bytes.

        Raises:
            FileAccessError: it cannot be read.
        """
        with reading(self.name):
            return sys.stdin.buffer if self.path == STDIN else open_input(self.path, self.options)


def expand_sources(
    sources: Sequence[Source | str],
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    check_sums: bool = False,
) -> tuple[Source, ...]:
    """Return one source per file: globs and folders become the files they hold, in the order of their names.

    Of a folder only files whose extension tells their format count; one that an export wrote becomes the files that
    its manifest lists. ``options`` say how buckets are reached, ``check_sums`` that exported files are read once
    before, to compare their checksums.

    Raises:
        FileMissingError: there is no such file, or a glob matches none.
        ExportManifestError, ExportDamagedError: an exported folder is not complete, or not as it was written.
        UsageError: standard input is named twice, or JSONL is given columns.
    """
    expanded: list[Source] = []
    for item in sources:
        source = Source(path=item) if isinstance(item, str) else item
        if is_remote(source.path):
            source = replace(source, options=dict(options))
        exported = _exported(source, check_sums=check_sums)
        if exported is not None:
            expanded.extend(exported)
            continue
        matches = [source.path] if source.path == STDIN else _matches(source)
        if not matches:
            what = "no file matches" if glob.has_magic(source.path) else "no such file"
            details = MissingThing(what="file", name=source.path)
            raise FileMissingError(f"{what} '{source.path}'", details=details)
        expanded.extend(replace(source, path=path) for path in matches)
    for source in expanded:
        if source.columns and (source.path == STDIN or source.is_jsonl):
            raise UsageError(
                f"'{source.name}' is JSONL, and only CSV and Parquet files have columns",
                details=BadValue(what="columns", value=source.name, expected="a CSV or Parquet file"),
                hint="leave the columns out: JSONL names the properties",
            )
    if sum(source.path == STDIN for source in expanded) > 1:
        details_twice = BadValue(what="path", value=STDIN, expected="- at most once")
        raise UsageError("standard input can be read only once", details=details_twice)
    return tuple(expanded)


def can_read_again(sources: Sequence[Source | str]) -> bool:
    """Whether reading the sources twice gives their rows twice: a pipe is empty the second time."""
    return all(_is_stored(item if isinstance(item, str) else item.path) for item in sources)


def _is_stored(path: str) -> bool:
    if path == STDIN or is_remote(path):
        return path != STDIN
    return all(map(os.path.isfile, _matches(Source(path=path))))


def _exported(source: Source, *, check_sums: bool) -> list[Source] | None:
    """Return the files of a folder that an export wrote, nodes before edges; None when it is none."""
    path = source.path
    if path == STDIN or source.format is not None or source.type_name is not None or glob.has_magic(path):
        return None
    if _tells_format(path) if is_remote(path) else not os.path.isdir(path):  # noqa: PTH112 - false, not an error, for a path that no disk takes
        return None
    folder = FileFolder(storage=Storage.open(path, source.options))
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    check_files(folder, manifest, checksums=check_sums)
    return [
        replace(
            source,
            path=f"{path.rstrip('/')}/{file.path}",
            format=manifest.format,
            type_name=owner.table_key,
            is_exported=True,
            longest_bytes=file.longest_bytes,
        )
        for owner, file in manifest.iter_files()
    ]


def _matches(source: Source) -> list[str]:
    path = source.path
    if is_remote(path):
        with reading(source.name):
            found = list(list_objects(path, source.options))
        return found if glob.has_magic(path) or found == [path] else [name for name in found if _tells_format(name)]
    if source.format is None and os.path.isdir(path):  # noqa: PTH112 - see above
        return sorted(str(file) for file in Path(path).iterdir() if file.is_file() and _tells_format(str(file)))
    if os.path.exists(path):  # noqa: PTH110 - see above
        return [path]
    return sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []  # noqa: PTH207 - the pattern may be absolute


def _tells_format(path: str) -> bool:
    plain = _plain_path(path)
    return plain.suffix.lower() in _FORMATS and not plain.name.startswith((".", "_"))


class ByteStream:
    """The uncompressed bytes of a source, and how far its stored bytes are read."""

    def __init__(self, name: str, raw: BinaryIO, stream: Any) -> None:
        self._name = name
        self._raw = raw
        self._stream = stream
        self._is_plain = stream is raw
        self._unpacked = 0
        self.bytes_read = 0

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes; fewer only at the end.

        Raises:
            FileAccessError: the input cannot be read, or its compression is damaged.
            SourceTooLargeError: it holds far more than any rows could be packed to.
        """
        with reading(self._name):
            data: bytes = self._stream.read(count)
        if self._is_plain:
            self.bytes_read += len(data)
        else:
            self._unpacked += len(data)
            self.bytes_read = self._raw.tell()
            refuse_bomb(self._name, self.bytes_read, self._unpacked)
        return data


@contextmanager
def open_source(source: Source) -> Iterator[ByteStream]:
    """Open a source for reading; gzip and zstd are recognised by their first bytes.

    Raises:
        FileAccessError: it cannot be read.
    """
    raw: Any = source.open()
    try:
        codec = _codec(source, raw)
        if codec is None:
            yield ByteStream(source.name, raw, raw)
        else:
            packed: Any = _CountedReads(raw)
            stream = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), codec)
            yield ByteStream(source.name, packed, stream)
    finally:
        if source.path != STDIN:
            raw.close()


class _CountedReads:
    """A file that is read from front to back, standard input too, and that knows how far."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._count = 0

    @property
    def closed(self) -> bool:
        return bool(self._raw.closed)

    def close(self) -> None:
        """Leave it open, because it belongs to the caller."""

    def read(self, count: int) -> bytes:
        data: bytes = self._raw.read(count)
        self._count += len(data)
        return data

    def tell(self) -> int:
        return self._count


def refuse_bomb(name: str, stored: int, unpacked: int) -> None:
    """Return if so many stored bytes may well hold so many unpacked ones.

    Raises:
        SourceTooLargeError: they are so many more that the input was made to keep a load busy.
    """
    limit = max(_UNPACKED_BYTES, _UNPACKED_TIMES * stored)
    if unpacked > limit:
        details = LimitExceeded(resource="unpacked_bytes", limit=limit, actual=unpacked)
        raise SourceTooLargeError(
            f"'{name}' expands from {stored} to more than {limit} bytes",
            details=details,
            hint="decompress it first if this is intended",
        )


def is_compressed(source: Source) -> bool:
    """Whether a file is one that :func:`open_source` unpacks.

    Raises:
        FileAccessError: it cannot be read.
    """
    with source.open() as raw:
        return _codec(source, raw) is not None


def _codec(source: Source, raw: Any) -> str | None:
    with reading(source.name):
        start = raw.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one class of error.

    Raises:
        FileAccessError: the file cannot be read.
    """
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = (os.linesep.join(reason.splitlines()[:1]) or "unknown reason").rstrip(".")
        details = BadValue(what="file", value=name, expected="a readable file")
        raise FileAccessError(
            f"file '{name}' is not readable: {reason[:1].lower()}{reason[1:]}", details=details
        ) from error


def _plain_path(path: str) -> Path:
    plain = Path(path)
    return plain.with_suffix("") if plain.suffix.lower() in _COMPRESSED else plain
