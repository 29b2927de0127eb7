"""What a schema change means to those who compare rows or follow them: which state is newer, and what names became."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from omnigraph.catalog.identity import all_ids, are_of_one_counter
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.accepted import catalog_of
from omnigraph.engine.past import ColumnReading, ReadTable, column_identity, columns_by_identity
from omnigraph.records import record
from omnigraph.store.staging.columns import holds_all
from omnigraph.store.tables.table import Table
from omnigraph.txn.snapshot import GraphSnapshot

# What no table has: a version with these fields shares no rows with any other without being read.
_UNLIKE_ANY = ((-1, ""),)


@record
class SchemaStep:
    """What a commit made of the schema, by names: a follower of the rows must have made the same step.

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


def read_alike(
    before: Table, after: Table, is_after_newer: Callable[[pa.Schema, pa.Schema], bool]
) -> tuple[Table, Table] | None:
    """Return two versions of one type's table in the columns of the newer schema, None where that has no reading.

    ``is_after_newer`` is asked, with both schemas, only if their columns differ.
    """
    if columns_by_identity(before.schema) == columns_by_identity(after.schema):
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


def _shares_files(older: Table, newer: Table, reading: ColumnReading) -> bool:
    """Whether a file that both versions list holds the same values for every column of the newer one."""
    old_ids, new_ids = ({name: number for number, name in table.fields} for table in (older, newer))
    added = {new_ids[name] for name in reading.schema.names if name not in reading.origins}
    if any(old_ids[origin] != new_ids[name] for name, origin in reading.origins.items()):
        return False
    return all(added.isdisjoint(file.fields) for item in older.fragments for file in item.metadata.files)
