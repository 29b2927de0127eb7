"""Typed expressions: what a plan computes from a row, a parameter or nothing at all."""

from __future__ import annotations

from typing import Any

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.lang.gq.ast import AggregateFunction
from omnigraph.lang.parsing import quote_string
from omnigraph.records import record
from omnigraph.values.temporal import format_date, format_datetime

# The instant of the request travels as a parameter that no declaration may use.
NOW_PARAMETER = "__nanograph_now"


@record
class Column:
    """``$x.prop`` of a node or an edge variable."""

    variable: str
    property: str
    type: PropertyType

    def __str__(self) -> str:
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
class AggregateCall:
    """An aggregate over the rows of a group."""

    function: AggregateFunction
    argument: Scalarlike
    type: PropertyType

    def __str__(self) -> str:
        return f"{self.function}({self.argument})"


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


Scalarlike = Column | EntityRef | ParameterRef | Constant
OutputExpression = Scalarlike | AggregateCall | RankingValue
Comparand = Scalarlike | TargetColumn


def _show(value: Any, of: PropertyType) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_show_scalar(item, of.scalar) for item in value)}]"
    return _show_scalar(value, of.scalar)


def _show_scalar(value: Any, scalar: Scalar) -> str:
    if scalar is Scalar.STRING:
        return quote_string(value)
    if scalar is Scalar.DATE:
        return f'date("{format_date(value)}")'
    if scalar is Scalar.DATETIME:
        return f'datetime("{format_datetime(value)}")'
    if scalar is Scalar.BOOL:
        return "true" if value else "false"
    return repr(value)
