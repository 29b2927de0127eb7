"""Rows of a match as a relation, and the relation that an unfinished one begins with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa

from omnigraph.engine.query.steps import Scan
from omnigraph.records import record
from omnigraph.spark.query.layout import Layout
from omnigraph.spark.query.liveness import Live
from omnigraph.spark.query.relations import Relation


@record
class Match:
    """What the steps up to here found.

    Args:
        relation: the rows; None before the first step that makes any.
        layout: their columns.
        whole: every node of a type, which nobody has read yet: a walk from all of them begins at the edges.
        most: how many rows there are at most.
        estimate: about how many there are.
    """

    relation: Relation | None = None
    layout: Layout = field(default_factory=Layout)
    whole: Scan | None = None
    most: float = 1.0
    estimate: float = 1.0

    @property
    def is_unit(self) -> bool:
        """Whether this is the one row without columns that every match begins with."""
        return self.relation is None and self.whole is None

    def holding(self, relation: Relation, layout: Layout, live: Live, *, most: float, estimate: float) -> Match:
        """Return rows with the columns of a layout that are still needed."""
        kept = layout.keeping(live)
        if set(kept.names) != set(relation.names):
            relation = relation.select({name: name for name in kept.names})
        return replace(self, relation=relation, layout=kept, whole=None, most=most, estimate=estimate)


@dataclass(slots=True)
class Names:
    """Names for columns, none of them twice in one read."""

    numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        """Return a name that no other column has."""
        return f"c{next(self.numbers)}"


@record
class UnitTask:
    """Makes one row for every number, which counts once."""

    weight: str

    @property
    def schema(self) -> pa.Schema:
        """The weight alone."""
        return pa.schema([pa.field(self.weight, pa.int64())])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for batch in batches:
            yield pa.record_batch([pa.array([1] * batch.num_rows, pa.int64())], schema=self.schema)
