"""The syntax tree of a ``.gq`` file, exactly as written: declarations, bodies and statements.

Their expressions and clauses are in ``expressions.py``; whoever walks a tree finds all of it here.
"""

from __future__ import annotations

from dataclasses import field, fields, is_dataclass
from typing import Any, Final
from typing import Literal as Choice

from omnigraph.lang.gq.expressions import (
    ANONYMOUS,
    Aggregate,
    AggregateFunction,
    AliasRef,
    AllProperties,
    Arithmetic,
    ArithmeticOp,
    Binding,
    Block,
    BlockKind,
    Bm25,
    BooleanLiteral,
    Call,
    Case,
    CaseBranch,
    Clause,
    Comparison,
    Condition,
    ConditionOp,
    DateLiteral,
    DateTimeLiteral,
    Each,
    Expression,
    Filter,
    FilterOp,
    FloatLiteral,
    Hops,
    IntegerLiteral,
    ListExpression,
    ListItem,
    ListLiteral,
    Literal,
    Logical,
    Nearest,
    Negation,
    Negative,
    Not,
    Now,
    NullLiteral,
    NullTest,
    OptionalBlock,
    PathClause,
    PropertyAccess,
    PropertyMatch,
    Rrf,
    StringLiteral,
    TextFunction,
    TextSearch,
    Traversal,
    Variable,
)
from omnigraph.lang.source import NOWHERE, Comment, Ident, SourceText, Span
from omnigraph.records import record

__all__ = [
    "ANONYMOUS",
    "Aggregate",
    "AggregateFunction",
    "AliasRef",
    "AllProperties",
    "Amount",
    "Arithmetic",
    "ArithmeticOp",
    "Assignment",
    "Binding",
    "Block",
    "BlockKind",
    "Bm25",
    "BooleanLiteral",
    "Call",
    "Case",
    "CaseBranch",
    "Clause",
    "CompareOp",
    "Comparison",
    "Condition",
    "ConditionOp",
    "DateLiteral",
    "DateTimeLiteral",
    "Delete",
    "DeleteMatched",
    "Each",
    "Expression",
    "Filter",
    "FilterOp",
    "FloatLiteral",
    "Hops",
    "Insert",
    "IntegerLiteral",
    "ListExpression",
    "ListItem",
    "ListLiteral",
    "Literal",
    "Logical",
    "MatchStatement",
    "MutationBody",
    "Nearest",
    "Negation",
    "Negative",
    "Not",
    "Now",
    "NullLiteral",
    "NullTest",
    "OptionalBlock",
    "Ordering",
    "Parameter",
    "PathClause",
    "Predicate",
    "Projection",
    "PropertyAccess",
    "PropertyMatch",
    "QueryDecl",
    "QueryFile",
    "ReadBody",
    "Rrf",
    "Stage",
    "Statement",
    "StringLiteral",
    "TextFunction",
    "TextSearch",
    "Traversal",
    "TypeRef",
    "Union",
    "Update",
    "UpdateMatched",
    "Upsert",
    "Variable",
]

CompareOp = Choice["=", "!=", ">", "<", ">=", "<="]


@record
class TypeRef:
    """A parameter type. ``scalar`` is a base type word, ``Vector`` or ``Decimal``."""

    scalar: str
    nullable: bool = False
    is_list: bool = False
    dimension: int | None = None
    precision: int | None = None
    scale: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Projection:
    """``expression [as alias]``."""

    expression: Expression
    alias: Ident | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Ordering:
    """``expression [asc|desc] [nulls first|last]``; what was not written is None."""

    expression: Expression
    direction: Choice["asc", "desc"] | None = None
    nulls: Choice["first", "last"] | None = None
    span: Span = field(default=NOWHERE, compare=False)


# How many rows: a number, or the parameter that brings it.
Amount = int | Variable


@record
class Stage:
    """``match {…} with [distinct] {…} [having …] [order {…}] [offset N] [limit N [per {…}]]``."""

    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    is_distinct: bool = False
    having: Expression | None = None
    orderings: tuple[Ordering, ...] = ()
    offset: Amount | None = None
    limit: Amount | None = None
    per: tuple[Expression, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Union:
    """``union [all]`` with a read that has no order, offset or limit of its own."""

    read: ReadBody
    keeps_duplicates: bool
    span: Span = field(default=NOWHERE, compare=False)


@record
class ReadBody:
    """``stage* match {…} return {…} union* [order {…}] [offset N] [limit N]``.

    The order, the offset and the limit are those of everything that was united.
    """

    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    orderings: tuple[Ordering, ...] = ()
    limit: Amount | None = None
    stages: tuple[Stage, ...] = ()
    is_distinct: bool = False
    having: Expression | None = None
    offset: Amount | None = None
    per: tuple[Expression, ...] = ()
    unions: tuple[Union, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Assignment:
    """``prop: value`` of an insert or update."""

    property: Ident
    value: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Predicate:
    """A ``where`` that compares one property with a plain value."""

    property: Ident
    op: CompareOp
    value: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Insert:
    """``insert Type { … } [if absent | strict] [for each $x, …]``."""

    type_name: Ident
    assignments: tuple[Assignment, ...]
    if_present: Choice["replace", "keep", "refuse"] = "replace"
    for_each: tuple[Variable, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Upsert:
    """``upsert Type { … } [for each $x, …]``."""

    type_name: Ident
    assignments: tuple[Assignment, ...]
    for_each: tuple[Variable, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Update:
    """``update Type set { … } where … [if version = …]``."""

    type_name: Ident
    assignments: tuple[Assignment, ...]
    predicate: Predicate | Expression
    version: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class UpdateMatched:
    """``update $x set { … } [if version = …]``."""

    variable: Variable
    assignments: tuple[Assignment, ...]
    version: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Delete:
    """``delete Type where … [if version = …]``."""

    type_name: Ident
    predicate: Predicate | Expression
    version: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class DeleteMatched:
    """``delete $x, … [if version = …]``."""

    variables: tuple[Variable, ...]
    version: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class MatchStatement:
    """``match { clause+ }`` before the statements that use its variables."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


Statement = Insert | Upsert | Update | UpdateMatched | Delete | DeleteMatched | MatchStatement


@record
class MutationBody:
    """One or more statements, run in text order, and what is returned of what they leave."""

    statements: tuple[Statement, ...]
    projections: tuple[Projection, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Parameter:
    """``$name: Type``."""

    name: str
    type: TypeRef
    span: Span = field(default=NOWHERE, compare=False)


@record
class QueryDecl:
    """One declaration: ``query name(params) @description("…") { body }``.

    ``mcp`` is what agents get: ``expose`` makes it a tool of its own, None leaves it to the list of stored queries.
    """

    name: Ident
    body: ReadBody | MutationBody
    parameters: tuple[Parameter, ...] = ()
    description: str | None = None
    instruction: str | None = None
    mcp: Choice["expose"] | None = None
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_mutation(self) -> bool:
        """Whether running this declaration changes the graph."""
        return isinstance(self.body, MutationBody)

    @property
    def reads_rows(self) -> bool:
        """Return False if running it inserts rows made of literals and parameters, and looks at no other row."""
        return not (isinstance(self.body, MutationBody) and not self.body.projections and _is_blind(self.body))


# All that an insert can consist of without looking at a stored row. Whatever is not listed here is a read.
_BLIND: Final = (
    *(Arithmetic, Assignment, BooleanLiteral, Call, Case, CaseBranch, Comparison, DateLiteral, DateTimeLiteral),
    *(FloatLiteral, Ident, Insert, IntegerLiteral, ListExpression, ListLiteral, Logical, MutationBody, Negative),
    *(Not, Now, NullLiteral, NullTest, Span, StringLiteral, Upsert, Variable),
)


def _is_blind(part: Any) -> bool:
    if isinstance(part, tuple):
        return all(map(_is_blind, part))
    if not is_dataclass(part):
        return True
    return isinstance(part, _BLIND) and all(_is_blind(getattr(part, one.name)) for one in fields(part))


@record
class QueryFile:
    """A whole ``.gq`` source."""

    queries: tuple[QueryDecl, ...]
    comments: tuple[Comment, ...] = ()
    source: SourceText = field(default=SourceText("<query>", ""), compare=False, repr=False)
