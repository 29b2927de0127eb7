"""Entries sorted into rows: the arrays that adjacency consists of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.records import record

Integers = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]

_WORD_BITS = 63


@record
class Entries:
    """Edges as they are walked: from where, to where, and which edge it is."""

    sources: Integers
    targets: Integers
    edges: Integers


@record
class Links:
    """Rows of targets: those of node ``n`` stand from ``offsets[n]`` up to ``offsets[n + 1]``, ascending."""

    offsets: Offsets
    targets: Integers


def sorted_links(entries: Entries, *, node_count: int, target_count: int, edge_count: int) -> tuple[Links, Integers]:
    """Sort entries by source, target and edge; return the rows, and each entry's edge.

    Args:
        entries: what to sort.
        node_count: how many rows there are.
        target_count: all targets are below it.
        edge_count: all edges are below it.
    """
    target_bits, edge_bits = target_count.bit_length(), edge_count.bit_length()
    width = code_width(edge_count)
    if node_count.bit_length() + target_bits + edge_bits > _WORD_BITS:
        order = np.lexsort((entries.edges, entries.targets, entries.sources))
        sizes = np.bincount(entries.sources, minlength=node_count)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Links(offsets=offsets, targets=entries.targets[order]), entries.edges[order].astype(width)
    # Sorting numbers that hold all three is many times faster than sorting positions.
    packed = entries.sources.astype(np.int64)
    packed <<= target_bits
    packed |= entries.targets
    packed <<= edge_bits
    packed |= entries.edges
    packed.sort()
    offsets = np.searchsorted(packed, np.arange(node_count + 1) << (target_bits + edge_bits)).astype(np.int64)
    edges = (packed & ((1 << edge_bits) - 1)).astype(width)
    packed >>= edge_bits
    packed &= (1 << target_bits) - 1
    return Links(offsets=offsets, targets=packed.astype(entries.targets.dtype)), edges


def code_width(count: int) -> type[np.int32 | np.int64]:
    """Return the narrower integer type that holds all codes below ``count``."""
    return np.int32 if count < 1 << 31 else np.int64
