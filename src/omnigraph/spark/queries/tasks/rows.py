"""Rows that carry their values, seen as the embedded engine sees rows: its functions then do the work.

Every variable gets a small table of its own, made of the entities that occur, and rows name entities by their place
in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.engine.query.frame import MISSING, Frame, Mask, Positions, RowIds
from omnigraph.engine.query.limits import Limits, check_column_bytes
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.values import passing
from omnigraph.errors import InternalError
from omnigraph.ir.model import Column, Condition, Constant, ParameterRef, SameEntity, TextMatch
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.queries.layout import TYPE, VALUE, Layout
from omnigraph.spark.queries.tasks.wire import aligned, decode
from omnigraph.store.tables.pinned import KEY

# Rows that are looked at together: enough to pay for a call, few enough to stay in the cache.
BATCH_ROWS = 1 << 16
# Rows that may gather before they are cut down to those that can still be among the first.
CUT_ROWS = 1 << 18


@record
class TaskParameters:
    """What the request brought, as every task needs it."""

    parameters: Mapping[str, Any]
    fits_literals: bool
    max_hops: int = QueryOptions().max_hops

    def value(self, operand: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""
        return operand.value if isinstance(operand, Constant) else self.parameters[operand.name]


class KeptColumns:
    """A task whose rows come out with the columns of ``kept``."""

    kept: Layout

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.kept.wire


class TaskContext:
    """What the stages of a read ask of a run, wherever their rows are."""

    def __init__(self, given: TaskParameters) -> None:
        self._given = given
        self.options = QueryOptions(max_hops=given.max_hops)
        self.limits = Limits(self.options, Runtime.system().clock)
        self.fits_literals = given.fits_literals

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""
        return self._given.value(value)


class CarriedRows:
    """A batch of rows, as predicates and values ask them."""

    def __init__(self, given: TaskParameters, layout: Layout, rows: pa.Table) -> None:
        self._given = given
        self._layout = layout
        self._rows = rows
        self.length: int = rows.num_rows
        self.fits_literals = given.fits_literals

    def column(self, column: Column) -> pa.Array:
        """Return a property, one value per row."""
        return one_array(self._rows.column(self._layout.name(column.variable, column.property)))

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""
        return self._given.value(value)

    def matches_text(self, predicate: TextMatch) -> Mask:
        """Refuse: what asks for it was turned away before anything ran."""
        message = f"a text search among carried rows: {predicate}"
        raise InternalError(message)

    def same_entity(self, predicate: SameEntity) -> Mask:
        """Return in which rows two variables hold the same entity."""
        same = pc.equal(self.entity_ids(predicate.left), self.entity_ids(predicate.right))
        if any((name, TYPE) in self._layout.columns for name in (predicate.left, predicate.right)):
            kinds = pc.equal(self.entity_types(predicate.left), self.entity_types(predicate.right))
            same = pc.and_(same, kinds)
        return np.asarray(pc.fill_null(same, fill_value=False).to_numpy(zero_copy_only=False), dtype=np.bool_)

    def passes(self, condition: Condition) -> Mask:
        """Return in which rows a condition is true."""
        return passing(condition, self)

    def entity_ids(self, variable: str) -> pa.Array:
        """Return the ids of a variable's entities; NULL where one is missing."""
        return one_array(self._rows.column(self._layout.name(variable)))

    def entity_types(self, variable: str) -> pa.Array:
        """Return the types of a variable's entities; NULL where one is missing."""
        if (variable, TYPE) in self._layout.columns:
            return one_array(self._rows.column(self._layout.name(variable, TYPE)))
        missing = np.asarray(self.entity_ids(variable).is_null())
        name = pa.array([self._layout.types[variable]], pa.string())
        return name.take(pa.array(np.zeros(self.length, dtype=np.int64), mask=missing))

    def entity_rows(self, variable: str) -> pa.Array:
        """Return a number for each entity, which is that of the first of these rows that holds it."""
        return pa.array(first_rows([self._rows.column(name) for name in self._layout.identity(variable)]), pa.int64())

    def entity_versions(self, variable: str) -> pa.Array:
        """Refuse: what asks for it was turned away before anything ran."""
        message = f"versions among carried rows: {variable}"
        raise InternalError(message)

    def value(self, name: str) -> pa.Array:
        """Return a value that travels with the rows."""
        return one_array(self._rows.column(self._layout.name(VALUE, name)))

    def place(self, at: int) -> str:
        """Return nothing: rows carry the ids of entities only where something else needs them."""
        del at
        return ""

    def check_bytes(self, size_bytes: int) -> None:
        """Raise if a column of so many bytes is more than one array can hold."""
        check_column_bytes(size_bytes)

    def subset(self, positions: Positions) -> CarriedRows:
        """Return some of the rows."""
        return CarriedRows(self._given, self._layout, self._rows.take(pa.array(positions)))


def first_rows(identity: Sequence[pa.Array | pa.ChunkedArray]) -> Positions:
    """Return for each row the first one with the same entity, given its id and perhaps its type; missing stays so."""
    ids = one_array(identity[0])
    codes = np.zeros(len(ids), dtype=np.int64)
    for column in identity:
        numbered = one_array(column).dictionary_encode()
        numbers = pc.fill_null(numbered.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * (len(numbered.dictionary) + 1) + numbers + 1
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    found: Positions = first[places]
    found[np.asarray(ids.is_null())] = MISSING
    return found


class TaskRows:
    """Some rows with their values, as output, order and groups of the embedded engine ask for them.

    There is no snapshot behind it: whatever a read looks at after its match is in the rows.
    """

    def __init__(self, given: TaskParameters, layout: Layout, rows: pa.Table) -> None:
        self._given = given
        self.limits = Limits(QueryOptions(), Runtime.system().clock)
        self.variables = {variable: variable for variable in layout.variables}
        self.keeps_order = False
        self._held: dict[str, Mapping[str, pa.Array]] = {}
        ids: dict[str, RowIds] = {}
        for variable in layout.variables:
            columns = {
                prop: one_array(rows.column(name)) for (of, prop), (name, _) in layout.columns.items() if of == variable
            }
            ids[variable], self._held[variable] = _entities(columns, rows.num_rows)
        self.frame = Frame(length=rows.num_rows, ids=ids, weights=_weights(layout, rows))

    @classmethod
    def of(cls, given: TaskParameters, layout: Layout, batch: pa.RecordBatch | pa.Table) -> TaskRows:
        """Return rows that travelled."""
        return cls(given, layout, decode(batch, layout.schema))

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or a parameter."""
        return self._given.value(value)

    def take(self, variable: str, row_ids: RowIds, name: str) -> pa.Array:
        """Return a property of entities of a variable."""
        return self._held[variable][name].take(pa.array(row_ids))

    def whole_table(self, variable: str, count: int) -> None:
        """Return None: there is no table behind the rows."""
        del variable, count


def gathered(batches: Iterator[pa.RecordBatch], schema: pa.Schema, row_count: int) -> Iterator[pa.Table]:
    """Yield rows in tables of about so many; one empty table for no rows at all."""
    held: list[pa.RecordBatch] = []
    count = 0
    is_first = True
    for batch in batches:
        held.append(aligned(batch, schema))
        count += batch.num_rows
        if count >= row_count:
            yield pa.Table.from_batches(held, schema)
            held, count, is_first = [], 0, False
    if held or is_first:
        yield pa.Table.from_batches(held, schema)


def _entities(columns: Mapping[str, pa.Array], row_count: int) -> tuple[RowIds, Mapping[str, pa.Array]]:
    if KEY not in columns:
        return np.arange(row_count), columns
    if TYPE in columns:
        return first_rows([columns[KEY], columns[TYPE]]), columns
    numbered = columns[KEY].dictionary_encode()
    places = numbered.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if len(numbered.dictionary) == row_count:
        return np.arange(row_count), columns
    first = np.zeros(len(numbered.dictionary), dtype=np.int64)
    # The last of several writes to one place stays, so that going backwards leaves the first row of each entity.
    first[places[::-1]] = np.arange(row_count)[::-1]
    chosen = pa.array(first)
    return places, {name: values.take(chosen) for name, values in columns.items()}


def _weights(layout: Layout, rows: pa.Table) -> RowIds | None:
    if not layout.weights:
        return None
    product = np.ones(rows.num_rows, dtype=np.int64)
    for name in layout.weights:
        product *= rows.column(name).to_numpy()
    return product
