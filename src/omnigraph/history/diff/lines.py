"""Differences as lines for people: one per entity, with what became of its properties, and how many there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from omnigraph.catalog.model import Catalog, Scalar
from omnigraph.engine.results.encodings import make_visible
from omnigraph.history.diff.change import EntityChange, EntityImage
from omnigraph.history.diff.compare import DiffStats, TypeCounts
from omnigraph.values.temporal import format_date, format_datetime

_MARKS = {"insert": "+", "update": "~", "delete": "-"}
_MOMENTS: Mapping[Scalar, Callable[[int], str]] = {Scalar.DATE: format_date, Scalar.DATETIME: format_datetime}
_WIDTH = 60


def change_lines(changes: Iterable[EntityChange], catalog: Catalog, *, indent: str = "") -> Iterator[str]:
    """Yield a line per entity: added, changed (old and new values) or removed; the catalog tells dates from numbers."""
    for change in changes:
        arrow = _ends(change.after or change.before)
        told = f"{_MARKS[change.op]} {change.type.name} {change.id}{arrow}"
        values = "".join(f"  {text}" for text in _values(change, _moments(change, catalog)))
        # Whatever an id or a value holds, it stays on the line of its entity.
        yield indent + make_visible(told + values)


def counts_line(counts: DiffStats | TypeCounts) -> str:
    """Return how many entities differ, in words."""
    return f"{counts.inserts} inserted, {counts.updates} updated, {counts.deletes} deleted"


def _moments(change: EntityChange, catalog: Catalog) -> dict[str, Callable[[int], str]]:
    """How the values of an entity are written that are days or milliseconds; a type that is gone has none."""
    types: Mapping[str, Any] = catalog.nodes if change.kind == "node" else catalog.edges
    owner = types.get(change.type.name)
    properties = () if owner is None else owner.properties
    return {prop.name: _MOMENTS[prop.type.scalar] for prop in properties if prop.type.scalar in _MOMENTS}


def _ends(image: EntityImage | None) -> str:
    if image is None or image.endpoints is None:
        return ""
    ends = image.to_json()["endpoints"]
    return f" ({ends['from']} → {ends['to']})"


def _values(change: EntityChange, moments: Mapping[str, Callable[[int], str]]) -> Iterator[str]:
    before = _fields(change.before, moments)
    after = _fields(change.after, moments)
    if change.op == "update":
        for name in change.changed:
            yield f"{name}: {_short(before.get(name))} → {_short(after.get(name))}"
    elif change.op == "insert":
        for name, value in after.items():
            if value is not None and name not in {"from", "to"}:
                yield f"{name}: {_short(value)}"


def _fields(image: EntityImage | None, moments: Mapping[str, Callable[[int], str]]) -> dict[str, Any]:
    if image is None:
        return {}
    plain = image.to_json()
    told = {name: _told(value, moments.get(name)) for name, value in plain["properties"].items()}
    return {**told, **plain.get("endpoints", {})}


def _told(value: Any, show: Callable[[int], str] | None) -> Any:
    if show is None or value is None:
        return value
    return [_told(item, show) for item in value] if isinstance(value, list) else show(value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
