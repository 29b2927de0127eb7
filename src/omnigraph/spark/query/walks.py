"""Walks along edges as joins: one hop, and everything within a number of hops."""

from __future__ import annotations

from omnigraph.records import record
from omnigraph.spark.query.relations import Build, How, Relation
from omnigraph.spark.query.scans import SOURCE, TARGET

START, NODE = "start", "node"
# Beyond so many rows on both sides, sorting them is safer than a hash table in memory.
_HASHED_ROWS = 200_000_000


@record
class Sizes:
    """How much a worker may hold of what it needs whole.

    Args:
        broadcast_rows: a side of a join.
        held_edges: edges for walks of many hops, counted once for each way they are walked.
    """

    broadcast_rows: int = 1 << 18
    held_edges: int = 1 << 22

    def build(self, left_most: float, left_estimate: float, right_rows: float, how: How = "inner") -> Build:
        """Return how to join, given that the left side has ``left_most`` rows at most, and about ``left_estimate``."""
        if right_rows <= self.broadcast_rows:
            return "broadcast_right"
        if how == "inner" and left_most <= self.broadcast_rows:
            return "broadcast_left"
        if min(left_estimate, right_rows) > _HASHED_ROWS:
            return "merge"
        return "hash_left" if how == "inner" and left_estimate < right_rows else "hash_right"


@record
class Bounds:
    """How far a walk goes. ``is_backward``: it begins at the written destination, whose own self-loop counts then."""

    min_hops: int
    max_hops: int
    is_backward: bool


def reach(starts: Relation, pairs: Relation, bounds: Bounds, build: Build) -> Relation:
    """Return what every start reaches, once, as pairs of start and node; each hop but the last one runs here.

    A node is reached at its distance. Besides, one with an edge to itself is reached one hop after its distance; the
    start has distance zero and is reached in that way only.

    Args:
        starts: the nodes where walks begin, each once, in column ``start``.
        pairs: every linked pair once.
        bounds: how far to go.
        build: how to join with the pairs.
    """
    if bounds.min_hops > bounds.max_hops:
        return starts.select({START: START, NODE: START}).limit(0)
    pairs = pairs.cut()
    loops = pairs.where_equal(SOURCE, TARGET).select({SOURCE: SOURCE})
    frontier = starts.select({START: START, NODE: START})
    visited, reached = frontier, list[Relation]()
    for hop in range(1, bounds.max_hops + 1):
        if hop >= bounds.min_hops:
            at = START if bounds.is_backward else NODE
            reached.append(frontier.join(loops, {at: SOURCE}, how="semi", build=build))
        found = frontier.join(pairs, {NODE: SOURCE}, how="inner", build=build)
        found = found.select({START: START, NODE: TARGET}).distinct([START, NODE])
        frontier = found.join(visited, {START: START, NODE: NODE}, how="anti", build="hash_right")
        if hop < bounds.max_hops:
            frontier = frontier.cut()
        if hop >= bounds.min_hops:
            reached.append(frontier)
        if hop < bounds.max_hops and frontier.is_empty():
            break
        visited = visited.union(frontier)
    every = reached[0] if reached else frontier
    for more in reached[1:]:
        every = every.union(more)
    return every.distinct([START, NODE])
