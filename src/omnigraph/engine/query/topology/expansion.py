"""One step along edges for many rows at once. Rows are named by their position in the codes that were given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.adjacency import Adjacency, Mask
from omnigraph.engine.query.topology.image import Codes
from omnigraph.runtime import Counters

# Fewer pairs than this are looked up as they come; more are worth sorting first, so that the search moves forward.
_SORTED_PAIRS = 4096


def neighbours(adjacency: Adjacency, codes: Codes) -> tuple[Codes, Codes]:
    """Return every node that a row's node leads to, once per row.

    Returns:
        Rows, ascending, and for each the node found, ascending within a row.
    """
    links = adjacency.distinct
    rows, at = spread(links.offsets, codes)
    return rows, links.targets[at].astype(np.int64)


def neighbour_counts(adjacency: Adjacency, codes: Codes, *, by_edge: bool = False) -> Codes:
    """Return how many nodes each row's node leads to, or by how many edges."""
    offsets = adjacency.offsets if by_edge else adjacency.distinct.offsets
    counts: Codes = offsets[codes + 1] - offsets[codes]
    return counts


def neighbour_sums(adjacency: Adjacency, weights: npt.NDArray[Any], *, by_edge: bool = False) -> npt.NDArray[Any]:
    """Return for every node the sum of the weights, given by target, of what it leads to, once or once per edge."""
    links = adjacency if by_edge else adjacency.distinct
    sums = np.zeros(adjacency.node_count, dtype=weights.dtype)
    has_any = links.offsets[1:] > links.offsets[:-1]
    if has_any.any():
        # A node without targets would sum up the first target of the next one.
        sums[has_any] = np.add.reduceat(weights[links.targets], links.offsets[:-1][has_any])
    return sums


def incident_edges(
    adjacency: Adjacency, codes: Codes, *, counters: Counters | None = None, by_id: bool = True
) -> tuple[Codes, Codes, Codes]:
    """Return every edge that leaves a row's node, parallel ones too.

    Args:
        adjacency: the edges to walk.
        codes: a node per row.
        counters: where the calls go when the ids of edges have to be read.
        by_id: order the edges of a row by id, where they belong to an image; else they come in any order.

    Returns:
        Rows, ascending, and for each the node and the edge found.
    """
    rows, at = spread(adjacency.offsets, codes)
    found, edges = adjacency.targets[at].astype(np.int64), adjacency.edges[at].astype(np.int64)
    if not by_id or adjacency.edge_image is None or len(rows) < 2 or not (rows[1:] == rows[:-1]).any():
        return rows, found, edges
    ranks = adjacency.edge_image.id_ranks(edges, counters or Counters())
    # Sorting one number, made of the row and the rank, is faster than sorting by two.
    order = np.argsort(rows * (int(ranks.max()) + 1) + ranks)
    return rows, found[order], edges[order]


def are_linked(adjacency: Adjacency, codes: Codes, others: Codes) -> Mask:
    """Return, pair by pair, whether an edge leads from one to the other."""
    keys = adjacency.pair_keys
    if not len(keys):
        return np.zeros(len(codes), dtype=np.bool_)
    wanted = codes * adjacency.target_count + others
    if len(wanted) < _SORTED_PAIRS:
        return _contains(keys, wanted)
    order = np.argsort(wanted)
    linked = np.empty(len(wanted), dtype=np.bool_)
    linked[order] = _contains(keys, wanted[order])
    return linked


def spread(offsets: npt.NDArray[np.int64], codes: Codes) -> tuple[Codes, slice | Codes]:
    """Return the row of each entry of these nodes, and where the entries stand."""
    starts = offsets[codes]
    counts = offsets[codes + 1] - starts
    rows = np.repeat(np.arange(len(codes)), counts)
    if len(codes) and codes[-1] - codes[0] == len(codes) - 1 and (codes[1:] > codes[:-1]).all():
        return rows, slice(int(starts[0]), int(starts[-1] + counts[-1]))
    # Steps of one, with a jump where a row begins, add up to where the entries stand; one pass instead of three.
    at = np.ones(len(rows), dtype=np.int64)
    filled = np.flatnonzero(counts)
    if len(filled):
        begins, sizes = starts[filled], counts[filled]
        at[0] = begins[0]
        at[np.cumsum(sizes)[:-1]] = begins[1:] - (begins[:-1] + sizes[:-1] - 1)
        np.cumsum(at, out=at)
    return rows, at


def _contains(keys: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> Mask:
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: Mask = keys[at] == wanted
    return found
