"""Which nodes several lists of neighbours have in common, for many rows at once.

Of every row the shortest list is looked through and the others are asked, so that a row costs no more than its shortest
list, whatever the longer ones hold: together no more than a cyclic pattern can have matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.adjacency import Adjacency, Mask, spread
from omnigraph.engine.query.topology.ends import Check
from omnigraph.engine.query.topology.segments import Codes
from omnigraph.records import record

# Fewer pairs than this are looked up as they come; more are worth sorting first, so that the search moves forward.
_SORTED_PAIRS = 4096
# Neighbours are marked while the marks, a byte per node and list, stay in the processor's cache.
_MARKS = 1 << 22
# Marking the lists of some nodes pays from so many questions about them on.
_MARKED_PAIRS = 1024
_CODE_BYTES = 8
# Arrays that are alive while candidates are looked through: row, place, node and the two sides of each question.
_ARRAYS = 8


@record
class NeighbourList:
    """The neighbours of a node per row: ``codes`` are the nodes, numbered as the adjacency numbers them."""

    adjacency: Adjacency
    codes: Codes

    @property
    def lengths(self) -> Codes:
        """How many neighbours each row's node has."""
        offsets = self.adjacency.distinct.offsets
        counts: Codes = offsets[self.codes + 1] - offsets[self.codes]
        return counts


def shortest_lengths(lists: Sequence[NeighbourList]) -> Codes:
    """Return for every row how many neighbours have to be looked at."""
    least: Codes = np.minimum.reduce([one.lengths for one in lists])
    return least


def common_neighbours(lists: Sequence[NeighbourList], check: Check) -> tuple[Codes, Codes]:
    """Return the nodes that all lists of a row have in common; the lists number their targets alike.

    Args:
        lists: two at least, with the same number of rows.
        check: called with the bytes that are about to be taken; raises to stop.

    Returns:
        Rows, ascending, and for each the node found, ascending within a row.
    """
    lengths = np.stack([one.lengths for one in lists])
    shortest = lengths.argmin(axis=0)
    check(_CODE_BYTES * _ARRAYS * int(lengths.min(axis=0).sum()))
    parts = [_looked_through(lists, at, np.flatnonzero(shortest == at)) for at in range(len(lists))]
    rows, nodes = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if sum(len(part[0]) > 0 for part in parts) > 1 or not _is_ascending(rows):
        order = np.argsort(rows, kind="stable")
        rows, nodes = rows[order], nodes[order]
    return rows, nodes


def _looked_through(lists: Sequence[NeighbourList], at: int, rows: Codes) -> tuple[Codes, Codes]:
    """Return the common neighbours of rows whose shortest list has this place; rows come in any order."""
    shortest, others = lists[at], [one for place, one in enumerate(lists) if place != at]
    # Questions about one node stand together: rows are far fewer than questions.
    asked = others[0].codes[rows]
    if not _is_ascending(asked):
        rows = rows[np.argsort(asked, kind="stable")]
    links = shortest.adjacency.distinct
    positions, found = spread(links.offsets, shortest.codes[rows])
    rows, nodes = rows[positions], links.targets[found].astype(np.int64)
    for other in others:
        linked = are_linked(other.adjacency, other.codes[rows], nodes)
        rows, nodes = rows[linked], nodes[linked]
    return rows, nodes


def edge_runs(adjacency: Adjacency, codes: Codes, others: Codes) -> tuple[Codes, Codes]:
    """Return for pairs that are linked where their edges begin among all entries, and how many there are."""
    at = np.searchsorted(adjacency.pair_keys, codes * adjacency.target_count + others)
    starts: Codes = adjacency.runs[at]
    return starts, adjacency.runs[at + 1] - starts


def are_linked(adjacency: Adjacency, codes: Codes, others: Codes) -> Mask:
    """Return, pair by pair, whether an edge leads from one to the other."""
    if not len(adjacency.targets) or not len(codes):
        return np.zeros(len(codes), dtype=np.bool_)
    if len(codes) < _SORTED_PAIRS:
        return _are_found(adjacency, codes, others)
    order: Codes | None = None
    if not _is_ascending(codes):
        order = np.argsort(codes, kind="stable")
        codes, others = codes[order], others[order]
    groups = list(_groups(adjacency, codes))
    if len(codes) < _MARKED_PAIRS * len(groups):
        found = _found_in_order(adjacency, codes, others)
    else:
        found = _are_marked(adjacency, codes, others, groups)
    if order is None:
        return found
    linked = np.empty(len(found), dtype=np.bool_)
    linked[order] = found
    return linked


def _groups(adjacency: Adjacency, codes: Codes) -> Iterator[tuple[slice, Codes, Codes]]:
    """Cut ascending codes into groups of few nodes: the pairs, the nodes, and where the pairs of each node begin."""
    is_first = np.ones(len(codes), dtype=np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=is_first[1:])
    begins = np.append(np.flatnonzero(is_first), len(codes))
    at_once = max(1, _MARKS // adjacency.target_count)
    for start in range(0, len(begins) - 1, at_once):
        bounds = begins[start : start + at_once + 1]
        yield slice(int(bounds[0]), int(bounds[-1])), codes[bounds[:-1]], np.diff(bounds)


def _are_marked(
    adjacency: Adjacency, codes: Codes, others: Codes, groups: Sequence[tuple[slice, Codes, Codes]]
) -> Mask:
    links, width = adjacency.distinct, adjacency.target_count
    marks = np.zeros(max(len(nodes) for _, nodes, _ in groups) * width, dtype=np.bool_)
    found = np.empty(len(codes), dtype=np.bool_)
    for pairs, nodes, sizes in groups:
        rows, at = spread(links.offsets, nodes)
        marked = rows * width + links.targets[at]
        marks[marked] = True
        found[pairs] = marks[np.repeat(np.arange(len(nodes)) * width, sizes) + others[pairs]]
        marks[marked] = False
    return found


def _found_in_order(adjacency: Adjacency, codes: Codes, others: Codes) -> Mask:
    order = np.argsort(codes * adjacency.target_count + others)
    found = np.empty(len(codes), dtype=np.bool_)
    found[order] = _are_found(adjacency, codes[order], others[order])
    return found


def _are_found(adjacency: Adjacency, codes: Codes, others: Codes) -> Mask:
    keys: npt.NDArray[np.int64] = adjacency.pair_keys
    wanted = codes * adjacency.target_count + others
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: Mask = keys[at] == wanted
    return found


def _is_ascending(codes: Codes) -> bool:
    return bool((codes[1:] >= codes[:-1]).all())
