"""Which column of a relation holds what: a property of a variable, or how many rows a row stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

import pyarrow as pa

from omnigraph.records import record
from omnigraph.spark.query.wire import wire_schema
from omnigraph.store.table import KEY

# A variable and one of its properties; the id is one of them.
Property = tuple[str, str]


@record
class Layout:
    """The columns of rows of the match: name and type by property, and the names of weights.

    The weight of a row is the product of its weights, one without any.
    """

    columns: Mapping[Property, tuple[str, pa.DataType]] = field(default_factory=dict)
    weights: tuple[str, ...] = ()

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
        return tuple(dict.fromkeys(variable for variable, _ in self.columns))

    def name(self, variable: str, prop: str = KEY) -> str:
        """Return the column of a property."""
        return self.columns[variable, prop][0]

    def keeping(self, wanted: Iterable[Property]) -> Layout:
        """Return the layout with the wanted properties alone; with one column at least, so that rows stay rows."""
        chosen = frozenset(wanted)
        kept = {key: column for key, column in self.columns.items() if key in chosen}
        if not kept and not self.weights:
            kept = dict(list(self.columns.items())[:1])
        return replace(self, columns=kept)

    def plus(self, other: Layout) -> Layout:
        """Return the columns of both."""
        return Layout(columns={**self.columns, **other.columns}, weights=(*self.weights, *other.weights))
