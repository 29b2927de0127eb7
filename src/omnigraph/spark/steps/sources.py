"""Frames of the sources of a pipeline: all rows, those beyond a value of a column, or those of some files.

How far a source was read is a value of Spark's types, kept as text or a whole number that gives the same value again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadValue, FileAccessError, OmnigraphError, UsageError
from omnigraph.records import record
from omnigraph.spark.runner import job_error
from omnigraph.spark.steps.buckets import read_bucket, reads_bucket
from omnigraph.store.files import is_hidden, is_remote, list_stored_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Of these the greatest is known, and Spark makes the same value of their texts.
_PLAIN_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "date", "string", "timestamp_ntz", "boolean")
_MICROS = "timestamp"
_DIGEST_LENGTH = 32
_naming = threading.Lock()

PLAIN_FORMATS = frozenset({"parquet", "csv", "json", "jsonl", "orc", "text"})
"""Formats whose rows are those of the files of a folder, and nothing beside them says which."""


@record
class Watermark:
    """The greatest value of a column that was read, with its type as Spark calls it.

    ``value`` is a text, for instants the microseconds since 1970.
    """

    column: str
    type: str
    value: str

    def to_json(self) -> dict[str, str]:
        """Return the form that is stored with a commit."""
        return {"by": "column", "column": self.column, "type": self.type, "value": self.value}


@record
class SourceFile:
    """A file of a source: where it is, how large, and what changes when it is written again."""

    path: str
    size: int
    version: str

    def to_json(self) -> list[Any]:
        """Return the form that is stored with a commit."""
        return [self.path, self.size, self.version]


def read_files(
    spark: SparkSession,
    fmt: str,
    paths: Sequence[str],
    options: Mapping[str, str],
    storage: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows of files, or of whatever a format reads by its options alone.

    Args:
        spark: the session.
        fmt: the format.
        paths: files, folders or patterns.
        options: settings of the reader.
        storage: how buckets are reached.

    Raises:
        SparkJobError: Spark does not read that.
        FileAccessError, UsageError: files of a bucket cannot be read.
    """
    if reads_bucket(fmt, paths):
        try:
            return read_bucket(spark, fmt, paths, reader_options(fmt, options), storage or {})
        except OmnigraphError:
            raise
        except Exception as error:
            raise job_error("read a source", error) from error
    reader = spark.read.format(reader_format(fmt)).options(**reader_options(fmt, options))
    try:
        return reader.load(list(paths)) if paths else reader.load()
    except Exception as error:
        raise job_error("read a source", error) from error


def stream_files(
    spark: SparkSession,
    fmt: str,
    path: str,
    options: Mapping[str, str],
    schema: Any,
    files_per_batch: int | None,
) -> DataFrame:
    """Return the rows of files of a folder as they come.

    Raises:
        SparkJobError: Spark does not read that as a stream.
    """
    reader = spark.readStream.format(reader_format(fmt)).options(**reader_options(fmt, options)).schema(schema)
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", str(files_per_batch))
    try:
        return reader.load(path)
    except Exception as error:
        raise job_error("read a source as a stream", error) from error


def reader_format(fmt: str) -> str:
    """Return what Spark calls a format."""
    return "json" if fmt == "jsonl" else fmt


def reader_options(fmt: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a reader; the first line of a CSV file names its columns, unless they say otherwise."""
    usual = {"header": "true"} if fmt == "csv" else {}
    return {**usual, **options}


def list_files(paths: Sequence[str], options: Mapping[str, str]) -> tuple[SourceFile, ...]:
    """Return the files that paths, folders and patterns stand for, by path; hidden ones are none.

    Raises:
        FileAccessError: there is no such file or folder, or it cannot be listed.
    """
    found: dict[str, SourceFile] = {}
    for path in paths:
        for file in _listed(path, options):
            found[file.path] = file
    return tuple(found[path] for path in sorted(found))


def files_digest(
    fmt: str, paths: Sequence[str], options: Mapping[str, str], storage_options: Mapping[str, str]
) -> str | None:
    """Return what stands for the files of a source and how they are read; None where that cannot be told.

    As long as it is the same, every row is as it was: no file came, went, or was written again.
    """
    if fmt not in PLAIN_FORMATS or not paths:
        return None
    try:
        listed = list_files(paths, storage_options)
    except FileAccessError:
        # Spark may have a file system that is not known here.
        return None
    told = [fmt, list(paths), dict(options), [file.to_json() for file in listed]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]


def _listed(path: str, options: Mapping[str, str]) -> Iterator[SourceFile]:
    try:
        if is_remote(path):
            for key, size, version in list_stored_files(path, options):
                yield SourceFile(path=key, size=size, version=version)
        else:
            for found in _local_files(path.removeprefix("file://")):
                status = found.stat()
                yield SourceFile(path=str(found), size=status.st_size, version=str(status.st_mtime_ns))
    except OSError as error:
        details = BadValue(what="file", value=path, expected="a file, a folder or a pattern of files")
        reason = (error.strerror or str(error)).lower()
        raise FileAccessError(f"source '{path}' cannot be listed: {reason}", details=details) from error


def _local_files(path: str) -> Iterator[Path]:
    root = Path(path).absolute()
    if any(sign in path for sign in "*?["):
        anchor = Path(root.anchor)
        for found in sorted(anchor.glob(str(root.relative_to(anchor)))):
            yield from _below(found)
    else:
        yield from _below(root)


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        path.stat()
        yield path
        return
    seen: set[str] = set()
    # Spark follows links as well.
    for folder, inner, names in os.walk(path, followlinks=True):
        seen.add(os.path.realpath(folder))
        inner[:] = [
            name for name in sorted(inner) if not is_hidden(name) and os.path.realpath(Path(folder) / name) not in seen
        ]
        yield from (Path(folder) / name for name in sorted(names) if not is_hidden(name))


@record
class NewestQuestion:
    """How far the column of a frame goes, and whether that is beyond what was read ``before``."""

    frame: Any
    column: str
    before: Watermark | None = None


@record
class NewestAnswer:
    """The greatest value of a column, None when there is none, and whether rows lie beyond what was read before."""

    newest: Watermark | None
    is_beyond: bool


def find_newest(questions: Sequence[NewestQuestion]) -> list[NewestAnswer]:
    """Return the greatest value of the column of each frame, by one job for all of them.

    Raises:
        UsageError: a frame has no such column, its values have no order that lasts, or cannot be compared with what
            was read before.
        SparkJobError: the rows cannot be read.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    if not questions:
        return []
    kinds = [column_type(one.frame, one.column) for one in questions]
    values, asked = [], []
    for at, (one, kind) in enumerate(zip(questions, kinds, strict=True)):
        # Each frame has a column of its own, so that one pass over all of them keeps every type.
        values.append(one.frame.select(fn.col(f"`{one.column}`").alias(f"value{at}")))
        greatest = fn.max(f"value{at}")
        asked.append((fn.unix_micros(greatest) if kind == _MICROS else greatest).cast("string").alias(f"newest{at}"))
        if one.before is not None and one.before.type == kind:
            asked.append((greatest > _literal(one.before)).alias(f"is_beyond{at}"))
    union = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), values)
    try:
        (row,) = union.agg(*asked).collect()
    except Exception as error:
        names = ", ".join(dict.fromkeys(one.column for one in questions))
        raise job_error(f"find the greatest value of column '{names}'", error) from error
    return [_answer(one, kind, at, row.asDict()) for at, (one, kind) in enumerate(zip(questions, kinds, strict=True))]


def _answer(question: NewestQuestion, kind: str, at: int, row: Mapping[str, Any]) -> NewestAnswer:
    text, before = row[f"newest{at}"], question.before
    if text is None:
        return NewestAnswer(newest=None, is_beyond=False)
    found = Watermark(column=question.column, type=kind, value=text)
    if before is None or before.type == kind:
        return NewestAnswer(newest=found, is_beyond=before is None or bool(row[f"is_beyond{at}"]))
    return NewestAnswer(newest=found, is_beyond=is_beyond(question.frame.sparkSession, found, before))


def column_type(frame: DataFrame, column: str) -> str:
    """Return the type of a column by which a source can be read further.

    Raises:
        UsageError: the frame has no such column, or its values have no order that lasts.
    """
    kinds = dict(frame.dtypes)
    kind = kinds.get(column)
    if kind is None:
        details = BadValue(what="column", value=column, expected=", ".join(kinds)[:200])
        raise UsageError(f"column '{column}', which incremental names, does not exist", details=details)
    if kind != _MICROS and kind not in _PLAIN_TYPES and not kind.startswith("decimal"):
        details = BadValue(what="column", value=f"{column}: {kind}", expected="numbers, texts, dates or instants")
        raise UsageError(f"a source cannot be incremental by column '{column}' of type {kind}", details=details)
    return kind


def watermark_of(frame: DataFrame, column: str, text: str) -> Watermark:
    """Return a value that a person wrote as how far a source was read.

    Raises:
        UsageError: it is no value of the column.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    kind = column_type(frame, column)
    value = fn.lit(text).try_cast(kind)
    value = fn.unix_micros(value) if kind == _MICROS else value
    (row,) = frame.sparkSession.range(1).select(value.cast("string").alias("value")).collect()
    if row["value"] is None:
        details = BadValue(what="since", value=text[:80], expected=f"a value of type {kind}")
        raise UsageError(f"'{text[:80]}' is not a valid value for column '{column}'", details=details)
    return Watermark(column=column, type=kind, value=row["value"])


def rows_between(frame: DataFrame, after: Watermark | None, upto: Watermark) -> DataFrame:
    """Return the rows beyond a value, up to another one; those without a value are read only from the beginning."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    column = fn.col(f"`{upto.column}`")
    if after is None:
        return frame.filter((column <= _literal(upto)) | column.isNull())
    return frame.filter((column > _literal(after)) & (column <= _literal(upto)))


def is_beyond(spark: SparkSession, found: Watermark, before: Watermark | None) -> bool:
    """Whether a value lies beyond another one, as Spark compares them.

    Raises:
        UsageError: the two are of types that cannot be compared.
    """
    if before is None:
        return True
    if found == before:
        return False
    try:
        (row,) = spark.range(1).select((_literal(found) > _literal(before)).alias("is_beyond")).collect()
    except Exception as error:
        details = BadValue(what="column", value=f"{found.column}: {found.type}", expected=before.type)
        raise UsageError(
            f"column '{found.column}' has type {found.type}, but had type {before.type} in earlier runs",
            details=details,
            hint="read everything again with a full refresh",
        ) from error
    return bool(row["is_beyond"])


def _literal(mark: Watermark) -> Any:
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    if mark.type == _MICROS:
        return fn.timestamp_micros(fn.lit(int(mark.value)))
    return fn.lit(mark.value).cast(mark.type)


def input_files(frame: DataFrame, limit: int) -> tuple[str, ...]:
    """Return files that a frame reads, as far as Spark knows them."""
    try:
        return tuple(sorted(frame.inputFiles())[:limit])
    except Exception:  # noqa: BLE001 - rows that come from no file
        return ()


def run_sql(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return what a query makes of frames that it calls by their names.

    Raises:
        SparkJobError: it is no query, or does not fit the frames.
    """
    # Names are those of the whole session, and another run may mean something else by them.
    # A micro-batch of a stream has a session of its own.
    spark = next((frame.sparkSession for frame in frames.values()), spark)
    with _naming:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        try:
            found = spark.sql(sql)
            # They are looked up now, and not when rows are read.
            _ = found.schema
        except Exception as error:
            raise job_error("run a query", error) from error
        finally:
            if not type(spark).__module__.startswith("pyspark.sql.connect"):
                for name in frames:
                    spark.catalog.dropTempView(name)
    return found
