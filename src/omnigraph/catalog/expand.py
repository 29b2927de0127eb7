"""Interfaces written out: every property that a node or edge has, with each declaration that has a say in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.catalog.rules import broken_rule
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.pg.ast import Annotation, EdgeDecl, InterfaceDecl, NodeDecl, Property, SchemaFile, TypeRef
from omnigraph.lang.source import Ident, SourceText, Span
from omnigraph.records import record


def property_type(written: TypeRef) -> PropertyType:
    """Return the meaning of a written type; enum values are sorted because their order says nothing.

    >>> str(property_type(TypeRef(scalar="String", is_list=True, nullable=True)))
    '[String]?'
    """
    if written.scalar == "enum":
        values = tuple(sorted(value.text for value in written.enum_values))
        return PropertyType(scalar=Scalar.STRING, nullable=written.nullable, enum_values=values)
    return PropertyType(
        scalar=Scalar(written.scalar),
        nullable=written.nullable,
        is_list=written.is_list,
        dimension=written.dimension,
        precision=written.precision,
        scale=written.scale,
    )


@record
class Contribution:
    """A property that an interface hands to a node; ``via`` is the interface's name in the node's list."""

    interface: InterfaceDecl
    property: Property
    via: Ident


@record
class ExpandedProperty:
    """A property with its own declaration, if there is one, and those that interfaces contribute."""

    own: Property | None
    inherited: tuple[Contribution, ...] = ()

    @property
    def leading(self) -> Property:
        """The declaration that gives name, type and place: the node's own, or the first interface's."""
        return self.own if self.own is not None else self.inherited[0].property

    @property
    def name(self) -> str:
        """The property's name."""
        return self.leading.name.text

    @property
    def type(self) -> PropertyType:
        """The property's type."""
        return property_type(self.leading.type)

    @property
    def annotations(self) -> tuple[Annotation, ...]:
        """The annotations in force: the leading ones, and those of interfaces that they do not override."""
        merged = list(self.leading.annotations)
        for contribution in self.inherited:
            written = {annotation.name.text for annotation in merged}
            merged.extend(one for one in contribution.property.annotations if one.name.text not in written)
        return tuple(merged)

    def entry(self, annotation: Annotation) -> Span:
        """Return where an annotation enters the type: where it stands, or where its interface is named."""
        for contribution in self.inherited:
            if any(one is annotation for one in contribution.property.annotations):
                return contribution.via.span
        return annotation.span

    @property
    def satisfies(self) -> tuple[str, ...]:
        """``Interface.property`` of everything this property stands for, sorted."""
        return tuple(sorted(f"{one.interface.name.text}.{self.name}" for one in self.inherited))


@record(slots=False)
class ExpandedType:
    """A node or edge declaration with all its properties: its own in written order, then the injected ones."""

    declaration: NodeDecl | EdgeDecl
    properties: tuple[ExpandedProperty, ...]

    @cached_property
    def types(self) -> Mapping[str, PropertyType]:
        """The types of the properties by name."""
        return {prop.name: prop.type for prop in self.properties}

    @property
    def is_edge(self) -> bool:
        """Whether this is an edge type."""
        return isinstance(self.declaration, EdgeDecl)


def expand_declarations(tree: SchemaFile) -> tuple[ExpandedType, ...]:
    """Return every node and edge of ``tree`` in written order with its full set of properties.

    Raises:
        SchemaCheckError: a property twice in one declaration, an unknown interface, or a re-declaration of an
            interface property with another type.
    """
    interfaces: dict[str, InterfaceDecl] = {}
    for declaration in tree.declarations:
        if isinstance(declaration, InterfaceDecl):
            _own_properties(declaration.name.text, declaration.properties, tree.source)
            interfaces.setdefault(declaration.name.text, declaration)
    expanded: list[ExpandedType] = []
    for declaration in tree.declarations:
        if isinstance(declaration, InterfaceDecl):
            continue
        own = _own_properties(declaration.name.text, declaration.items, tree.source)
        if isinstance(declaration, NodeDecl):
            own = _with_interfaces(declaration, own, interfaces, tree.source)
        expanded.append(ExpandedType(declaration=declaration, properties=tuple(own.values())))
    return tuple(expanded)


def _own_properties(owner: str, items: Iterable[object], source: SourceText) -> dict[str, ExpandedProperty]:
    own: dict[str, ExpandedProperty] = {}
    for item in items:
        if not isinstance(item, Property):
            continue
        name = item.name.text
        if name in own:
            first = source.place(own[name].leading.name.span)
            msg = f"duplicate property '{name}' in {owner}"
            suggestion = f"the first one is in line {first.line}"
            raise broken_rule("duplicate_property", msg, source, item.name.span, suggestion=suggestion)
        own[name] = ExpandedProperty(own=item)
    return own


def _with_interfaces(
    node: NodeDecl, own: dict[str, ExpandedProperty], interfaces: Mapping[str, InterfaceDecl], source: SourceText
) -> dict[str, ExpandedProperty]:
    properties = dict(own)
    seen: set[str] = set()
    for via in node.implements:
        if via.text not in interfaces:
            near = nearest_name(via.text, interfaces)
            msg = f"node {node.name.text} implements unknown interface '{via.text}'"
            suggestion = f"did you mean '{near}'?" if near else None
            raise broken_rule("unknown_interface", msg, source, via.span, suggestion=suggestion)
        if via.text in seen:
            continue
        seen.add(via.text)
        interface = interfaces[via.text]
        for prop in interface.properties:
            contribution = Contribution(interface=interface, property=prop, via=via)
            existing = properties.get(prop.name.text)
            if existing is None:
                properties[prop.name.text] = ExpandedProperty(own=None, inherited=(contribution,))
                continue
            _check_redeclared_type(existing, contribution, source)
            inherited = (*existing.inherited, contribution)
            properties[prop.name.text] = ExpandedProperty(own=existing.own, inherited=inherited)
    return properties


def _check_redeclared_type(existing: ExpandedProperty, contribution: Contribution, source: SourceText) -> None:
    if existing.own is None:
        return
    demanded = property_type(contribution.property.type)
    if existing.type != demanded:
        interface = contribution.interface.name.text
        msg = f"property '{existing.name}' is {existing.type}, but interface {interface} declares it as {demanded}"
        span = existing.own.type.span
        raise broken_rule("interface_mismatch", msg, source, span, suggestion=f"write {demanded}")
