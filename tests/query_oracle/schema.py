"""What the oracle knows of a schema: the properties of each type and the ends of each edge, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from omnigraph.lang.pg import parse_schema
from omnigraph.lang.pg.ast import EdgeDecl, InterfaceDecl, NodeDecl, Property
from tests.query_oracle.faults import Illegal


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The type of a value; an enum is a String here."""

    scalar: str
    is_list: bool = False
    dimension: int | None = None
    is_nullable: bool = False
    enum_values: tuple[str, ...] = ()
    digits: tuple[int, int] | None = None

    def __str__(self) -> str:
        body = f"Vector({self.dimension})" if self.dimension is not None else self.scalar
        if self.digits is not None:
            body = f"Decimal({self.digits[0]}, {self.digits[1]})"
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
class Interface:
    """Properties that several node types share, and those types by name."""

    properties: dict[str, Kind]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Node types by name, edge types by name; an interface stands for the node types that implement it."""

    nodes: dict[str, dict[str, Kind]]
    edges: dict[str, EdgeShape]
    interfaces: dict[str, Interface] = field(default_factory=dict)

    def edge(self, written: str) -> EdgeShape:
        """Find an edge whatever its case."""
        for name, shape in self.edges.items():
            if name.lower() == written.lower():
                return shape
        raise Illegal(f"no edge {written}")

    def common(self, types: tuple[str, ...]) -> dict[str, Kind]:
        """Return the properties that all of the types have alike, in the order of the first."""
        first, *others = (self.properties(name) for name in types)
        return {
            name: kind
            for name, kind in first.items()
            if all(name in found and str(found[name]) == str(kind) for found in others)
        }

    def kind(self, type_name: str, name: str) -> Kind:
        """Return the type of a property of a node or edge type."""
        return self.properties(type_name)[name]

    def properties(self, type_name: str) -> dict[str, Kind]:
        """Return the properties of a node or edge type, of an interface or of ``Edge|Other``, in schema order."""
        if "|" in type_name:
            return self.common(tuple(type_name.split("|")))
        if type_name in self.interfaces:
            return self.interfaces[type_name].properties
        return self.nodes[type_name] if type_name in self.nodes else self.edges[type_name].properties


def read_schema(text: str) -> Schema:
    """Read a schema; a node type has the properties of its interfaces behind its own."""
    declarations = parse_schema(text.encode(), "schema.pg").declarations
    shared = {item.name.text: _properties(item.properties) for item in declarations if isinstance(item, InterfaceDecl)}
    nodes = {}
    for item in declarations:
        if isinstance(item, NodeDecl):
            own = _properties(item.items)
            inherited = {name: kind for one in item.implements for name, kind in shared[one.text].items()}
            nodes[item.name.text] = {**own, **{name: kind for name, kind in inherited.items() if name not in own}}
    edges = {
        item.name.text: EdgeShape(
            name=item.name.text, source=item.source.text, target=item.target.text, properties=_properties(item.items)
        )
        for item in declarations
        if isinstance(item, EdgeDecl)
    }
    interfaces = {
        name: Interface(properties=properties, types=tuple(sorted(_implementers(declarations, name))))
        for name, properties in shared.items()
    }
    return Schema(nodes=nodes, edges=edges, interfaces=interfaces)


def _implementers(declarations: Iterable[object], interface: str) -> Iterator[str]:
    for item in declarations:
        if isinstance(item, NodeDecl) and any(one.text == interface for one in item.implements):
            yield item.name.text


def _properties(items: Iterable[object]) -> dict[str, Kind]:
    return {
        item.name.text: Kind(
            scalar="String" if item.type.scalar == "enum" else item.type.scalar,
            is_list=item.type.is_list,
            dimension=item.type.dimension,
            is_nullable=item.type.nullable,
            enum_values=tuple(value.text for value in item.type.enum_values),
            digits=None if item.type.precision is None else (item.type.precision, item.type.scale or 0),
        )
        for item in items
        if isinstance(item, Property)
    }
