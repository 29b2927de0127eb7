"""Which columns of a result are entities, and which edges the query found between them."""

from __future__ import annotations

from omnigraph.records import record


@record
class PropertyColumn:
    """A column that holds a property of an entity."""

    name: str
    column: int


@record
class PatternNode:
    """A node variable whose id is a column."""

    type_name: str
    column: int
    properties: tuple[PropertyColumn, ...] = ()


@record
class PatternEdge:
    """A traversal between two such variables, by their positions among the nodes, in the direction of the edge.

    ``hops`` is set when more than one edge may lie between the two.
    """

    type_name: str
    source: int
    target: int
    hops: tuple[int, int] | None = None
    is_directed: bool = True
    properties: tuple[PropertyColumn, ...] = ()

    @property
    def label(self) -> str:
        """What the edge is called.

        >>> PatternEdge(type_name="Knows", source=0, target=1, hops=(2, 3)).label
        'Knows{2,3}'
        """
        return self.type_name if self.hops is None else f"{self.type_name}{{{self.hops[0]},{self.hops[1]}}}"


@record
class ResultPattern:
    """The part of a match that is still to be seen in its rows."""

    nodes: tuple[PatternNode, ...] = ()
    edges: tuple[PatternEdge, ...] = ()


NO_PATTERN = ResultPattern()
