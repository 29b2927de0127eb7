"""Steps one after the other: each takes the frames of the one before, none waits for all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import assert_never

import numpy as np

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import MISSING, Frame, Mask
from omnigraph.engine.query.operators.expand import count_expand, expand_rows
from omnigraph.engine.query.operators.neighbourhood import Neighbourhood, neighbourhood
from omnigraph.engine.query.operators.scan import narrow, scan, union_scan, widen
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
from omnigraph.engine.query.topology import are_linked
from omnigraph.ir.model import Expand, Filter, Narrow, UnionScan, Unwind, Walk, Widen

# Steps that hand rows on while they are made; between more of them rows are collected.
_STEPS_AT_ONCE = 64


def filter_rows(context: QueryContext, step: Filter, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Keep the rows that pass a predicate."""
    for frame in frames:
        context.limits.check()
        kept = frame.keep(context.mask(frame, step.predicate))
        if kept.length:
            yield kept


def link_test(context: QueryContext, step: LinkTest, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Keep the rows whose two variables are linked."""
    for frame in frames:
        context.limits.check(16 * frame.length)
        near = neighbourhood(context, step.edge, step.direction, frame.ids[step.source])
        kept = frame.keep(_linked(near, frame, step))
        if kept.length:
            yield kept


def _linked(near: Neighbourhood, frame: Frame, step: LinkTest) -> Mask:
    sources = near.source_codes(frame.ids[step.source])
    targets = near.target_codes(frame.ids[step.destination])
    linked = np.zeros(frame.length, dtype=np.bool_)
    # In a neighbourhood that was fetched, a node outside of it is nobody's neighbour.
    known = np.flatnonzero((sources >= 0) & (targets >= 0))
    linked[known] = are_linked(near.adjacency, sources[known], targets[known])
    return linked


def _present(context: QueryContext, frames: Iterator[Frame], *names: str) -> Iterator[Frame]:
    """Leave out the rows where an entity that a step starts from is missing."""
    wanted = [name for name in names if name in context.nullable]
    if not wanted:
        yield from frames
        return
    for frame in frames:
        there = np.ones(frame.length, dtype=np.bool_)
        for name in wanted:
            if name in frame.ids:
                there &= frame.ids[name] != MISSING
        kept = frame.keep(there)
        if kept.length:
            yield kept


def run_steps(context: QueryContext, steps: tuple[Step, ...], frames: Iterator[Frame]) -> Iterator[Frame]:
    """Return the frames that come out of the last step."""
    for number, step in enumerate(steps, 1):
        if number % _STEPS_AT_ONCE == 0:
            frames = _collected(context, frames)
        # Every step has a frame of the one before it in hand while those after it work: all of them are alive.
        frames = context.limits.holding(context.trace.watch(step, _apply(context, step, frames)))
        if not context.is_late:
            frames = _reading_early(context, step, frames)
    return frames


def _collected(context: QueryContext, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Take all frames now, and return them: each step is some calls deep, and a stack holds only so many."""
    collected: deque[Frame] = deque()
    for frame in frames:
        context.limits.keep(frame)
        collected.append(frame)
    return _handed_out(context, collected)


def _handed_out(context: QueryContext, collected: deque[Frame]) -> Iterator[Frame]:
    while collected:
        frame = collected.popleft()
        try:
            yield frame
        finally:
            context.limits.drop(frame)


def _apply(context: QueryContext, step: Step, frames: Iterator[Frame]) -> Iterator[Frame]:
    match step:
        case Scan():
            return scan(context, step, frames)
        case UnionScan() | Narrow() | Widen():
            return _apply_mixed(context, step, frames)
        case Expand():
            return expand_rows(context, step, _present(context, frames, step.source))
        case Walk():
            from omnigraph.engine.query.operators.walk import walk_rows  # noqa: PLC0415 - loaded for the steps that need it

            return walk_rows(context, step, _present(context, frames, step.source))
        case Filter():
            return filter_rows(context, step, frames)
        case LinkTest():
            return link_test(context, step, _present(context, frames, step.source, step.destination))
        case Intersect():
            from omnigraph.engine.query.operators.intersect import intersect_rows  # noqa: PLC0415 - loaded for the steps that need it

            sources = [link.source for link in step.links]
            return intersect_rows(context, step, _present(context, frames, *sources))
        case CountExpand():
            return count_expand(context, step, _present(context, frames, step.expand.source))
        case AntiJoinStep() | OptionalStep() | BlockStep() | Unwind():
            return _apply_block(context, step, frames)
        case _:
            assert_never(step)


def _apply_mixed(context: QueryContext, step: UnionScan | Narrow | Widen, frames: Iterator[Frame]) -> Iterator[Frame]:
    match step:
        case UnionScan():
            return union_scan(context, step, frames)
        case Narrow():
            return narrow(context, step, frames)
        case Widen():
            return widen(step, frames)
        case _:
            assert_never(step)


def _apply_block(
    context: QueryContext, step: AntiJoinStep | OptionalStep | BlockStep | Unwind, frames: Iterator[Frame]
) -> Iterator[Frame]:
    from omnigraph.engine.query.operators import blocks  # noqa: PLC0415 - loaded for the steps that need it

    match step:
        case AntiJoinStep():
            return blocks.anti_join(context, step, frames, run_steps)
        case OptionalStep():
            return blocks.optional_join(context, step, frames, run_steps)
        case BlockStep():
            return blocks.block_value(context, step, frames, run_steps)
        case Unwind():
            return blocks.unwind(context, step, frames)
        case _:
            assert_never(step)


def _reading_early(context: QueryContext, step: Step, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Read every wanted property of the variables that a step binds, for all of their rows."""
    bound = _bound(step)
    for frame in frames:
        for variable in bound:
            entities = context.source_of(variable)
            for name in entities.columns:
                context.limits.check(entities.values(frame.ids[variable], name).nbytes)
        yield frame


def _bound(step: Step) -> tuple[str, ...]:
    if isinstance(step, Scan | UnionScan):
        return (step.variable,)
    if isinstance(step, Walk) and not step.binds_edge:
        return (step.destination,)
    if isinstance(step, Intersect):
        names = (link.edge_variable for link in step.links if link.edge_variable is not None)
        return () if step.is_counted else (step.destination, *names)
    if isinstance(step, Expand | Walk):
        return (step.destination,) if step.edge_variable is None else (step.destination, step.edge_variable)
    return ()
