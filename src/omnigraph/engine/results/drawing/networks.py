"""The picture of a network: a box per node with its properties, a link per edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.engine.results.drawing.boxes import Box, Link, Picture
from omnigraph.engine.results.network import Network, NodeKey, check_size

# More is a ball of wool, whoever lays it out.
MAX_DRAWN = 200
_MAX_LINES = 6


def picture_of_network(network: Network, title: str) -> Picture:
    """Return the picture of a small network.

    Raises:
        ViewTooLargeError: it has more than 200 nodes, or more than 400 edges.
    """
    check_size("nodes to draw", len(network.nodes), MAX_DRAWN)
    check_size("edges to draw", len(network.edges), 2 * MAX_DRAWN)
    numbers = {key: number for number, key in enumerate(network.nodes)}
    return Picture(
        title=title,
        boxes=tuple(_box(key, properties) for key, properties in network.nodes.items()),
        links=tuple(
            Link(
                source=numbers[edge.source],
                target=numbers[edge.target],
                label=edge.type_name,
                is_directed=edge.is_directed,
            )
            for edge in network.edges
        ),
    )


def _box(key: NodeKey, properties: Mapping[str, Any]) -> Box:
    told = [f"{name}: {value}" for name, value in properties.items() if value is not None]
    rest = ("…",) if len(told) > _MAX_LINES else ()
    return Box(title=key[1], kind=key[0], lines=(*told[:_MAX_LINES], *rest))
