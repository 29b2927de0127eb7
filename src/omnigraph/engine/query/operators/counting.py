"""Counting what expansions reach without listing it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame, RowIds
from omnigraph.engine.query.operators.expanding import reached
from omnigraph.engine.query.operators.neighbourhood import neighbourhood
from omnigraph.engine.query.steps import Weigh
from omnigraph.engine.query.topology import neighbour_counts, neighbour_sums

Weights = npt.NDArray[np.int64]

# From this share of all nodes on, one pass over every edge beats visiting the edges of each row.
_WHOLE_SHARE = 16


def weigh(context: QueryContext, step: Weigh, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Count for every row the rows that the expansion would make of it."""
    for frame in frames:
        context.limits.check(8 * frame.length)
        weighed = frame.weighing(_weights(context, step, frame.ids[step.expand.source]))
        if weighed.length:
            yield weighed


def _weights(context: QueryContext, step: Weigh, sources: RowIds) -> Weights:
    expand = step.expand
    near = neighbourhood(context, expand.edge, expand.direction, sources)
    if not step.inner and not expand.filters:
        return neighbour_counts(near.adjacency, near.source_codes(sources), by_edge=_is_by_edge(step))
    if near.is_whole and len(sources) * _WHOLE_SHARE > near.adjacency.node_count:
        return _whole_weights(context, step)[near.source_codes(sources)]
    rows, found, _ = reached(context, expand, near, sources)
    weights = np.ones(len(found), dtype=np.int64)
    for inner in step.inner:
        weights *= _weights(context, inner, found)
    return np.bincount(rows, weights=weights, minlength=len(sources)).astype(np.int64)


def _whole_weights(context: QueryContext, step: Weigh) -> Weights:
    """Return the weight of every node that a walk may start at."""
    expand = step.expand
    known = context.whole_weights.get(step)
    if known is not None:
        return known
    targets = context.entities(f"node:{expand.destination_type}")
    weights = np.ones(targets.image.row_count, dtype=np.int64)
    for predicate in expand.filters:
        weights *= context.whole_mask(expand.destination, predicate)
    for inner in step.inner:
        weights *= _weights(context, inner, targets.all_ids)
    near = neighbourhood(context, expand.edge, expand.direction, targets.all_ids)
    sums = neighbour_sums(near.adjacency, weights, by_edge=_is_by_edge(step))
    context.limits.hold(sums.nbytes)
    context.whole_weights[step] = sums
    return sums


def _is_by_edge(step: Weigh) -> bool:
    """Whether every edge counts: a traversal without a name for its edge is a set."""
    return step.expand.edge_variable is not None
