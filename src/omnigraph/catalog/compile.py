"""From a schema tree to a catalog, in stages that each see only what the stage before has accepted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, combinations

from omnigraph.catalog.annotations import (
    CONSTRAINT_WORDS,
    annotation_value,
    check_head,
    check_property,
    check_rename_hint,
    embed_of,
    kept_annotations,
)
from omnigraph.catalog.constraints import Constraints, compile_constraints
from omnigraph.catalog.defaults import DEFAULT, check_default_rules
from omnigraph.catalog.expand import Contribution, ExpandedProperty, ExpandedType, expand_declarations, property_type
from omnigraph.catalog.model import (
    AnnotationValue,
    CardinalityRule,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    PropertyDef,
)
from omnigraph.catalog.rules import broken_rule
from omnigraph.catalog.shape import shape_hash
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.pg.ast import Declaration, EdgeDecl, InterfaceDecl, NodeDecl, Property, SchemaFile
from omnigraph.lang.source import Ident, SourceText


def check_agreement(tree: SchemaFile, expanded: Iterable[ExpandedType]) -> None:
    """Check unique names, edge endpoints, edge names in other letter case, and interfaces that share a property.

    Raises:
        SchemaCheckError: with the rule that is broken.
    """
    _check_unique_names(tree)
    _check_edges(tree)
    for owner in expanded:
        for prop in owner.properties:
            _check_contributions(owner, prop, tree.source)


def _check_unique_names(tree: SchemaFile) -> None:
    seen: dict[tuple[str, str], Ident] = {}
    for declaration in tree.declarations:
        kind = _kind(declaration)
        name = declaration.name
        first = seen.setdefault((kind, name.text), name)
        if first is not name:
            msg = f"duplicate {kind} '{name.text}'"
            suggestion = f"the first one is in line {tree.source.place(first.span).line}"
            raise broken_rule(f"duplicate_{kind}", msg, tree.source, name.span, suggestion=suggestion)


def _kind(declaration: Declaration) -> str:
    match declaration:
        case InterfaceDecl():
            return "interface"
        case NodeDecl():
            return "node"
        case EdgeDecl():
            return "edge"


def _check_edges(tree: SchemaFile) -> None:
    nodes = {one.name.text for one in tree.declarations if isinstance(one, NodeDecl)}
    interfaces = {one.name.text for one in tree.declarations if isinstance(one, InterfaceDecl)}
    folded: dict[str, str] = {}
    for edge in tree.declarations:
        if not isinstance(edge, EdgeDecl):
            continue
        for end, word in ((edge.source, "source"), (edge.target, "target")):
            if end.text not in nodes:
                near = nearest_name(end.text, nodes)
                suggestion = f"did you mean '{near}'?" if near else None
                if end.text in interfaces:
                    suggestion = f"'{end.text}' is an interface; edges connect node types"
                msg = f"edge {edge.name.text} has unknown {word} type '{end.text}'"
                raise broken_rule(f"unknown_{word}", msg, tree.source, end.span, suggestion=suggestion)
        first = folded.setdefault(edge.name.text.lower(), edge.name.text)
        if first != edge.name.text:
            msg = f"edge names '{first}' and '{edge.name.text}' are the same after case folding"
            raise broken_rule("edge_name_case", msg, tree.source, edge.name.span)


def _check_contributions(owner: ExpandedType, prop: ExpandedProperty, source: SourceText) -> None:
    if prop.own is not None:
        _check_redeclaration(prop, prop.own, source)
    for earlier, later in combinations(prop.inherited, 2):
        if not _agree(prop, earlier, later):
            one, other = earlier.interface.name.text, later.interface.name.text
            msg = f"interfaces {one} and {other} give property '{prop.name}' incompatible property semantics"
            suggestion = f"make them equal, or declare '{prop.name}' in {owner.declaration.name.text}"
            raise broken_rule("interface_conflict", msg, source, later.via.span, suggestion=suggestion)


def _check_redeclaration(prop: ExpandedProperty, own: Property, source: SourceText) -> None:
    ours = embed_of(own.annotations)
    for contribution in prop.inherited:
        theirs = embed_of(contribution.property.annotations)
        if ours is not None and theirs is not None and ours != theirs:
            interface = contribution.interface.name.text
            msg = f"property '{prop.name}' has a different @embed from the one in interface {interface}"
            raise broken_rule("interface_mismatch", msg, source, own.name.span, suggestion="leave out @embed")


def _agree(prop: ExpandedProperty, earlier: Contribution, later: Contribution) -> bool:
    """Tell whether two interfaces say the same, as far as the node does not say it itself."""
    if prop.own is None:
        same_type = property_type(earlier.property.type) == property_type(later.property.type)
        return same_type and _meaning(earlier.property) == _meaning(later.property)
    overridden = {annotation.name.text for annotation in prop.own.annotations}
    both = chain(_meaning(earlier.property), _meaning(later.property))
    said: dict[str, AnnotationValue] = {}
    # A constraint that only one interface demands does not contradict the other; a text that differs does.
    return all(one.name in overridden or said.setdefault(one.name, one) == one for one in both)


def _meaning(prop: Property) -> list[AnnotationValue]:
    values = (annotation_value(one) for one in prop.annotations if one.name.text != "rename_from")
    return sorted(values, key=lambda one: one.name)


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
    for owner, rules in zip(expanded, constraints, strict=True):
        _check_defaults(owner, rules, tree.source)
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


def _check_property(owner: ExpandedType, prop: ExpandedProperty, source: SourceText) -> None:
    if prop.own is not None:
        check_property(prop.own, owner.types, source, on_edge=owner.is_edge)
    for contribution in prop.inherited:
        # An interface must make sense by itself: its @embed may name its own properties only.
        siblings = {one.name.text: property_type(one.type) for one in contribution.interface.properties}
        check_property(contribution.property, siblings, source)


def _check_defaults(owner: ExpandedType, rules: Constraints, source: SourceText) -> None:
    for prop in owner.properties:
        annotation = next((one for one in prop.annotations if one.name.text == DEFAULT), None)
        if annotation is None:
            continue
        if rules.key == (prop.name,):
            msg = f"@default is not supported on '{prop.name}', which is the whole key: it would name one entity only"
            raise broken_rule("default_target", msg, source, prop.entry(annotation))
        compiled = PropertyDef(name=prop.name, type=prop.type, annotations=kept_annotations(prop.annotations))
        broken = check_default_rules(compiled, rules.ranges, rules.checks)
        if broken is not None:
            msg = f"the @default of '{prop.name}' breaks its {broken}"
            raise broken_rule("default_rule", msg, source, prop.entry(annotation))


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
        ranges=rules.ranges,
        checks=rules.checks,
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
