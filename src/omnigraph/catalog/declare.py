"""From a catalog back to the text of a schema: what a merge of two schemas is written as, and how conflicts show sides.

Compiling the text gives a catalog of the same shape. Order among types, comments and the choice between the forms of a
constraint are not in a catalog, so types come by name, and constraints stand on a property where they can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from omnigraph.catalog.defaults import DEFAULT
from omnigraph.catalog.model import (
    AnnotationValue,
    CardinalityRule,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    PropertyDef,
    PropertyType,
    Scalar,
)
from omnigraph.lang.pg.ast import (
    Annotation,
    Cardinality,
    Constraint,
    ConstraintName,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Literal,
    NodeDecl,
    Property,
    RangeBound,
    SchemaFile,
    TypeRef,
)
from omnigraph.lang.pg.format import format_annotation, format_schema, format_type
from omnigraph.lang.source import Ident

_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_BOOLS = {"true": True, "false": False}


def schema_text(catalog: Catalog) -> str:
    """Return the schema of a catalog as canonical text."""
    return format_schema(SchemaFile(declarations=tuple(_declarations(catalog))))


def type_text(catalog: Catalog, owner: InterfaceType | NodeType | EdgeType) -> str:
    """Return the declaration of one type of a catalog."""
    return format_schema(SchemaFile(declarations=(_declaration(catalog, owner),))).rstrip()


def property_text(prop: PropertyDef) -> str:
    """Return the declaration of a property.

    >>> property_text(PropertyDef(name="age", type=PropertyType(scalar=Scalar.I32, nullable=True)))
    'age: I32?'
    """
    written = _property(prop)
    return " ".join([f"{prop.name}: {format_type(written.type)}", *map(format_annotation, written.annotations)])


def _declarations(catalog: Catalog) -> Iterator[Declaration]:
    for types in (catalog.interfaces, catalog.nodes, catalog.edges):
        for name in sorted(types):
            yield _declaration(catalog, types[name])


def _declaration(catalog: Catalog, owner: InterfaceType | NodeType | EdgeType) -> Declaration:
    match owner:
        case InterfaceType():
            properties = tuple(_property(prop, _words(owner, prop.name)) for prop in owner.properties)
            return InterfaceDecl(name=Ident(text=owner.name), properties=properties)
        case NodeType():
            return NodeDecl(
                name=Ident(text=owner.name),
                annotations=tuple(map(_annotation, owner.annotations)),
                implements=tuple(Ident(text=name) for name in owner.implements),
                items=tuple(_items(catalog, owner)),
            )
        case EdgeType():
            rule = owner.cardinality
            bounds = Cardinality(minimum=rule.minimum, maximum=rule.maximum)
            return EdgeDecl(
                name=Ident(text=owner.name),
                source=Ident(text=owner.from_type),
                target=Ident(text=owner.to_type),
                cardinality=None if rule == CardinalityRule() else bounds,
                annotations=tuple(map(_annotation, owner.annotations)),
                items=tuple(_items(catalog, owner)),
            )


def _words(owner: InterfaceType, name: str) -> list[Annotation]:
    said = {one.name for prop in owner.properties if prop.name == name for one in prop.annotations}
    wanted = [word for found, word in owner.constraints if found == name and word not in said]
    return [Annotation(name=Ident(text=word)) for word in wanted]


def _items(catalog: Catalog, owner: NodeType | EdgeType) -> Iterator[Property | Constraint]:
    lists: list[tuple[ConstraintName, tuple[str, ...]]] = []
    if owner.key is not None:
        lists.append(("key", owner.key))
    lists += [("unique", columns) for columns in owner.uniques]
    lists += [("index", columns) for columns in owner.indexes]
    lists = [(word, columns) for word, columns in lists if not _is_inherited(catalog, owner, word, columns)]
    # What an interface contributes is declared there.
    own = {prop.name: prop for prop in owner.properties if prop.declared_directly}
    short = [(word, columns) for word, columns in lists if len(columns) == 1 and columns[0] in own]
    for name, prop in own.items():
        # One that says which kind of index it wants is among the annotations of the property.
        said = {one.name for one in prop.annotations}
        wanted = [word for word, columns in short if columns == (name,) and word not in said]
        words = [Annotation(name=Ident(text=word)) for word in wanted]
        yield _property(prop, words)
    yield from (_constraint(word, columns) for word, columns in lists if (word, columns) not in short)
    for bounds in owner.ranges:
        low, high = (_bound(one) for one in (bounds.low, bounds.high))
        arguments = (Ident(text=bounds.property), RangeBound(low=low, high=high))
        yield Constraint(name="range", arguments=arguments)
    for rule in owner.checks:
        yield Constraint(name="check", arguments=(Ident(text=rule.property), Literal(value=rule.pattern)))


def _is_inherited(catalog: Catalog, owner: NodeType | EdgeType, word: str, columns: tuple[str, ...]) -> bool:
    """Whether an interface hands a constraint on; a key may even be declared once only."""
    prop = owner.get(columns[0]) if len(columns) == 1 else None
    for link in () if prop is None else prop.satisfies:
        interface, _, name = link.partition(".")
        if (name, word) in catalog.interfaces[interface].constraints:
            return True
    return False


def _bound(value: float | Decimal | None) -> Literal | None:
    """Return a bound as it may be written: a whole number beyond 64 bits was one with a point."""
    if value is None:
        return None
    is_long = not _LEAST <= value <= _MOST
    return Literal(value=Decimal(value) if is_long else value)


def _constraint(word: ConstraintName, columns: Iterable[str]) -> Constraint:
    return Constraint(name=word, arguments=tuple(Ident(text=column) for column in columns))


def _property(prop: PropertyDef, extra: Iterable[Annotation] = ()) -> Property:
    kind = prop.type
    written = TypeRef(
        scalar="enum" if kind.enum_values is not None else kind.scalar.value,
        nullable=kind.nullable,
        is_list=kind.is_list,
        dimension=kind.dimension,
        precision=kind.precision,
        scale=kind.scale,
        enum_values=tuple(Ident(text=value) for value in kind.enum_values or ()),
    )
    annotations = [*extra, *(_annotation(one, kind) for one in prop.annotations)]
    if prop.embed is not None:
        model = () if prop.embed.model is None else ((Ident(text="model"), Literal(value=prop.embed.model)),)
        annotations.append(Annotation(name=Ident(text="embed"), value=Literal(value=prop.embed.source), keywords=model))
    return Property(name=Ident(text=prop.name), type=written, annotations=tuple(annotations))


def _annotation(annotation: AnnotationValue, kind: PropertyType | None = None) -> Annotation:
    value: Literal | None = None
    if annotation.value is not None:
        text = annotation.value
        value = Literal(value=_typed(text, kind) if kind is not None and annotation.name == DEFAULT else text)
    keywords = tuple((Ident(text=name), Literal(value=text)) for name, text in annotation.keywords)
    return Annotation(name=Ident(text=annotation.name), value=value, keywords=keywords)


def _typed(text: str, kind: PropertyType) -> str | int | float | Decimal | bool:
    """Return a default as the language wants it written: a number is not text in quotes."""
    if kind.scalar is Scalar.BOOL:
        return _BOOLS[text]
    if kind.is_numeric:
        if text.lstrip("-").isdigit():
            return int(text)
        return Decimal(text) if kind.is_decimal else float(text)
    return text
