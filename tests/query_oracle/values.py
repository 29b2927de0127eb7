"""Values and what may be asked of them; NULL is None, a Date counts days and a DateTime milliseconds."""

from __future__ import annotations

import math
import operator
import struct
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from omnigraph.lang.gq import ast
from tests.query_oracle.schema import Kind, Schema

OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TEXT = Kind(scalar="String")
_EPOCH = date(1970, 1, 1)
_EPOCH_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)

# A bound variable: the type and the id of its entity.
Entity = tuple[str, str]
Row = dict[str, Entity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes as type → id → properties, edges as type → id → (source id, target id, properties)."""

    nodes: dict[str, dict[str, dict[str, Any]]]
    edges: dict[str, dict[str, tuple[str, str, dict[str, Any]]]]

    def value(self, entity: Entity, name: str) -> Any:
        """Return a property of a node or an edge."""
        type_name, chosen = entity
        if type_name in self.nodes:
            return self.nodes[type_name][chosen].get(name)
        return self.edges[type_name][chosen][2].get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A value with its type; a given one was written in the query or passed to it."""

    value: Any
    kind: Kind
    is_given: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything an expression may refer to beside the row."""

    schema: Schema
    graph: Graph
    now_ms: int
    parameters: dict[str, Any] = field(default_factory=dict)
    parameter_kinds: dict[str, Kind] = field(default_factory=dict)

    def operand(self, expression: ast.Expression, row: Row) -> Operand:
        """Evaluate an expression that has a value of its own in every row."""
        match expression:
            case ast.PropertyAccess():
                entity = row[expression.variable.name]
                name = expression.property.text
                kind = self.schema.kind(entity[0], name)
                return Operand(value=self.graph.value(entity, name), kind=kind, is_given=False)
            case ast.Variable() if expression.name in self.parameter_kinds:
                value = self.parameters.get(expression.name)
                return Operand(value=value, kind=self.parameter_kinds[expression.name], is_given=True)
            case ast.Variable():
                return Operand(value=row[expression.name][1], kind=TEXT, is_given=False)
            case ast.Now():
                return Operand(value=self.now_ms, kind=Kind(scalar="DateTime"), is_given=True)
            case _:
                return Operand(value=decode(expression), kind=literal_kind(expression), is_given=True)


def holds(op: str, left: Operand, right: Operand) -> bool:
    """Whether ``left op right``; NULL on either side is no match."""
    if left.value is None or right.value is None:
        return False
    match op:
        case "contains" if left.kind.is_list:
            items = [Operand(value=item, kind=_item(left.kind), is_given=left.is_given) for item in left.value]
            return any(holds("=", item, right) for item in items)
        case "contains":
            return right.value in left.value
        case "starts_with":
            return left.value.startswith(right.value)
        case _:
            return OPS[op](_beside(left, right), _beside(right, left))


def round_to_f32(value: float) -> float:
    """Return the nearest 32-bit float, or the value itself where there is no finite one."""
    try:
        rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return value
    return rounded if math.isfinite(rounded) else value


def from_text(value: Any, kind: Kind) -> Any:
    """Return a value whose dates are given as text with those as numbers."""
    if isinstance(value, list):
        return [from_text(item, Kind(scalar=kind.scalar)) for item in value]
    if value is None or kind.scalar not in {"Date", "DateTime"}:
        return value
    return _days(value) if kind.scalar == "Date" else _instant(value)


def to_text(value: Any, kind: Kind) -> Any:
    """Return a value as JSON has it, dates and instants as text."""
    if isinstance(value, list | tuple):
        return [to_text(item, Kind(scalar=kind.scalar)) for item in value]
    if value is None or kind.scalar not in {"Date", "DateTime"}:
        return value
    if kind.scalar == "Date":
        return (_EPOCH + timedelta(days=value)).isoformat()
    instant = _EPOCH_INSTANT + timedelta(milliseconds=value)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decode(literal: ast.Expression) -> Any:
    """Return the value of a literal."""
    match literal:
        case ast.DateLiteral():
            return _days(literal.text)
        case ast.DateTimeLiteral():
            return _instant(literal.text)
        case ast.ListLiteral():
            return [decode(item) for item in literal.items]
        case ast.StringLiteral() | ast.IntegerLiteral() | ast.FloatLiteral() | ast.BooleanLiteral():
            return literal.value
        case _:
            msg = f"the oracle has no value for {literal}"
            raise NotImplementedError(msg)


def literal_kind(literal: ast.Expression) -> Kind:
    """Return the type of a literal."""
    match literal:
        case ast.IntegerLiteral():
            return Kind(scalar="I64")
        case ast.FloatLiteral():
            return Kind(scalar="F64")
        case ast.BooleanLiteral():
            return Kind(scalar="Bool")
        case ast.DateLiteral():
            return Kind(scalar="Date")
        case ast.DateTimeLiteral():
            return Kind(scalar="DateTime")
        case ast.ListLiteral():
            scalars = {literal_kind(item).scalar for item in literal.items} or {"String"}
            return Kind(scalar="F64" if len(scalars) > 1 else scalars.pop(), is_list=True)
        case _:
            return TEXT


def _days(text: str) -> int:
    return (date.fromisoformat(text) - _EPOCH).days


def _instant(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH_INSTANT) // timedelta(milliseconds=1)


def _beside(operand: Operand, other: Operand) -> Any:
    """The value as it compares with the other side: what is given beside an F32 property has its precision."""
    if operand.is_given and not other.is_given and other.kind.scalar == "F32":
        return round_to_f32(operand.value)
    return operand.value


def _item(kind: Kind) -> Kind:
    return Kind(scalar=kind.scalar)
