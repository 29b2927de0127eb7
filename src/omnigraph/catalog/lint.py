"""Schema lint: what compiles but is probably not meant, or will surprise later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, assert_never

from omnigraph.catalog.migration.codes import Severity
from omnigraph.catalog.model import Catalog
from omnigraph.errors import Place
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.pg.ast import (
    Annotation,
    Constraint,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    NodeDecl,
    Property,
    RangeBound,
    SchemaFile,
)
from omnigraph.lang.source import Ident, SourceText, Span
from omnigraph.records import record

_NUMBERS = (int, float, Decimal)


@record
class LintCode:
    """A rule of schema lint; what the code means never changes."""

    code: str
    severity: Severity
    meaning: str


@record
class SchemaFinding:
    """One remark about a schema that compiles: what is doubtful about it, and where it stands."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    place: Place

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values; what it is not about is left out."""
        named = {"type_name": self.type_name, "property": self.property}
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            **{name: value for name, value in named.items() if value is not None},
            "place": {"line": self.place.line, "column": self.place.column},
        }


UNKNOWN_ANNOTATION = LintCode(
    code="OG-NM-201", severity=Severity.WARNING, meaning="unknown annotation, possibly misspelled"
)
NODE_NAME_CASE = LintCode(
    code="OG-NM-202", severity=Severity.WARNING, meaning="node types whose names differ only in letter case"
)
PROPERTY_NAME_CASE = LintCode(
    code="OG-NM-203", severity=Severity.WARNING, meaning="properties of one type whose names differ only in letter case"
)
ENDPOINT_NAME = LintCode(
    code="OG-NM-204", severity=Severity.WARNING, meaning="edge property that mutations cannot address: from, to"
)
TOMBSTONE_NAME = LintCode(
    code="OG-NM-205", severity=Severity.WARNING, meaning="property that load files cannot fill: _tombstone"
)
KEYLESS_EDGE = LintCode(
    code="OG-ED-201",
    severity=Severity.INFO,
    meaning="edge type without @key, so loading a file twice duplicates its edges",
)
MINIMUM_CARDINALITY = LintCode(
    code="OG-ED-202", severity=Severity.INFO, meaning="@card minimum, which does not require every node to have an edge"
)
KEYLESS_NODE = LintCode(
    code="OG-OW-201", severity=Severity.INFO, meaning="node type without @key, whose ids are generated"
)
UNUSED_INTERFACE = LintCode(
    code="OG-OW-202", severity=Severity.WARNING, meaning="interface that no node type implements"
)
EMPTY_RANGE = LintCode(code="OG-MF-201", severity=Severity.ERROR, meaning="@range that no value can satisfy")
REDUNDANT_UNIQUE = LintCode(
    code="OG-LK-201", severity=Severity.WARNING, meaning="@unique over columns that @key already makes unique"
)
REDUNDANT_INDEX = LintCode(
    code="OG-LK-202",
    severity=Severity.WARNING,
    meaning="@index that builds nothing, because its columns are always indexed",
)
EMBED_WITHOUT_INDEX = LintCode(
    code="OG-VE-201", severity=Severity.INFO, meaning="@embed vector without @index, so every search is a full scan"
)

LINT_CODES: Mapping[str, LintCode] = MappingProxyType(
    {
        row.code: row
        for row in (
            UNKNOWN_ANNOTATION,
            NODE_NAME_CASE,
            PROPERTY_NAME_CASE,
            ENDPOINT_NAME,
            TOMBSTONE_NAME,
            KEYLESS_EDGE,
            MINIMUM_CARDINALITY,
            KEYLESS_NODE,
            UNUSED_INTERFACE,
            EMPTY_RANGE,
            REDUNDANT_UNIQUE,
            REDUNDANT_INDEX,
            EMBED_WITHOUT_INDEX,
        )
    }
)


__all__ = ["LINT_CODES", "SchemaFinding", "lint_schema"]

_HEAD_ANNOTATIONS = ("description", "instruction", "rename_from")
_EDGE_PROPERTY_ANNOTATIONS = ("default", "description", "index", "rename_from", "unique")
_PROPERTY_ANNOTATIONS = (*_EDGE_PROPERTY_ANNOTATIONS, "embed", "key")
# Words that mean something only with arguments, and in another place.
_ELSEWHERE = {
    "range": "@range(property, low..high) in the body of the type",
    "check": '@check(property, "pattern") in the body of the type',
    "card": "@card(min..max) right after the target of an edge",
}
_ENDS = frozenset({"src", "dst"})


def lint_schema(tree: SchemaFile, catalog: Catalog) -> tuple[SchemaFinding, ...]:
    """Return every finding about a schema, in the order of their places.

    Args:
        tree: the schema as written, which has the places.
        catalog: what ``tree`` compiles to.
    """
    linter = _Linter(catalog=catalog, source=tree.source)
    findings = [finding for declaration in tree.declarations for finding in linter.declaration(declaration)]
    findings.extend(linter.node_names(tree))
    findings.extend(linter.unused_interfaces(tree))
    return tuple(sorted(findings, key=lambda finding: (finding.place.start, finding.code, finding.property or "")))


@record
class _Linter:
    catalog: Catalog
    source: SourceText

    def declaration(self, declaration: Declaration) -> Iterator[SchemaFinding]:
        yield from self._property_names(declaration)
        for prop in _own_properties(declaration):
            yield from self._property(declaration, prop)
        yield from self._redundant_constraints(declaration)
        match declaration:
            case InterfaceDecl():
                return
            case NodeDecl():
                yield from self._node(declaration)
            case EdgeDecl():
                yield from self._edge(declaration)
            case _:
                assert_never(declaration)
        for annotation in declaration.annotations:
            yield from self._annotation(declaration, None, annotation, _HEAD_ANNOTATIONS)

    def node_names(self, tree: SchemaFile) -> Iterator[SchemaFinding]:
        nodes = [declaration.name for declaration in tree.declarations if isinstance(declaration, NodeDecl)]
        for first, later in _same_but_for_case(nodes):
            msg = f"node type {later.text} differs from {first.text} only in letter case"
            yield self._finding(NODE_NAME_CASE, msg, later.text, None, later.span)

    def unused_interfaces(self, tree: SchemaFile) -> Iterator[SchemaFinding]:
        used = {name for node in self.catalog.nodes.values() for name in node.implements}
        for declaration in tree.declarations:
            if isinstance(declaration, InterfaceDecl) and declaration.name.text not in used:
                name = declaration.name
                msg = f"no node type implements interface {name.text}"
                yield self._finding(UNUSED_INTERFACE, msg, name.text, None, name.span)

    def _node(self, node: NodeDecl) -> Iterator[SchemaFinding]:
        name = node.name
        if self.catalog.nodes[name.text].key is None:
            msg = f"node type {name.text} has no @key: its ids are generated, and loading a row twice creates two nodes"
            yield self._finding(KEYLESS_NODE, msg, name.text, None, name.span)
        for item in node.items:
            if isinstance(item, Constraint) and item.name == "range":
                yield from self._range(node, item)

    def _range(self, node: NodeDecl, constraint: Constraint) -> Iterator[SchemaFinding]:
        column, bounds = constraint.arguments
        if not isinstance(column, Ident) or not isinstance(bounds, RangeBound):
            return
        low, high = (None if end is None else end.value for end in (bounds.low, bounds.high))
        if isinstance(low, _NUMBERS) and isinstance(high, _NUMBERS) and low > high:
            msg = f"no value of {node.name.text}.{column.text} lies between {low} and {high}"
            yield self._finding(EMPTY_RANGE, msg, node.name.text, column.text, bounds.span)

    def _edge(self, edge: EdgeDecl) -> Iterator[SchemaFinding]:
        name = edge.name
        if self.catalog.edges[name.text].key is None:
            msg = (
                f"edge type {name.text} has no @key: loading a file twice duplicates its edges; consider @key(src, dst)"
            )
            yield self._finding(KEYLESS_EDGE, msg, name.text, None, name.span)
        card = edge.cardinality
        if card is not None and card.minimum > 0:
            source = edge.source.text
            msg = (
                f"the minimum {card.minimum} of {name.text} is checked when edges change; "
                f"it does not require every {source} to have one"
            )
            yield self._finding(MINIMUM_CARDINALITY, msg, name.text, None, card.span)

    def _property_names(self, declaration: Declaration) -> Iterator[SchemaFinding]:
        for first, later in _same_but_for_case([prop.name for prop in _own_properties(declaration)]):
            msg = f"property {later.text} differs from {first.text} only in letter case"
            yield self._finding(PROPERTY_NAME_CASE, msg, declaration.name.text, later.text, later.span)
        if isinstance(declaration, NodeDecl):
            yield from self._received_names(declaration)

    def _received_names(self, node: NodeDecl) -> Iterator[SchemaFinding]:
        """Compare what interfaces contribute with the rest; two names of one interface are that interface's matter."""
        properties = self.catalog.nodes[node.name.text].properties
        names = [Ident(text=prop.name, span=node.name.span) for prop in properties]
        origins = {prop.name: {link.partition(".")[0] for link in prop.satisfies} for prop in properties}
        own = {prop.name.text for prop in _own_properties(node)}
        for first, later in _same_but_for_case(names):
            is_told_elsewhere = origins[first.text] & origins[later.text] or {first.text, later.text} <= own
            if not is_told_elsewhere:
                msg = (
                    f"property {later.text}, inherited from an interface, differs from {first.text} only in letter case"
                )
                yield self._finding(PROPERTY_NAME_CASE, msg, node.name.text, later.text, later.span)

    def _property(self, declaration: Declaration, prop: Property) -> Iterator[SchemaFinding]:
        owner, name = declaration.name.text, prop.name
        if name.text == "_tombstone":
            msg = f"property {owner}._tombstone cannot be loaded: the name is reserved in load files"
            yield self._finding(TOMBSTONE_NAME, msg, owner, name.text, name.span)
        if isinstance(declaration, EdgeDecl) and name.text in ("from", "to"):
            msg = f"property {owner}.{name.text} cannot be set by mutations, where the name is an endpoint"
            yield self._finding(ENDPOINT_NAME, msg, owner, name.text, name.span)
        known = _EDGE_PROPERTY_ANNOTATIONS if isinstance(declaration, EdgeDecl) else _PROPERTY_ANNOTATIONS
        for annotation in prop.annotations:
            yield from self._annotation(declaration, name.text, annotation, known)
            if annotation.name.text == "embed" and not self._is_indexed(declaration, name.text):
                msg = f"vector {owner}.{name.text} has no @index: every search reads all of its vectors"
                yield self._finding(EMBED_WITHOUT_INDEX, msg, owner, name.text, name.span)

    def _is_indexed(self, declaration: Declaration, column: str) -> bool:
        match declaration:
            case InterfaceDecl():
                return (column, "index") in self.catalog.interfaces[declaration.name.text].constraints
            case NodeDecl():
                return any(column in columns for columns in self.catalog.nodes[declaration.name.text].indexes)
            case EdgeDecl():
                return any(column in columns for columns in self.catalog.edges[declaration.name.text].indexes)
            case _:
                assert_never(declaration)

    def _annotation(
        self, declaration: Declaration, column: str | None, annotation: Annotation, known: tuple[str, ...]
    ) -> Iterator[SchemaFinding]:
        name = annotation.name.text
        if name in known:
            return
        elsewhere = _ELSEWHERE.get(name)
        near = nearest_name(name, (*known, *_ELSEWHERE))
        advice = f"; write {elsewhere}" if elsewhere else f"; did you mean @{near}?" if near else ""
        msg = f"annotation @{name} has no effect here{advice}"
        yield self._finding(UNKNOWN_ANNOTATION, msg, declaration.name.text, column, annotation.span)

    def _redundant_constraints(self, declaration: Declaration) -> Iterator[SchemaFinding]:
        owner = declaration.name.text
        key = self._key(declaration)
        indexed = key | _ENDS if isinstance(declaration, EdgeDecl) else key
        for word, columns, span in _column_constraints(declaration):
            column = columns[0] if len(columns) == 1 else None
            written = ", ".join(columns)
            if word == "unique" and key and set(columns) == key:
                msg = f"@unique({written}) on {owner} repeats the @key"
                yield self._finding(REDUNDANT_UNIQUE, msg, owner, column, span)
            if word == "index" and set(columns) <= indexed:
                msg = f"@index({written}) on {owner} builds nothing: keys and edge endpoints are always indexed"
                yield self._finding(REDUNDANT_INDEX, msg, owner, column, span)

    def _key(self, declaration: Declaration) -> frozenset[str]:
        name = declaration.name.text
        match declaration:
            case InterfaceDecl():
                found = self.catalog.interfaces[name].constraints
                return frozenset(column for column, word in found if word == "key")
            case NodeDecl():
                return frozenset(self.catalog.nodes[name].key or ())
            case EdgeDecl():
                return frozenset(self.catalog.edges[name].key or ())
            case _:
                assert_never(declaration)

    def _finding(self, rule: LintCode, message: str, type_name: str, column: str | None, span: Span) -> SchemaFinding:
        return SchemaFinding(
            severity=rule.severity,
            code=rule.code,
            message=message,
            type_name=type_name,
            property=column,
            place=self.source.place(span),
        )


def _own_properties(declaration: Declaration) -> tuple[Property, ...]:
    if isinstance(declaration, InterfaceDecl):
        return declaration.properties
    return tuple(item for item in declaration.items if isinstance(item, Property))


def _column_constraints(declaration: Declaration) -> Iterator[tuple[str, tuple[str, ...], Span]]:
    for prop in _own_properties(declaration):
        for annotation in prop.annotations:
            yield annotation.name.text, (prop.name.text,), annotation.span
    if isinstance(declaration, InterfaceDecl):
        return
    for item in declaration.items:
        if isinstance(item, Constraint):
            columns = tuple(argument.text for argument in item.arguments if isinstance(argument, Ident))
            yield item.name, columns, item.span


def _same_but_for_case(names: Iterable[Ident]) -> Iterator[tuple[Ident, Ident]]:
    """Yield each name that an earlier one equals in all but letter case, with that earlier one."""
    seen: dict[str, Ident] = {}
    for name in names:
        first = seen.setdefault(name.text.lower(), name)
        if first.text != name.text:
            yield first, name
