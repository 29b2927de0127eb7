"""Steps one after the other: each takes the frames of the one before, none waits for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.operators.counting import weigh
from omnigraph.engine.query.operators.expanding import expand_rows
from omnigraph.engine.query.operators.filtering import filter_rows, link_test, unless
from omnigraph.engine.query.operators.scan import scan
from omnigraph.engine.query.steps import LinkTest, Scan, Step, Unless, Weigh
from omnigraph.ir.model import Expand, Filter


def run_steps(context: QueryContext, steps: tuple[Step, ...], frames: Iterator[Frame]) -> Iterator[Frame]:
    """Return the frames that come out of the last step."""
    for step in steps:
        # Every step has a frame of the one before it in hand while those after it work: all of them are alive.
        frames = context.limits.holding(context.trace.watch(step, _apply(context, step, frames)))
        if not context.is_late:
            frames = _reading_early(context, step, frames)
    return frames


def _apply(context: QueryContext, step: Step, frames: Iterator[Frame]) -> Iterator[Frame]:
    match step:
        case Scan():
            return scan(context, step, frames)
        case Expand():
            return expand_rows(context, step, frames)
        case Filter():
            return filter_rows(context, step, frames)
        case LinkTest():
            return link_test(context, step, frames)
        case Weigh():
            return weigh(context, step, frames)
        case Unless():
            return unless(context, step, frames, run_steps)
        case _:
            assert_never(step)


def _reading_early(context: QueryContext, step: Step, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Read every wanted property of the variables that a step binds, for all of their rows."""
    bound = _bound(step)
    for frame in frames:
        for variable in bound:
            entities = context.entities_of(variable)
            for name in entities.columns:
                context.limits.check(entities.values(frame.ids[variable], name).nbytes)
        yield frame


def _bound(step: Step) -> tuple[str, ...]:
    if isinstance(step, Scan):
        return (step.variable,)
    if isinstance(step, Expand):
        return (step.destination,) if step.edge_variable is None else (step.destination, step.edge_variable)
    return ()
