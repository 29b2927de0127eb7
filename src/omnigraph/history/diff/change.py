"""Changes of entities as data, and the filters that choose among them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decimals import decimal_texts
from omnigraph.errors import BadValue, ChangeValueError, UsageError
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY
from omnigraph.values import checked_names, meant
from omnigraph.values.blobs import blob_text
from omnigraph.values.visible import make_visible

SRC, DST = "src", "dst"


@record
class Endpoints:
    """The two ends of an edge."""

    source: str
    target: str

    def to_json(self) -> dict[str, Any]:
        """Return the ends as JSON values."""
        return {"from": self.source, "to": self.target}


@record
class EntityImage:
    """A row as it was or is: its properties in export encoding, and its ends when it is an edge."""

    properties: Mapping[str, Any]
    endpoints: Endpoints | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the image as JSON values."""
        ends = {} if self.endpoints is None else {"endpoints": self.endpoints.to_json()}
        return {"properties": dict(self.properties), **ends}


def row_images(rows: pa.Table, *, is_edge: bool) -> list[EntityImage]:
    """Return the image of every row.

    Raises:
        ChangeValueError: a float is not finite.
    """
    return list(iter_images(rows, is_edge=is_edge))


def iter_images(rows: pa.Table, *, is_edge: bool) -> Iterator[EntityImage]:
    """Yield the image of every row in order; columns are converted at once."""
    names = property_names(rows.schema, is_edge=is_edge)
    columns = [export_values(rows.column(name), name) for name in names]
    ends = list(_endpoints(rows)) if is_edge else [None] * rows.num_rows
    values = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
    for row, end in zip(values, ends, strict=True):
        yield EntityImage(properties=dict(zip(names, row, strict=True)), endpoints=end)


def property_names(schema: pa.Schema, *, is_edge: bool) -> tuple[str, ...]:
    """Return the columns that are properties, in the table's order."""
    system = {KEY, SRC, DST} if is_edge else {KEY}
    return tuple(name for name in schema.names if name not in system)


def export_values(column: pa.ChunkedArray | pa.Array, name: str) -> list[Any]:
    """Return a column's values in export encoding: days and milliseconds as integers, blobs as their texts."""
    found: list[Any] = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        found += _values(chunk, name)
    return found


def _endpoints(rows: pa.Table) -> Iterator[Endpoints]:
    for source, target in zip(rows.column(SRC).to_pylist(), rows.column(DST).to_pylist(), strict=True):
        yield Endpoints(source=source, target=target)


def _values(array: pa.Array, name: str) -> list[Any]:
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        items = _values(array.flatten(), name)
        lengths = [kind.list_size] * len(array)
        return _regrouped(items, lengths, array.is_valid().to_pylist())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
        return _regrouped(_values(array.flatten(), name), lengths, array.is_valid().to_pylist())
    if pa.types.is_date32(kind):
        days: list[Any] = array.view(pa.int32()).to_pylist()
        return days
    if pa.types.is_date64(kind):
        instants: list[Any] = array.view(pa.int64()).to_pylist()
        return instants
    if pa.types.is_floating(kind):
        return _floats(array, name)
    if pa.types.is_decimal(kind):
        texts: list[Any] = decimal_texts(array).to_pylist()
        return texts
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else blob_text(value) for value in array.to_pylist()]
    plain: list[Any] = array.to_pylist()
    return plain


def _floats(array: pa.Array, name: str) -> list[Any]:
    numbers = array.drop_null().to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():
        found = str(numbers[~np.isfinite(numbers)][0])
        details = BadValue(what=name, value=found, expected="a finite number")
        raise ChangeValueError(f"value {found} of property '{name}' cannot be exported", details=details)
    values: list[Any] = array.to_pylist()
    return values


def _regrouped(items: list[Any], lengths: list[int], valid: list[bool]) -> list[Any]:
    """Cut what was flattened into lists again; flattening leaves out what stands in a null."""
    groups: list[Any] = []
    start = 0
    for length, is_valid in zip(lengths, valid, strict=True):
        if not is_valid:
            groups.append(None)
            continue
        groups.append(items[start : start + length])
        start += length
    return groups


EntityKind = Literal["node", "edge"]
ChangeOp = Literal["insert", "update", "delete"]

# The order in which operations on one id would stand.
OP_RANKS: Mapping[ChangeOp, int] = {"insert": 0, "update": 1, "delete": 2}
_SEPARATOR = b"\x1f"

# How a day or a moment, which are numbers in a change, is written for people.
ValueFormat = Callable[[int], str]
_PLAIN: Mapping[str, ValueFormat] = MappingProxyType({})
_MARKS = {"insert": "+", "update": "~", "delete": "-"}
_WIDTH = 60


@record
class ChangedType:
    """A type: an opaque id that renames keep and a drop ends, and the name it has at that moment."""

    id: str
    name: str

    @classmethod
    def of(cls, graph_id: str, object_id: str, name: str) -> ChangedType:
        """Return the reference to a declaration of a graph, known by what identifies its table."""
        stable, _, incarnation = object_id.partition("-")
        digest = hashlib.sha256(_SEPARATOR.join(part.encode() for part in (graph_id, stable, incarnation))).digest()
        return cls(id=base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), name=name)

    def to_json(self) -> dict[str, Any]:
        """Return the reference as JSON values."""
        return {"id": self.id, "name": self.name}


@record
class EntityChange:
    """One entity that differs between two states.

    Args:
        kind: node or edge.
        type: its type.
        id: its id.
        op: what happened, told by the two states alone.
        before: the entity as it was; None for an insert.
        after: the entity as it is; None for a delete.
        changed: the properties of an update that differ, ends as ``from`` and ``to``.
    """

    kind: EntityKind
    type: ChangedType
    id: str
    op: ChangeOp
    before: EntityImage | None = None
    after: EntityImage | None = None
    changed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        images = {
            name: image.to_json()
            for name, image in (("before", self.before), ("after", self.after))
            if image is not None
        }
        return {"kind": self.kind, "type": self.type.to_json(), "id": self.id, "op": self.op, **images}

    def line(self, formats: Mapping[str, ValueFormat] = _PLAIN) -> str:
        """Return one line for people: the entity with its old and new values, those of ``formats`` written by it."""
        entity = f"{_MARKS[self.op]} {self.type.name} {self.id}{_ends(self.after or self.before)}"
        values = "".join(f"  {text}" for text in _value_texts(self, formats))
        # Whatever an id or a value holds, it stays on the line of its entity.
        return make_visible(entity + values)

    def __str__(self) -> str:
        return self.line()


def _ends(image: EntityImage | None) -> str:
    if image is None or image.endpoints is None:
        return ""
    ends = image.to_json()["endpoints"]
    return f" ({ends['from']} → {ends['to']})"


def _value_texts(change: EntityChange, formats: Mapping[str, ValueFormat]) -> Iterator[str]:
    before = _fields(change.before, formats)
    after = _fields(change.after, formats)
    if change.op == "update":
        for name in change.changed:
            yield f"{name}: {_short(before.get(name))} → {_short(after.get(name))}"
    elif change.op == "insert":
        for name, value in after.items():
            if value is not None and name not in {"from", "to"}:
                yield f"{name}: {_short(value)}"


def _fields(image: EntityImage | None, formats: Mapping[str, ValueFormat]) -> dict[str, Any]:
    if image is None:
        return {}
    plain = image.to_json()
    written = {name: _formatted(value, formats.get(name)) for name, value in plain["properties"].items()}
    return {**written, **plain.get("endpoints", {})}


def _formatted(value: Any, show: ValueFormat | None) -> Any:
    if show is None or value is None:
        return value
    return [_formatted(item, show) for item in value] if isinstance(value, list) else show(value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


@record
class ChangeFilter:
    """Which changes are wanted; an empty dimension wants all. ``type_ids`` follow a type through its renames."""

    kinds: frozenset[EntityKind] = frozenset()
    type_names: frozenset[str] = frozenset()
    ops: frozenset[ChangeOp] = frozenset()
    ids: frozenset[str] = frozenset()
    type_ids: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        *,
        kinds: Iterable[str] = (),
        type_names: Iterable[str] = (),
        ops: Iterable[str] = (),
        ids: Iterable[str] = (),
    ) -> ChangeFilter:
        """Return the filter for words as a request brings them.

        Raises:
            UsageError: a kind or an operation is none, or a dimension is not several names.
        """
        return cls(
            kinds=frozenset(_known(checked_names("kinds", kinds), "kind", get_args(EntityKind))),
            type_names=frozenset(checked_names("types", type_names)),
            ops=frozenset(_known(checked_names("ops", ops), "op", get_args(ChangeOp))),
            ids=frozenset(checked_names("ids", ids)),
        )

    def wants_type(self, kind: EntityKind, name: str) -> bool:
        """Whether entities of this type can pass."""
        return (not self.kinds or kind in self.kinds) and (not self.type_names or name in self.type_names)

    def wants(self, kind: EntityKind, changed: ChangedType) -> bool:
        """Whether entities of this lifetime of a type can pass."""
        return self.wants_type(kind, changed.name) and (not self.type_ids or changed.id in self.type_ids)

    def wants_op(self, op: ChangeOp) -> bool:
        """Whether changes by this operation can pass."""
        return not self.ops or op in self.ops

    @property
    def digest(self) -> str:
        """The same text for every way of asking for the same changes."""
        dimensions = {
            "kinds": _canonical(self.kinds, len(get_args(EntityKind))),
            "type_names": _canonical(self.type_names, None),
            "ops": _canonical(self.ops, len(get_args(ChangeOp))),
            "ids": _canonical(self.ids, None),
            **({"type_ids": sorted(self.type_ids)} if self.type_ids else {}),
        }
        return hashlib.sha256(json.dumps(dimensions, sort_keys=True).encode()).hexdigest()


NO_FILTER = ChangeFilter()


def _known(words: Iterable[str], what: str, known: tuple[Any, ...]) -> Iterable[Any]:
    for word in words:
        if word not in known:
            details = BadValue(what=what, value=word, expected=" | ".join(known))
            raise UsageError(f"unknown {what} {word!r}", details=details, hint=meant(word, known))
        yield word


def _canonical(values: frozenset[Any], all_count: int | None) -> list[str]:
    return [] if len(values) == all_count else sorted(values)
