"""Three versions of one schema side by side: base, source and target, with one number for everything they share."""

from __future__ import annotations

from typing import Any

from omnigraph.catalog.declare import property_text, type_text
from omnigraph.catalog.migration.atoms import Atom, Facts, Numbers, each_type, facts_of
from omnigraph.catalog.migration.resolve import KINDS, AnyType, types_of
from omnigraph.catalog.model import Catalog


class Versions:
    """The facts of three versions, and what things are called in them."""

    def __init__(self, base: Catalog, source: Catalog, target: Catalog) -> None:
        self.catalogs = {"base": base, "source": source, "target": target}
        self.numbers = Numbers((target, source, base))
        _join_alike(self.numbers, base, source, target)
        self.facts = {name: facts_of(catalog, self.numbers) for name, catalog in self.catalogs.items()}
        self.by_owner: dict[int, set[Atom]] = {}
        for facts in self.facts.values():
            for atom in facts:
                self.by_owner.setdefault(atom.owner, set()).add(atom)

    def part(self, side: str, owner: int, prop: int | None) -> Facts:
        """Return what a side says of a type with all of its properties, or of one of them."""
        facts = self.facts[side]
        chosen = (atom for atom in self.by_owner[owner] if atom in facts and (prop is None or atom.prop == prop))
        return {atom: facts[atom] for atom in chosen}

    def order(self) -> dict[int, int]:
        """Return where properties stand among others: as in the target, then those of the source."""
        found: dict[int, int] = {}
        for name in ("target", "source", "base"):
            for _, owner in each_type(self.catalogs[name]):
                for prop in owner.properties:
                    found.setdefault(self.numbers.of(prop.id), len(found))
        return found

    def key_in(self, name: str, owner: int) -> str:
        """Return the kind and the name of a type in one of the versions."""
        facts = self.facts[name]
        return f"{facts[Atom(owner, None, 'kind')]}:{facts[Atom(owner, None, 'name')]}"

    def place(self, entity: str, merged: Facts) -> tuple[int, int | None]:
        """Return the numbers of what a step of a plan names: a type of the result, or a property of it."""
        key, _, name = entity.partition(".")
        known = {atom: value for facts in (*self.facts.values(), merged) for atom, value in facts.items()}
        kinds = {atom.owner: value for atom, value in known.items() if atom.what == "kind"}
        names = {atom: value for atom, value in known.items() if atom.what == "name"}
        owner = next(
            atom.owner for atom, value in names.items() if atom.prop is None and f"{kinds[atom.owner]}:{value}" == key
        )
        inside = (atom.prop for atom, value in names.items() if atom.owner == owner and value == name)
        return owner, next((prop for prop in inside if prop is not None), None)

    def called(self, owner: int, prop: int | None) -> str:
        """Return what a thing is called in the target, or else in the source, or else in the base."""
        for name in ("target", "source", "base"):
            facts = self.facts[name]
            if Atom(owner, prop, "name") in facts:
                key = self.key_in(name, owner)
                return key if prop is None else f"{key}.{facts[Atom(owner, prop, 'name')]}"
        return "an unknown type"

    def column_names(self, owner: int) -> dict[Any, str]:
        """Return a name for every column that a type has in any version."""
        found: dict[Any, str] = {"src": "src", "dst": "dst"}
        for name in ("base", "source", "target"):
            facts = self.facts[name].items()
            found |= {atom.prop: text for atom, text in facts if atom.owner == owner and atom.what == "name"}
        return found

    def type(self, name: str, owner: int) -> AnyType | None:
        """Return a type of one of the versions, None where it is not."""
        return next((one for _, one in each_type(self.catalogs[name]) if self.numbers.of(one.id) == owner), None)

    def text(self, name: str, owner: int, prop: int | None) -> str | None:
        """Return the declaration of a type or a property in one of the versions, None where it is not."""
        found = self.type(name, owner)
        if found is None:
            return None
        if prop is None:
            return type_text(self.catalogs[name], found)
        return next((property_text(one) for one in found.properties if self.numbers.of(one.id) == prop), None)


def _join_alike(numbers: Numbers, base: Catalog, source: Catalog, target: Catalog) -> None:
    """Take types, and properties of one type, that both sides added under one name for one thing."""
    known = {numbers.of(owner.id) for _, owner in each_type(base)}
    both = {numbers.of(owner.id) for _, owner in each_type(source)} & {
        numbers.of(owner.id) for _, owner in each_type(target)
    }
    for kind in KINDS:
        for name, ours in types_of(target, kind).items():
            theirs = types_of(source, kind).get(name)
            if theirs is not None and not {numbers.of(ours.id), numbers.of(theirs.id)} & (known | both):
                numbers.join(ours.id, theirs.id)
    pairs = {numbers.of(owner.id): owner for _, owner in each_type(source)}
    olds = {numbers.of(prop.id) for _, owner in each_type(base) for prop in owner.properties}
    for _, ours in each_type(target):
        theirs = pairs.get(numbers.of(ours.id))
        if theirs is None:
            continue
        shared = {numbers.of(prop.id) for prop in ours.properties} & {numbers.of(prop.id) for prop in theirs.properties}
        added = {prop.name: prop for prop in theirs.properties if numbers.of(prop.id) not in olds | shared}
        for prop in ours.properties:
            if prop.name in added and numbers.of(prop.id) not in olds | shared:
                numbers.join(prop.id, added[prop.name].id)
