"""How rows and states of an older schema read in a newer one: by the identity of types and properties, not by name.

A property that the newer schema has added is null before, one that it has dropped is absent, a renamed one goes on
under its new name, and numbers are read in the wider type. Anything else, such as a text that became a number, has no
reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.arrow import PROPERTY_ALIASES, PROPERTY_ID, arrow_schema
from omnigraph.catalog.identity import are_of_one_counter
from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyDef
from omnigraph.errors import BadValue, InternalError, QueryRuntimeError
from omnigraph.records import record
from omnigraph.store.staging.columns import holds_all
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID, BlobPart, Search, TableIndex
from omnigraph.store.tables.row_ids import RowIds
from omnigraph.store.tables.table import Table
from omnigraph.txn.snapshot import GraphSnapshot

_Owner = TypeVar("_Owner", NodeType, EdgeType)


def rows_as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of a newer schema; as they are where that has no reading."""
    reading = ColumnReading.between(rows.schema, schema)
    return rows if reading is None else reading.show(rows, schema.names)


def column_identity(field: pa.Field) -> str:
    """Return what a column keeps through renames; columns that are no properties have their name."""
    found = (field.metadata or {}).get(PROPERTY_ID)
    return field.name if found is None else f"#{found.decode()}"


def _identities(field: pa.Field) -> list[str]:
    """Return what a column is known by, on branches that were merged too."""
    aliases = (field.metadata or {}).get(PROPERTY_ALIASES, b"").decode()
    return [column_identity(field), *(f"#{alias}" for alias in aliases.split(",") if alias)]


def _are_of_two_branches(one: pa.Field, other: pa.Field) -> bool:
    ids = [(field.metadata or {}).get(PROPERTY_ID) for field in (one, other)]
    return None not in ids and not are_of_one_counter(*(int(number or 0) for number in ids))


def with_identity(field: pa.Field, known_as: Mapping[str, str]) -> pa.Field:
    """Return a column under another id, if ``known_as`` has one for the id that it has."""
    metadata = dict(field.metadata or {})
    found = known_as.get(metadata.get(PROPERTY_ID, b"").decode())
    return field if found is None else field.with_metadata({**metadata, PROPERTY_ID: found.encode()})


@record
class ColumnReading:
    """How rows with the columns ``stored`` are shown in the columns ``schema``.

    Args:
        schema: the columns of the newer schema; all but the id may hold null.
        origins: by the name in ``schema`` the name in the older one; columns that are missing here are null.
    """

    schema: pa.Schema
    origins: Mapping[str, str]

    @classmethod
    def between(cls, stored: pa.Schema, newer: pa.Schema) -> ColumnReading | None:
        """Return the reading of one schema in another, None where a column has none."""
        known = {identity: field for field in stored for identity in _identities(field)}
        origins = {}
        for field in newer:
            origin = next((known[identity] for identity in _identities(field) if identity in known), None)
            if origin is None and field.name in stored.names and _are_of_two_branches(field, stored.field(field.name)):
                # Each has declared it; a merge would take them for one thing, or refuse.
                origin = stored.field(field.name)
            if origin is None:
                continue
            if origin.type == field.type or holds_all(field.type, origin.type):
                origins[field.name] = origin.name
            elif origin.name == field.name:
                return None
            # Otherwise two branches have each declared a property of their own, and numbered them alike.
        return cls(schema=_optional(newer), origins=origins)

    def origin(self, name: str) -> str | None:
        """Return the stored name of a column; row ids and addresses have none but their own."""
        return name if name in {ROW_ID, ROW_ADDRESS} else self.origins.get(name)

    def columns(self, names: Sequence[str]) -> pa.Schema:
        """Return the schema of some columns, row ids and addresses among them."""
        meta = {ROW_ID, ROW_ADDRESS}
        return pa.schema([pa.field(n, pa.uint64()) if n in meta else self.schema.field(n) for n in names])

    def show(self, rows: Any, names: Sequence[str]) -> Any:
        """Return columns of a stored table or batch as the newer schema has them."""
        shown = self.columns(names)
        arrays = []
        for field in shown:
            origin = self.origin(field.name)
            if origin is None:
                arrays.append(pa.nulls(rows.num_rows, field.type))
            else:
                column = rows.column(origin)
                arrays.append(column if column.type == field.type else column.cast(field.type))
        return type(rows).from_arrays(arrays, schema=shown)


class ReadTable(Table):
    """One version of a table, read in the columns of a newer schema."""

    pushes_predicates = False

    def __init__(self, stored: Table, reading: ColumnReading, fields: tuple[tuple[int, str], ...]) -> None:
        # Everything but the columns is that of the stored version, which is open already.
        self.pin = stored.pin
        self.handle = stored.handle
        self.datasets = stored.datasets
        self.schema = reading.schema
        self.blobs = frozenset(name for name, origin in reading.origins.items() if origin in stored.blobs)
        self.row_count = stored.row_count
        self.fragments = stored.fragments
        self.fields = fields
        self._stored = stored
        self._reading = reading

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - the word that Arrow and Lance use for it
        *,
        with_row_meta: bool = False,
        limit: int | None = None,
        search: Search | None = None,
        fragment_ids: Sequence[int] | None = None,
        batch_size: int | None = None,
        read_ahead_bytes: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows; takes what a table does, predicates only on ids and ends of edges."""
        del with_row_meta
        names = list(self.schema.names if columns is None else columns)
        reader = self._stored.scan(
            self._origins(names) or [KEY],
            filter,
            limit=limit,
            search=search,
            fragment_ids=fragment_ids,
            batch_size=batch_size,
            read_ahead_bytes=read_ahead_bytes,
        )
        shown = self._reading.columns(names)
        return pa.RecordBatchReader.from_batches(shown, self._shown(reader, names))

    def lookup(self, ids: Sequence[str] | pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return ``id``, row id, row address and ``columns`` of the rows with these ids."""
        extra = [name for name in columns if name not in {KEY, ROW_ID, ROW_ADDRESS}]
        found = self._stored.lookup(ids, self._origins(extra))
        return self._reading.show(found, [KEY, ROW_ID, ROW_ADDRESS, *extra])

    def key_candidates(self, entity_id: str, ids: Callable[[], pa.ChunkedArray] | None = None) -> RowIds | None:
        """Return the row ids of the few rows that may have an id; None when the keys of the table are not known."""
        return self._stored.key_candidates(entity_id, ids)

    def all_key_candidates(self, ids: pa.Array) -> tuple[npt.NDArray[np.int64], RowIds] | None:
        """Return the few rows that may have one of some ids: the position of the id, and the row id of the row."""
        return self._stored.all_key_candidates(ids)

    def take(self, row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return the row id and ``columns`` of rows by row id."""
        names = [ROW_ID, *(name for name in columns if name != ROW_ID)]
        return self._reading.show(self._stored.take(row_ids, self._origins(names)), names)

    def read_blob(self, row_id: int, address: int, column: str, start: int, length: int | None) -> BlobPart | None:
        """Return bytes of the Blob of a row; None when it is null, or did not exist then."""
        origin = self._reading.origin(column)
        return None if origin is None else self._stored.read_blob(row_id, address, origin, start, length)

    def matching(
        self,
        column: str,
        predicate: str,
        mask: Callable[[pa.ChunkedArray], pa.ChunkedArray],
        columns: Sequence[str],
    ) -> pa.Table:
        """Return ``columns`` of the rows that a predicate on the id or an end of an edge selects."""
        names = list(columns)
        return self._reading.show(self._stored.matching(column, predicate, mask, self._origins(names)), names)

    def stored_column(self, name: str) -> str | None:
        """Return the name under which a column is stored with the values that are read; None when it is not."""
        origin = self._reading.origin(name)
        is_same = origin is not None and self._stored.schema.field(origin).type == self.schema.field(name).type
        return origin if is_same else None

    def indexes(self) -> tuple[TableIndex, ...]:
        """Return the indexes of the stored version, by the names of its columns."""
        return self._stored.indexes()

    def _origins(self, names: Sequence[str]) -> list[str]:
        return [origin for name in names if (origin := self._reading.origin(name)) is not None]

    def _shown(self, reader: pa.RecordBatchReader, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield self._reading.show(batch, names)


def columns_by_identity(schema: pa.Schema) -> dict[str, tuple[str, pa.DataType]]:
    """Return what the columns of a table are: by name, the property and its type."""
    # Whether null is allowed is a rule about rows, not what they hold.
    return {field.name: (column_identity(field), field.type) for field in schema}


def _optional(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field if field.name == KEY else field.with_nullable(True) for field in schema])


@record
class PastState:
    """An earlier state as a newer schema names it: renamed types and properties are found under their new names.

    Args:
        snapshot: the earlier state.
        catalog: the newer schema without the types that the state does not have; what the state may miss is nullable.
        origins: by the table of a type now the table that it had then.
    """

    snapshot: GraphSnapshot
    catalog: Catalog
    origins: Mapping[str, str]

    @property
    def row_counts(self) -> dict[str, int]:
        """How many rows the tables have."""
        return {now: self.snapshot.entry(then).row_count for now, then in self.origins.items()}

    def table(self, table_key: str) -> Table:
        """Return a table of the state in the columns of the newer schema; raises what that of a snapshot does.

        Raises:
            QueryRuntimeError: the values of a property do not fit its type in the newer schema.
        """
        stored = self.snapshot.table(self.origins[table_key])
        wanted = arrow_schema(_owner(self.catalog, table_key))
        if columns_by_identity(stored.schema) == columns_by_identity(wanted):
            return stored
        reading = ColumnReading.between(stored.schema, wanted)
        if reading is None:
            raise _no_reading(table_key, stored.schema, wanted)
        return ReadTable(stored, reading, stored.fields)

    def reading(self) -> AbstractContextManager[None]:
        """Let the block read tables of this state."""
        return self.snapshot.reading()


def past_catalog(now: Catalog, then: Catalog) -> Catalog:
    """Return the newer schema as an earlier state can be read by it.

    Types that the state does not have are left out. A property that it did not have, or did not demand, may be null.
    """
    owners = {_lifetime(owner): owner for owner in _owners(then)}
    nodes = {
        name: _as_then(node, owners[_lifetime(node)]) for name, node in now.nodes.items() if _lifetime(node) in owners
    }
    edges = {
        name: _as_then(edge, owners[_lifetime(edge)]) for name, edge in now.edges.items() if _lifetime(edge) in owners
    }
    loose = {
        (interface, prop.name)
        for node in nodes.values()
        for interface in node.implements
        for prop in node.properties
        if prop.type.nullable
    }
    interfaces = {
        name: replace(
            interface, properties=tuple(_loosened(prop, (name, prop.name) in loose) for prop in interface.properties)
        )
        for name, interface in now.interfaces.items()
    }
    absent = frozenset({*now.nodes, *now.edges} - {*nodes, *edges})
    return replace(now, interfaces=interfaces, nodes=nodes, edges=edges, absent=absent)


def past_state(snapshot: GraphSnapshot, catalog: Catalog, then: Catalog) -> PastState:
    """Return an earlier state, of the schema ``then``, by what :func:`past_catalog` made of a newer one."""
    known = {_lifetime(owner): owner.table_key for owner in _owners(then)}
    origins = {owner.table_key: known[_lifetime(owner)] for owner in _owners(catalog)}
    return PastState(snapshot=snapshot, catalog=catalog, origins=origins)


def _owners(catalog: Catalog) -> Iterator[NodeType | EdgeType]:
    yield from catalog.nodes.values()
    yield from catalog.edges.values()


def _owner(catalog: Catalog, table_key: str) -> NodeType | EdgeType:
    kind, _, name = table_key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]


def _lifetime(owner: NodeType | EdgeType) -> tuple[int, int]:
    return owner.id, owner.incarnation


def _as_then(now: _Owner, then: NodeType | EdgeType) -> _Owner:
    required = {prop.id for prop in then.properties if not prop.type.nullable}
    return replace(now, properties=tuple(_loosened(prop, prop.id not in required) for prop in now.properties))


def _loosened(prop: PropertyDef, may_miss: bool) -> PropertyDef:
    return replace(prop, type=replace(prop.type, nullable=True)) if may_miss and not prop.type.nullable else prop


def _no_reading(table_key: str, stored: pa.Schema, wanted: pa.Schema) -> QueryRuntimeError:
    known = {column_identity(field): field for field in stored}
    for field in wanted:
        origin = known.get(column_identity(field))
        if origin is not None and origin.type != field.type and not holds_all(field.type, origin.type):
            name = f"{table_key.partition(':')[2]}.{field.name}"
            details = BadValue(
                what="property", value=name, expected="a type that holds the values of the earlier state"
            )
            return QueryRuntimeError(
                f"property '{name}' has another type at this snapshot, whose values do not fit {field.type}",
                details=details,
                hint="use the schema of that commit",
            )
    raise InternalError(f"the columns of '{table_key}' differ in nothing that keeps them from being read")
