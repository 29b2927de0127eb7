"""The nodes of expressions and of the clauses of a match: either may stand in the other.

Spans take no part in equality, so that a parsed text equals its reformatted self. ``depth`` counts how many
expressions stand one in the other: the builder bounds it, so that whoever walks a tree may recurse.
Variable names are held without their ``$``; the anonymous variable is ``_``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal as Choice

from omnigraph.lang.source import NOWHERE, Ident, Span
from omnigraph.records import record

FilterOp = Choice["=", "!=", ">", "<", ">=", "<=", "contains", "starts_with"]
TextFunction = Choice["search", "fuzzy", "match_text"]
AggregateFunction = Choice[
    "count",
    "sum",
    "sum_int",
    "avg",
    "min",
    "max",
    "collect",
    "median",
    "percentile",
    "stddev",
    "variance",
    "any",
    "every",
]
ConditionOp = Choice["=", "!=", ">", "<", ">=", "<=", "contains", "starts_with", "ends_with", "matches", "in", "not in"]
ArithmeticOp = Choice["+", "-", "*", "/", "%"]
BlockKind = Choice["exists", "not", "count"]

ANONYMOUS = "_"


# Expressions


@record
class StringLiteral:
    """``"…"`` with escapes resolved."""

    value: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class IntegerLiteral:
    """An integer that fits a signed 64-bit value."""

    value: int
    span: Span = field(default=NOWHERE, compare=False)


@record
class FloatLiteral:
    """``1.5`` or ``1e9``; ``text`` keeps the written digits so that the formatter loses none."""

    value: float
    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class BooleanLiteral:
    """``true`` or ``false``."""

    value: bool
    span: Span = field(default=NOWHERE, compare=False)


@record
class NullLiteral:
    """``null``."""

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


Literal = (
    StringLiteral
    | IntegerLiteral
    | FloatLiteral
    | BooleanLiteral
    | NullLiteral
    | DateLiteral
    | DateTimeLiteral
    | ListLiteral
)


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
    """``count(e)`` and its siblings.

    ``argument`` is None for ``count(*)``; ``fraction`` is the second argument of ``percentile``; ``where`` chooses the
    rows that count.
    """

    function: AggregateFunction
    argument: Expression | None
    is_distinct: bool = False
    fraction: Expression | None = None
    where: Expression | None = None
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class ListExpression:
    """``[…]`` with an item that is no literal."""

    items: tuple[Expression, ...]
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Logical:
    """``a or b or c`` or ``a and b and c``."""

    op: Choice["and", "or"]
    operands: tuple[Expression, ...]
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Not:
    """``not e``."""

    operand: Expression
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Comparison:
    """``left op right``."""

    left: Expression
    op: ConditionOp
    right: Expression
    op_span: Span = field(default=NOWHERE, compare=False)
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class NullTest:
    """``e is null`` or ``e is not null``."""

    operand: Expression
    is_negated: bool
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Arithmetic:
    """``left + right`` and its siblings."""

    left: Expression
    op: ArithmeticOp
    right: Expression
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Negative:
    """``-e``; before a number it is part of the literal."""

    operand: Expression
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class ListItem:
    """``list[i]``."""

    items: Expression
    index: Expression
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Call:
    """``function(argument, …)`` of the table of functions."""

    function: Ident
    arguments: tuple[Expression, ...]
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class CaseBranch:
    """``when condition then value``."""

    condition: Expression
    value: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Case:
    """``case when … then … [else …] end``."""

    branches: tuple[CaseBranch, ...]
    otherwise: Expression | None = None
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Block:
    """``exists { … }``, ``not { … }`` or ``count { … }`` as a value."""

    kind: BlockKind
    clauses: tuple[Clause, ...]
    depth: int = field(default=0, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)


Expression = (
    Literal
    | ListExpression
    | Variable
    | PropertyAccess
    | AllProperties
    | Now
    | AliasRef
    | Nearest
    | TextSearch
    | Bm25
    | Rrf
    | Aggregate
    | Logical
    | Not
    | Comparison
    | NullTest
    | Arithmetic
    | Negative
    | ListItem
    | Call
    | Case
    | Block
)


# Match clauses


@record
class PropertyMatch:
    """``prop: value`` inside the braces of a binding."""

    property: Ident
    value: Expression
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
    """``{min,max}`` or ``{min,}``."""

    minimum: int
    maximum: int | None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Traversal:
    """``$a edge $b``, ``$a $w:edge $b``, ``$a <edge>{1,3} $b``, ``$a edge|other $b``.

    ``alternatives`` are the edges after the first. ``where`` is what every edge of the walk satisfies.
    """

    source: Variable
    edge: Ident
    destination: Variable
    alternatives: tuple[Ident, ...] = ()
    edge_variable: Variable | None = None
    is_undirected: bool = False
    hops: Hops | None = None
    where: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Filter:
    """``left op right`` of two plain values."""

    left: Expression
    op: FilterOp
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Negation:
    """``not { clause+ }``."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Condition:
    """Any other expression that rows must satisfy."""

    expression: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class OptionalBlock:
    """``optional { clause+ }``."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Each:
    """``each $v in list``."""

    variable: Variable
    items: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class PathClause:
    """``path $p: traversal``, or ``path all $p: traversal``."""

    variable: Variable
    traversal: Traversal
    is_all: bool = False
    span: Span = field(default=NOWHERE, compare=False)


# A text predicate stands as a clause of its own.
Clause = Binding | Traversal | Filter | TextSearch | Negation | Condition | OptionalBlock | Each | PathClause
