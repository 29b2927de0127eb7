"""Files of a bucket as frames: tasks read them through the store, because Spark has no file system for buckets.

Text is cut into lines by tasks and read by Spark from there, so that settings and types are those of its own readers.
Parquet comes as Arrow batches, with a column for every folder that is called ``column=value``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from omnigraph.engine.load.reading.parquet import open_parquet
from omnigraph.engine.load.sources.source import Source, is_compressed, open_source
from omnigraph.errors import BadValue, FileAccessError, UsageError
from omnigraph.records import record
from omnigraph.spark.loads.parts import RangeStream
from omnigraph.store.files import is_remote, list_stored_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json", "jsonl", "text")
_PART_BYTES = 64 << 20
_READ_BYTES = 4 << 20
_BATCH_ROWS = 8_192
_TASKS_PER_CORE = 4
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
# In these a line break is the same byte that it is in ASCII, and nothing else is.
_PLAIN_CODECS = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252"})
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.null(): pa.string(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


@record
class BucketPart:
    """What a task reads of a file: all of it, the lines that start in a range of its bytes, or some row groups.

    ``values`` are those of the folders that it lies in.
    """

    path: str
    start: int = 0
    end: int | None = None
    groups: tuple[int, ...] | None = None
    values: Mapping[str, str | None] = field(default_factory=dict)


def reads_bucket(fmt: str, paths: Sequence[str]) -> bool:
    """Whether files are those of a bucket, in a format that is read here.

    Raises:
        UsageError: some of them are, and others are not.
    """
    remote = [path for path in paths if is_remote(path)]
    if remote and len(remote) < len(paths):
        details = BadValue(what="path", value=remote[0], expected="paths of one kind")
        raise UsageError(
            "a source has both files of a bucket and local files", details=details, hint="make two sources of them"
        )
    return bool(remote) and fmt in FORMATS


def read_bucket(
    spark: SparkSession, fmt: str, paths: Sequence[str], options: Mapping[str, str], storage: Mapping[str, str]
) -> DataFrame:
    """Return the rows of files of a bucket.

    Args:
        spark: the session.
        fmt: the format, one of ``FORMATS``.
        paths: objects, folders or patterns.
        options: settings of Spark's reader.
        storage: how the bucket is reached.

    Raises:
        FileAccessError: there are no such files, or they cannot be read.
        UsageError: a setting makes no sense for files of a bucket.
    """
    base = options.get("basePath")
    settings = {name: value for name, value in options.items() if name != "basePath"}
    files = [file for path in paths for file in _files(path, base, storage)]
    if fmt == "parquet":
        return _parquet(spark, files, settings, storage)
    folders = next((file for file, _ in files if file.values), None)
    if folders is not None:
        details = BadValue(what="path", value=folders.path, expected="folders without column=value")
        message = f"folders named column=value become columns for Parquet only, not for {fmt}"
        raise UsageError(message, details=details, hint="name the files themselves by a pattern")
    lines = _lines(spark, fmt, files, settings, storage)
    reader = spark.read.options(**settings)
    if fmt == "csv":
        return reader.csv(lines)
    return lines if fmt == "text" else reader.json(lines)


def _files(path: str, base: str | None, storage: Mapping[str, str]) -> Iterator[tuple[BucketPart, int]]:
    """Yield the files that a path stands for, with their sizes."""
    try:
        found = list(list_stored_files(path, storage))
    except OSError as error:
        raise _unreadable(path, (error.strerror or str(error)).lower()) from error
    if not found:
        raise _unreadable(path, "no such file or folder")
    # As with Spark, what a pattern finds lies in folders that mean nothing.
    root = (base or ("" if any(sign in path for sign in "*?[") else path)).rstrip("/")
    for name, size, _ in found:
        inner = name.removeprefix(f"{root}/") if root and name.startswith(f"{root}/") else ""
        pairs = (part.partition("=") for part in inner.split("/")[:-1] if "=" in part)
        values = {column: None if value == _NOTHING else unquote(value) for column, _, value in pairs}
        yield BucketPart(path=name, values=values), size


def _unreadable(path: str, reason: str) -> FileAccessError:
    details = BadValue(what="file", value=path, expected="a file, a folder or a pattern of files")
    return FileAccessError(f"source '{path}' cannot be read: {reason}", details=details)


def _spread(spark: SparkSession, parts: Sequence[BucketPart]) -> tuple[Any, tuple[tuple[BucketPart, ...], ...]]:
    """Return a frame with a row in each of its partitions, and the parts of files that each stands for, in order."""
    from omnigraph.spark.queries.relations import FrameRelations  # noqa: PLC0415 - Spark is loaded where it is used

    most = _TASKS_PER_CORE * FrameRelations(spark=spark).parallelism
    step = -(-len(parts) // most)
    groups = tuple(tuple(parts[at : at + step]) for at in range(0, len(parts), step))
    return spark.range(0, len(groups), 1, len(groups)), groups


# Lines.


@record
class LineReader:
    """Yields lines of files in a column ``value``; for ``mapInArrow`` over the numbers of groups. It can be pickled.

    Args:
        groups: the parts of each group.
        storage: how the bucket is reached.
        encoding: what bytes mean.
        separator: what ends a line.
        is_whole: a file is one value.
        header: the path of the one file whose first line stays; None if first lines are lines like others.
        comment: how lines begin that mean nothing.
    """

    groups: tuple[tuple[BucketPart, ...], ...]
    storage: Mapping[str, str] = field(repr=False)
    encoding: str = "utf-8"
    separator: str = "\n"
    is_whole: bool = False
    header: str | None = None
    comment: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the parts of groups."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in self.groups[number]:
                    yield from self._read(part)

    def _read(self, part: BucketPart) -> Iterator[pa.RecordBatch]:
        drops_header = self.header is not None and part.path != self.header and not part.start
        waiting: list[str] = []
        for line in self._texts(part):
            if drops_header and line.strip() and not (self.comment and line.startswith(self.comment)):
                drops_header = False
                continue
            waiting.append(line)
            if len(waiting) >= _BATCH_ROWS:
                yield _values(waiting)
                waiting = []
        if waiting:
            yield _values(waiting)

    def _texts(self, part: BucketPart) -> Iterator[str]:
        source = Source(path=part.path, format="jsonl", options=self.storage)
        if part.end is not None:
            with source.open(is_buffered=False) as raw:
                stream = RangeStream(source.name, raw, part.start, part.end)
                yield from self._cut(iter(lambda: stream.read(_READ_BYTES), b""), is_front=not part.start)
        else:
            with open_source(source) as opened:
                yield from self._cut(iter(lambda: opened.read(_READ_BYTES), b""), is_front=True)

    def _cut(self, blocks: Iterator[bytes], *, is_front: bool) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)(errors="replace")
        held = ""
        for block in blocks:
            held += decoder.decode(block)
            if is_front and held:
                held, is_front = held.removeprefix("\ufeff"), False
            if not self.is_whole:
                *whole, held = held.split(self.separator)
                yield from map(self._line, whole)
        held += decoder.decode(b"", final=True)
        if held:
            yield held if self.is_whole else self._line(held)

    def _line(self, text: str) -> str:
        return text.removesuffix("\r") if self.separator == "\n" else text


def _values(lines: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(lines, pa.string())], names=["value"])


def _lines(
    spark: SparkSession,
    fmt: str,
    files: Sequence[tuple[BucketPart, int]],
    settings: Mapping[str, str],
    storage: Mapping[str, str],
) -> DataFrame:
    given = {name.lower(): value for name, value in settings.items()}
    is_multi = _is_true(given.get("multiline"))
    if fmt == "csv" and is_multi:
        details = BadValue(what="multiLine", value="true", expected="records of one line each")
        raise UsageError("CSV files of a bucket are read by lines, without multiLine", details=details)
    encoding = given.get("encoding") or given.get("charset") or "utf-8"
    try:
        codec = codecs.lookup(encoding).name
    except LookupError:
        details = BadValue(what="encoding", value=encoding, expected="an encoding such as UTF-8")
        raise UsageError(f"unknown encoding '{encoding}'", details=details) from None
    separator = given.get("linesep") or "\n"
    is_whole = (fmt in {"json", "jsonl"} and is_multi) or (fmt == "text" and _is_true(given.get("wholetext")))
    can_split = codec in _PLAIN_CODECS and separator == "\n" and not is_whole
    parts = [part for file, size in files for part in _ranges(file, size, storage, can_split=can_split)]
    has_header = fmt == "csv" and _is_true(given.get("header"))
    numbers, groups = _spread(spark, parts)
    reader = LineReader(
        groups=groups,
        storage=dict(storage),
        encoding=codec,
        separator=separator,
        is_whole=is_whole,
        header=files[0][0].path if has_header else None,
        comment=given.get("comment"),
    )
    lines: DataFrame = numbers.mapInArrow(reader, "value string")
    return lines


def _ranges(file: BucketPart, size: int, storage: Mapping[str, str], *, can_split: bool) -> Iterator[BucketPart]:
    if size <= _PART_BYTES or not can_split or is_compressed(Source(path=file.path, options=storage)):
        yield file
        return
    for start in range(0, size, _PART_BYTES):
        yield replace(file, start=start, end=min(start + _PART_BYTES, size))


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


# Parquet.


@record
class ParquetBatches:
    """Yields rows of Parquet files; for ``mapInArrow`` over the numbers of groups. It can be pickled."""

    groups: tuple[tuple[BucketPart, ...], ...]
    storage: Mapping[str, str] = field(repr=False)
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the parts of groups."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in self.groups[number]:
                    yield from self._read(part)

    def _read(self, part: BucketPart) -> Iterator[pa.RecordBatch]:
        with open_parquet(_source(part, self.storage)) as file:
            known = set(file.schema_arrow.names)
            columns = [name for name in self.schema.names if name in known and name not in part.values]
            groups = None if part.groups is None else list(part.groups)
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
                yield self._fitted(part, batch)

    def _fitted(self, part: BucketPart, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for at in self.schema:
            if at.name in part.values:
                value = pa.scalar(part.values[at.name], pa.string()).cast(at.type)
                columns.append(pa.repeat(value, batch.num_rows))
            elif at.name in batch.schema.names:
                try:
                    columns.append(batch.column(at.name).cast(at.type))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise _unreadable(part.path, f"column '{at.name}' does not fit {at.type}: {error}") from error
            else:
                columns.append(pa.nulls(batch.num_rows, at.type))
        return pa.record_batch(columns, schema=self.schema)


def _parquet(
    spark: SparkSession,
    files: Sequence[tuple[BucketPart, int]],
    settings: Mapping[str, str],
    storage: Mapping[str, str],
) -> DataFrame:
    from pyspark.sql.pandas.types import (  # noqa: PLC0415 - Spark is loaded where it is used
        from_arrow_schema,
        to_arrow_schema,
    )

    given = {name.lower(): value for name, value in settings.items()}
    looked_at = files if _is_true(given.get("mergeschema")) else files[:1]
    found = []
    for file, _ in looked_at:
        with open_parquet(_source(file, storage)) as opened:
            found.append(pa.schema([at.with_type(_readable(at.type)) for at in opened.schema_arrow]).remove_metadata())
    try:
        schema = pa.unify_schemas(found)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _unreadable(files[0][0].path, f"columns of its files do not fit each other: {error}") from error
    values: dict[str, list[str | None]] = {}
    for file, _ in files:
        for name, value in file.values.items():
            values.setdefault(name, []).append(value)
    for name, some in values.items():
        at = schema.get_field_index(name)
        schema = schema.remove(at) if at >= 0 else schema
        schema = schema.append(pa.field(name, _folder_type(some)))
    schema = pa.schema([at.with_nullable(True).remove_metadata() for at in schema])
    columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    numbers, groups = _spread(spark, [part for file, size in files for part in _row_groups(file, size, storage)])
    wire = to_arrow_schema(columns, timezone="UTC")
    rows: DataFrame = numbers.mapInArrow(ParquetBatches(groups=groups, storage=dict(storage), schema=wire), columns)
    return rows


def _source(part: BucketPart, storage: Mapping[str, str]) -> Source:
    return Source(path=part.path, format="parquet", options=storage)


def _row_groups(file: BucketPart, size: int, storage: Mapping[str, str]) -> Iterator[BucketPart]:
    if size <= _PART_BYTES:
        yield file
        return
    with open_parquet(_source(file, storage)) as opened:
        sizes = [opened.metadata.row_group(at).total_byte_size for at in range(opened.metadata.num_row_groups)]
    chosen: list[int] = []
    held = 0
    for at, some in enumerate(sizes):
        if chosen and held + some > _PART_BYTES:
            yield replace(file, groups=tuple(chosen))
            chosen, held = [], 0
        chosen.append(at)
        held += some
    yield replace(file, groups=tuple(chosen))


def _folder_type(values: Sequence[str | None]) -> pa.DataType:
    """Return the type of a column that folders name: whole numbers, dates or text, as Spark finds them."""
    some = [value for value in values if value is not None]
    if some and all(re.fullmatch(r"-?\d{1,18}", value) for value in some):
        return pa.int32() if all(-(1 << 31) <= int(value) < 1 << 31 for value in some) else pa.int64()
    if some and all(_is_date(value) for value in some):
        return pa.date32()
    return pa.string()


def _is_date(value: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _readable(of: pa.DataType) -> pa.DataType:
    """Return the type that Spark reads values of an Arrow type as."""
    if of in _WIDER:
        return _WIDER[of]
    if pa.types.is_dictionary(of):
        return _readable(of.value_type)
    if pa.types.is_timestamp(of):
        return pa.timestamp("us", tz=of.tz and "UTC")
    if pa.types.is_fixed_size_binary(of):
        return pa.binary()
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return pa.list_(_readable(of.value_type))
    if pa.types.is_map(of):
        return pa.map_(_readable(of.key_type), _readable(of.item_type))
    if pa.types.is_struct(of):
        return pa.struct([at.with_type(_readable(at.type)) for at in (of.field(n) for n in range(of.num_fields))])
    return of
