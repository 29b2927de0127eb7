"""The two engines that run the rules of a change: one process with DuckDB, or the joins of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import INTEGERS, EdgeType, NodeType
from omnigraph.engine.comparison import comparable, one_of
from omnigraph.engine.constraints.evaluation import column_type, tuple_parts, tuples_of
from omnigraph.engine.constraints.evaluator import narrowest
from omnigraph.engine.constraints.kernel import KernelSettings, translated
from omnigraph.engine.scratch import ScratchFolder
from omnigraph.errors import OmnigraphError
from omnigraph.spark.keys import ROW, keys_schema
from omnigraph.spark.rules.change import RuleSettings, StoredRelation, WrittenChange, WrittenType
from omnigraph.spark.rules.relations import bind, counted
from omnigraph.spark.runner import job_error, working
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket, fragment_sizes, read_fragments
from omnigraph.store.tables.table import Table

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession


def stored_schema(wanted: StoredRelation) -> pa.Schema:
    """Return the columns of what the functions of this module give."""
    return pa.schema([pa.field(name, pa.string()) for name in wanted.names])


def scan_stored(
    ticket: TableTicket, wanted: StoredRelation, fragments: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of some fragments, of all when none are named; ``wanted.wanted`` is not looked at."""
    return _shaped(wanted, read_fragments(ticket, fragments, wanted.reads))


def look_up_stored(table: Table, wanted: StoredRelation, values: pa.Array) -> Iterator[pa.RecordBatch] | None:
    """Return the rows that hold one of a few values, through an index if there is one; None if only a scan can tell.

    Args:
        table: where to look.
        wanted: which rows; more of them may come.
        values: what ``wanted.near`` has to hold one of.
    """
    if wanted.near == "id":
        found = table.lookup(values, list(wanted.reads))
        return _shaped(wanted, found.select(list(wanted.reads)).to_batches())
    column, plain = _plain(wanted, values)
    predicate = None if plain is None else one_of(column, plain)
    if plain is None or predicate is None:
        return None
    asked = comparable(plain)
    found = table.matching(
        column, predicate, lambda stored: pc.is_in(stored.cast(plain.type), value_set=asked), wanted.reads
    )
    return _shaped(wanted, found.to_batches())


def _plain(wanted: StoredRelation, values: pa.Array) -> tuple[str, pa.Array | None]:
    """Return a column to ask for, and its values as the table holds them; None for those that a text does not give."""
    if wanted.near != "value":
        return wanted.near, values
    column = narrowest(wanted.type, wanted.tuple_of)
    at = wanted.tuple_of.index(column)
    parts = {tuple_parts(text, len(wanted.tuple_of))[at] for text in values.to_pylist()}
    return column, _typed(wanted.type, column, sorted(parts))


def _typed(owner: NodeType | EdgeType, column: str, parts: Sequence[str]) -> pa.Array | None:
    kind = column_type(owner, column)
    if kind.is_text:
        return pa.array(parts, pa.string())
    if kind.scalar in INTEGERS:
        return pa.array([int(part) for part in parts], arrow_type(kind))
    return None


def _shaped(wanted: StoredRelation, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = stored_schema(wanted)
    for batch in batches:
        if wanted.tuple_of:
            rows = tuples_of(wanted.type, pa.Table.from_batches([batch]), wanted.tuple_of)
            yield from rows.select(list(wanted.names)).to_batches()
        else:
            yield batch.select(list(wanted.names)).cast(schema)


_FETCH = 10_000
# Beyond this many values one pass over a column beats a predicate that lists them all.
_FEW = 10_000
_INCOMING = "incoming"
_TAKE_IN = "CREATE TEMP TABLE `filled` AS SELECT i.* FROM `incoming` i"
_AMONG = " WHERE EXISTS (SELECT 1 FROM `values` v WHERE v.`value` = i.`near`)"
_DISTINCT = "SELECT DISTINCT v.`id` AS `value` FROM ({text}) v WHERE v.`id` IS NOT NULL"
_ALL = "SELECT v.`value` AS `value` FROM `values` v"


class DuckRules:
    """An engine for the rules that holds its relations in this process's relational kernel.

    Args:
        change: what is judged.
        settings: what the kernel may use.
    """

    def __init__(self, change: WrittenChange, settings: KernelSettings) -> None:
        self._change = change
        self._settings = settings
        self._folder = ScratchFolder.make("rules")
        self._connection: duckdb.DuckDBPyConnection = settings.connect(self._folder)
        # Every text says the order it needs, and keeping another one takes memory.
        self._connection.execute("SET preserve_insertion_order = false")
        self._keys: dict[str, str] = {}
        self._count = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._folder.close()

    def keys(self, part: WrittenType, columns: Sequence[str]) -> str:  # noqa: ARG002 - all columns are there anyway
        """Return the relation of a type's keys; they are brought in once."""
        key = part.type.table_key
        if key not in self._keys:
            batches = (batch for file in part.files for batch in self._change.scratch.read_arrow(file.name))
            self._keys[key] = self._filled(keys_schema(part.type), batches, "keys")
        return self._keys[key]

    def stored(self, wanted: StoredRelation) -> str | None:
        """Return a relation of stored rows, only those that hold a wanted value; None when there are none."""
        ticket = self._change.tables.get(wanted.type.table_key)
        table = None if ticket is None else ticket.open()
        if ticket is None or table is None or not table.row_count:
            return None
        schema = stored_schema(wanted)
        if wanted.wanted is None:
            return self._filled(schema, scan_stored(ticket, wanted, None), "stored")
        values = self._distinct(wanted.wanted)
        every = bind(_ALL, values=values)
        ((count,),) = self.rows(counted(every), asks="stored")
        if not count:
            return None
        if count <= _FEW:
            few = pa.array([value for (value,) in self.rows(every, asks="stored")], pa.string())
            found = look_up_stored(table, wanted, few)
            if found is not None:
                return self._filled(schema, found, "stored")
        return self._filled(schema, scan_stored(ticket, wanted, None), "stored", among=(wanted.near, values))

    def define(self, text: str, *, is_reused: bool = False) -> str:
        """Return the relation that a text gives."""
        name = self._name()
        with self._asking("define"):
            self._connection.execute(f"CREATE TEMP {'TABLE' if is_reused else 'VIEW'} `{name}` AS {text}")
        return name

    def rows(self, text: str, *, asks: str, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a text and return its rows as they come; the next text ends that."""
        with self._asking(asks):
            result = self._connection.execute(text if limit is None else f"{text} LIMIT {limit}")
            while some := result.fetchmany(_FETCH):
                yield from some

    def save(self, text: str, name: str) -> tuple[str, ...]:
        """Write the rows of a text to one scratch object."""
        with self._asking("save"):
            reader: pa.RecordBatchReader = self._connection.sql(text).to_arrow_reader(_FETCH)
            self._change.scratch.write_arrow(name, reader, schema=reader.schema)
        return (name,)

    def _distinct(self, text: str) -> str:
        return self.define(_DISTINCT.replace("{text}", text), is_reused=True)

    def _filled(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], asks: str, among: tuple[str, str] | None = None
    ) -> str:
        """Return a relation of rows that stream in; of those ``among`` keeps the ones whose column has such a value."""
        name = self._name()
        text = bind(_TAKE_IN, filled=name)
        if among is not None:
            text += bind(_AMONG, near=among[0], values=among[1])
        broken: list[OmnigraphError] = []

        def drawn() -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    self._bytes += batch.nbytes
                    yield batch
            except OmnigraphError as error:
                broken.append(error)
                raise

        self._connection.register(_INCOMING, pa.RecordBatchReader.from_batches(schema, drawn()))
        try:
            with self._asking(asks):
                self._connection.execute(text)
        except OmnigraphError:
            # The engine tells a reader that failed only as a text.
            if broken:
                raise broken[0] from None
            raise
        finally:
            self._connection.unregister(_INCOMING)
        return name

    def _name(self) -> str:
        self._count += 1
        return f"r{self._count}"

    @contextmanager
    def _asking(self, asks: str) -> Iterator[None]:
        with translated(asks, self._settings, lambda: self._bytes):
            yield


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

    def stored(self, wanted: StoredRelation) -> str | None:
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


def _read_stored(ticket: TableTicket, wanted: StoredRelation, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    return scan_stored(ticket, wanted, fragments)


def _write(scratch: ScratchPlace, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415 - only a worker of Spark gets here

    context = TaskContext.get()
    file = f"{name}-{0 if context is None else context.partitionId():06}"
    with working():
        if scratch.write_arrow(file, batches):
            yield pa.record_batch([pa.array([file])], names=["name"])
