"""The graph's shape in memory: tables as numbered rows, edges as neighbour lists, and steps along them.

A row has four names, and each is right in its own reach only:

* Its **row id** names it on one branch of a table for ever. A row that is written again keeps it and stands in another
  fragment; where it stood before, a deleted row has the same row id. A row that is deleted and inserted again gets a
  new one. Rows that two branches wrote after they parted may have the same row id.
* Its **offset** in a fragment counts deleted rows too and never changes, as files never change. A fragment that one
  insert wrote has row ids in one run; an update, a fold or a compaction leaves any order. So the row id at an offset
  comes from the fragment's own list of all rows (:meth:`FragmentSegment.row_ids_at`), never from its live rows alone.
* Its **code** is its position among the live rows of one version (:class:`TableImage`): another version, another code.
* Its **number** is for as long as a base is (:class:`NodeNumbers`): the place at which the base has it, deleted since
  or not, or ``place_count`` and its rank among the row ids that came since. At every version ``of`` and ``row_ids`` are
  inverse to each other over the live nodes, no two of them have one number, and no number of a deleted node is given.

A version of an edge table in layers (:class:`LayeredEdges`) has the entries of the base by number, less the edges that
are gone (``hidden``), less those whose node is gone (``deleted``), and those that came since or whose ends must be
looked up again (``added``). Together they are, in either direction and on each way to read them, exactly the edges
of the version whose two ends are there. What one version has found another one takes over only while every number
means the same node in both (:meth:`NodeNumbers.extends`).

``OMNIGRAPH_CHECK_MEMORY=1`` has :mod:`omnigraph.engine.query.checking` compare all of this with the tables for every
version that is brought into memory.
"""

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
