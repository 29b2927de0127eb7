"""Random numbers that belong to nodes: they follow from the seed, the type and the id, and from nothing else.

So a node keeps its numbers when others come or go, on every branch and in every engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.engine.algorithms.projection import NodeNames, Numbers

Hashes = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def node_hashes(nodes: NodeNames, seed: int) -> Hashes:
    """Return a number of 64 bits for each node, by the order of nodes."""
    names = ((type_name, one) for type_name, ids in zip(nodes.types, nodes.ids, strict=True) for one in ids.to_pylist())
    return hashes_of(names, seed, nodes.count)


def hashes_of(names: Iterable[tuple[str, str]], seed: int, count: int) -> Hashes:
    """Return the number of each of so many nodes, given by type and id."""
    starts: dict[str, Any] = {}

    def hashed(type_name: str, node_id: str) -> int:
        if type_name not in starts:
            starts[type_name] = blake2b(f"{seed}\0{type_name}\0".encode(), digest_size=8)
        one = starts[type_name].copy()
        one.update(node_id.encode())
        return int.from_bytes(one.digest(), "little")

    return np.fromiter((hashed(*name) for name in names), dtype=np.uint64, count=count)


def mixed(hashes: Hashes, turn: int) -> Hashes:
    """Return the next number of each node: one that looks independent for every ``turn``.

    >>> mixed(np.array([1, 2], dtype=np.uint64), 0).tolist() == mixed(np.array([1, 2], dtype=np.uint64), 1).tolist()
    False
    """
    with np.errstate(over="ignore"):
        found = hashes + _GOLDEN * np.uint64(turn + 1)
        found = (found ^ (found >> np.uint64(30))) * _MIX[0]
        found = (found ^ (found >> np.uint64(27))) * _MIX[1]
        return found ^ (found >> np.uint64(31))


def chosen_nodes(nodes: NodeNames, count: int, seed: int) -> Numbers:
    """Return so many nodes, ascending, as if drawn at random."""
    hashes = node_hashes(nodes, seed)
    return np.sort(np.lexsort((np.arange(nodes.count), hashes))[:count])
