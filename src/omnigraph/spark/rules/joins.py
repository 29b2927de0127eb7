"""The rules of a change as joins of Spark: executors read keys and stored rows, and the same texts run over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from omnigraph.spark.keys import ROW
from omnigraph.spark.rules.change import RuleSettings, WrittenChange, WrittenType
from omnigraph.spark.rules.engine import StoredRows
from omnigraph.spark.rules.stored import scan_stored
from omnigraph.spark.runner import job_error, working
from omnigraph.store.portable import TableTicket, fragment_sizes
from omnigraph.store.scratch import ScratchPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN = "name string"


class SparkRules:
    """An engine for the rules whose relations are temporary views of a session, gone when it is closed.

    Args:
        change: what is judged.
        spark: the session.
        settings: how much a task reads, and how much a hash join may hold.
    """

    def __init__(self, change: WrittenChange, spark: SparkSession, settings: RuleSettings) -> None:
        self._change = change
        self._spark = spark
        self._settings = settings
        self._prefix = "omnigraph_" + re.sub(r"\W", "_", change.scratch.operation_id)
        self._keys: dict[tuple[str, frozenset[str]], str] = {}
        self._stored: dict[tuple[str, tuple[str, ...], tuple[str, ...]], str | None] = {}
        self._views: list[str] = []
        self._cached: list[DataFrame] = []
        # The planner takes every relation for tiny and would send it to everybody; and a hash table does not spill.
        shuffled = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        self._hint = "shuffle_hash" if change.rows <= settings.hash_rows * shuffled else "merge"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A session that ended meanwhile has no views, and what ended it is the error to be told.
        with suppress(Exception):
            for name in self._views:
                self._spark.catalog.dropTempView(name)
            for frame in self._cached:
                frame.unpersist()

    def keys(self, part: WrittenType, columns: Sequence[str]) -> str:
        """Return the relation of these columns of a type's keys."""
        known = part.type.table_key, frozenset(columns)
        if known not in self._keys:
            names = (ROW, *sorted(known[1] - {ROW}))
            groups = _grouped(((file.name, file.rows) for file in part.files), self._settings.scan_rows)
            read = partial(_read_keys, self._change.scratch, names)
            self._keys[known] = self._view(self._scan(groups, read, names))
        return self._keys[known]

    def stored(self, wanted: StoredRows) -> str | None:
        """Return a relation of all stored rows, whichever are wanted; None when there are none."""
        known = wanted.type.table_key, wanted.names, wanted.tuple_of
        if known not in self._stored:
            ticket = self._change.tables.get(wanted.type.table_key)
            table = None if ticket is None else ticket.open()
            self._stored[known] = None
            if ticket is not None and table is not None and table.row_count:
                groups = _grouped(fragment_sizes(table), self._settings.scan_rows)
                read = partial(_read_stored, ticket, wanted)
                self._stored[known] = self._view(self._scan(groups, read, wanted.names))
        return self._stored[known]

    def define(self, text: str, *, is_reused: bool = False) -> str:
        """Return the relation that a text gives; one that is reused is kept by the executors."""
        with _translated("prepare a rule"):
            frame = self._spark.sql(text)
            if is_reused:
                self._cached.append(frame.cache())
            return self._view(frame)

    def rows(self, text: str, *, asks: str, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a text and return its rows, a partition at a time when there is no limit."""
        with _translated(f"check rule {asks}"):
            found = self._spark.sql(text)
            for row in found.toLocalIterator() if limit is None else found.limit(limit).collect():
                yield tuple(row)

    def save(self, text: str, name: str) -> tuple[str, ...]:
        """Let executors write the rows of a text, one scratch object per partition that has any."""
        with _translated("write rows that a rule found"):
            written = self._spark.sql(text).mapInArrow(partial(_write, self._change.scratch, name), _WRITTEN).collect()
        return tuple(sorted(row["name"] for row in written))

    def _scan(
        self, groups: Sequence[Any], read: Callable[[Any], Iterator[pa.RecordBatch]], names: Sequence[str]
    ) -> DataFrame:
        layout = ", ".join(f"`{name}` {'long' if name == ROW else 'string'}" for name in names)
        count = len(groups)
        return self._spark.range(0, count, 1, max(count, 1)).mapInArrow(partial(_scan, read, groups), layout)

    def _view(self, frame: DataFrame) -> str:
        name = f"{self._prefix}_{len(self._views)}"
        frame.hint(self._hint).createOrReplaceTempView(name)
        self._views.append(name)
        return name


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise job_error(doing, error) from error


def _grouped(sized: Iterable[tuple[Any, int]], most: int) -> list[tuple[Any, ...]]:
    """Return things in groups of about ``most`` rows, in their order."""
    groups: list[list[Any]] = []
    room = 0
    for thing, rows in sized:
        if not groups or rows > room:
            groups.append([])
            room = most
        groups[-1].append(thing)
        room -= rows
    return [tuple(group) for group in groups]


def _scan(
    read: Callable[[Any], Iterator[pa.RecordBatch]], groups: Sequence[Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with working():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(groups[number])


def _read_keys(scratch: ScratchPlace, columns: Sequence[str], files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in scratch.read_arrow(file):
            yield batch.select(list(columns))


def _read_stored(ticket: TableTicket, wanted: StoredRows, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    return scan_stored(ticket, wanted, fragments)


def _write(scratch: ScratchPlace, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415 - only a worker of Spark gets here

    context = TaskContext.get()
    file = f"{name}-{0 if context is None else context.partitionId():06}"
    with working():
        if scratch.write_arrow(file, batches):
            yield pa.record_batch([pa.array([file])], names=["name"])
