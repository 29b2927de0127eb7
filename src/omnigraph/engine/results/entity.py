"""``Entity``: one node or edge of a state, with everything that is stored of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, Literal

import pyarrow as pa

from omnigraph.engine.past import PastState
from omnigraph.engine.results.encodings import host_values
from omnigraph.engine.results.table import html_rows
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID, BlobPart
from omnigraph.store.tables.writing import blob_columns
from omnigraph.txn.snapshot import GraphSnapshot, unknown_type
from omnigraph.values.blobs import blob_text, external_address
from omnigraph.values.temporal import format_datetime

_SRC, _DST = "src", "dst"


@record
class Entity:
    """A node or an edge. ``source`` and ``target`` are the ids of an edge's ends; a Blob is ``bytes``.

    A Blob that the graph keeps only the address of is that address, as text.
    """

    kind: Literal["node", "edge"]
    type_name: str
    id: str
    properties: Mapping[str, Any]
    source: str | None = None
    target: str | None = None

    def __getitem__(self, name: str) -> Any:
        """Return a property."""
        return self.properties[name]

    def __str__(self) -> str:
        ends = "" if self.kind == "node" else f" ({self.source} → {self.target})"
        told = [f"{name}: {text}" for name, text in self._texts().items()]
        return "  ".join([f"{self.type_name} {self.id}{ends}", *told])

    def __repr__(self) -> str:
        return f"<Entity {self.kind}:{self.type_name} {self.id!r}>"

    def _repr_html_(self) -> str:
        return html_rows(repr(self)[1:-1], ("property", "value"), self._texts().items())

    def to_json(self) -> dict[str, Any]:
        """Return the entity as JSON values; a Blob is the text that a load takes."""
        ends = {} if self.kind == "node" else {"from": self.source, "to": self.target}
        values = {name: _json_value(value) for name, value in self.properties.items()}
        return {"kind": self.kind, "type": self.type_name, "id": self.id, **ends, "properties": values}

    def _texts(self) -> dict[str, str]:
        return {name: json.dumps(_json_value(value), ensure_ascii=False) for name, value in self.properties.items()}


def read_entity(state: GraphSnapshot | PastState, type_name: str, entity_id: str) -> Entity | None:
    """Return an entity of a state, or None when there is none of that id.

    Args:
        state: the state, an earlier one possibly under the names of a newer schema.
        type_name: ``Person``, ``node:Person`` or ``edge:Knows``.
        entity_id: its id.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type have that name.
    """
    table_key = find_table(state.origins if isinstance(state, PastState) else state.state.tables, type_name)
    with state.reading():
        table = state.table(table_key)
        found = table.lookup([entity_id], [column for column in table.schema.names if column != KEY])
        return entity_of(table_key, entity_id, found.select(table.schema.names))


def read_blob(
    state: GraphSnapshot | PastState,
    type_name: str,
    entity_id: str,
    name: str,
    start: int = 0,
    length: int | None = None,
) -> BlobPart | None:
    """Read a range of a Blob and nothing else of it; None when the entity does not exist or its Blob is null.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type have that name, or the property is not a Blob.
    """
    table_key = find_table(state.origins if isinstance(state, PastState) else state.state.tables, type_name)
    with state.reading():
        table = state.table(table_key)
        if name not in blob_columns(table.schema):
            details = BadValue(what="property", value=name, expected=f"a Blob of {type_name}")
            raise UsageError(f"'{name}' of {type_name} is not a Blob", details=details)
        found = table.lookup([entity_id], [])
        if not found.num_rows:
            return None
        row = found.slice(0, 1).to_pylist()[0]
        return table.read_blob(row[ROW_ID], row[ROW_ADDRESS], name, start, length)


def entity_of(table_key: str, entity_id: str, found: pa.Table) -> Entity | None:
    """Return the entity that a row is, with the columns of its table; None without one."""
    if not found.num_rows:
        return None
    kind, _, name = table_key.partition(":")
    columns = [column for column in found.column_names if column != KEY]
    values = {column: _host_value(host_values(found.column(column).combine_chunks())[0]) for column in columns}
    ends = {"source": values.pop(_SRC), "target": values.pop(_DST)} if kind == "edge" else {}
    shown: Literal["node", "edge"] = "edge" if kind == "edge" else "node"
    return Entity(kind=shown, type_name=name, id=entity_id, properties=values, **ends)


def find_table(table_keys: Iterable[str], type_name: str) -> str:
    """Return the table of a type, called ``Person`` or ``node:Person``; raises what :func:`read_entity` does."""
    known = tuple(table_keys)
    found = [key for key in known if type_name in {key, key.partition(":")[2]}]
    if not found:
        raise unknown_type(type_name, known)
    if len(found) > 1:
        details = BadValue(what="type", value=type_name, expected=" or ".join(sorted(found)))
        raise UsageError(f"both a node type and an edge type are called '{type_name}'", details=details)
    return found[0]


def _host_value(value: Any) -> Any:
    return (external_address(value) or value) if isinstance(value, bytes) else value


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return blob_text(value)
        case datetime():
            return format_datetime(round(value.timestamp() * 1000))
        case date():
            return value.isoformat()
        case list():
            return [_json_value(item) for item in value]
        case _:
            return value
