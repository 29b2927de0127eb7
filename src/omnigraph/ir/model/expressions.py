"""Typed expressions: what a plan computes from a row, a parameter or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, assert_never, cast

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.lang.gq.ast import AggregateFunction, CompareOp, TextFunction
from omnigraph.lang.parsing import quote_string
from omnigraph.records import record
from omnigraph.values.decimals import decimal_text
from omnigraph.values.temporal import format_date, format_datetime

# The instant of the request travels as a parameter that no declaration may use.
NOW_PARAMETER = "__nanograph_now"
# The variable of the entities that a statement changes by their type; its properties are written as bare names.
TARGET = ""
_WRITTEN = {"src": "from", "dst": "to"}


@record
class Column:
    """``$x.prop`` of a node or an edge variable."""

    variable: str
    property: str
    type: PropertyType

    def __str__(self) -> str:
        if self.variable == TARGET:
            return _WRITTEN.get(self.property, self.property)
        return f"${self.variable}.{self.property}"


@record
class TargetColumn:
    """A property of the type that a mutation changes; ``from`` and ``to`` are the ends of an edge."""

    property: str
    type: PropertyType

    def __str__(self) -> str:
        return self.property


@record
class EntityRef:
    """The id of a bound entity, a String."""

    variable: str
    type: PropertyType

    def __str__(self) -> str:
        return f"id(${self.variable})"


@record
class ParameterRef:
    """A declared parameter, or the instant of the request under its reserved name."""

    name: str
    type: PropertyType

    @property
    def is_now(self) -> bool:
        """Whether this is ``now()``."""
        return self.name == NOW_PARAMETER

    def __str__(self) -> str:
        return "now()" if self.is_now else f"${self.name}"


@record
class Constant:
    """A literal, decoded: days for a Date, milliseconds for a DateTime, a tuple for a list or vector."""

    value: Any
    type: PropertyType

    def __str__(self) -> str:
        return _show(self.value, self.type)


@record
class ValueRef:
    """A value that travels with the row: of an earlier stage, an item of a list, or what a block found."""

    name: str
    type: PropertyType

    def __str__(self) -> str:
        return self.name


@record
class EntityRow:
    """Which entity a variable holds, as the number of its row: how it goes on to the next stage."""

    variable: str
    type: PropertyType

    def __str__(self) -> str:
        return f"${self.variable}"


@record
class EntityType:
    """The name of the type of a bound entity."""

    variable: str
    type: PropertyType

    def __str__(self) -> str:
        return f"type(${self.variable})"


@record
class EntityVersion:
    """The id of the commit that last changed a bound entity."""

    variable: str
    type: PropertyType

    def __str__(self) -> str:
        return f"version(${self.variable})"


@record
class Apply:
    """A function or an operator, by its name, applied to values."""

    function: str
    arguments: tuple[Scalarlike, ...]
    type: PropertyType

    def __str__(self) -> str:
        if self.function.isidentifier() and self.function not in {"and", "or", "in", "not"}:
            return f"{self.function}({', '.join(map(str, self.arguments))})"
        if len(self.arguments) == 1:
            return f"{self.function} {self.arguments[0]}"
        return f"({f' {self.function} '.join(map(str, self.arguments))})"


@record
class Truth:
    """Whether a predicate holds: true, false, or unknown where something it looks at is NULL."""

    predicate: Predicate
    type: PropertyType

    def __str__(self) -> str:
        return str(self.predicate)


@record
class AggregateCall:
    """An aggregate over the rows of a group: of all of them without an argument, else of those where it has a value."""

    function: AggregateFunction
    argument: Scalarlike | None
    type: PropertyType
    is_distinct: bool = False
    fraction: Constant | ParameterRef | None = None
    where: Scalarlike | None = None

    def __str__(self) -> str:
        distinct = "distinct " if self.is_distinct else ""
        fraction = "" if self.fraction is None else f", {self.fraction}"
        where = "" if self.where is None else f" where {self.where}"
        return f"{self.function}({distinct}{'*' if self.argument is None else self.argument}{fraction}{where})"

    @property
    def is_plain(self) -> bool:
        """Whether it is one of the first aggregates, of something that needs no computing."""
        return (
            self.function in {"count", "sum", "avg", "min", "max"}
            and isinstance(self.argument, Column | EntityRef | ParameterRef | Constant)
            and not self.is_distinct
            and self.where is None
            and (self.function not in {"min", "max"} or self.argument.type.is_numeric or self.argument.type.is_text)
        )


@record
class RankingValue:
    """The distance or score by which the plan's ranking ordered the row."""

    function: str
    type: PropertyType

    def __str__(self) -> str:
        return f"{self.function} value"


@record
class OutputRef:
    """A column of the result, by position."""

    index: int
    name: str
    type: PropertyType

    def __str__(self) -> str:
        return self.name


Scalarlike = (
    Column | EntityRef | EntityRow | EntityType | EntityVersion | ParameterRef | Constant | ValueRef | Apply | Truth
)
OutputExpression = Scalarlike | AggregateCall | RankingValue
Comparand = Scalarlike | TargetColumn


def _show(value: Any, of: PropertyType) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_show_scalar(item, of.scalar) for item in value)}]"
    return _show_scalar(value, of.scalar)


def _show_scalar(value: Any, scalar: Scalar) -> str:
    if value is None:
        return "null"
    if scalar is Scalar.STRING:
        return quote_string(value)
    if scalar is Scalar.DATE:
        return f'date("{format_date(value)}")'
    if scalar is Scalar.DATETIME:
        return f'datetime("{format_datetime(value)}")'
    if scalar is Scalar.BOOL:
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return decimal_text(value)
    return repr(value)


@record
class Compare:
    """``left op right``; a NULL on either side is no match, ``!=`` included."""

    left: Comparand
    op: CompareOp
    right: Comparand

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@record
class ListContains:
    """Membership: ``item`` is one of ``items``."""

    items: Scalarlike
    item: Scalarlike

    def __str__(self) -> str:
        return f"{self.items} has member {self.item}"


@record
class TextContains:
    """Exact substring, no folding, no wildcards."""

    text: Scalarlike
    needle: Scalarlike

    def __str__(self) -> str:
        return f"{self.text} has substring {self.needle}"


@record
class TextStartsWith:
    """Exact prefix, no folding, no wildcards."""

    text: Scalarlike
    prefix: Scalarlike

    def __str__(self) -> str:
        return f"{self.text} has prefix {self.prefix}"


@record
class TextMatch:
    """``search``, ``match_text`` or ``fuzzy``; a NULL query matches nothing."""

    function: TextFunction
    field: Column
    query: Constant | ParameterRef
    max_edits: Constant | ParameterRef | None = None

    def __str__(self) -> str:
        edits = "" if self.max_edits is None else f", {self.max_edits}"
        return f"{self.function}({self.field}, {self.query}{edits})"


@record
class SameEntity:
    """Two variables of one type hold the same node."""

    left: str
    right: str

    def __str__(self) -> str:
        return f"${self.left} is ${self.right}"


@record
class Condition:
    """Any other condition; a row passes where it is true."""

    value: Scalarlike

    def __str__(self) -> str:
        return str(self.value)


Predicate = Compare | ListContains | TextContains | TextStartsWith | TextMatch | SameEntity | Condition


def inner_values(value: Scalarlike) -> Iterator[Scalarlike]:
    """Yield a value and everything that it is computed from."""
    yield value
    if isinstance(value, Apply):
        for argument in value.arguments:
            yield from inner_values(argument)
    elif isinstance(value, Truth):
        yield from operands_of(value.predicate)


def operands_of(predicate: Predicate) -> Iterator[Scalarlike]:
    """Yield everything that a predicate looks at."""
    match predicate:
        case Compare():
            sides: tuple[object, ...] = (predicate.left, predicate.right)
        case ListContains():
            sides = (predicate.items, predicate.item)
        case TextContains():
            sides = (predicate.text, predicate.needle)
        case TextStartsWith():
            sides = (predicate.text, predicate.prefix)
        case TextMatch():
            sides = (predicate.field, predicate.query)
        case Condition():
            sides = (predicate.value,)
        case SameEntity():
            sides = ()
        case _:
            assert_never(predicate)
    for side in sides:
        if not isinstance(side, TargetColumn):
            yield from inner_values(cast("Scalarlike", side))


@record
class NearestRanking:
    """L2 distance, ascending; a text query is embedded first, by ``model`` if the schema names one."""

    field: Column
    query: Constant | ParameterRef
    model: str | None = None

    @property
    def variable(self) -> str:
        """The variable whose entities are ranked."""
        return self.field.variable

    @property
    def needs_embedding(self) -> bool:
        """Whether the query is text that must become a vector before the search."""
        return self.query.type.is_text

    def __str__(self) -> str:
        return f"nearest({self.field}, {self.query})"


@record
class Bm25Ranking:
    """BM25 score, descending."""

    field: Column
    query: Constant | ParameterRef

    @property
    def variable(self) -> str:
        """The variable whose entities are ranked."""
        return self.field.variable

    def __str__(self) -> str:
        return f"bm25({self.field}, {self.query})"


@record
class RrfRanking:
    """Reciprocal rank fusion of two rankings of one variable; a NULL ``k`` means 60."""

    first: NearestRanking | Bm25Ranking
    second: NearestRanking | Bm25Ranking
    k: Constant | ParameterRef

    @property
    def variable(self) -> str:
        """The variable whose entities are ranked."""
        return self.first.variable

    def __str__(self) -> str:
        return f"rrf({self.first}, {self.second}, {self.k})"


Ranking = NearestRanking | Bm25Ranking | RrfRanking
