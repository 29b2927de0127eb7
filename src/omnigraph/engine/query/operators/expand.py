"""Expansion: from each row to what its source reaches, through fetched edges or adjacency in memory alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame, Positions, RowIds
from omnigraph.engine.query.operators.neighbourhood import Neighbourhood, neighbourhood
from omnigraph.engine.query.operators.scan import morsel_rows
from omnigraph.engine.query.steps import CountExpand, Intersect
from omnigraph.engine.query.topology import incident_edges, neighbour_counts, neighbour_sums, neighbours, reach
from omnigraph.ir.model import Expand, Walk

# Rows whose many hops are walked together; the walk itself keeps its own memory in bounds.
_WALKED_ROWS = 8192


def expand_rows(context: QueryContext, step: Expand, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Bind the destination, and the edge when it has a name."""
    for frame in frames:
        near = neighbourhood(
            context, step.edge, step.direction, frame.ids[step.source], hops=step.max_hops, is_sorted=False
        )
        for piece in _pieces(near, step, frame):
            context.limits.check()
            rows, found, edges = reached(context, step, near, piece.ids[step.source])
            if not len(rows):
                continue
            # The new columns beside the places, the ends and the edges that they are made from.
            context.limits.check(8 * len(rows) * (len(piece.ids) + 3))
            bound = {step.destination: found}
            if step.edge_variable is not None and edges is not None:
                bound[step.edge_variable] = edges
            yield piece.take(rows).binding(bound)


def reached(
    context: QueryContext, step: Expand, near: Neighbourhood, sources: RowIds
) -> tuple[Positions, RowIds, RowIds | None]:
    """Return for every entity that is reached and passes: the position of its source, itself, and the edge if named."""
    codes = near.source_codes(sources)
    edges: RowIds | None = None
    if step.edge_variable is not None:
        rows, found, edge_codes = incident_edges(near.links, codes, by_id=False)
        edges = near.edge_ids(edge_codes)
    elif (step.min_hops, step.max_hops) == (1, 1):
        rows, found = neighbours(near.links, codes)
    else:
        rows, found = reach(
            near.links,
            codes,
            step.min_hops,
            step.max_hops,
            same_type=context.catalog.edges[step.edge].is_same_type,
            check=context.limits.check,
        )
    targets = near.target_ids(found)
    kept = passing_destinations(context, step, targets)
    return rows[kept], targets[kept], None if edges is None else edges[kept]


def passing_destinations(context: QueryContext, step: Expand | Walk | Intersect, targets: RowIds) -> Positions | slice:
    """Return the positions of the nodes that pass the filters of a step on its destination."""
    if not step.filters:
        return slice(None)
    kept = np.arange(len(targets))
    for predicate in step.filters:
        if not len(kept):
            break
        chosen = targets[kept]
        kept = kept[context.mask(Frame(length=len(chosen), ids={step.destination: chosen}), predicate)]
    return kept


def _pieces(near: Neighbourhood, step: Expand, frame: Frame) -> Iterator[Frame]:
    """Cut a frame so that what a piece reaches stays near the size of a morsel."""
    if (step.min_hops, step.max_hops) != (1, 1):
        for start in range(0, frame.length, _WALKED_ROWS):
            yield frame.slice(start, start + _WALKED_ROWS)
        return
    if frame.length == 1:
        yield frame
        return
    codes = near.source_codes(frame.ids[step.source])
    ends = np.cumsum(near.links.entry_counts(codes))
    start, most = 0, 4 * morsel_rows(len(frame.ids) + 1)
    while start < frame.length:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield frame.slice(start, stop)
        start = stop


Weights = npt.NDArray[np.int64]

# From this share of all nodes on, one pass over every edge beats visiting the edges of each row.
_WHOLE_SHARE = 16


def count_expand(context: QueryContext, step: CountExpand, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Count for every row the rows that the expansion would make of it."""
    for frame in frames:
        context.limits.check(8 * frame.length)
        weighed = frame.weighing(_weights(context, step, frame.ids[step.expand.source]))
        if weighed.length:
            yield weighed


def _weights(context: QueryContext, step: CountExpand, sources: RowIds) -> Weights:
    expand = step.expand
    near = neighbourhood(context, expand.edge, expand.direction, sources, is_sorted=False)
    if not step.inner and not expand.filters:
        return neighbour_counts(near.links, near.source_codes(sources), by_edge=_is_by_edge(step))
    if near.is_whole and len(sources) * _WHOLE_SHARE > near.links.node_count:
        return _whole_weights(context, step)[near.source_codes(sources)]
    rows, found, _ = reached(context, expand, near, sources)
    weights = np.ones(len(found), dtype=np.int64)
    for inner in step.inner:
        weights *= _weights(context, inner, found)
    return np.bincount(rows, weights=weights, minlength=len(sources)).astype(np.int64)


def _whole_weights(context: QueryContext, step: CountExpand) -> Weights:
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


def _is_by_edge(step: CountExpand) -> bool:
    """Whether every edge counts: a traversal without a name for its edge is a set."""
    return step.expand.edge_variable is not None
