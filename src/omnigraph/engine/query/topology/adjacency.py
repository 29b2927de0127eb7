"""Adjacency: the neighbours of every node over one edge table in one direction, as compressed sparse rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.image import Codes, TableImage
from omnigraph.engine.query.topology.links import Entries, Integers, Links, sorted_links

Mask = npt.NDArray[np.bool_]


class Adjacency:
    """The neighbours of every node, one entry per edge.

    ``targets`` ascend within a node; parallel edges are kept, in the order of their codes. Undirected, an edge stands
    at both its ends, a self-loop once. The narrower integer type is used where it holds all codes.

    Args:
        links: all entries.
        edges: the code of each entry's edge.
        target_count: how many nodes there are to lead to.
        edge_image: the edges behind the codes; None when they are numbered for one use only.
    """

    def __init__(self, *, links: Links, edges: Integers, target_count: int, edge_image: TableImage | None) -> None:
        self.node_count = len(links.offsets) - 1
        self.target_count = target_count
        self.edge_count = len(edges)
        self.offsets = links.offsets
        self.targets = links.targets
        self.edges = edges
        self.edge_image = edge_image
        self._links = links

    @classmethod
    def of_pairs(cls, sources: Codes, targets: Codes, edges: Codes, *, node_count: int, target_count: int) -> Self:
        """Return the adjacency of entries that are listed one by one, numbered by the caller."""
        entries = Entries(sources=sources, targets=targets, edges=edges)
        edge_count = int(edges.max()) + 1 if len(edges) else 0
        links, ordered = sorted_links(entries, node_count=node_count, target_count=target_count, edge_count=edge_count)
        return cls(links=links, edges=ordered, target_count=target_count, edge_image=None)

    def __repr__(self) -> str:
        return f"Adjacency(nodes={self.node_count}, edges={self.edge_count})"

    @property
    def size_bytes(self) -> int:
        """What the adjacency itself takes in memory at most; what is made on first use counts from the start."""
        stored = self.offsets.nbytes + self.targets.nbytes + self.edges.nbytes
        made = self.offsets.nbytes + self.targets.nbytes + 8 * self.edge_count + self.node_count
        return stored + made

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What the adjacency takes in memory, with the image that it keeps alive."""
        kept = {} if self.edge_image is None else self.edge_image.parts
        return {**kept, id(self._links): self.size_bytes}

    @cached_property
    def distinct(self) -> Links:
        """The same rows with every neighbour once."""
        if self.edge_count < 2:
            return self._links
        is_first = np.ones(self.edge_count, dtype=np.bool_)
        np.not_equal(self.targets[1:], self.targets[:-1], out=is_first[1:])
        starts = self.offsets[:-1]
        is_first[starts[starts < self.edge_count]] = True
        kept = np.flatnonzero(is_first)
        if len(kept) == self.edge_count:
            return self._links
        return Links(offsets=np.searchsorted(kept, self.offsets).astype(np.int64), targets=self.targets[kept])

    @cached_property
    def pair_keys(self) -> npt.NDArray[np.int64]:
        """Every linked pair as one number, ``node * target_count + target``, ascending."""
        links = self.distinct
        nodes = np.repeat(np.arange(self.node_count), np.diff(links.offsets))
        nodes *= self.target_count
        nodes += links.targets
        return nodes

    @cached_property
    def has_loop(self) -> Mask:
        """Which nodes have an edge to themselves; of no meaning where the two ends are of different types."""
        links = self.distinct
        nodes = np.arange(self.node_count)
        is_loop = links.targets == np.repeat(nodes.astype(links.targets.dtype), np.diff(links.offsets))
        found = np.zeros(self.node_count, dtype=np.bool_)
        found[links.targets[is_loop]] = True
        return found

    def over(self, edge_image: TableImage) -> Adjacency:
        """Return the same entries for another version of the edges with the same content."""
        return Adjacency(links=self._links, edges=self.edges, target_count=self.target_count, edge_image=edge_image)
