"""Violations in the making: the first few are described, all of them are counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from omnigraph.engine.change import GraphChange, TypeChange
from omnigraph.engine.describing import RowPlace, describe_row
from omnigraph.errors import Violation, Violations
from omnigraph.errors.engine import ConstraintRule
from omnigraph.records import record


@dataclass(slots=True, kw_only=True)
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
