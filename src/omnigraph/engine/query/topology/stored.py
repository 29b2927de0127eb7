"""Keeping the edges of a table sorted in files, for whoever walks them next."""

from __future__ import annotations

from omnigraph.engine.query.topology.budget import ByteBudgetCache
from omnigraph.engine.query.topology.edge_base import SIDES, EdgeBase
from omnigraph.engine.query.topology.ends import Check, find_ends
from omnigraph.engine.query.topology.image import SegmentPool, TableImage
from omnigraph.store.projections.files import Projection
from omnigraph.store.tables.table import Table

# Ids of nodes, which every edge is looked up in.
_COLUMNS_BYTES = 4 << 30


def build_adjacency(edges: Table, sources: Table, targets: Table, check: Check) -> tuple[Projection, ...]:
    """Sort the edges of a version by either end and keep both; fewer when they cannot be written.

    Args:
        edges: the edge table.
        sources: the table of the type that edges start at.
        targets: the table of the type that they lead to.
        check: called with the bytes that a step of the work is about to take; raises to stop it.
    """
    pool, shelf = SegmentPool(), ByteBudgetCache(_COLUMNS_BYTES)
    near = TableImage(sources, pool.segments_of(sources), shelf)
    far = near if sources.pin == targets.pin else TableImage(targets, pool.segments_of(targets), shelf)
    base = EdgeBase.of(find_ends(TableImage(edges, pool.segments_of(edges), shelf), near, far, check), "out")
    saved = (base.save(edges.datasets.projections, side) for side in SIDES)
    return tuple(projection for projection in saved if projection is not None)
