"""Cyclic patterns: the nodes that all links of a row lead to, found by intersecting lists of neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame, Positions, RowIds, distinct
from omnigraph.engine.query.operators.expand import passing_destinations
from omnigraph.engine.query.operators.neighbourhood import Neighbourhood, neighbourhood
from omnigraph.engine.query.operators.scan import morsel_rows
from omnigraph.engine.query.steps import Intersect
from omnigraph.engine.query.topology import (
    Adjacency,
    NeighbourList,
    common_neighbours,
    edge_runs,
    shortest_lengths,
)
from omnigraph.records import record

_CODE_BYTES = 8


def intersect_rows(context: QueryContext, step: Intersect, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Bind the destination to every node that all links lead to, and the edges that have names."""
    for frame in frames:
        sides = _sides(context, step, frame)
        lengths = shortest_lengths([side.neighbours(frame.ids) for side in sides.each])
        for start, stop in _cuts(lengths, 4 * morsel_rows(len(frame.ids) + 1)):
            context.limits.check()
            piece = frame.slice(start, stop)
            lists = [side.neighbours(piece.ids) for side in sides.each]
            rows, found = common_neighbours(lists, context.limits.check)
            targets = sides.targets[found]
            kept = passing_destinations(context, step, targets)
            rows, found, targets = rows[kept], found[kept], targets[kept]
            if not len(rows):
                continue
            named = [
                (side, *edge_runs(side.adjacency, one.codes[rows], found))
                for side, one in zip(sides.each, lists, strict=True)
                if side.edge_variable is not None
            ]
            if step.is_counted:
                yield _counted(piece, rows, [counts for _, _, counts in named])
            else:
                bound = piece.take(rows).binding({step.destination: targets})
                yield from _with_edges(context, bound, named)


@record
class _Side:
    """One link: where its neighbours are found, numbered as those of the other links are."""

    near: Neighbourhood
    adjacency: Adjacency
    source: str
    edge_variable: str | None

    def neighbours(self, ids: Mapping[str, RowIds]) -> NeighbourList:
        return NeighbourList(adjacency=self.adjacency, codes=self.near.source_codes(ids[self.source]))


@record
class _Sides:
    """All links of a step; ``targets`` are the nodes behind the numbers that they share."""

    each: tuple[_Side, ...]
    targets: RowIds


def _sides(context: QueryContext, step: Intersect, frame: Frame) -> _Sides:
    near = [neighbourhood(context, link.edge, link.direction, frame.ids[link.source]) for link in step.links]
    whole = next((one for one in near if one.is_whole), None)
    fetched = [one.targets for one in near if one.targets is not None]
    targets = distinct(np.concatenate(fetched)) if whole is None else whole.to_entities.all_ids
    each = tuple(
        _Side(
            near=one,
            adjacency=one.adjacency if one.targets is None else _renumbered(one, one.targets, targets),
            source=link.source,
            edge_variable=link.edge_variable,
        )
        for link, one in zip(step.links, near, strict=True)
    )
    return _Sides(each=each, targets=targets)


def _renumbered(near: Neighbourhood, own: RowIds, targets: RowIds) -> Adjacency:
    """Return fetched edges with their far ends numbered by their place among all targets."""
    order = np.argsort(targets, kind="stable")
    places = order[np.searchsorted(targets, own, sorter=order)] if len(own) else own
    adjacency = near.adjacency
    return Adjacency.of_pairs(
        np.repeat(np.arange(adjacency.node_count), np.diff(adjacency.offsets)),
        places[adjacency.targets],
        adjacency.edges.astype(np.int64),
        node_count=adjacency.node_count,
        target_count=len(targets),
    )


def _cuts(sizes: Positions, most: int) -> Iterator[tuple[int, int]]:
    """Yield pieces of rows whose sizes stay below a sum; a row that is larger by itself is a piece of its own."""
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop
        start = stop


def _counted(piece: Frame, rows: Positions, counts: list[Positions]) -> Frame:
    weights = np.ones(len(rows), dtype=np.int64)
    for count in counts:
        weights *= count
    sums = np.bincount(rows, weights=weights, minlength=piece.length).astype(np.int64)
    return piece.weighing(sums)


def _with_edges(
    context: QueryContext, bound: Frame, named: list[tuple[_Side, Positions, Positions]]
) -> Iterator[Frame]:
    """Make a row of every choice of edges, one for each link whose edge has a name."""
    if not named:
        yield bound
        return
    choices = np.ones(bound.length, dtype=np.int64)
    for _, _, counts in named:
        choices *= counts
    width = len(bound.ids) + len(named)
    for start, stop in _cuts(choices, 4 * morsel_rows(width)):
        total = int(choices[start:stop].sum())
        context.limits.check(_CODE_BYTES * total * (width + len(named)))
        rows = np.arange(start, stop)
        edges: dict[str, RowIds] = {}
        for side, starts, counts in named:
            repeated = np.repeat(np.arange(len(rows)), counts[rows])
            ends = np.cumsum(counts[rows])
            at = np.arange(len(repeated)) + (starts[rows] + counts[rows] - ends)[repeated]
            edges = {name: ids[repeated] for name, ids in edges.items()}
            edges[str(side.edge_variable)] = side.near.edge_ids(side.adjacency.edges[at].astype(np.int64))
            rows = rows[repeated]
        yield bound.take(rows).binding(edges)
