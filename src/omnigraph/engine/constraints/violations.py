"""Violations in the making: the first few are described, all of them are counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import islice

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.view import GraphChange, TypeChange
from omnigraph.errors import ConstraintRule, Violation, Violations
from omnigraph.errors.data import place_of
from omnigraph.records import record


@record
class RowPlace:
    """A row of a change as violations name it: its id, and where it came from if that is known."""

    entity_id: str | None
    source: str | None = None
    line: int | None = None


def describe_row(
    owner: NodeType | EdgeType, rule: ConstraintRule, at: RowPlace, message: str, *, name: str | None, value: str | None
) -> Violation:
    """Describe a row of a change that breaks ``rule``; ``name`` is the property it is about."""
    return Violation(
        rule=rule,
        type_name=owner.name,
        message=message,
        property=name,
        entity_id=at.entity_id,
        value=value,
        source=at.source,
        line=at.line,
    )


def describe_clash(
    owner: NodeType | EdgeType,
    columns: Sequence[str],
    at: RowPlace,
    value: str,
    *,
    other: str,
    first: RowPlace | None = None,
) -> Violation:
    """Describe a row whose tuple ``value`` the entity ``other`` has too; ``first`` is its row if the change has it."""
    label = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    rule: ConstraintRule = "key" if owner.key is not None and set(columns) == set(owner.key) else "unique"
    holders = f"held by '{other}' and '{at.entity_id}'"
    if rule == "key":
        source = None if first is None else first.source
        holders = (
            "occurs twice"
            if first is None or source is None
            else f"occurs twice, first in {place_of(source, first.line)}"
        )
    message = f"@{rule} violation on {owner.name}.{label}: value '{value}' {holders}"
    return describe_row(owner, rule, at, message, name=label, value=value)


def describe_missing_end(edge: EdgeType, at: RowPlace, side: str, node: str) -> Violation:
    """Describe a written edge one of whose nodes is not there."""
    return describe_row(edge, "endpoint", at, _not_found(edge, side, node), name=side, value=node)


def describe_orphan(edge: EdgeType, identifier: str, side: str, node: str) -> Violation:
    """Describe a stored edge that loses a node it joins."""
    return Violation(
        rule="orphan",
        type_name=edge.name,
        message=f"{_not_found(edge, side, node)}, used by edge {identifier!r}",
        property=side,
        entity_id=identifier,
        value=node,
    )


def describe_edge_count(edge: EdgeType, source: str, edges: int, at: RowPlace | None) -> Violation:
    """Describe a source with too few or too many edges; ``at`` is the first written one, if any is."""
    rule = edge.cardinality
    bound = f"min {rule.minimum}" if edges < rule.minimum else f"max {rule.maximum}"
    message = f"@card violation on edge {edge.name}: source '{source}' has {edges} edges ({bound})"
    return describe_row(edge, "cardinality", at or RowPlace(entity_id=None), message, name="src", value=source)


def describe_taken_id(owner: NodeType | EdgeType, at: RowPlace) -> Violation:
    """Describe a row whose id must not be there yet and is."""
    message = f"table '{owner.table_key}' already has this id: {at.entity_id!r}"
    return describe_row(owner, "id", at, message, name="id", value=at.entity_id)


def _not_found(edge: EdgeType, side: str, node: str) -> str:
    node_type = edge.from_type if side == "src" else edge.to_type
    return f"{side} '{node}' not found in {node_type}"


@record(frozen=False)
class ViolationList:
    """Collects violations in the order they are added; describes only as many as the caller wants to read."""

    limit: int
    total: int = 0
    _items: list[Violation] = field(default_factory=list)

    def add(self, count: int, described: Iterable[Violation]) -> None:
        """Add ``count`` violations; of ``described`` only what still fits is drawn."""
        self.total += count
        room = self.limit - len(self._items)
        if count and room > 0:
            self._items.extend(islice(described, min(count, room)))

    def finish(self) -> Violations:
        """Return what was collected."""
        return Violations(items=tuple(self._items), total=self.total)


@record
class Describer:
    """Writes violations of one type's rows, with the place each row came from."""

    change: GraphChange
    part: TypeChange

    def row(
        self, rule: ConstraintRule, row: int, message: str, *, property_name: str | None, value: str | None
    ) -> Violation:
        """Describe a row of the change that breaks ``rule``."""
        return describe_row(self.part.type, rule, self.place(row), message, name=property_name, value=value)

    def place(self, row: int) -> RowPlace:
        """Return the id of a row of the change and where it came from."""
        source, line = self._source(row)
        return RowPlace(entity_id=self._entity_id(row), source=source, line=line)

    def _entity_id(self, row: int) -> str | None:
        if self.part.rows is None or "id" not in self.part.rows.column_names:
            return None
        identifier: str | None = self.part.rows.column("id")[row].as_py()
        return identifier

    def _source(self, row: int) -> tuple[str | None, int | None]:
        if self.part.sources is None:
            return None, None
        number = self.part.sources.column("source")[row].as_py()
        line = self.part.sources.column("line")[row].as_py()
        return None if number is None else self.change.sources[number], line
