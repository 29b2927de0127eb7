"""The checked tree: the syntax tree with every name resolved and every expression typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyDef, PropertyType
from omnigraph.ir.model import InsertMode
from omnigraph.ir.types import PATH
from omnigraph.lang.gq import ast
from omnigraph.lang.source import NOWHERE, SourceText, Span
from omnigraph.records import record

Direction = Literal["out", "in", "both"]


@record
class Operand:
    """An expression with its type and its checked parts.

    ``type`` is None for an alias that names nothing, and ``hint`` then says what may be meant. ``is_node`` and
    ``is_edge`` mark a bare variable of an entity,
    ``is_value`` a value of an earlier stage. ``definition`` is set for a property access, ``block`` for a block, and
    ``where`` and ``fraction`` for an aggregate that has them.
    """

    expression: ast.Expression
    type: PropertyType | None
    parts: tuple[Operand, ...] = ()
    is_node: bool = False
    is_parameter: bool = False
    definition: PropertyDef | None = None
    is_edge: bool = False
    is_value: bool = False
    block: CheckedNegation | None = None
    where: Operand | None = None
    fraction: Operand | None = None
    hint: str | None = None

    @property
    def span(self) -> Span:
        """Where the expression stands."""
        return self.expression.span


@record
class CheckedMatch:
    """An inline predicate: equality, or membership when the property is a list."""

    property: PropertyDef
    value: Operand


@record
class CheckedBinding:
    """A binding with its node type; with ``interface`` it ranges over ``types``, and ``node`` is what they share."""

    variable: str
    node: NodeType
    matches: tuple[CheckedMatch, ...]
    conditions: tuple[Operand, ...] = ()
    interface: str | None = None
    types: tuple[str, ...] = ()


@record
class CheckedTraversal:
    """A traversal with its orientation, seen from the written source, and the types of both ends.

    ``condition`` is what every edge satisfies; it knows the edge as ``walked_edge``. ``edge_variable`` is the name by
    which later clauses know the edge as well. ``max_hops`` is None for a walk without an upper bound.
    ``alternatives`` are the other edges that may be used as well, all with the same ends. ``source_types`` and
    ``destination_types`` are the types of an end that ranges over several, which the traversal narrows to one.
    ``path`` is the name of the shortest way to each destination.
    """

    source: str
    destination: str
    edge: EdgeType
    direction: Direction
    source_type: str
    destination_type: str
    min_hops: int
    max_hops: int | None
    edge_variable: str | None
    walked_edge: str | None = None
    condition: Operand | None = None
    alternatives: tuple[EdgeType, ...] = ()
    path: str | None = None
    keeps_all_paths: bool = False
    source_types: tuple[str, ...] = ()
    destination_types: tuple[str, ...] = ()
    hops_span: Span = field(default=NOWHERE, compare=False)

    @property
    def edges(self) -> tuple[EdgeType, ...]:
        """Every edge that may be used."""
        return (self.edge, *self.alternatives)


@record
class CheckedFilter:
    """A comparison whose sides go together."""

    left: Operand
    op: ast.FilterOp
    right: Operand
    span: Span


@record
class CheckedText:
    """A text predicate; the parts of the call are field, query and, for ``fuzzy``, the edit distance."""

    call: Operand


@record
class CheckedNegation:
    """A negation with the outer variables it mentions, sorted."""

    clauses: tuple[CheckedClause, ...]
    outer: tuple[str, ...]


@record
class CheckedCondition:
    """A condition of any shape."""

    condition: Operand


@record
class CheckedOptional:
    """An optional block: the outer variables it mentions, and the entities and values it introduces, sorted."""

    clauses: tuple[CheckedClause, ...]
    outer: tuple[str, ...]
    introduced: tuple[str, ...]


@record
class CheckedEach:
    """One row per item of a list."""

    variable: str
    items: Operand
    type: PropertyType


CheckedClause = (
    CheckedBinding
    | CheckedTraversal
    | CheckedFilter
    | CheckedText
    | CheckedNegation
    | CheckedCondition
    | CheckedOptional
    | CheckedEach
)


@record
class CheckedProjection:
    """A projected expression; ``column`` is its name in rows, ``label`` its name in descriptors."""

    operand: Operand
    alias: str | None
    column: str
    label: str

    @property
    def name_behind(self) -> str | None:
        """What a later stage calls a value: by its alias, or as the variable that it is; None if it has no name."""
        expression = self.operand.expression
        if self.operand.is_value and isinstance(expression, ast.Variable):
            if self.alias is None:
                return f"${expression.name}"
            return f"${self.alias}" if self.operand.type == PATH else self.alias
        return self.column if self.alias is not None or isinstance(expression, ast.AliasRef) else None


@record
class CheckedOrdering:
    """An order key; ``nulls_first`` is None where the text does not say."""

    operand: Operand
    descending: bool
    nulls_first: bool | None = None


@record
class CheckedStage:
    """A match with what is made of its rows.

    ``variables`` are the entities that are bound when the match has ended, ``nullable`` those of them that may be
    missing, and ``mixed`` those that are of several types. ``values`` are what each row has beside them: what earlier
    stages named, items of lists, and paths.
    """

    clauses: tuple[CheckedClause, ...]
    projections: tuple[CheckedProjection, ...]
    orderings: tuple[CheckedOrdering, ...]
    limit: ast.Amount | None
    variables: tuple[str, ...]
    is_distinct: bool = False
    having: Operand | None = None
    offset: ast.Amount | None = None
    per: tuple[Operand, ...] = ()
    nullable: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()
    values: Mapping[str, PropertyType] = field(default_factory=dict)


@record
class CheckedUnion:
    """Another read whose rows are added."""

    stages: tuple[CheckedStage, ...]
    keeps_duplicates: bool


@record
class EnumUse:
    """A parameter that is compared with an enum, and what the enum is called and holds."""

    parameter: str
    name: str
    values: tuple[str, ...]


@record
class CheckedRead:
    """A read that fits the schema: its stages in order, and the reads it is united with.

    With unions, ``orderings``, ``offset`` and ``limit`` of the last stage are those of all rows together.
    """

    decl: ast.QueryDecl
    catalog: Catalog
    source: SourceText
    parameters: Mapping[str, PropertyType]
    stages: tuple[CheckedStage, ...]
    unions: tuple[CheckedUnion, ...] = ()
    enum_uses: tuple[EnumUse, ...] = ()

    @property
    def last(self) -> CheckedStage:
        """The stage that returns."""
        return self.stages[-1]


@record
class CheckedAssignment:
    """A property, or an end of an edge, and its value; ``span`` is where the property is named."""

    property: PropertyDef
    value: Operand
    span: Span


@record
class CheckedPredicate:
    """The comparison of a ``where``."""

    property: PropertyDef
    op: ast.CompareOp
    value: Operand


@record
class CheckedInsert:
    """An insert of a node or an edge; ``mode`` is what it does about a key that exists, if it does not replace it."""

    target: NodeType | EdgeType
    assignments: tuple[CheckedAssignment, ...]
    mode: InsertMode | None = None
    for_each: tuple[str, ...] | None = None


@record
class CheckedUpdate:
    """An update of nodes or edges; a condition that is no plain comparison is an operand."""

    target: NodeType | EdgeType
    assignments: tuple[CheckedAssignment, ...]
    predicate: CheckedPredicate | Operand
    version: Operand | None = None


@record
class CheckedDelete:
    """A delete of nodes or edges."""

    target: NodeType | EdgeType
    predicate: CheckedPredicate | Operand
    version: Operand | None = None


@record
class CheckedMatchStatement:
    """A match with the entities and the values that it binds for the statements behind it."""

    clauses: tuple[CheckedClause, ...]
    entities: Mapping[str, NodeType | EdgeType]
    values: Mapping[str, PropertyType]
    nullable: frozenset[str]


@record
class CheckedUpdateMatched:
    """An update of the entities of a variable; its values see the entities of the variables in ``visible``."""

    variable: str
    target: NodeType | EdgeType
    assignments: tuple[CheckedAssignment, ...]
    version: Operand | None = None
    visible: frozenset[str] = frozenset()


@record
class CheckedDeleteMatched:
    """A delete of the entities of variables."""

    targets: Mapping[str, NodeType | EdgeType]
    version: Operand | None = None


CheckedStatement = (
    CheckedInsert | CheckedUpdate | CheckedDelete | CheckedMatchStatement | CheckedUpdateMatched | CheckedDeleteMatched
)


@record
class CheckedMutation:
    """A mutation that fits the schema."""

    decl: ast.QueryDecl
    catalog: Catalog
    source: SourceText
    parameters: Mapping[str, PropertyType]
    statements: tuple[CheckedStatement, ...]
    projections: tuple[CheckedProjection, ...] = ()
    enum_uses: tuple[EnumUse, ...] = ()

    @property
    def returns_match(self) -> bool:
        """Whether what is returned are rows of the last match, not what the last statement wrote."""
        return any(isinstance(statement, CheckedMatchStatement) for statement in self.statements)


CheckedQuery = CheckedRead | CheckedMutation
