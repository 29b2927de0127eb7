"""``Projection``: the part of a graph that an algorithm runs on, as arrays of numbers.

Nodes are numbered by type and id, edges are sorted by the numbers of their ends and by weight. So nothing that an
algorithm does can depend on the order in which rows are stored, and sums of weights come out the same to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.algorithms.libraries import sparse
from omnigraph.errors import AlgorithmInputError, BadValue
from omnigraph.records import record
from omnigraph.values import unfit

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
EdgeDirection = Literal["out", "in", "both"]
DIRECTIONS = ("out", "in", "both")


@record
class NodeNames:
    """What the numbers of nodes stand for: those of type ``types[k]`` begin at ``starts[k]``, by ascending id."""

    types: tuple[str, ...]
    starts: Numbers
    ids: tuple[pa.Array, ...]

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return int(self.starts[-1])

    def columns(self, numbers: Numbers, prefix: str = "") -> dict[str, pa.Array]:
        """Return the types and the ids of nodes as two columns; a negative number is no node."""
        mask = numbers < 0
        missing = mask if mask.any() else None
        at = np.searchsorted(self.starts, numbers, side="right") - 1
        types = pa.array(self.types, pa.string()).take(pa.array(at, pa.int64(), mask=missing))
        every = pa.concat_arrays([pa.array([], pa.string()), *self.ids])
        return {f"{prefix}type": types, f"{prefix}id": every.take(pa.array(numbers, pa.int64(), mask=missing))}

    def find(self, what: str, node: object) -> int:
        """Return the number of a node, given as its id, as ``Type:id``, or as a pair of type and id.

        Raises:
            UsageError: it is none of these.
            AlgorithmInputError: there is no such node, or several types have one of that id.
        """
        match node:
            case str():
                found = self._by_text(node)
            case [str() as type_name, str() as node_id]:
                found = self._by_pair(type_name, node_id)
            case _:
                raise unfit(what, node, "an id, Type:id, or a pair of type and id")
        if not found:
            shown = node if isinstance(node, str) else ":".join(node)
            details = BadValue(what=what, value=shown, expected=f"a node of {' or '.join(self.types) or 'the graph'}")
            raise AlgorithmInputError(f"{what} '{shown}' was not found", details=details)
        if len(found) > 1:
            owners = " and ".join(self._type_of(number) for number in found)
            details = BadValue(what=what, value=str(node), expected=" or ".join(map(self._shown, found)))
            raise AlgorithmInputError(
                f"{what} '{node}' is an id of {owners}", details=details, hint=f"write '{self._shown(found[0])}'"
            )
        return found[0]

    def _by_text(self, text: str) -> list[int]:
        type_name, colon, rest = text.partition(":")
        if colon and (named := self._by_pair(type_name, rest)):
            return named
        return [number for name in self.types for number in self._by_pair(name, text)]

    def _by_pair(self, type_name: str, node_id: str) -> list[int]:
        if type_name not in self.types:
            return []
        place = self.types.index(type_name)
        at = pc.index(self.ids[place], value=pa.scalar(node_id, pa.string())).as_py()
        return [] if at < 0 else [int(self.starts[place]) + at]

    def _type_of(self, number: int) -> str:
        return self.types[int(np.searchsorted(self.starts, number, side="right")) - 1]

    def _shown(self, number: int) -> str:
        named = self.columns(np.array([number]))
        return f"{named['type'][0]}:{named['id'][0]}"


@record
class Pairs:
    """Each linked pair of different nodes once, the smaller number first."""

    first: Numbers
    second: Numbers


@record
class Projection:
    """Nodes and edges as numbers, sorted by source, target and weight; without weights every edge weighs one."""

    nodes: NodeNames
    sources: Numbers
    targets: Numbers
    weights: Floats | None = None

    @classmethod
    def of(cls, nodes: NodeNames, sources: Numbers, targets: Numbers, weights: Floats | None = None) -> Projection:
        """Return the projection of edges that stand in any order."""
        packed = sources * np.int64(max(1, nodes.count)) + targets
        if weights is None:
            packed.sort()
            found = np.divmod(packed, np.int64(max(1, nodes.count)))
            return cls(nodes=nodes, sources=found[0], targets=found[1])
        order = np.lexsort((weights, packed))
        return cls(nodes=nodes, sources=sources[order], targets=targets[order], weights=weights[order])

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return self.nodes.count

    @property
    def edge_count(self) -> int:
        """How many edges there are, parallel ones and loops included."""
        return len(self.sources)

    @property
    def size_bytes(self) -> int:
        """What the edges and the names of the nodes take in memory."""
        weights = 0 if self.weights is None else self.weights.nbytes
        return int(self.sources.nbytes + self.targets.nbytes + weights + sum(ids.nbytes for ids in self.nodes.ids))

    @property
    def weight(self) -> Floats:
        """What each edge weighs."""
        return np.ones(self.edge_count) if self.weights is None else self.weights

    def towards(self, direction: EdgeDirection) -> Projection:
        """Return the edges as they are walked; ``both`` has each edge at both its ends, a loop once."""
        if direction == "out":
            return self
        if direction == "in":
            return Projection.of(self.nodes, self.targets, self.sources, self.weights)
        twice = np.flatnonzero(self.sources != self.targets)
        return Projection.of(
            self.nodes,
            np.concatenate([self.sources, self.targets[twice]]),
            np.concatenate([self.targets, self.sources[twice]]),
            None if self.weights is None else np.concatenate([self.weights, self.weights[twice]]),
        )

    def without_loops(self) -> Projection:
        """Return the edges between different nodes."""
        kept = self.sources != self.targets
        if kept.all():
            return self
        weights = None if self.weights is None else self.weights[kept]
        return replace(self, sources=self.sources[kept], targets=self.targets[kept], weights=weights)

    def lightest(self) -> Projection:
        """Return one edge of each linked pair: the one that weighs least, which comes first."""
        if not self.edge_count:
            return self
        is_first = np.ones(self.edge_count, dtype=np.bool_)
        is_first[1:] = (self.sources[1:] != self.sources[:-1]) | (self.targets[1:] != self.targets[:-1])
        weights = None if self.weights is None else self.weights[is_first]
        return replace(self, sources=self.sources[is_first], targets=self.targets[is_first], weights=weights)

    def pairs(self) -> Pairs:
        """Return each linked pair of different nodes once, whatever the direction and the number of its edges."""
        kept = self.without_loops()
        low, high = np.minimum(kept.sources, kept.targets), np.maximum(kept.sources, kept.targets)
        once = Projection.of(self.nodes, low, high).lightest()
        return Pairs(first=once.sources, second=once.targets)

    def offsets(self) -> Numbers:
        """Return where the edges of each node begin, and behind the last how many there are."""
        return np.searchsorted(self.sources, np.arange(self.node_count + 1)).astype(np.int64)

    def matrix(self, of: type[Any] = np.float64) -> Any:
        """Return the weights as a sparse matrix by source and target; parallel edges add up."""
        shape = (self.node_count, self.node_count)
        found = sparse().csr_array((self.weight.astype(of), self.targets, self.offsets()), shape=shape)
        found.sum_duplicates()
        return found
