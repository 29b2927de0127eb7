"""Where rows come from: files, globs and standard input, plain or compressed."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, UsageError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One input.

    Args:
        path: a file, or ``-`` for standard input.
        format: how it is written; the file's extension tells when it is not given.
        type_name: the type of all its rows, for CSV and Parquet; the file's name tells when it is not given. A name
            that a node type and an edge type share is written ``node:Name`` or ``edge:Name``.
        columns: the file's column for a property (or ``id``, ``from``, ``to``) where the two names differ.
    """

    path: str
    format: SourceFormat | None = None
    type_name: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What messages call it."""
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
            raise UsageError(f"the extension does not tell the format path={self.path}", details=details)
        return found

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
            return Path(self.path).stat().st_size
        except OSError:
            return None


def expand_sources(sources: Sequence[Source | str]) -> tuple[Source, ...]:
    """Return one source per file: globs become the files they match, in the order of their names.

    Raises:
        FileMissingError: there is no such file, or a glob matches none.
        UsageError: standard input is named twice.
    """
    expanded: list[Source] = []
    for item in sources:
        source = Source(path=item) if isinstance(item, str) else item
        if source.path == STDIN or Path(source.path).exists():
            expanded.append(source)
            continue
        matches = sorted(glob.glob(source.path, recursive=True)) if glob.has_magic(source.path) else []  # noqa: PTH207 - the pattern may be absolute
        if not matches:
            what = "no file matches" if glob.has_magic(source.path) else "no such file:"
            details = MissingThing(what="file", name=source.path)
            raise FileMissingError(f"{what} path={source.path}", details=details)
        expanded.extend(replace(source, path=path) for path in matches)
    if sum(source.path == STDIN for source in expanded) > 1:
        details_twice = BadValue(what="path", value=STDIN, expected="- at most once")
        raise UsageError("standard input can be read only once", details=details_twice)
    return tuple(expanded)


class ByteStream:
    """The uncompressed bytes of a source, and how far its stored bytes are read."""

    def __init__(self, name: str, raw: BinaryIO, stream: Any) -> None:
        self._name = name
        self._raw = raw
        self._stream = stream
        self._is_plain = stream is raw
        self.bytes_read = 0

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes; fewer only at the end.

        Raises:
            FileAccessError: the input cannot be read, or its compression is damaged.
        """
        with reading(self._name):
            data: bytes = self._stream.read(count)
        if self._is_plain:
            self.bytes_read += len(data)
        else:
            self.bytes_read = self._raw.tell() if self._raw.seekable() else self.bytes_read + len(data)
        return data

    @property
    def arrow(self) -> Any:
        """The stream as Arrow's own readers take it."""
        return pa.PythonFile(self._raw, mode="r") if self._is_plain else self._stream


@contextmanager
def open_source(source: Source) -> Iterator[ByteStream]:
    """Open a source for reading; gzip and zstd are recognised by their first bytes.

    Raises:
        FileAccessError: it cannot be read.
    """
    with reading(source.name):
        raw: Any = sys.stdin.buffer if source.path == STDIN else Path(source.path).open("rb")  # noqa: SIM115 - closed below
    try:
        with reading(source.name):
            start = raw.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
        codec = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
        stream = raw if codec is None else pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec)
        yield ByteStream(source.name, raw, stream)
    finally:
        if source.path != STDIN:
            raw.close()


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
            f"file is not readable: {reason[:1].lower()}{reason[1:]}: path={name}", details=details
        ) from error


def _plain_path(path: str) -> Path:
    plain = Path(path)
    return plain.with_suffix("") if plain.suffix.lower() in _COMPRESSED else plain
