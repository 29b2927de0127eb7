"""Filters, link tests and anti-joins: steps that only drop rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame, Mask
from omnigraph.engine.query.operators.neighbourhood import Neighbourhood, neighbourhood
from omnigraph.engine.query.steps import LinkTest, Step, Unless
from omnigraph.engine.query.topology import are_linked, neighbour_counts
from omnigraph.ir.model import Expand, Filter

RunSteps = Callable[[QueryContext, tuple[Step, ...], Iterator[Frame]], Iterator[Frame]]


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


def unless(context: QueryContext, step: Unless, frames: Iterator[Frame], run: RunSteps) -> Iterator[Frame]:
    """Keep the rows for which the inner steps find nothing."""
    for frame in frames:
        context.limits.check()
        refuted = _has_neighbour(context, step, frame) if step.is_existence else _refuted(context, step, frame, run)
        kept = frame.keep(~refuted)
        if kept.length:
            yield kept


def _has_neighbour(context: QueryContext, step: Unless, frame: Frame) -> Mask:
    expand = step.steps[0]
    assert isinstance(expand, Expand)  # noqa: S101 - the rule that marks existence tests saw to it
    near = neighbourhood(context, expand.edge, expand.direction, frame.ids[expand.source])
    found: Mask = neighbour_counts(near.adjacency, near.source_codes(frame.ids[expand.source])) > 0
    return found


def _refuted(context: QueryContext, step: Unless, frame: Frame, run: RunSteps) -> Mask:
    """Tag every row, run the inner steps once over all of them, and see which tags come out."""
    tag = f"#tag{len(frame.ids)}"
    tagged = frame.binding({tag: np.arange(frame.length, dtype=np.int64)})
    refuted = np.zeros(frame.length, dtype=np.bool_)
    for found in run(context.within(step.variables), step.steps, context.limits.holding(iter([tagged]))):
        refuted[found.ids[tag]] = True
    return refuted
