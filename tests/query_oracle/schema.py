"""What the oracle knows of a schema: the properties of each type and the ends of each edge, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lang.pg import parse_schema
from omnigraph.lang.pg.ast import EdgeDecl, NodeDecl, Property


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The type of a value; an enum is a String here."""

    scalar: str
    is_list: bool = False
    dimension: int | None = None
    is_nullable: bool = False
    enum_values: tuple[str, ...] = ()

    def __str__(self) -> str:
        body = f"Vector({self.dimension})" if self.dimension is not None else self.scalar
        return f"[{body}]" if self.is_list else body


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeShape:
    """An edge type: where it starts, where it ends, what it carries."""

    name: str
    source: str
    target: str
    properties: dict[str, Kind]

    @property
    def is_same_type(self) -> bool:
        return self.source == self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Node types by name, edge types by name."""

    nodes: dict[str, dict[str, Kind]]
    edges: dict[str, EdgeShape]

    def edge(self, written: str) -> EdgeShape:
        """Find an edge whatever its case."""
        return next(shape for name, shape in self.edges.items() if name.lower() == written.lower())

    def kind(self, type_name: str, name: str) -> Kind:
        """Return the type of a property of a node or edge type."""
        return self.properties(type_name)[name]

    def properties(self, type_name: str) -> dict[str, Kind]:
        """Return the properties of a node or edge type, in schema order."""
        return self.nodes[type_name] if type_name in self.nodes else self.edges[type_name].properties


def read_schema(text: str) -> Schema:
    """Read a schema without interfaces."""
    declarations = parse_schema(text.encode(), "schema.pg").declarations
    nodes = {item.name.text: _properties(item) for item in declarations if isinstance(item, NodeDecl)}
    edges = {
        item.name.text: EdgeShape(
            name=item.name.text, source=item.source.text, target=item.target.text, properties=_properties(item)
        )
        for item in declarations
        if isinstance(item, EdgeDecl)
    }
    return Schema(nodes=nodes, edges=edges)


def _properties(declared: NodeDecl | EdgeDecl) -> dict[str, Kind]:
    return {
        item.name.text: Kind(
            scalar="String" if item.type.scalar == "enum" else item.type.scalar,
            is_list=item.type.is_list,
            dimension=item.type.dimension,
            is_nullable=item.type.nullable,
            enum_values=tuple(value.text for value in item.type.enum_values),
        )
        for item in declared.items
        if isinstance(item, Property)
    }
