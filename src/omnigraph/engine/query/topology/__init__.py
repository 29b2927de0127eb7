"""The graph's shape in memory: tables as numbered rows, edges as neighbour lists, and steps along them."""

from omnigraph.engine.query.topology.adjacency import Adjacency, spread
from omnigraph.engine.query.topology.cache import DEFAULT_CAPACITY_BYTES, TopologyCache, TopologyStats
from omnigraph.engine.query.topology.expansion import (
    Recurrence,
    Walkable,
    incident_edges,
    neighbour_counts,
    neighbour_sums,
    neighbours,
    reach,
)
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.intersection import (
    NeighbourList,
    are_linked,
    common_neighbours,
    edge_runs,
    shortest_lengths,
)
from omnigraph.engine.query.topology.layers import LayeredEdges
from omnigraph.engine.query.topology.node_numbers import NodeNumbers

__all__ = [
    "DEFAULT_CAPACITY_BYTES",
    "Adjacency",
    "LayeredEdges",
    "NeighbourList",
    "NodeNumbers",
    "Recurrence",
    "TableImage",
    "TopologyCache",
    "TopologyStats",
    "Walkable",
    "are_linked",
    "common_neighbours",
    "edge_runs",
    "incident_edges",
    "neighbour_counts",
    "neighbour_sums",
    "neighbours",
    "reach",
    "shortest_lengths",
    "spread",
]
