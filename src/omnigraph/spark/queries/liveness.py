"""What the steps of a read and its output look at: the columns that rows have to carry on their way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.engine.query.steps import (
    AntiJoinStep,
    Block,
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
    EntityRow,
    EntityTies,
    EntityType,
    Expand,
    Filter,
    Narrow,
    OutputExpression,
    Predicate,
    RankingValue,
    ReadPlan,
    SameEntity,
    Scalarlike,
    Truth,
    UnionScan,
    Unwind,
    ValueRef,
    Walk,
    Widen,
    inner_values,
    operands_of,
)
from omnigraph.spark.queries.layout import TYPE, VALUE, Live, Property
from omnigraph.store.tables.pinned import KEY


def live_after(steps: tuple[Step, ...], last: Live) -> tuple[Live, ...]:
    """Return for each step what the steps behind it and, after them, ``last`` look at."""
    found: list[Live] = []
    live = last
    for step in reversed(steps):
        found.append(live)
        live = live_before(step, live)
    return tuple(reversed(found))


def live_at_start(steps: tuple[Step, ...], last: Live) -> Live:
    """Return what steps and, after them, ``last`` look at in the rows that the steps begin with."""
    for step in reversed(steps):
        last = live_before(step, last)
    return last


def live_before(step: Step, live: Live) -> Live:
    """Return what a step and, after it, ``live`` look at in the rows that reach the step."""
    made = frozenset(_made(step))
    return frozenset(item for item in live if item[0] not in made and item not in made) | uses(step, live)


def _made(step: Step) -> Iterator[str | Property]:
    """Yield the variables and values that a step gives its rows."""
    match step:
        case Scan() | UnionScan() | Widen():
            yield step.variable
        case Narrow():
            yield step.name
        case Expand() | Walk():
            yield step.destination
            if step.edge_variable is not None and (isinstance(step, Expand) or step.binds_edge):
                yield step.edge_variable
        case OptionalStep():
            yield from step.introduced
            yield from ((VALUE, name) for name in step.values)
        case BlockStep() | Unwind():
            yield VALUE, step.name
        case Intersect():
            for part in step.parts:
                yield from _made(part)
        case Filter() | LinkTest() | CountExpand() | AntiJoinStep():
            return
        case _:
            assert_never(step)


def uses(step: Step, live: Live = frozenset()) -> Live:
    """Return what a step looks at in the rows that reach it, of which ``live`` is wanted behind it."""
    match step:
        case Scan() | UnionScan():
            return frozenset()
        case Expand() | Walk():
            return _walk_uses(step)
        case CountExpand():
            return uses(step.expand)
        case Filter():
            return predicate_uses(step.predicate)
        case LinkTest():
            return frozenset({(step.source, KEY), (step.destination, KEY)})
        case Intersect():
            return live_at_start(step.parts, frozenset())
        case Narrow() | Widen():
            return frozenset(_source_uses(step, live))
        case Unwind():
            return value_uses(step.items)
        case AntiJoinStep() | OptionalStep() | BlockStep():
            return _block_uses(step, live)
        case _:
            assert_never(step)


def _walk_uses(step: Expand | Walk) -> Live:
    if isinstance(step, Expand) or step.condition is None:
        return frozenset({(step.source, KEY)})
    asked = predicate_uses(step.condition)
    return _told_apart({(step.source, KEY), *(item for item in asked if item[0] != step.edge_variable)})


def _block_uses(step: Block, live: Live) -> Live:
    wanted = block_wants(step, live)
    return _told_apart({*(live_at_start(step.steps, wanted) - wanted), *((name, KEY) for name in step.outer)})


def _told_apart(used: Iterable[Property]) -> Live:
    """Return what is used, and the ids of the entities that it belongs to."""
    every = frozenset(used)
    return every | {(variable, KEY) for variable, _ in every if variable != VALUE}


def block_wants(step: Block, live: Live) -> Live:
    """Return what is wanted of the solutions of a block, of what the block itself gives them."""
    if not isinstance(step, OptionalStep):
        return frozenset()
    names = {*step.introduced} - {*step.values}
    return frozenset(
        (variable, prop) for variable, prop in live if variable in names or (variable == VALUE and prop in step.values)
    )


def _source_uses(step: Narrow | Widen, live: Live) -> Iterator[Property]:
    """Yield what is looked at in the entity that gets another name."""
    made, source = (step.name, step.variable) if isinstance(step, Narrow) else (step.variable, step.name)
    yield source, KEY
    yield from ((source, prop) for variable, prop in live if variable == made and prop != TYPE)


def predicate_uses(predicate: Predicate) -> Live:
    """Return what a predicate looks at."""
    if isinstance(predicate, SameEntity):
        return frozenset({(predicate.left, KEY), (predicate.right, KEY)})
    return frozenset().union(*(_use(value) for value in operands_of(predicate)))


def value_uses(value: Scalarlike) -> Live:
    """Return what a value is computed from."""
    return frozenset().union(*(_use(inner) for inner in inner_values(value)))


def _use(value: Scalarlike) -> Live:
    if isinstance(value, Column):
        return frozenset({(value.variable, value.property)})
    if isinstance(value, EntityRef | EntityRow | EntityType):
        return frozenset({(value.variable, KEY)})
    if isinstance(value, Truth) and isinstance(value.predicate, SameEntity):
        return predicate_uses(value.predicate)
    return frozenset({(VALUE, value.name)}) if isinstance(value, ValueRef) else frozenset()


def result_uses(read: ReadPlan) -> Live:
    """Return what grouping, order and output look at."""
    found = {item for output in read.outputs for item in _expression_uses(output.expression)}
    found.update((key.key.variable, key.key.property) for key in read.order if isinstance(key.key, Column))
    if read.order and isinstance(read.ties, EntityTies):
        found.update((variable, KEY) for variable in read.ties.variables)
    return frozenset(found)


def _expression_uses(expression: OutputExpression) -> Live:
    if isinstance(expression, AggregateCall):
        # Rows are counted without a look at them.
        if expression.function == "count" and isinstance(expression.argument, EntityRef):
            return frozenset()
        return frozenset() if expression.argument is None else value_uses(expression.argument)
    return frozenset() if isinstance(expression, RankingValue) else value_uses(expression)
