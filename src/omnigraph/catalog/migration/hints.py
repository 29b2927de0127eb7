"""Rename hints: the ``@rename_from`` annotations of a schema tree, which live there and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, assert_never

from omnigraph.catalog.identity import TypeKind
from omnigraph.errors import Place
from omnigraph.lang.pg.ast import Annotation, Declaration, EdgeDecl, InterfaceDecl, NodeDecl, Property, SchemaFile
from omnigraph.lang.source import Ident, Source, Span
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


def ignored_hint(hint: RenameHint, source: Source) -> HintDiagnostic:
    """Remark that ``hint`` stands on something whose present name was accepted already."""
    return HintDiagnostic(
        code="ignored_exact_match_rename_hint",
        entity=hint.entity,
        message=f'@rename_from("{hint.old_name}") is ignored: {hint.entity} is accepted under its own name',
        place=source.place(hint.span),
    )


def inert_hint(hint: RenameHint, source: Source) -> HintDiagnostic:
    """Remark that ``hint`` has nothing to rename in a graph that is being created."""
    return HintDiagnostic(
        code="inert_initialization_rename_hint",
        entity=hint.entity,
        message=f'@rename_from("{hint.old_name}") has no effect on {hint.entity} while the graph is created',
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
