"""Which column of a relation holds what: a property of a variable, or how many rows a row stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import count

import pyarrow as pa

from omnigraph.engine.query.steps import Scan
from omnigraph.ir.model import PRIVATE_MARK
from omnigraph.records import record
from omnigraph.spark.queries.relations import Relation
from omnigraph.spark.queries.tasks.wire import wire_schema
from omnigraph.store.tables.pinned import KEY

# A variable and one of its properties; the id is one of them.
Property = tuple[str, str]
# Values that travel with a row beside its entities are properties of this.
VALUE = f"{PRIVATE_MARK}value"
# The property of a variable over several types that tells which one its entity has.
TYPE = f"{PRIVATE_MARK}type"


@record
class Layout:
    """The columns of rows of the match: name and type by property, and the names of weights.

    The weight of a row is the product of its weights, one without any. ``types`` names the type of each variable that
    has one; a variable over several types has a column :data:`TYPE` beside its id. An entity that is missing has NULL
    in all its columns.
    """

    columns: Mapping[Property, tuple[str, pa.DataType]] = field(default_factory=dict)
    weights: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types."""
        fields = [pa.field(name, of) for name, of in self.columns.values()]
        return pa.schema([*fields, *(pa.field(name, pa.int64()) for name in self.weights)])

    @property
    def wire(self) -> pa.Schema:
        """The columns as they travel."""
        return wire_schema(self.schema)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*(name for name, _ in self.columns.values()), *self.weights)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of which some property is there."""
        return tuple(dict.fromkeys(variable for variable, _ in self.columns if variable != VALUE))

    def name(self, variable: str, prop: str = KEY) -> str:
        """Return the column of a property."""
        return self.columns[variable, prop][0]

    def identity(self, variable: str) -> tuple[str, ...]:
        """Return the columns that tell the entities of a variable apart."""
        return tuple(self.name(variable, prop) for prop in (KEY, TYPE) if (variable, prop) in self.columns)

    def of(self, variable: str) -> dict[str, tuple[str, pa.DataType]]:
        """Return the columns of a variable by property."""
        return {prop: column for (owner, prop), column in self.columns.items() if owner == variable}

    def only(self, wanted: Iterable[Property]) -> Layout:
        """Return the layout with the wanted properties alone, and all weights.

        An id of a variable over several types says nothing without the type.
        """
        chosen = frozenset(wanted)
        chosen |= {(variable, TYPE) for variable, prop in chosen if prop == KEY}
        return replace(self, columns={key: column for key, column in self.columns.items() if key in chosen})

    def keeping(self, wanted: Iterable[Property]) -> Layout:
        """Return the layout with the wanted properties, or with one column at least, so that rows stay rows."""
        kept = self.only(wanted)
        if not kept.columns and not self.weights:
            return replace(self, columns=dict(list(self.columns.items())[:1]))
        return kept

    def plus(self, other: Layout) -> Layout:
        """Return the columns of both."""
        return Layout(
            columns={**self.columns, **other.columns},
            weights=(*self.weights, *other.weights),
            types={**self.types, **other.types},
        )


# What is looked at in rows: properties of variables, and values.
Live = frozenset[Property]


@record
class Match:
    """What the steps up to here found.

    Args:
        relation: the rows; None before the first step that makes any.
        layout: their columns.
        whole: every node of a type, which nobody has read yet: a walk from all of them begins at the edges.
        most: how many rows there are at most.
        estimate: about how many there are.
        nullable: the variables whose entity may be missing.
    """

    relation: Relation | None = None
    layout: Layout = field(default_factory=Layout)
    whole: Scan | None = None
    most: float = 1.0
    estimate: float = 1.0
    nullable: frozenset[str] = frozenset()

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


@record(frozen=False, kw_only=False)
class ColumnNames:
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
