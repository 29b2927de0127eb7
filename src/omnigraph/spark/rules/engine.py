"""The engine that runs the rules: a relational kernel in this process, over all keys of a change or one bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import INTEGERS, EdgeType, NodeType
from omnigraph.engine.comparison import comparable, one_of
from omnigraph.engine.constraints.evaluation import column_type, tuple_parts, tuples_of
from omnigraph.engine.constraints.evaluator import narrowest
from omnigraph.engine.constraints.kernel import KernelSettings, translated
from omnigraph.engine.constraints.set_rules import FINAL_IMAGE, ID_REPEATED
from omnigraph.engine.scratch import ScratchFolder
from omnigraph.errors import OmnigraphError
from omnigraph.spark.keys import keys_schema
from omnigraph.spark.rules.change import ChangeKeys, StoredRelation, TypeKeys
from omnigraph.spark.rules.relations import ALL_IDS, SUPERSEDED, bind, counted, over
from omnigraph.store.tables.portable import read_fragments
from omnigraph.store.tables.table import Table

if TYPE_CHECKING:
    import duckdb


_FETCH = 10_000
# Beyond this many values one pass over a column beats a predicate that lists them all.
_FEW = 10_000
_INCOMING = "incoming"
_TAKE_IN = "CREATE TEMP TABLE `filled` AS SELECT i.* FROM `incoming` i"
_AMONG = " WHERE EXISTS (SELECT 1 FROM `values` v WHERE v.`value` = i.`near`)"
_DISTINCT = "SELECT DISTINCT v.`id` AS `value` FROM ({text}) v WHERE v.`id` IS NOT NULL"
_ALL = "SELECT v.`value` AS `value` FROM `values` v"


class Kept(Protocol):
    """Where an engine finds what it judges: all of a change, or one bucket of it."""

    def name_of(self, by: str) -> str:
        """Return the same name for columns by which there are the same rows."""
        ...

    def written(self, keys: TypeKeys, by: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        """Return the keys of a type."""
        ...

    def has_stored(self, wanted: StoredRelation) -> bool:
        """Whether there can be a stored row."""
        ...

    def scan(self, wanted: StoredRelation) -> Iterable[pa.RecordBatch]:
        """Return stored rows, whichever are wanted."""
        ...

    def look_up(self, wanted: StoredRelation, values: pa.Array) -> Iterable[pa.RecordBatch] | None:
        """Return the stored rows that hold one of a few values, or more; None if only a scan can tell."""
        ...

    def superseded(self, keys: TypeKeys, by: str) -> Iterable[pa.RecordBatch] | None:
        """Return the ``row`` of rows that later ones replace, as found elsewhere; None when it can be seen here."""
        ...

    def replaced(self, keys: TypeKeys, by: str) -> Iterable[pa.RecordBatch] | None:
        """Return ``id`` and ``by`` of stored rows that are replaced, as found elsewhere; None: it can be seen here."""
        ...


def stored_schema(wanted: StoredRelation) -> pa.Schema:
    """Return the columns of a relation of stored rows."""
    return pa.schema([pa.field(name, pa.string()) for name in wanted.names])


class WholeChange:
    """All keys of a change, and the tables of the state that it is made on."""

    def __init__(self, change: ChangeKeys) -> None:
        self._change = change

    def name_of(self, by: str) -> str:  # noqa: ARG002 - all rows are here whatever decides
        """Return the same name for all columns."""
        return "all"

    def written(self, keys: TypeKeys, by: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:  # noqa: ARG002 - see above
        """Return the keys of a type."""
        files = (batch for file in keys.files for batch in self._change.scratch.read_arrow(file.name))
        return keys_schema(keys.type), files

    def has_stored(self, wanted: StoredRelation) -> bool:
        """Whether the table has rows."""
        table = self._table(wanted)
        return table is not None and bool(table.row_count)

    def scan(self, wanted: StoredRelation) -> Iterable[pa.RecordBatch]:
        """Stream the rows of a table."""
        return _shaped(wanted, read_fragments(self._change.tables[wanted.type.table_key], None, wanted.reads))

    def look_up(self, wanted: StoredRelation, values: pa.Array) -> Iterable[pa.RecordBatch] | None:
        """Return the rows that hold one of a few values, through an index if there is one."""
        table = self._change.tables[wanted.type.table_key].open()
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

    def superseded(self, keys: TypeKeys, by: str) -> None:
        """Return None: the rows themselves tell."""

    def replaced(self, keys: TypeKeys, by: str) -> None:
        """Return None: the rows themselves tell."""

    def _table(self, wanted: StoredRelation) -> Table | None:
        ticket = self._change.tables.get(wanted.type.table_key)
        return None if ticket is None else ticket.open()


def _plain(wanted: StoredRelation, values: pa.Array) -> tuple[str, pa.Array | None]:
    """Return a column to ask for, and its values as the table holds them; None for those that a text does not give."""
    if wanted.alias(wanted.near) != "value":
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


class DuckRules:
    """The engine; its relations live until it is closed.

    Args:
        change: what is judged.
        kept: where its keys and the stored rows are found.
        settings: what the kernel may use.
    """

    def __init__(self, change: ChangeKeys, kept: Kept, settings: KernelSettings) -> None:
        self._change = change
        self._kept = kept
        self._settings = settings
        self._folder = ScratchFolder.make("rules")
        self._connection: duckdb.DuckDBPyConnection = settings.connect(self._folder)
        # Every text says the order it needs, and keeping another one takes memory.
        self._connection.execute("SET preserve_insertion_order = false")
        self._written: dict[tuple[str, str], str] = {}
        self._repeats: dict[str, bool] = {}
        self._superseded: dict[tuple[str, str], str | None] = {}
        self._replaced: dict[tuple[str, str], str] = {}
        self._count = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._folder.close()

    def written(self, keys: TypeKeys, columns: Sequence[str], by: str) -> str:  # noqa: ARG002 - all are there anyway
        """Return the relation of a type's keys; they are brought in once."""
        known = keys.type.table_key, self._kept.name_of(by)
        if known not in self._written:
            schema, batches = self._kept.written(keys, by)
            self._written[known] = self.take_in(schema, batches, "keys")
        return self._written[known]

    def stored(self, wanted: StoredRelation) -> str | None:
        """Return a relation of stored rows, only those that hold a wanted value; None when there are none."""
        if not self._kept.has_stored(wanted):
            return None
        schema = stored_schema(wanted)
        if wanted.wanted is None:
            return self.take_in(schema, self._kept.scan(wanted), "stored")
        values = self.define(_DISTINCT.replace("{text}", wanted.wanted), is_reused=True)
        every = bind(_ALL, values=values)
        ((count,),) = self.rows(counted(every), asks="stored")
        if not count:
            return None
        if count <= _FEW:
            few = pa.array([value for (value,) in self.rows(every, asks="stored")], pa.string())
            found = self._kept.look_up(wanted, few)
            if found is not None:
                return self.take_in(schema, found, "stored")
        near = wanted.alias(wanted.near)
        return self.take_in(schema, self._kept.scan(wanted), "stored", among=(near, values))

    def has_repeated_ids(self, keys: TypeKeys) -> bool:
        """Whether several rows have one id, among those in the bucket by ``id``."""
        key = keys.type.table_key
        if keys.has_fresh_ids:
            return False
        if key not in self._repeats:
            text = over(ID_REPEATED, {"written": self.written(keys, ("id",), "id")})
            self._repeats[key] = next(self.rows(text, asks=ID_REPEATED.name, limit=1), None) is not None
        return self._repeats[key]

    def superseded(self, keys: TypeKeys, by: str) -> str | None:
        """Return the ``row`` of each row that a later one of the same id replaces; None when there are none."""
        if keys.has_fresh_ids:
            return None
        known = keys.type.table_key, self._kept.name_of(by)
        if known not in self._superseded:
            self._superseded[known] = self._find_superseded(keys, by)
        return self._superseded[known]

    def replaced(self, keys: TypeKeys, by: str) -> str | None:
        """Return the ``id`` of stored rows that rows of the change replace, perhaps of others."""
        known = keys.type.table_key, self._kept.name_of(by)
        if known not in self._replaced:
            found = self._kept.replaced(keys, by)
            if found is None:
                return self.written(keys, ("id",), "id")
            schema = pa.schema([("id", pa.string()), (by, pa.string())])
            self._replaced[known] = self.take_in(schema, found, "replaced")
        return self._replaced[known]

    def left(self, keys: TypeKeys) -> str | None:
        """Return ``src`` of the stored edges that rows of the change replace; None when there are none."""
        if self._kept.replaced(keys, "src") is not None:
            return self.replaced(keys, "src")
        ids = self.written(keys, ("id",), "id")
        return self.stored(StoredRelation(type=keys.type, column="src", wanted=bind(ALL_IDS, ids=ids)))

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

    def table(self, text: str, *, asks: str) -> pa.Table:
        """Run a text and return its rows as columns."""
        with self._asking(asks):
            return self._connection.sql(text).to_arrow_table()

    def save(self, text: str, name: str) -> None:
        """Write the rows of a text to a scratch object."""
        with self._asking("save"):
            reader: pa.RecordBatchReader = self._connection.sql(text).to_arrow_reader(_FETCH)
            self._change.scratch.write_arrow(name, reader, schema=reader.schema)

    def take_in(
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

    def _find_superseded(self, keys: TypeKeys, by: str) -> str | None:
        told = self._kept.superseded(keys, by)
        if told is not None:
            return self.take_in(pa.schema([("row", pa.int64())]), told, "superseded")
        if not self.has_repeated_ids(keys):
            return None
        ids = self.written(keys, ("id",), "id")
        last = self.define(over(FINAL_IMAGE, {"written": ids}))
        return self.define(bind(SUPERSEDED, keys=ids, last=last), is_reused=True)

    def _name(self) -> str:
        self._count += 1
        return f"r{self._count}"

    @contextmanager
    def _asking(self, asks: str) -> Iterator[None]:
        with translated(asks, self._settings, lambda: self._bytes):
            yield
