"""Differences as lines for people: one per entity, with what became of its properties, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from omnigraph.catalog.model import Catalog, Scalar
from omnigraph.history.diff.change import EntityChange
from omnigraph.history.diff.compare import DiffStats, TypeCounts
from omnigraph.values.temporal import format_date, format_datetime

_MOMENTS: Mapping[Scalar, Callable[[int], str]] = {Scalar.DATE: format_date, Scalar.DATETIME: format_datetime}


def change_lines(changes: Iterable[EntityChange], catalog: Catalog, *, indent: str = "") -> Iterator[str]:
    """Yield a line per entity: added, changed (old and new values) or removed; the catalog tells dates from numbers."""
    for change in changes:
        yield indent + change.line(_moments(change, catalog))


def counts_line(counts: DiffStats | TypeCounts) -> str:
    """Return how many entities differ, in words."""
    return f"{counts.inserts} inserted, {counts.updates} updated, {counts.deletes} deleted"


def _moments(change: EntityChange, catalog: Catalog) -> dict[str, Callable[[int], str]]:
    """How the values of an entity are written that are days or milliseconds; a type that is gone has none."""
    types: Mapping[str, Any] = catalog.nodes if change.kind == "node" else catalog.edges
    owner = types.get(change.type.name)
    properties = () if owner is None else owner.properties
    return {prop.name: _MOMENTS[prop.type.scalar] for prop in properties if prop.type.scalar in _MOMENTS}
