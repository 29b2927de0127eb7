"""The syntax tree of a ``.gq`` file, exactly as written.

Spans take no part in equality, so that a parsed text equals its reformatted self. Variable names are held
without their ``$``; the anonymous variable is ``_``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal as Choice

from omnigraph.lang.source import NOWHERE, Comment, Ident, SourceText, Span
from omnigraph.records import record

CompareOp = Choice["=", "!=", ">", "<", ">=", "<="]
FilterOp = Choice["=", "!=", ">", "<", ">=", "<=", "contains", "starts_with"]
TextFunction = Choice["search", "fuzzy", "match_text"]
AggregateFunction = Choice["count", "sum", "avg", "min", "max"]

ANONYMOUS = "_"


@record
class TypeRef:
    """A parameter type. ``scalar`` is a base type word or ``Vector``."""

    scalar: str
    nullable: bool = False
    is_list: bool = False
    dimension: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


# Expressions


@record
class StringLiteral:
    """``"…"`` with escapes resolved."""

    value: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class IntegerLiteral:
    """An unsigned integer that fits a signed 64-bit value."""

    value: int
    span: Span = field(default=NOWHERE, compare=False)


@record
class FloatLiteral:
    """``digits.digits``; ``text`` keeps the written digits so that the formatter loses none."""

    value: float
    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class BooleanLiteral:
    """``true`` or ``false``."""

    value: bool
    span: Span = field(default=NOWHERE, compare=False)


@record
class DateLiteral:
    """``date("…")``; the text is validated when the value is used."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class DateTimeLiteral:
    """``datetime("…")``; the text is validated when the value is used."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class ListLiteral:
    """``[…]``, possibly empty; nested lists parse and are refused by the checker."""

    items: tuple[Literal, ...]
    span: Span = field(default=NOWHERE, compare=False)


Literal = StringLiteral | IntegerLiteral | FloatLiteral | BooleanLiteral | DateLiteral | DateTimeLiteral | ListLiteral


@record
class Variable:
    """``$name``: a parameter, a node variable, an edge variable, or the anonymous ``$_``."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class PropertyAccess:
    """``$x.prop``."""

    variable: Variable
    property: Ident
    span: Span = field(default=NOWHERE, compare=False)


@record
class AllProperties:
    """``$x.*``, legal as a projection only."""

    variable: Variable
    span: Span = field(default=NOWHERE, compare=False)


@record
class Now:
    """``now()``."""

    span: Span = field(default=NOWHERE, compare=False)


@record
class AliasRef:
    """A bare name: meant to be a return alias."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class Nearest:
    """``nearest($x.vec, query)``."""

    target: PropertyAccess
    query: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class TextSearch:
    """``search``, ``match_text`` or ``fuzzy`` with its optional edit distance."""

    function: TextFunction
    target: Expression
    query: Expression
    max_edits: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Bm25:
    """``bm25(field, query)``."""

    target: Expression
    query: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Rrf:
    """``rrf(ranking, ranking [, k])``."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Aggregate:
    """``count(e)`` and its siblings."""

    function: AggregateFunction
    argument: Expression
    span: Span = field(default=NOWHERE, compare=False)


Expression = (
    Literal | Variable | PropertyAccess | AllProperties | Now | AliasRef | Nearest | TextSearch | Bm25 | Rrf | Aggregate
)

Value = Literal | Variable | Now


# Match clauses


@record
class PropertyMatch:
    """``prop: value`` inside the braces of a binding."""

    property: Ident
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@record
class Binding:
    """``$x: Type { prop: value, … }``."""

    variable: Variable
    type_name: Ident
    predicates: tuple[PropertyMatch, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Hops:
    """``{min,max}``; ``{min,}`` parses and is refused by the checker."""

    minimum: int
    maximum: int | None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Traversal:
    """``$a edge $b``, ``$a $w:edge $b``, ``$a <edge>{1,3} $b``."""

    source: Variable
    edge: Ident
    destination: Variable
    edge_variable: Variable | None = None
    is_undirected: bool = False
    hops: Hops | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Filter:
    """``left op right``."""

    left: Expression
    op: FilterOp
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Negation:
    """``not { clause+ }``."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


# A text predicate stands as a clause of its own.
Clause = Binding | Traversal | Filter | TextSearch | Negation


# Bodies and declarations


@record
class Projection:
    """``expression [as alias]``."""

    expression: Expression
    alias: Ident | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Ordering:
    """``expression [asc|desc]``; ``direction`` is what was written, None when nothing was."""

    expression: Expression
    direction: Choice["asc", "desc"] | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class ReadBody:
    """``match {…} return {…} [order {…}] [limit N]``."""

    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    orderings: tuple[Ordering, ...] = ()
    limit: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Assignment:
    """``prop: value`` of an insert or update."""

    property: Ident
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@record
class Predicate:
    """The one comparison of a ``where``."""

    property: Ident
    op: CompareOp
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@record
class Insert:
    """``insert Type { … }``."""

    type_name: Ident
    assignments: tuple[Assignment, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Update:
    """``update Type set { … } where …``."""

    type_name: Ident
    assignments: tuple[Assignment, ...]
    predicate: Predicate
    span: Span = field(default=NOWHERE, compare=False)


@record
class Delete:
    """``delete Type where …``."""

    type_name: Ident
    predicate: Predicate
    span: Span = field(default=NOWHERE, compare=False)


Statement = Insert | Update | Delete


@record
class MutationBody:
    """One or more statements, run in text order."""

    statements: tuple[Statement, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Parameter:
    """``$name: Type``."""

    name: str
    type: TypeRef
    span: Span = field(default=NOWHERE, compare=False)


@record
class QueryDecl:
    """One declaration: ``query name(params) @description("…") { body }``."""

    name: Ident
    body: ReadBody | MutationBody
    parameters: tuple[Parameter, ...] = ()
    description: str | None = None
    instruction: str | None = None
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_mutation(self) -> bool:
        """Whether running this declaration changes the graph."""
        return isinstance(self.body, MutationBody)


@record
class QueryFile:
    """A whole ``.gq`` source."""

    queries: tuple[QueryDecl, ...]
    comments: tuple[Comment, ...] = ()
    source: SourceText = field(default=SourceText("<query>", ""), compare=False, repr=False)
