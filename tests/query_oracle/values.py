"""Values and what may be asked of them; NULL is None, a Date counts days and a DateTime milliseconds."""

from __future__ import annotations

import math
import operator
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from omnigraph.lang.gq import ast
from tests.query_oracle import decimals
from tests.query_oracle.dates import Interval, read_date, read_instant, write_date, write_instant
from tests.query_oracle.faults import Fault, Illegal
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
BOOL = Kind(scalar="Bool")
INTEGER = Kind(scalar="I64")
FLOAT = Kind(scalar="F64")
DATE = Kind(scalar="Date")
INSTANT = Kind(scalar="DateTime")
INTERVAL = Kind(scalar="Interval")
PATH = Kind(scalar="Path")
# A bare node: its id as a column, and nothing that compares or computes.
NODE = Kind(scalar="Node")
# The type of ``null`` alone: it fits every other.
NULL = Kind(scalar="Null")
NULLS = Kind(scalar="Null", is_list=True)
INTEGERS = frozenset({"I32", "I64", "U32", "U64"})
FLOATS = frozenset({"F32", "F64"})
NUMBERS = INTEGERS | FLOATS | {"Decimal"}
MAX_I64 = 2**63 - 1

# A bound variable: the type and the id of its entity.
Entity = tuple[str, str]
# What every variable stands for: an entity, None behind an optional block, a path or a value. A value that an earlier
# stage named has its name behind ``#``.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes as type → id → properties, edges as type → id → (source id, target id, properties)."""

    nodes: dict[str, dict[str, dict[str, Any]]]
    edges: dict[str, dict[str, tuple[str, str, dict[str, Any]]]]
    # Which commit last changed an entity; those that are not in here are at one and the same.
    versions: dict[Entity, str] = field(default_factory=dict)

    def value(self, entity: Entity | None, name: str) -> Any:
        """Return a property of a node or an edge; of no entity it is NULL."""
        if entity is None:
            return None
        type_name, chosen = entity
        if type_name in self.nodes:
            return self.nodes[type_name][chosen].get(name)
        return self.edges[type_name][chosen][2].get(name)


@dataclass(slots=True, kw_only=True)
class Request:
    """Everything an expression may refer to beside the row.

    ``is_faulty`` turns True at an expression that has no value for some operands; ``may_fail`` where such an expression
    may meet rows that something else removes: whether the read fails is then left open.
    """

    schema: Schema
    graph: Graph
    now_ms: int
    parameters: dict[str, Any] = field(default_factory=dict)
    parameter_kinds: dict[str, Kind] = field(default_factory=dict)
    max_hops: int = 32
    may_fail: bool = False
    is_faulty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A value with its type; a given one was written in the query or passed to it."""

    value: Any
    kind: Kind
    is_given: bool


def holds(op: str, left: Operand, right: Operand) -> bool | None:
    """Whether ``left op right``; None where that is unknown."""
    match op:
        case "contains" if left.kind.is_list:
            return holds("in", right, left)
        case "in":
            return _is_item(left, right)
        case "not in":
            found = _is_item(left, right)
            return None if found is None else not found
    if left.value is None or right.value is None:
        return None
    match op:
        case "contains":
            return right.value in left.value
        case "starts_with":
            return left.value.startswith(right.value)
        case "ends_with":
            return left.value.endswith(right.value)
        case _ if isinstance(left.value, Interval):
            return OPS[op](left.value.size, right.value.size)
        case _:
            return OPS[op](_beside(left, right), _beside(right, left))


def _is_item(item: Operand, items: Operand) -> bool | None:
    if items.value is None:
        return None
    kind = item_kind(items.kind)
    found = [holds("=", item, Operand(value=one, kind=kind, is_given=items.is_given)) for one in items.value]
    return True if True in found else (None if None in found else False)


def _beside(operand: Operand, other: Operand) -> Any:
    """The value as it compares with the other side: what is given beside an F32 value has its precision."""
    if operand.is_given and not other.is_given and other.kind.scalar == "F32":
        return round_to_f32(float(operand.value))
    return operand.value


def comparable(left: Kind, right: Kind) -> bool:
    """Whether single values of the two kinds may be compared."""
    if left.is_list or right.is_list or {left.scalar, right.scalar} & {"Vector", "Blob", "Path", "Node"}:
        return False
    return left.scalar == right.scalar or {left.scalar, right.scalar} <= NUMBERS or NULL in {left, right}


def item_kind(kind: Kind) -> Kind:
    """Return the type of an item of a list."""
    return Kind(scalar=kind.scalar, digits=kind.digits)


def plain(kind: Kind) -> Kind:
    """Return the type without what a schema adds to it."""
    return Kind(scalar=kind.scalar, is_list=kind.is_list, dimension=kind.dimension, digits=kind.digits)


def unify(kinds: list[Kind]) -> Kind:
    """Return the one type that values of all these types are converted to."""
    found = {plain(kind) for kind in kinds} - {NULL}
    found = found - {NULLS} or found
    if len(found) <= 1:
        return found.pop() if found else NULL
    scalars = {kind.scalar for kind in found}
    if not any(kind.is_list for kind in found) and scalars <= NUMBERS:
        if "Decimal" in scalars and not scalars & FLOATS:
            return decimals.common(found)
        return INTEGER if scalars <= INTEGERS else FLOAT
    raise Illegal(f"no common type of {', '.join(sorted(map(str, found)))}")


def convert(value: Any, kind: Kind) -> Any:
    """Return a value of a type that fits ``kind`` as one of ``kind``."""
    if value is None or kind.is_list or isinstance(value, bool):
        return value
    if kind.scalar == "Decimal":
        return decimals.exact(Fraction(value), kind)
    if kind.scalar not in {"I64", "F64"}:
        return value
    return float(value) if kind == FLOAT else fit(value)


def as_column(value: Any, kind: Kind) -> Any:
    """Return a value as a column of the type holds it: the whole numbers of a mixed list are floats there."""
    if isinstance(value, list) and kind.is_list:
        return [convert(item, item_kind(kind)) for item in value]
    return value


def fit(value: int) -> int:
    """Return a whole number if it is an I64."""
    if not -MAX_I64 - 1 <= value <= MAX_I64:
        raise Fault("overflow", str(value))
    return value


def finite(value: float) -> float:
    """Return a float if it is a number."""
    if not math.isfinite(value):
        raise Fault("overflow", str(value))
    return value


def round_to_f32(value: float) -> float:
    """Return the nearest 32-bit float, or the value itself where there is no finite one."""
    try:
        rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return value
    return rounded if math.isfinite(rounded) else value


def sort_key(value: Any) -> Any:
    """Return what values of one type are ordered by: NULL before everything, lists item by item."""
    match value:
        case None:
            return (0,)
        case list():
            return (1, [sort_key(item) for item in value])
        case dict():
            return (1, sort_key(value["nodes"]), sort_key(value["edges"]))
        case Interval():
            return (1, value.size)
        case _:
            return (1, value)


def frozen(value: Any) -> Any:
    """Return an equal value that may be a key of a dictionary."""
    match value:
        case list() | tuple():
            return tuple(map(frozen, value))
        case dict():
            return tuple(frozen(item) for item in value.values())
        case _:
            return value


def from_text(value: Any, kind: Kind) -> Any:
    """Return a value whose dates are given as text with those as numbers."""
    if isinstance(value, list):
        return [from_text(item, Kind(scalar=kind.scalar)) for item in value]
    if value is not None and kind.scalar == "Decimal":
        return Decimal(str(value))
    if value is None or kind.scalar not in {"Date", "DateTime"}:
        return value
    return read_date(value) if kind.scalar == "Date" else read_instant(value)


def to_text(value: Any, kind: Kind) -> Any:
    """Return a value as JSON has it, dates and instants as text."""
    if isinstance(value, list | tuple):
        return [to_text(item, Kind(scalar=kind.scalar)) for item in value]
    if value is not None and kind.scalar == "Decimal":
        return str(value)
    if value is None or kind.scalar not in {"Date", "DateTime"}:
        return value
    return write_date(value) if kind.scalar == "Date" else write_instant(value)


def decode(literal: ast.Expression) -> Any:
    """Return the value of a literal."""
    match literal:
        case ast.DateLiteral(text=text):
            found = read_date(text)
        case ast.DateTimeLiteral(text=text):
            found = read_instant(text)
        case ast.ListLiteral():
            return [decode(item) for item in literal.items]
        case ast.NullLiteral():
            return None
        case ast.StringLiteral() | ast.IntegerLiteral() | ast.FloatLiteral() | ast.BooleanLiteral():
            return literal.value
        case _:
            msg = f"the oracle has no value for {literal}"
            raise NotImplementedError(msg)
    if found is None:
        raise Illegal(f"not a date: {text}")
    return found


def literal_kind(literal: ast.Expression) -> Kind:
    """Return the type of a literal."""
    match literal:
        case ast.IntegerLiteral():
            return INTEGER
        case ast.FloatLiteral():
            return FLOAT
        case ast.BooleanLiteral():
            return BOOL
        case ast.DateLiteral():
            return DATE
        case ast.DateTimeLiteral():
            return INSTANT
        case ast.NullLiteral():
            return NULL
        case ast.ListLiteral():
            return list_kind([literal_kind(item) for item in literal.items])
        case _:
            return TEXT


def list_kind(items: list[Kind]) -> Kind:
    """Return the type of a list of such items; of none it is a list of texts, of NULLs alone it fits every other."""
    if any(kind.is_list for kind in items):
        raise Illegal("a list in a list")
    found = unify(items)
    scalar = "String" if not items or found == NODE else found.scalar
    return Kind(scalar=scalar, is_list=True, digits=found.digits)
