"""The graph's shape in memory: tables as numbered rows, edges as neighbour lists, and steps along them."""

from omnigraph.engine.query.topology.adjacency import Adjacency
from omnigraph.engine.query.topology.cache import DEFAULT_CAPACITY_BYTES, TopologyCache, TopologyStats
from omnigraph.engine.query.topology.expansion import (
    are_linked,
    incident_edges,
    neighbour_counts,
    neighbour_sums,
    neighbours,
    reach,
    spread,
)
from omnigraph.engine.query.topology.image import TableImage

__all__ = [
    "DEFAULT_CAPACITY_BYTES",
    "Adjacency",
    "TableImage",
    "TopologyCache",
    "TopologyStats",
    "are_linked",
    "incident_edges",
    "neighbour_counts",
    "neighbour_sums",
    "neighbours",
    "reach",
    "spread",
]
