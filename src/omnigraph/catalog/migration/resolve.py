"""Identity resolution: which accepted declaration each desired one continues, settled before anything is compared.

The same name in the same kind wins over every hint; a hint counts only where no such name was accepted. An
interface's hint on a property reaches the nodes that receive the property, but only helps there: a node on which it
names nothing simply gets a fresh property, because the hint was written about the interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, assert_never, get_args

from omnigraph.catalog.identity import IdentityMatches, TypeKind
from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType
from omnigraph.errors import Diagnostic, Place, SchemaPlanError
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.pg.ast import Annotation, Declaration, EdgeDecl, InterfaceDecl, NodeDecl, Property, SchemaFile
from omnigraph.lang.source import Ident, SourceText, Span
from omnigraph.records import record

HintDiagnosticCode = Literal["ignored_exact_match_rename_hint", "inert_initialization_rename_hint"]


@record
class RenameHint:
    """One ``@rename_from`` and what it stands on; ``property_name`` is None on a type."""

    kind: TypeKind
    type_name: str
    property_name: str | None
    old_name: str
    span: Span

    @property
    def entity(self) -> str:
        """What the hint stands on, as plans name it."""
        owner = f"{self.kind}:{self.type_name}"
        return owner if self.property_name is None else f"{owner}.{self.property_name}"


@record
class HintDiagnostic:
    """A remark about a hint that did nothing; it changes no plan."""

    code: HintDiagnosticCode
    entity: str
    message: str
    place: Place

    def __str__(self) -> str:
        return f"{self.place.source}:{self.place.line}:{self.place.column}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """Return the diagnostic as JSON values."""
        place = {"line": self.place.line, "column": self.place.column}
        return {"code": self.code, "entity": self.entity, "message": self.message, "place": place}


def iter_hints(tree: SchemaFile) -> Iterator[RenameHint]:
    """Yield every hint in written order, a type's own before those of its properties."""
    for declaration in tree.declarations:
        yield from _declaration_hints(declaration)


def ignored_hint(hint: RenameHint, source: SourceText) -> HintDiagnostic:
    """Remark that ``hint`` stands on something whose present name was accepted already."""
    return HintDiagnostic(
        code="ignored_exact_match_rename_hint",
        entity=hint.entity,
        message=f'@rename_from("{hint.old_name}") has no effect: the graph already has {hint.entity}; remove it',
        place=source.place(hint.span),
    )


def inert_hint(hint: RenameHint, source: SourceText) -> HintDiagnostic:
    """Remark that ``hint`` has nothing to rename in a graph that is being created."""
    return HintDiagnostic(
        code="inert_initialization_rename_hint",
        entity=hint.entity,
        message=f'@rename_from("{hint.old_name}") has no effect on {hint.entity} when the graph is created',
        place=source.place(hint.span),
    )


def _declaration_hints(declaration: Declaration) -> Iterator[RenameHint]:
    match declaration:
        case InterfaceDecl():
            kind: TypeKind = "interface"
            properties = declaration.properties
        case NodeDecl() | EdgeDecl():
            kind = "node" if isinstance(declaration, NodeDecl) else "edge"
            yield from _hints_among(declaration.annotations, kind, declaration.name.text, None)
            properties = tuple(item for item in declaration.items if isinstance(item, Property))
        case _:
            assert_never(declaration)
    for prop in properties:
        yield from _hints_among(prop.annotations, kind, declaration.name.text, prop.name.text)


def _hints_among(
    annotations: Iterable[Annotation], kind: TypeKind, type_name: str, property_name: str | None
) -> Iterator[RenameHint]:
    for annotation in annotations:
        if annotation.name.text == "rename_from" and annotation.value is not None:
            value = annotation.value
            yield RenameHint(
                kind=kind,
                type_name=type_name,
                property_name=property_name,
                old_name=value.text if isinstance(value, Ident) else str(value.value),
                span=annotation.span,
            )


AnyType = InterfaceType | NodeType | EdgeType

KINDS: tuple[TypeKind, ...] = get_args(TypeKind)


def types_of(catalog: Catalog, kind: TypeKind) -> Mapping[str, AnyType]:
    """Return the types of one kind, by name."""
    by_kind: dict[TypeKind, Mapping[str, AnyType]] = {
        "interface": catalog.interfaces,
        "node": catalog.nodes,
        "edge": catalog.edges,
    }
    return by_kind[kind]


PLAN_RULES: Mapping[str, str] = MappingProxyType(
    {
        "rename_unknown_type": "@rename_from on a type names a type that the graph does not have",
        "rename_unknown_property": "@rename_from on a property names a property that the graph does not have",
        "rename_across_kinds": "@rename_from on a type names a type of another kind",
        "rename_across_owners": "@rename_from on a property names a property of another type",
        "rename_in_added_type": "@rename_from is on a property of a type that the graph does not have",
        "rename_type_twice": "@rename_from names the same type twice",
        "rename_property_twice": "@rename_from names the same property twice",
    }
)


@record
class Resolution:
    """The matches and what was remarked while finding them."""

    matches: IdentityMatches
    diagnostics: tuple[HintDiagnostic, ...]

    def type_names(self, kind: TypeKind) -> dict[str, str]:
        """Return the accepted names of continued types of ``kind``, each with its desired name."""
        return {old: new for (found, new), old in self.matches.types.items() if found == kind}

    def property_names(self, kind: TypeKind, desired: AnyType) -> dict[str, str]:
        """Return the accepted names of continued properties of a desired type, each with its desired name."""
        found = ((self.matches.properties.get((kind, desired.name, prop.name)), prop) for prop in desired.properties)
        return {old: prop.name for old, prop in found if old is not None}


def resolve_identities(accepted: Catalog, desired: Catalog, tree: SchemaFile) -> Resolution:
    """Match the types and properties of ``desired``, compiled from ``tree``, with those of ``accepted``.

    Raises:
        SchemaPlanError: a hint that cannot be followed; ``details.rule`` is one of ``PLAN_RULES``.
    """
    resolver = _Resolver(accepted, desired, tree)
    resolver.match_types()
    resolver.match_properties()
    matches = IdentityMatches(types=resolver.types, properties=resolver.properties)
    return Resolution(matches=matches, diagnostics=tuple(resolver.diagnostics))


class _Resolver:
    def __init__(self, accepted: Catalog, desired: Catalog, tree: SchemaFile) -> None:
        self._accepted = accepted
        self._desired = desired
        self._source = tree.source
        self._hints = tuple(iter_hints(tree))
        self.types: dict[tuple[TypeKind, str], str] = {}
        self.properties: dict[tuple[TypeKind, str, str], str] = {}
        self.diagnostics: list[HintDiagnostic] = []

    def match_types(self) -> None:
        for kind in KINDS:
            known = types_of(self._accepted, kind)
            self.types.update({(kind, name): name for name in types_of(self._desired, kind) if name in known})
        for hint in self._hints:
            if hint.property_name is None:
                self._follow_type_hint(hint)

    def _follow_type_hint(self, hint: RenameHint) -> None:
        if hint.type_name in types_of(self._accepted, hint.kind):
            self.diagnostics.append(ignored_hint(hint, self._source))
            return
        known = types_of(self._accepted, hint.kind)
        if hint.old_name not in known:
            other = next((kind for kind in KINDS if hint.old_name in types_of(self._accepted, kind)), None)
            if other is not None:
                reason = f"{other}:{hint.old_name} cannot be continued across declaration kinds"
                raise self._error("rename_across_kinds", hint, reason)
            near = nearest_name(hint.old_name, known)
            raise self._error("rename_unknown_type", hint, "no accepted declaration has that name", near)
        if hint.old_name in self._taken_types(hint.kind):
            reason = f"accepted {hint.kind}:{hint.old_name} is consumed by more than one desired declaration"
            raise self._error("rename_type_twice", hint, reason)
        self.types[hint.kind, hint.type_name] = hint.old_name

    def _taken_types(self, kind: TypeKind) -> set[str]:
        return {old for (found, _), old in self.types.items() if found == kind}

    def match_properties(self) -> None:
        for (kind, name), old_name in self.types.items():
            known = types_of(self._accepted, kind)[old_name].properties
            old_properties = {prop.name for prop in known}
            for prop in types_of(self._desired, kind)[name].properties:
                if prop.name in old_properties:
                    self.properties[kind, name, prop.name] = prop.name
        for hint in self._hints:
            if hint.property_name is not None:
                self._follow_property_hint(hint, hint.property_name)
        self._follow_inherited_hints()

    def _follow_property_hint(self, hint: RenameHint, property_name: str) -> None:
        old_type = self.types.get((hint.kind, hint.type_name))
        if old_type is None:
            reason = f"{hint.kind}:{hint.type_name} is not in the accepted schema and cannot import property identity"
            raise self._error("rename_in_added_type", hint, reason)
        if (hint.kind, hint.type_name, property_name) in self.properties:
            self.diagnostics.append(ignored_hint(hint, self._source))
            return
        known = {prop.name for prop in types_of(self._accepted, hint.kind)[old_type].properties}
        if hint.old_name not in known:
            raise self._missing_property(hint, old_type, known)
        if hint.old_name in self._taken_properties(hint.kind, hint.type_name):
            reason = f"accepted property {hint.kind}:{old_type}.{hint.old_name} is consumed more than once"
            raise self._error("rename_property_twice", hint, reason)
        self.properties[hint.kind, hint.type_name, property_name] = hint.old_name

    def _missing_property(self, hint: RenameHint, old_type: str, known: set[str]) -> SchemaPlanError:
        near = nearest_name(hint.old_name, known)
        wanted_owner, _, wanted = hint.old_name.rpartition(".")
        for kind in KINDS:
            for owner in types_of(self._accepted, kind).values():
                is_other = (kind, owner.name) != (hint.kind, old_type) and wanted_owner in ("", owner.name)
                if is_other and any(prop.name == wanted for prop in owner.properties):
                    taken = f"{kind}:{owner.name}.{wanted}"
                    reason = f"{old_type} has no such property, and taking {taken} moves across stable owners"
                    return self._error("rename_across_owners", hint, reason, near)
        return self._error("rename_unknown_property", hint, f"{old_type} has no accepted property with that name", near)

    def _follow_inherited_hints(self) -> None:
        by_place = {f"{hint.type_name}.{hint.property_name}": hint for hint in self._hints if hint.kind == "interface"}
        for node in self._desired.nodes.values():
            old_type = self.types.get(("node", node.name))
            if old_type is None:
                continue
            known = {prop.name for prop in self._accepted.nodes[old_type].properties}
            for prop in node.properties:
                old_names = [by_place[link].old_name for link in prop.satisfies if link in by_place]
                usable = [old for old in old_names if old in known - self._taken_properties("node", node.name)]
                if usable and ("node", node.name, prop.name) not in self.properties:
                    self.properties["node", node.name, prop.name] = usable[0]

    def _taken_properties(self, kind: TypeKind, type_name: str) -> set[str]:
        columns = types_of(self._desired, kind)[type_name].properties
        found = (self.properties.get((kind, type_name, prop.name)) for prop in columns)
        return {old for old in found if old is not None}

    def _error(self, rule: str, hint: RenameHint, reason: str, near: str | None = None) -> SchemaPlanError:
        suggestion = None if near is None else f"did you mean '{near}'?"
        return SchemaPlanError(
            f'@rename_from("{hint.old_name}") on {hint.entity}: {reason}',
            details=Diagnostic(rule=rule, place=self._source.place(hint.span), suggestion=suggestion),
        )
