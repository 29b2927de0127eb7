"""From a schema tree to a catalog, in stages that each see only what the stage before has accepted."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from omnigraph.catalog.agreement import check_agreement
from omnigraph.catalog.annotations import (
    CONSTRAINT_WORDS,
    check_head,
    check_property,
    check_rename_hint,
    embed_of,
    kept_annotations,
)
from omnigraph.catalog.constraints import Constraints, compile_constraints
from omnigraph.catalog.expand import ExpandedProperty, ExpandedType, expand_declarations
from omnigraph.catalog.model import (
    CardinalityRule,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    PropertyDef,
)
from omnigraph.catalog.property_types import property_type
from omnigraph.catalog.shape import shape_hash
from omnigraph.lang.pg.ast import EdgeDecl, InterfaceDecl, NodeDecl, SchemaFile
from omnigraph.lang.source import Source


def compile_schema(tree: SchemaFile) -> Catalog:
    """Check a schema and return what it means, without ids.

    Interfaces are expanded first, then annotations, constraints and the schema as a whole are checked; the first
    finding ends the work.

    Raises:
        SchemaCheckError: ``details.rule`` is a word of :data:`omnigraph.catalog.rules.RULES`.
    """
    expanded = expand_declarations(tree)
    _check_annotations(tree, expanded)
    constraints = [compile_constraints(owner, tree.source) for owner in expanded]
    check_agreement(tree, expanded)
    interfaces = [_interface(one) for one in tree.declarations if isinstance(one, InterfaceDecl)]
    nodes: list[NodeType] = []
    edges: list[EdgeType] = []
    for owner, rules in zip(expanded, constraints, strict=True):
        match owner.declaration:
            case NodeDecl() as node:
                nodes.append(_node(node, owner, rules))
            case EdgeDecl() as edge:
                edges.append(_edge(edge, owner, rules))
    catalog = Catalog(
        interfaces={one.name: one for one in sorted(interfaces, key=lambda one: one.name)},
        nodes={one.name: one for one in sorted(nodes, key=lambda one: one.name)},
        edges={one.name: one for one in sorted(edges, key=lambda one: one.name)},
        shape_hash="",
    )
    return replace(catalog, shape_hash=shape_hash(catalog))


def _check_annotations(tree: SchemaFile, expanded: tuple[ExpandedType, ...]) -> None:
    for declaration in tree.declarations:
        if isinstance(declaration, InterfaceDecl):
            # Anything else on an interface property is judged where a node receives it.
            written = chain.from_iterable(prop.annotations for prop in declaration.properties)
            for annotation in written:
                if annotation.name.text == "rename_from":
                    check_rename_hint(annotation, tree.source)
    for owner in expanded:
        check_head(owner.declaration.annotations, "edge" if owner.is_edge else "node", tree.source)
        for prop in owner.properties:
            _check_property(owner, prop, tree.source)


def _check_property(owner: ExpandedType, prop: ExpandedProperty, source: Source) -> None:
    if prop.own is not None:
        check_property(prop.own, owner.types, source, on_edge=owner.is_edge)
    for contribution in prop.inherited:
        # An interface must make sense by itself: its @embed may name its own properties only.
        siblings = {one.name.text: property_type(one.type) for one in contribution.interface.properties}
        check_property(contribution.property, siblings, source)


def _interface(declaration: InterfaceDecl) -> InterfaceType:
    properties = tuple(
        PropertyDef(
            name=prop.name.text,
            type=property_type(prop.type),
            annotations=kept_annotations(prop.annotations),
            embed=embed_of(prop.annotations),
        )
        for prop in declaration.properties
    )
    constraints = {
        (prop.name.text, annotation.name.text)
        for prop in declaration.properties
        for annotation in prop.annotations
        if annotation.name.text in CONSTRAINT_WORDS
    }
    return InterfaceType(name=declaration.name.text, properties=properties, constraints=tuple(sorted(constraints)))


def _node(declaration: NodeDecl, owner: ExpandedType, rules: Constraints) -> NodeType:
    return NodeType(
        name=declaration.name.text,
        properties=_properties(owner),
        implements=tuple(sorted({name.text for name in declaration.implements})),
        key=rules.key,
        uniques=rules.uniques,
        indexes=rules.indexes,
        ranges=rules.ranges,
        checks=rules.checks,
        annotations=kept_annotations(declaration.annotations),
    )


def _edge(declaration: EdgeDecl, owner: ExpandedType, rules: Constraints) -> EdgeType:
    written = declaration.cardinality
    cardinality = (
        CardinalityRule() if written is None else CardinalityRule(minimum=written.minimum, maximum=written.maximum)
    )
    return EdgeType(
        name=declaration.name.text,
        from_type=declaration.source.text,
        to_type=declaration.target.text,
        properties=_properties(owner),
        cardinality=cardinality,
        key=rules.key,
        uniques=rules.uniques,
        indexes=rules.indexes,
        annotations=kept_annotations(declaration.annotations),
    )


def _properties(owner: ExpandedType) -> tuple[PropertyDef, ...]:
    return tuple(
        PropertyDef(
            name=prop.name,
            type=prop.type,
            annotations=kept_annotations(prop.annotations),
            embed=embed_of(prop.annotations),
            declared_directly=prop.own is not None,
            satisfies=prop.satisfies,
        )
        for prop in owner.properties
    )
