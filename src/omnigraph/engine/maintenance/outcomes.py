"""What became of projections that were to be built, and what monitoring shows of them."""

from __future__ import annotations

from typing import Any

from omnigraph.records import record
from omnigraph.values.counts import counted


@record
class ProjectionOutcome:
    """A projection that was built, or was not because of ``error``; ``prop`` is the property that it is about."""

    kind: str
    table_key: str
    prop: str
    rows: int
    bytes: int
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as every result shows it."""
        return {
            "type_key": self.table_key,
            "kind": self.kind,
            "property": self.prop or None,
            "rows": self.rows,
            "bytes": self.bytes,
            "error": self.error,
        }

    def __str__(self) -> str:
        name = named(self.kind, self.prop)
        if self.error is not None:
            return f"projection {name} not built ({self.error})"
        return f"built projection {name} ({counted(self.rows, 'row')}, {self.bytes} bytes)"


def named(kind: str, prop: str) -> str:
    """Return what a projection is called where people read it."""
    return f"{kind} of {prop}" if prop else kind


@record
class ProjectionFigures:
    """What all projections of a graph take, and the part of the rows that the one which covers least covers."""

    bytes: int
    share: float
