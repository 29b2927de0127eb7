"""What later steps still look at: only that travels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.engine.query.steps import LinkTest, Scan, Step, Unless, Weigh
from omnigraph.engine.query.values.predicates import read_columns
from omnigraph.ir.model import (
    AggregateCall,
    Column,
    EntityRef,
    EntityTies,
    Expand,
    Filter,
    OutputExpression,
    Predicate,
    ReadPlan,
    SameEntity,
)
from omnigraph.spark.query.layout import Property
from omnigraph.store.table import KEY

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
        case Weigh():
            return frozenset({(step.expand.source, KEY)})
        case Unless():
            return frozenset().union(*(uses(inner) for inner in step.steps), ((name, KEY) for name in _starts(step)))
        case _:
            assert_never(step)


def predicate_uses(predicate: Predicate) -> Live:
    """Return what a predicate looks at."""
    if isinstance(predicate, SameEntity):
        return frozenset({(predicate.left, KEY), (predicate.right, KEY)})
    return frozenset((column.variable, column.property) for column in read_columns(predicate))


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
        expression = expression.argument
    if isinstance(expression, Column):
        yield expression.variable, expression.property
    elif isinstance(expression, EntityRef):
        yield expression.variable, KEY


def _starts(step: Unless) -> Iterator[str]:
    """Yield the variables whose rows are told apart by id once the inner steps have run."""
    for inner in step.steps:
        yield from (variable for variable, _ in uses(inner))
