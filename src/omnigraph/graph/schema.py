"""``Schema``: the types of a graph, as written and as drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Self

from omnigraph.catalog import Catalog, EdgeType, NodeType, describe_catalog
from omnigraph.engine.accepted import catalog_of
from omnigraph.engine.results.drawing import MAX_DRAWN, Box, Link, Picture, draw_svg
from omnigraph.engine.results.network import check_size
from omnigraph.engine.results.table import html_rows
from omnigraph.records import record
from omnigraph.txn.manifest.rows import AcceptedSchema

_MAX_LINES = 12


@record
class Schema:
    """A schema: ``source`` is the text as it was accepted, ``catalog`` what it means."""

    source: str
    catalog: Catalog = field(repr=False)

    @classmethod
    def of(cls, accepted: AcceptedSchema) -> Self:
        """Return the schema that a state follows."""
        return cls(source=accepted.source, catalog=catalog_of(accepted))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the node types."""
        return tuple(self.catalog.nodes)

    @property
    def edges(self) -> tuple[str, ...]:
        """The names of the edge types."""
        return tuple(self.catalog.edges)

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"<Schema: {len(self.nodes)} node types, {len(self.edges)} edge types>"

    def _repr_html_(self) -> str:
        table = html_rows(repr(self)[1:-1], ("kind", "type", "declared as"), _rows(self.catalog))
        return f"{table}\n{self.to_svg()}" if len(self.nodes) <= MAX_DRAWN else table

    def describe(self) -> str:
        """Return a line per type, property and constraint."""
        return describe_catalog(self.catalog)

    def to_svg(self) -> str:
        """Return a drawing: a box per node type with its properties, an arrow per edge type.

        Raises:
            ViewTooLargeError: there are too many node types to be told apart.
        """
        check_size("node types to draw", len(self.nodes), MAX_DRAWN)
        numbers = {name: number for number, name in enumerate(self.nodes)}
        links = (
            Link(source=numbers[edge.from_type], target=numbers[edge.to_type], label=edge.name)
            for edge in self.catalog.edges.values()
        )
        boxes = tuple(map(_box, self.catalog.nodes.values()))
        return draw_svg(Picture(title=repr(self)[1:-1], boxes=boxes, links=tuple(links)))


def _box(node: NodeType) -> Box:
    told = [f"{prop.name}: {prop.type}" for prop in node.properties]
    rest = ("…",) if len(told) > _MAX_LINES else ()
    kind = f"key {', '.join(node.key)}" if node.key else "no key"
    return Box(title=node.name, kind=kind, lines=(*told[:_MAX_LINES], *rest))


def _rows(catalog: Catalog) -> Iterator[tuple[str, str, str]]:
    for node in catalog.nodes.values():
        yield "node", node.name, _properties(node)
    for edge in catalog.edges.values():
        yield "edge", edge.name, f"{edge.from_type} → {edge.to_type} {_properties(edge)}".rstrip()


def _properties(owner: NodeType | EdgeType) -> str:
    return ", ".join(f"{prop.name}: {prop.type}" for prop in owner.properties)
