"""The rules of a change in one process, wherever that is: relations on disk as far as they pass the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from omnigraph.engine.constraints.kernel import KernelSettings, open_connection, translated
from omnigraph.engine.scratch import ScratchFolder
from omnigraph.errors import OmnigraphError
from omnigraph.spark.keys import keys_schema
from omnigraph.spark.rules.change import WrittenChange, WrittenType
from omnigraph.spark.rules.engine import StoredRows
from omnigraph.spark.rules.stored import look_up_stored, scan_stored, stored_schema
from omnigraph.spark.rules.texts import bind, counted

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
        self._connection: duckdb.DuckDBPyConnection = open_connection(settings, self._folder)
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

    def stored(self, wanted: StoredRows) -> str | None:
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
