"""What a write may ask about the state it is made on: which ids exist, which rows hold a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import comparable, one_array, one_of
from omnigraph.errors import MissingThing, TypeMissingError
from omnigraph.records import record
from omnigraph.store.tables.layouts import no_rows, with_schema
from omnigraph.store.tables.lookup import filter_stream
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import (
    Compaction,
    IndexBuilds,
    RowChange,
    TableAlter,
    TableChange,
    TableDrop,
    TableRegister,
    TableReplace,
    TableSteps,
    WrittenRows,
    as_id_array,
    id_array,
)
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView

_NOTHING: Mapping[str, TableChange] = MappingProxyType({})


class GraphView:
    """A published state with changes on top that are not published yet, asked by id or by value.

    Args:
        snapshot: the published state.
        catalog: the schema that the state follows.
        pending: changes that come before the one in question, by table.
    """

    def __init__(
        self, snapshot: GraphSnapshot, catalog: Catalog, pending: Mapping[str, TableChange] = _NOTHING
    ) -> None:
        self.snapshot = snapshot
        self.catalog = catalog
        self.pending = pending

    @classmethod
    def of_commit(cls, view: CommitView, catalog: Catalog) -> GraphView:
        """Return the state that a transaction is about to be published on, its own change not applied."""
        return cls(view.snapshot, catalog, view.before)

    def schema(self, table_key: str) -> pa.Schema:
        """Return the columns of a table as the catalog has them.

        Raises:
            TypeMissingError: the catalog has no such type.
        """
        kind, _, name = table_key.partition(":")
        owners: Mapping[str, NodeType | EdgeType] = self.catalog.nodes if kind == "node" else self.catalog.edges
        owner = owners.get(name)
        if owner is None:
            near = tuple(item.table_key for item in owners.values())
            details = MissingThing(what="type", name=table_key, near=near)
            raise TypeMissingError(f"type '{table_key}' does not exist in this schema", details=details)
        return arrow_schema(owner)

    def row_count(self, table_key: str) -> int:
        """Return an upper bound of the table's rows; 0 only when there is none."""
        table, written, _ = self._parts(table_key)
        return (0 if table is None else table.row_count) + (0 if written is None else written.num_rows)

    def existing_ids(self, table_key: str, ids: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return those of ``ids`` that the table holds, each once."""
        found = self.rows_of(table_key, ids, (KEY,))
        return one_array(found.column(KEY))

    def all_ids(self, table_key: str) -> pa.Array:
        """Return every id of the table."""
        return one_array(self.all_rows(table_key, (KEY,)).column(KEY))

    def all_rows(self, table_key: str, columns: Sequence[str]) -> pa.Table:
        """Return columns of every row of the table."""
        table, written, hidden = self._parts(table_key)
        asked = _with_key(columns)
        parts = []
        if table is not None and table.row_count:
            parts.append(_without(table.read(asked), hidden))
        if written is not None:
            parts.append(written)
        return self._joined(table_key, parts, columns)

    def rows_of(self, table_key: str, ids: pa.Array | pa.ChunkedArray, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows with these ids; unknown ids are left out."""
        table, written, hidden = self._parts(table_key)
        wanted = one_array(ids) if len(ids) == 1 else pc.unique(ids)
        parts = []
        if table is not None and table.row_count and len(wanted):
            asked = wanted if hidden is None else wanted.filter(pc.invert(pc.is_in(wanted, value_set=hidden)))
            parts.append(table.lookup(asked, list(columns)))
        if written is not None:
            parts.append(written.filter(pc.is_in(written.column(KEY), value_set=wanted)))
        return self._joined(table_key, parts, columns)

    def rows_where(
        self, table_key: str, column: str, values: pa.Array | pa.ChunkedArray, columns: Sequence[str]
    ) -> pa.Table:
        """Return ``columns`` of the rows whose ``column`` is one of ``values``; nulls match nothing.

        Few values are pushed down as a predicate, which an index on the column answers when there is one. Many are
        compared while that column streams by.
        """
        if column == KEY:
            return self.rows_of(table_key, values, columns)
        table, written, hidden = self._parts(table_key)
        wanted = pc.unique(one_array(values).cast(self.schema(table_key).field(column).type)).drop_null()
        parts = []
        if len(wanted) and table is not None and table.row_count:
            parts.append(_without(self._stored_where(table, column, wanted, _with_key(columns)), hidden))
        if len(wanted) and written is not None:
            mask = pc.is_in(comparable(one_array(written.column(column))), value_set=comparable(wanted))
            parts.append(written.filter(mask))
        return self._joined(table_key, parts, columns)

    def _stored_where(self, table: Table, column: str, wanted: pa.Array, columns: Sequence[str]) -> pa.Table:
        predicate, value_set = one_of(column, wanted), comparable(wanted)
        if predicate is not None:
            return table.matching(
                column,
                predicate,
                lambda found: pc.is_in(comparable(one_array(found)), value_set=value_set),
                columns,
            )
        streamed = [*columns, *(() if column in columns else (column,))]
        return filter_stream(
            table.scan(streamed),
            lambda rows: pc.is_in(comparable(one_array(rows.column(column))), value_set=value_set),
            wanted_count=len(wanted),
        )

    def _parts(self, table_key: str) -> tuple[Table | None, pa.Table | None, pa.Array | None]:
        """Return the stored table, pending rows, and ids of stored rows that are hidden by pending changes."""
        change = self.pending.get(table_key)
        match change:
            case WrittenRows() if change.replaces_all:
                return None, None, None
            # Rows that others have written cannot be read before they are published; whoever checks them has them.
            case None | TableAlter() | IndexBuilds() | Compaction() | WrittenRows() | TableSteps():
                return self._stored(table_key), None, None
            case RowChange():
                written = change.written
                hidden = pa.concat_arrays([id_array(written), as_id_array(change.deletes)])
                return self._stored(table_key), written, hidden
            case TableReplace() | TableRegister():
                return None, change.rows, None
            case TableDrop():
                return None, None, None
            case _:
                assert_never(change)

    def _stored(self, table_key: str) -> Table | None:
        # A type of a schema that is about to be accepted has no table yet, and so no rows.
        if self.snapshot.state.table(table_key) is None:
            return None
        return self.snapshot.table(table_key)

    def _joined(self, table_key: str, parts: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
        full = self.schema(table_key)
        plain = pa.schema([pa.field(name, full.field(name).type) for name in columns])
        fitted = [with_schema(part, plain) for part in parts]
        return pa.concat_tables(fitted) if fitted else no_rows(plain)


def _with_key(columns: Sequence[str]) -> list[str]:
    return list(columns) if KEY in columns else [KEY, *columns]


def _without(rows: pa.Table, hidden: pa.Array | None) -> pa.Table:
    if hidden is None or not rows.num_rows:
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column(KEY), value_set=hidden)))


@record
class TypeChange:
    """What happens to one type's table.

    Args:
        type: the node or edge type.
        rows: whole rows in the table's Arrow schema; None when nothing is written. Of rows with one id the last
            counts, and all of them are judged.
        strict: the rows must not exist yet; otherwise a row of the same id is replaced as a whole.
        deletes: ids to remove; an id in ``rows`` is never in here.
        replaces_all: every stored row that is not in ``rows`` goes too.
        sources: per row the place it came from, as columns ``source`` (position in the change's sources) and
            ``line`` (from 1); None when the rows come from a mutation.
    """

    type: NodeType | EdgeType
    rows: pa.Table | None = None
    strict: bool = False
    has_fresh_ids: bool = False
    deletes: tuple[str, ...] | pa.Array = ()
    replaces_all: bool = False
    sources: pa.Table | None = None

    @property
    def table_key(self) -> str:
        """The table this change is about."""
        return self.type.table_key


@record
class GraphChange:
    """The net effect of one write over all types, with the names of the sources its rows came from."""

    types: Mapping[str, TypeChange]
    sources: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.types
