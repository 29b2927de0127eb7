"""How rows of an older schema read in a newer one: columns are paired by the identity of their property, not by name.

A property that the newer schema has added is null before, one that it has dropped is absent, a renamed one goes on
under its new name, and numbers are read in the wider type. Anything else, such as a text that became a number, has no
reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.catalog.arrow import PROPERTY_ID
from omnigraph.catalog.identity import all_ids, are_of_one_counter
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.accepted import catalog_of
from omnigraph.records import record
from omnigraph.store.staging.columns import holds_all
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID
from omnigraph.store.tables.table import Search, Table
from omnigraph.txn.snapshot import GraphSnapshot

# What no table has: a version with these fields shares no rows with any other without being read.
_UNLIKE_ANY = ((-1, ""),)


@record
class SchemaStep:
    """What a commit made of the schema, by names: whoever follows the rows must have made the same step.

    Args:
        types: the types afterwards, ``node:Person``, with their properties.
        gone: what the commit has dropped or renamed: types, and properties of types that go on, as ``node:Person.age``.
    """

    types: Mapping[str, tuple[str, ...]]
    gone: tuple[str, ...]

    @classmethod
    def between(cls, before: GraphSnapshot, after: GraphSnapshot) -> SchemaStep | None:
        """Return the step from one state to the next, None where the schema stayed."""
        if before.state.schema.hash == after.state.schema.hash:
            return None
        old, new = (_types(catalog_of(state.state.schema)) for state in (before, after))
        names = {owner.table_key for owner in new.values()}
        gone = [owner.table_key for owner in old.values() if owner.table_key not in names]
        for number, owner in new.items():
            was = old[number].properties if number in old else ()
            gone += [f"{owner.table_key}.{prop.name}" for prop in was if owner.get(prop.name) is None]
        types = {owner.table_key: tuple(prop.name for prop in owner.properties) for owner in new.values()}
        return cls(types=types, gone=tuple(sorted(gone)))

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {"types": {name: list(found) for name, found in self.types.items()}, "gone": list(self.gone)}


def _types(catalog: Catalog) -> dict[tuple[int, int], NodeType | EdgeType]:
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return {(owner.id, owner.incarnation): owner for owner in owners}


def rows_as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of a newer schema; as they are where that has no reading."""
    reading = ColumnReading.between(rows.schema, schema)
    return rows if reading is None else reading.show(rows, schema.names)


def column_identity(field: pa.Field) -> str:
    """Return what a column keeps through renames; columns that are no properties have their name."""
    found = (field.metadata or {}).get(PROPERTY_ID)
    return field.name if found is None else f"#{found.decode()}"


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
        known = {column_identity(field): field for field in stored}
        origins = {}
        for field in newer:
            origin = known.get(column_identity(field))
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
    ) -> pa.RecordBatchReader:
        """Stream rows; takes what a table does, predicates only on what is no property."""
        del with_row_meta, search
        names = list(self.schema.names if columns is None else columns)
        stored = [origin for name in names if (origin := self._reading.origin(name)) is not None] or [KEY]
        reader = self._stored.scan(stored, filter, limit=limit, fragment_ids=fragment_ids, batch_size=batch_size)
        shown = self._reading.columns(names)
        return pa.RecordBatchReader.from_batches(shown, self._shown(reader, names))

    def lookup(self, ids: Sequence[str] | pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return ``id``, row id, row address and ``columns`` of the rows with these ids."""
        extra = [name for name in columns if name not in {KEY, ROW_ID, ROW_ADDRESS}]
        stored = [origin for name in extra if (origin := self._reading.origin(name)) is not None]
        return self._reading.show(self._stored.lookup(ids, stored), [KEY, ROW_ID, ROW_ADDRESS, *extra])

    def _shown(self, reader: pa.RecordBatchReader, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield self._reading.show(batch, names)


def read_alike(
    before: Table, after: Table, is_after_newer: Callable[[pa.Schema, pa.Schema], bool]
) -> tuple[Table, Table] | None:
    """Return two versions of one type's table in the columns of the newer schema, None where that has no reading.

    ``is_after_newer`` is asked, with both schemas, only if their columns differ.
    """
    if _columns(before.schema) == _columns(after.schema):
        return before, after
    is_forward = is_after_newer(before.schema, after.schema)
    older, newer = (before, after) if is_forward else (after, before)
    reading = ColumnReading.between(older.schema, newer.schema)
    if reading is None:
        return None
    shown = ReadTable(older, reading, newer.fields if _shares_files(older, newer, reading) else _UNLIKE_ANY)
    return (shown, after) if is_forward else (before, shown)


def is_later_schema(before: GraphSnapshot, after: GraphSnapshot, old: pa.Schema, new: pa.Schema) -> bool:
    """Whether the schema of ``after`` is the newer one, of a type that both states have.

    Along one history that is the state of the later commit. Between branches it is the state that has more declarations
    which the other one lacks, then the one that has dropped columns, then the one with wider numbers. Which of the
    states is called ``after`` makes no difference to the answer, so that both directions show the same columns.
    """
    catalogs = [catalog_of(side.state.schema) for side in (before, after)]
    counters = [catalog.next_identity for catalog in catalogs]
    if counters[0] != counters[1]:
        if are_of_one_counter(*counters):
            return counters[1] > counters[0]
        ids = [set(all_ids(catalog)) for catalog in catalogs]
        lacked = len(ids[1] - ids[0]), len(ids[0] - ids[1])
        if lacked[0] != lacked[1]:
            return lacked[0] > lacked[1]
    was, will = ({column_identity(field): field.type for field in schema} for schema in (old, new))
    if was.keys() != will.keys() and (was.keys() < will.keys() or will.keys() < was.keys()):
        return len(will) < len(was)
    for name in sorted(was.keys() & will.keys()):
        if was[name] != will[name]:
            return holds_all(will[name], was[name])
    return _moment(after) >= _moment(before)


def _moment(snapshot: GraphSnapshot) -> tuple[int, str]:
    head = snapshot.state.recent_commit(snapshot.state.head.commit)
    return (snapshot.state.moment_ms if head is None else head.published_at_ms), str(snapshot.state.head.commit)


def _columns(schema: pa.Schema) -> dict[str, tuple[str, pa.DataType]]:
    # Whether null is allowed is a rule about rows, not what they hold.
    return {field.name: (column_identity(field), field.type) for field in schema}


def _optional(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field if field.name == KEY else field.with_nullable(True) for field in schema])


def _shares_files(older: Table, newer: Table, reading: ColumnReading) -> bool:
    """Whether a file that both versions list holds the same values for every column of the newer one."""
    old_ids, new_ids = ({name: number for number, name in table.fields} for table in (older, newer))
    added = {new_ids[name] for name in reading.schema.names if name not in reading.origins}
    if any(old_ids[origin] != new_ids[name] for name, origin in reading.origins.items()):
        return False
    return all(added.isdisjoint(file.fields) for item in older.fragments for file in item.metadata.files)
