"""A schema taken apart into facts that are named by identity, so that three versions of it can be compared one by one.

A fact says one thing about a type or a property: its name, its type, whether a value is required, one constraint. Ids
of all branches are brought together first: a thing has one number here, whatever ids its branches know it by.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from omnigraph.catalog.identity import TypeKind
from omnigraph.catalog.migration.resolve import KINDS, AnyType, types_of
from omnigraph.catalog.model import (
    ENDPOINTS,
    AnnotationValue,
    Catalog,
    CheckRule,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    PropertyDef,
    PropertyType,
    RangeRule,
)

# What a version says about something that it does not have.
ABSENT: Final = None
# The number of a property, or one of the ends of an edge.
Column = int | str


class Atom(NamedTuple):
    """What a fact is about; ``owner`` and ``prop`` are numbers of a type and of a property of it."""

    owner: int
    prop: int | None
    what: str
    detail: Hashable = None


Facts = dict[Atom, Any]


class Numbers:
    """One number for everything that several versions of a schema have, whatever id each of them gave it.

    The versions are given in order of precedence: a thing is called by the id of the first that has it.
    """

    def __init__(self, versions: Iterable[Catalog]) -> None:
        self._parents: dict[int, int] = {}
        self._order = tuple(versions)
        for catalog in self._order:
            for _, owner in each_type(catalog):
                self._join(owner.id, *owner.aliases)
                for prop in owner.properties:
                    self._join(prop.id, *prop.aliases)

    def join(self, one: int, other: int) -> None:
        """Say that two ids are of one thing."""
        self._join(one, other)

    def of(self, number: int) -> int:
        """Return the number that stands for an id."""
        while (parent := self._parents.setdefault(number, number)) != number:
            number = parent
        return number

    def ids(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Return for every number the id that it keeps, and the aliases of that, sorted."""
        members: dict[int, set[int]] = {}
        for number in self._parents:
            members.setdefault(self.of(number), set()).add(number)
        kept: dict[int, int] = {}
        for catalog in self._order:
            for _, owner in each_type(catalog):
                for found in (owner.id, *(prop.id for prop in owner.properties)):
                    kept.setdefault(self.of(found), found)
        return {at: (found, tuple(sorted(members[at] - {found}))) for at, found in kept.items()}

    def _join(self, first: int, *others: int) -> None:
        root = self.of(first)
        for other in others:
            self._parents[self.of(other)] = root


def each_type(catalog: Catalog) -> Iterator[tuple[TypeKind, AnyType]]:
    """Yield all types of a catalog with their kinds."""
    for kind in KINDS:
        for owner in types_of(catalog, kind).values():
            yield kind, owner


def facts_of(catalog: Catalog, numbers: Numbers) -> Facts:
    """Take a catalog apart."""
    names = {kind: {one.name: numbers.of(one.id) for one in types_of(catalog, kind).values()} for kind in KINDS}
    links = {
        f"{interface.name}.{prop.name}": numbers.of(prop.id)
        for interface in catalog.interfaces.values()
        for prop in interface.properties
    }
    facts: Facts = {}
    for kind, owner in each_type(catalog):
        at = numbers.of(owner.id)
        columns: dict[str, Column] = {prop.name: numbers.of(prop.id) for prop in owner.properties}
        columns |= {end: end for end in ENDPOINTS if kind == "edge"}
        facts[Atom(at, None, "kind")] = kind
        facts[Atom(at, None, "name")] = owner.name
        for what, detail, value in _type_facts(owner, columns, names):
            facts[Atom(at, None, what, detail)] = value
        for prop in owner.properties:
            for what, detail, value in _property_facts(prop, columns, links):
                facts[Atom(at, numbers.of(prop.id), what, detail)] = value
    return facts


_Fact = tuple[str, Hashable, Any]


def _type_facts(
    owner: AnyType, columns: Mapping[str, Column], names: Mapping[TypeKind, Mapping[str, int]]
) -> Iterator[_Fact]:
    if isinstance(owner, InterfaceType):
        yield from (("word", (columns[name], word), True) for name, word in owner.constraints)
        return
    if isinstance(owner, NodeType):
        yield "implements", None, frozenset(names["interface"][name] for name in owner.implements)
    else:
        yield "ends", None, (names["node"][owner.from_type], names["node"][owner.to_type])
        yield "cardinality", None, owner.cardinality
    # A type without a key says so, because two types that differ in it are not alike.
    yield "key", None, () if owner.key is None else tuple(columns[name] for name in owner.key)
    yield from (("unique", frozenset(columns[name] for name in found), True) for found in owner.uniques)
    yield from (("index", frozenset(columns[name] for name in found), True) for found in owner.indexes)
    for name in {rule.property for rule in owner.ranges}:
        bounds = frozenset((rule.low, rule.high) for rule in owner.ranges if rule.property == name)
        yield "range", columns[name], bounds
    yield from (("check", (columns[rule.property], rule.pattern), True) for rule in owner.checks)
    yield from _annotation_facts(owner.annotations)


def _property_facts(prop: PropertyDef, columns: Mapping[str, Column], links: Mapping[str, int]) -> Iterator[_Fact]:
    kind = prop.type
    yield "name", None, prop.name
    shape = (kind.scalar, kind.is_list, kind.dimension, kind.precision, kind.scale)
    yield "type", None, (*shape, kind.enum_values is not None)
    yield "nullable", None, kind.nullable
    if kind.enum_values is not None:
        yield "enum", None, frozenset(kind.enum_values)
    yield "embed", None, () if prop.embed is None else (columns[prop.embed.source], prop.embed.model)
    yield "origin", None, (prop.declared_directly, frozenset(links[link] for link in prop.satisfies))
    yield from _annotation_facts(prop.annotations)


def _annotation_facts(annotations: Iterable[AnnotationValue]) -> Iterator[_Fact]:
    found: dict[str, list[AnnotationValue]] = {}
    for one in annotations:
        found.setdefault(one.name, []).append(one)
    yield from (("annotation", name, tuple(values)) for name, values in found.items())


def columns_in(atom: Atom, value: Any) -> frozenset[int]:
    """Return the properties that a fact of a type, or of another property, speaks of."""
    found: Iterable[Any]
    match atom.what:
        case "key":
            found = value
        case "unique" | "index":
            found = atom.detail if isinstance(atom.detail, frozenset) else ()
        case "range":
            found = (atom.detail,)
        case "check" | "word":
            found = atom.detail[:1] if isinstance(atom.detail, tuple) else ()
        case "embed":
            found = value[:1]
        case _:
            found = ()
    return frozenset(column for column in found if isinstance(column, int))


def catalog_of_facts(facts: Facts, order: Mapping[int, int]) -> Catalog:
    """Put a catalog together; it has no ids and no hash, and may contradict itself.

    Args:
        facts: what holds.
        order: where each property stands among those of its type.
    """
    by_owner: dict[int, Facts] = {}
    for atom, value in facts.items():
        by_owner.setdefault(atom.owner, {})[atom] = value
    names = {owner: found[Atom(owner, None, "name")] for owner, found in by_owner.items()}
    # An interface property is written with the name of its interface.
    links = {
        atom.prop: f"{names[owner]}.{value}"
        for owner, found in by_owner.items()
        if found[Atom(owner, None, "kind")] == "interface"
        for atom, value in found.items()
        if atom.prop is not None and atom.what == "name"
    }
    interfaces: dict[str, InterfaceType] = {}
    nodes: dict[str, NodeType] = {}
    edges: dict[str, EdgeType] = {}
    for owner in sorted(by_owner, key=lambda number: names[number].encode()):
        maker = _Maker(by_owner[owner], owner, order, names, links)
        match maker.fact("kind"):
            case "interface":
                interfaces[names[owner]] = maker.interface()
            case "node":
                nodes[names[owner]] = maker.node()
            case _:
                edges[names[owner]] = maker.edge()
    return Catalog(interfaces=interfaces, nodes=nodes, edges=edges, shape_hash="")


class _Maker:
    """Puts one type together."""

    def __init__(
        self,
        facts: Facts,
        owner: int,
        order: Mapping[int, int],
        names: Mapping[int, str],
        links: Mapping[int, str],
    ) -> None:
        self._facts = facts
        self._owner = owner
        self._names = names
        self._links = links
        found = {atom.prop for atom in facts if atom.prop is not None}
        self._properties = sorted(found, key=lambda number: order[number])

    def fact(self, what: str, prop: int | None = None) -> Any:
        return self._facts.get(Atom(self._owner, prop, what))

    def interface(self) -> InterfaceType:
        words = [(self._column(detail[0]), detail[1]) for detail in self._details("word")]
        return InterfaceType(
            name=self.fact("name"), properties=self._all_properties(), constraints=tuple(sorted(words))
        )

    def node(self) -> NodeType:
        implements = sorted(self._names[number] for number in self.fact("implements"))
        return NodeType(implements=tuple(implements), **self._rules())

    def edge(self) -> EdgeType:
        start, end = (self._names[number] for number in self.fact("ends"))
        return EdgeType(from_type=start, to_type=end, cardinality=self.fact("cardinality"), **self._rules())

    def _rules(self) -> dict[str, Any]:
        ranges = [
            RangeRule(property=self._column(atom.detail), low=low, high=high)
            for atom, bounds in self._facts.items()
            if atom.what == "range"
            for low, high in bounds
        ]
        checks = [CheckRule(property=self._column(one[0]), pattern=one[1]) for one in self._details("check")]
        return {
            "name": self.fact("name"),
            "properties": self._all_properties(),
            "key": tuple(map(self._column, self.fact("key"))) or None,
            "uniques": self._column_lists("unique"),
            "indexes": self._column_lists("index"),
            "ranges": tuple(sorted(ranges, key=lambda rule: (rule.property, str(rule.low), str(rule.high)))),
            "checks": tuple(sorted(checks, key=lambda rule: (rule.property, rule.pattern))),
            "annotations": self._annotations(None),
        }

    def _column_lists(self, what: str) -> tuple[tuple[str, ...], ...]:
        return tuple(sorted(tuple(sorted(map(self._column, columns))) for columns in self._details(what)))

    def _details(self, what: str) -> list[Any]:
        return [atom.detail for atom in self._facts if atom.what == what and atom.prop is None]

    def _column(self, column: Any) -> str:
        return column if isinstance(column, str) else str(self.fact("name", column))

    def _all_properties(self) -> tuple[PropertyDef, ...]:
        return tuple(map(self._property, self._properties))

    def _property(self, number: int) -> PropertyDef:
        scalar, is_list, dimension, precision, scale, is_enum = self.fact("type", number)
        values = tuple(sorted(self.fact("enum", number))) if is_enum else None
        embed = self.fact("embed", number)
        declared_directly, satisfied = self.fact("origin", number)
        return PropertyDef(
            name=self.fact("name", number),
            type=PropertyType(
                scalar=scalar,
                nullable=self.fact("nullable", number),
                is_list=is_list,
                enum_values=values,
                dimension=dimension,
                precision=precision,
                scale=scale,
            ),
            annotations=self._annotations(number),
            embed=Embed(source=self._column(embed[0]), model=embed[1]) if embed else None,
            declared_directly=declared_directly,
            satisfies=tuple(sorted(self._links[link] for link in satisfied)),
        )

    def _annotations(self, prop: int | None) -> tuple[AnnotationValue, ...]:
        found = [(atom.detail, value) for atom, value in self._facts.items() if _is_annotation(atom, prop)]
        return tuple(one for _, values in sorted(found) for one in values)


def _is_annotation(atom: Atom, prop: int | None) -> bool:
    return atom.what == "annotation" and atom.prop == prop
