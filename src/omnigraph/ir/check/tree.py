"""The checked tree: the syntax tree with every name resolved and every expression typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyDef, PropertyType
from omnigraph.lang.gq import ast
from omnigraph.lang.source import Source, Span

Direction = Literal["out", "in", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An expression with its type and its checked parts.

    ``type`` is None for an alias that names nothing. ``is_node`` marks a bare node variable, whose value is its id.
    ``definition`` is set for a property access.
    """

    expression: ast.Expression
    type: PropertyType | None
    parts: tuple[Operand, ...] = ()
    is_node: bool = False
    is_parameter: bool = False
    definition: PropertyDef | None = None

    @property
    def span(self) -> Span:
        """Where the expression stands."""
        return self.expression.span


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMatch:
    """An inline predicate: equality, or membership when the property is a list."""

    property: PropertyDef
    value: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBinding:
    """A binding with its node type."""

    variable: str
    node: NodeType
    matches: tuple[CheckedMatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTraversal:
    """A traversal with its orientation, seen from the written source, and the types of both ends."""

    source: str
    destination: str
    edge: EdgeType
    direction: Direction
    source_type: str
    destination_type: str
    min_hops: int
    max_hops: int
    edge_variable: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFilter:
    """A comparison whose sides go together."""

    left: Operand
    op: ast.FilterOp
    right: Operand
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedText:
    """A text predicate; the parts of the call are field, query and, for ``fuzzy``, the edit distance."""

    call: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNegation:
    """A negation with the outer variables it mentions, sorted."""

    clauses: tuple[CheckedClause, ...]
    outer: tuple[str, ...]


CheckedClause = CheckedBinding | CheckedTraversal | CheckedFilter | CheckedText | CheckedNegation


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProjection:
    """A projected expression; ``column`` is its name in rows, ``label`` its name in descriptors."""

    operand: Operand
    alias: str | None
    column: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOrdering:
    """An order key."""

    operand: Operand
    descending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRead:
    """A read that fits the schema."""

    decl: ast.QueryDecl
    catalog: Catalog
    source: Source
    parameters: Mapping[str, PropertyType]
    clauses: tuple[CheckedClause, ...]
    projections: tuple[CheckedProjection, ...]
    orderings: tuple[CheckedOrdering, ...]
    limit: int | None
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAssignment:
    """A property, or an end of an edge, and its value; ``span`` is where the property is named."""

    property: PropertyDef
    value: Operand
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPredicate:
    """The comparison of a ``where``."""

    property: PropertyDef
    op: ast.CompareOp
    value: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedInsert:
    """An insert of a node or an edge."""

    target: NodeType | EdgeType
    assignments: tuple[CheckedAssignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedUpdate:
    """An update of a node type."""

    target: NodeType
    assignments: tuple[CheckedAssignment, ...]
    predicate: CheckedPredicate


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDelete:
    """A delete of nodes or edges."""

    target: NodeType | EdgeType
    predicate: CheckedPredicate


CheckedStatement = CheckedInsert | CheckedUpdate | CheckedDelete


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMutation:
    """A mutation that fits the schema."""

    decl: ast.QueryDecl
    catalog: Catalog
    source: Source
    parameters: Mapping[str, PropertyType]
    statements: tuple[CheckedStatement, ...]


CheckedQuery = CheckedRead | CheckedMutation
