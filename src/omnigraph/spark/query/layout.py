"""Which column of a relation holds what: a property of a variable, or how many rows a row stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import assert_never

import pyarrow as pa

from omnigraph.engine.query.predicates import read_columns
from omnigraph.engine.query.steps import (
    AntiJoinStep,
    BlockStep,
    CountExpand,
    Intersect,
    LinkTest,
    OptionalStep,
    Scan,
    Step,
)
from omnigraph.ir.model import (
    AggregateCall,
    Column,
    EntityRef,
    EntityTies,
    Expand,
    Filter,
    Narrow,
    OutputExpression,
    Predicate,
    RankingValue,
    ReadPlan,
    SameEntity,
    UnionScan,
    Unwind,
    Walk,
    Widen,
    operands_of,
)
from omnigraph.records import record
from omnigraph.spark.query.relations import Relation
from omnigraph.spark.query.wire import wire_schema
from omnigraph.store.tables.pinned import KEY

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


Live = frozenset[Property]


def live_after(steps: tuple[Step, ...], last: Live) -> tuple[Live, ...]:
    """Return for each step what the steps behind it and, after them, ``last`` look at."""
    found: list[Live] = []
    live = last
    for step in reversed(steps):
        found.append(live)
        live = live | uses(step)
    return tuple(reversed(found))


def uses(step: Step) -> Live:
    """Return what a step looks at in the rows that reach it."""
    match step:
        case Scan():
            return frozenset()
        case Expand():
            return frozenset({(step.source, KEY)})
        case Filter():
            return predicate_uses(step.predicate)
        case LinkTest():
            return frozenset({(step.source, KEY), (step.destination, KEY)})
        case Intersect():
            return frozenset().union(*(uses(part) for part in step.parts))
        case CountExpand():
            return frozenset({(step.expand.source, KEY)})
        case AntiJoinStep():
            return frozenset().union(*(uses(inner) for inner in step.steps), ((name, KEY) for name in _starts(step)))
        case OptionalStep() | BlockStep() | Unwind() | Walk() | UnionScan() | Narrow() | Widen():
            # Turned away before anything is laid out.
            return frozenset()
        case _:
            assert_never(step)


def predicate_uses(predicate: Predicate) -> Live:
    """Return what a predicate looks at."""
    if isinstance(predicate, SameEntity):
        return frozenset({(predicate.left, KEY), (predicate.right, KEY)})
    ids = (value for value in operands_of(predicate) if isinstance(value, EntityRef))
    properties = {(column.variable, column.property) for column in read_columns(predicate)}
    return frozenset(properties | {(value.variable, KEY) for value in ids})


def result_uses(read: ReadPlan) -> Live:
    """Return what grouping, order and output look at."""
    found = {item for output in read.outputs for item in _expression_uses(output.expression)}
    found.update((key.key.variable, key.key.property) for key in read.order if isinstance(key.key, Column))
    if read.order and isinstance(read.ties, EntityTies):
        found.update((variable, KEY) for variable in read.ties.variables)
    return frozenset(found)


def _expression_uses(expression: OutputExpression) -> Iterator[Property]:
    if isinstance(expression, AggregateCall):
        # Rows are counted without a look at them.
        if expression.function == "count" and isinstance(expression.argument, EntityRef):
            return
        value = expression.argument
    else:
        value = None if isinstance(expression, RankingValue) else expression
    if isinstance(value, Column):
        yield value.variable, value.property
    elif isinstance(value, EntityRef):
        yield value.variable, KEY


def _starts(step: AntiJoinStep) -> Iterator[str]:
    """Yield the variables whose rows are told apart by id once the inner steps have run."""
    for inner in step.steps:
        yield from (variable for variable, _ in uses(inner))


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
