"""Where rows come from: one file, object of a bucket or standard input, plain or compressed, and how it is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from omnigraph.engine.load.sources.dialect import USUAL, Dialect
from omnigraph.errors import IN_MEMORY, BadValue, FileAccessError, LimitExceeded, SourceTooLargeError, UsageError
from omnigraph.records import record
from omnigraph.store.files import input_size, open_input

STDIN = "-"
STDIN_NAME = "<stdin>"
SourceFormat = Literal["jsonl", "csv", "parquet", "arrow"]

_FORMATS: Mapping[str, SourceFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
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
        type_name: the type of all its rows; for CSV, Parquet and Arrow the file's name tells when it is not given. The
            lines of JSONL are then plain objects, whose members are the columns. A name that a node type and an edge
            type share is written ``node:Name`` or ``edge:Name``.
        columns: the file's column for a property (or ``id``, ``from``, ``to``) where the two names differ.
        dialect: how its table is written, where that is not the usual way.
        mapping: a YAML file that says all this of the files of a folder; that of the folder itself when None.
        options: how a bucket is reached; they may hold credentials, so they are never shown.
        is_exported: an export wrote it, so that its columns are named exactly as those of the table.
        longest_bytes: its longest record, if somebody measured it; readers make room for it.
        called: what messages call it, where that is not its path.
        takes_changes: its rows are those of a change log, and may have an operation and a sequence.
        takes_texts: a text in one of its columns may stand for a value of any property, as in CSV.
    """

    path: str
    format: SourceFormat | None = None
    type_name: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = USUAL
    mapping: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    is_exported: bool = False
    longest_bytes: int = 0
    called: str | None = None
    takes_changes: bool = False
    takes_texts: bool = False

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
            raise UsageError(f"cannot determine the format of '{self.path}' from its extension", details=details)
        return found

    @property
    def is_table(self) -> bool:
        """Whether all of its rows are of one type and have columns; lines of the load format name their own.

        Raises:
            UsageError: the extension does not tell.
        """
        return self.kind != "jsonl" or (self.type_name is not None and not self.is_exported)

    @property
    def delimiter(self) -> str:
        """What stands between the cells of its text unless its dialect says otherwise."""
        return "\t" if _plain_path(self.name).suffix.lower() == ".tsv" else ","

    @property
    def is_in_memory(self) -> bool:
        """Whether its rows were handed over by a program."""
        return self.name.endswith(IN_MEMORY)

    @property
    def first_row(self) -> int:
        """The number of its first row or line: files count from 1, rows of a program as programs do."""
        return 0 if self.is_in_memory else 1

    @property
    def header_line(self) -> int | None:
        """Where messages look for the names of its columns."""
        return None if self.is_in_memory else 1

    @property
    def is_packed(self) -> bool:
        """Whether the file's name says that it is compressed."""
        return Path(self.path).suffix.lower() in _COMPRESSED

    @property
    def stem(self) -> str:
        """The file's name without directory and extensions."""
        return _plain_path(self.name).stem

    @property
    def size_bytes(self) -> int | None:
        """How much there is to read, as stored; None when nobody knows."""
        if self.path == STDIN:
            return None
        try:
            return input_size(self.path, self.options)
        except OSError:
            return None

    def open(self, *, is_buffered: bool = True) -> BinaryIO:
        """Open the stored bytes; without a buffer no more of them is read than is asked for.

        Raises:
            FileAccessError: it cannot be read.
        """
        with reading(self.name):
            if self.path == STDIN:
                return sys.stdin.buffer
            return open_input(self.path, self.options, is_buffered=is_buffered)


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
    with source.open(is_buffered=False) as raw:
        with reading(source.name):
            start = raw.read(_MAGIC_BYTES)
        return _codec_of(start) is not None


def _codec(source: Source, raw: Any) -> str | None:
    with reading(source.name):
        return _codec_of(raw.peek(_MAGIC_BYTES)[:_MAGIC_BYTES])


def _codec_of(start: bytes) -> str | None:
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


def tells_format(path: str) -> bool:
    """Whether the name of a file of a folder says that it holds rows, and how."""
    plain = _plain_path(path)
    return plain.suffix.lower() in _FORMATS and not plain.name.startswith((".", "_"))


def _plain_path(path: str) -> Path:
    plain = Path(path)
    return plain.with_suffix("") if plain.suffix.lower() in _COMPRESSED else plain
