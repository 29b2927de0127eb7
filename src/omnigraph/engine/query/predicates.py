"""Predicates on rows. A NULL is no match; negation is about whole pipelines, so two truth values are enough here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Protocol, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import FLOATS, PropertyType, Scalar
from omnigraph.engine.comparison import comparable, compare
from omnigraph.engine.decimals import WIDEST, widened
from omnigraph.engine.query.frame import Mask
from omnigraph.ir.model import (
    Apply,
    Column,
    Compare,
    Condition,
    Constant,
    EntityRef,
    EntityRow,
    EntityType,
    EntityVersion,
    ListContains,
    ParameterRef,
    Predicate,
    SameEntity,
    Scalarlike,
    TargetColumn,
    TextContains,
    TextMatch,
    TextStartsWith,
    Truth,
    ValueRef,
    operands_of,
)
from omnigraph.ir.types import fit_compared, item_type, round_to_f32
from omnigraph.lang.gq.ast import CompareOp
from omnigraph.values.decimals import digits_of

KERNELS: dict[CompareOp, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PYTHON: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FEW_MEMBERS = 16
FLIPPED: dict[CompareOp, CompareOp] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# More values than this are not spelled out to storage.
_LISTED_VALUES = 1000
# Every integer up to here is a double of its own.
_EXACT_DOUBLE = 1 << 53
_I64_MAXIMUM = (1 << 63) - 1


def compare_values(left: Any, op: CompareOp, right: Any) -> bool:
    """Compare two decoded values; Python compares numbers of different types exactly, and text by code point."""
    return left is not None and right is not None and _PYTHON[op](left, right)


def compare_arrays(left: pa.Array, op: CompareOp, right: pa.Array) -> pa.Array:
    """Return where the comparison holds, position by position; a NULL on either side is no match."""
    left, right = _plain(left), _plain(right)
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.array(np.zeros(len(left), dtype=np.bool_))
    if left.type == right.type:
        return pc.fill_null(KERNELS[op](left, right), fill_value=False)
    common = _common_type(left, right)
    if common is None:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([compare_values(a, op, b) for a, b in pairs], pa.bool_())
    first, second = (widened(side) if common is WIDEST else side.cast(common) for side in (left, right))
    return pc.fill_null(KERNELS[op](first, second), fill_value=False)


def _plain(values: pa.Array) -> pa.Array:
    if pa.types.is_boolean(values.type):
        return values.cast(pa.uint8())
    if pa.types.is_large_string(values.type):
        return values.cast(pa.string())
    return comparable(values)


def _common_type(left: pa.Array, right: pa.Array) -> pa.DataType | None:
    """Return a type that holds every value of both exactly, or None when no machine type does."""
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        return None if any(map(pa.types.is_floating, (left.type, right.type))) else WIDEST
    if pa.types.is_floating(left.type) and pa.types.is_floating(right.type):
        return pa.float64()
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return pa.int64() if _is_within(left, _I64_MAXIMUM) and _is_within(right, _I64_MAXIMUM) else None
    whole = left if pa.types.is_integer(left.type) else right
    return pa.float64() if _is_within(whole, _EXACT_DOUBLE) else None


def _is_within(values: pa.Array, bound: int) -> bool:
    if values.type.bit_width < 64 and bound >= _I64_MAXIMUM:
        return True
    extremes = pc.min_max(values)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    return low is None or (-bound - (bound == _I64_MAXIMUM) <= low and high <= bound)


def rows_with_member(lists: pa.Array, is_wanted: Callable[[pa.Array, pa.Array], pa.Array]) -> Mask:
    """Return which lists have a member that is wanted.

    Args:
        lists: a list column; NULL and empty lists have no members.
        is_wanted: given the members of all lists and the row each belongs to, which of them are wanted.
    """
    found = np.zeros(len(lists), dtype=np.bool_)
    members, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
    if len(members):
        wanted = is_wanted(members, rows).to_numpy(zero_copy_only=False)
        found[rows.to_numpy(zero_copy_only=False)[wanted]] = True
    return found


class SupportsRows(Protocol):
    """Rows that predicates are asked of."""

    @property
    def length(self) -> int:
        """How many there are."""

    @property
    def fits_literals(self) -> bool:
        """Whether a literal may be brought to the column's type before comparing; the answer is the same."""

    def column(self, column: Column) -> pa.Array:
        """Return a property, one value per row."""

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""

    def matches_text(self, predicate: TextMatch) -> Mask:
        """Return which rows a text search finds."""

    def same_entity(self, predicate: SameEntity) -> Mask:
        """Return in which rows two variables hold the same entity."""

    def passes(self, condition: Condition) -> Mask:
        """Return in which rows a condition is true."""


def evaluate(predicate: Predicate, rows: SupportsRows) -> Mask:
    """Return which rows pass."""
    match predicate:
        case Compare():
            return _compare(predicate, rows)
        case ListContains():
            return _list_contains(predicate, rows)
        case TextContains():
            return _text(predicate.text, predicate.needle, rows, pc.match_substring, lambda text, part: part in text)
        case TextStartsWith():
            return _text(predicate.text, predicate.prefix, rows, pc.starts_with, str.startswith)
        case TextMatch():
            return rows.matches_text(predicate)
        case SameEntity():
            return rows.same_entity(predicate)
        case Condition():
            return rows.passes(predicate)
        case _:
            assert_never(predicate)


def _compare(predicate: Compare, rows: SupportsRows) -> Mask:
    left, op, right = predicate.left, predicate.op, predicate.right
    if not isinstance(left, Column):
        left, op, right = right, FLIPPED[op], left
    if isinstance(left, Column):
        if isinstance(right, Column):
            return _mask(compare_arrays(rows.column(left), op, rows.column(right)))
        return _mask(_compare_with_value(rows.column(left), left, op, *_value(right, rows), rows))
    first, _ = _value(left, rows)
    second, _ = _value(right, rows)
    return np.full(rows.length, compare_values(first, op, second))


def _compare_with_value(
    values: pa.Array, column: Column, op: CompareOp, value: Any, of: PropertyType, rows: SupportsRows
) -> pa.Array:
    if rows.fits_literals or value is None:
        target = TargetColumn(property=column.property, type=column.type)
        return compare(target, op, value, of).matches(values)
    return _compare_widely(values, column.type, op, value)


def _compare_widely(values: pa.Array, of: PropertyType, op: CompareOp, value: Any) -> pa.Array:
    if of.scalar is Scalar.F32:
        value = round_to_f32(float(value))
    # One value per row costs memory that fitting the literal spares; it decides without knowing the column's type.
    # Decimals are told their digits, of which Arrow would take those of the first alone.
    kind = pa.decimal128(*digits_of(value)) if isinstance(value, Decimal) else None
    constant = pa.array([value], kind)
    return compare_arrays(values, op, constant.take(pa.array(np.zeros(len(values), dtype=np.int64))))


def _list_contains(predicate: ListContains, rows: SupportsRows) -> Mask:
    items, item = predicate.items, predicate.item
    if not isinstance(items, Column):
        members, of = _value(items, rows)
        if members is None:
            return np.zeros(rows.length, dtype=np.bool_)
        return _in_given_list(members, of, item, rows)
    lists = rows.column(items)
    member = Column(variable=items.variable, property=items.property, type=_item(items.type))
    if isinstance(item, Column):
        wanted = rows.column(item)
        return rows_with_member(lists, lambda found, at: compare_arrays(found, "=", wanted.take(at)))
    value, of = _value(item, rows)
    return rows_with_member(lists, lambda found, _: _compare_with_value(found, member, "=", value, of, rows))


def _in_given_list(members: Any, of: PropertyType, item: Any, rows: SupportsRows) -> Mask:
    if not isinstance(item, Column):
        value, _ = _value(item, rows)
        return np.full(rows.length, any(compare_values(member, "=", value) for member in members))
    values, found = rows.column(item), np.zeros(rows.length, dtype=np.bool_)
    wanted = _wanted(members, of, item, rows) if len(members) > _FEW_MEMBERS else None
    if wanted is not None:
        return _mask(pc.is_in(values, value_set=wanted))
    for member in members:
        found |= _mask(_compare_with_value(values, item, "=", member, _item(of), rows))
    return found


def _wanted(members: Any, of: PropertyType, item: Column, rows: SupportsRows) -> pa.Array | None:
    """Return members as values of the column, those that no value of it can equal left out; None if unsure."""
    if not rows.fits_literals or item.type.scalar in FLOATS:
        return None
    fitted = [fit_compared(member, _item(of), item.type) for member in members]
    plain = item_type(item.type)
    kept = [value for value, kind in fitted if value is not None and kind.single == plain.single]
    return pa.array(kept, arrow_type(plain))


def _text(text: Any, part: Any, rows: SupportsRows, kernel: Any, test: Any) -> Mask:
    if isinstance(text, Column) and not isinstance(part, Column):
        needle, _ = _value(part, rows)
        if needle is None:
            return np.zeros(rows.length, dtype=np.bool_)
        return _mask(kernel(rows.column(text), pattern=needle))
    texts = rows.column(text).to_pylist() if isinstance(text, Column) else [_value(text, rows)[0]] * rows.length
    parts = rows.column(part).to_pylist() if isinstance(part, Column) else [_value(part, rows)[0]] * rows.length
    pairs = zip(texts, parts, strict=True)
    return np.fromiter((a is not None and b is not None and test(a, b) for a, b in pairs), np.bool_, rows.length)


def _value(operand: Any, rows: SupportsRows) -> tuple[Any, PropertyType]:
    if isinstance(operand, Constant | ParameterRef):
        return rows.given(operand), operand.type
    message = f"not an operand of a predicate: {operand}"
    raise TypeError(message)


def _item(of: PropertyType) -> PropertyType:
    return replace(of.single, nullable=True)


def _mask(matches: pa.Array | pa.ChunkedArray) -> Mask:
    return np.asarray(pc.fill_null(matches, fill_value=False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def read_variables(predicate: Predicate) -> frozenset[str]:
    """Return the variables that a predicate looks at."""
    if isinstance(predicate, SameEntity):
        return frozenset({predicate.left, predicate.right})
    entities = Column | EntityRef | EntityRow | EntityType | EntityVersion
    return frozenset(value.variable for value in operands_of(predicate) if isinstance(value, entities))


def reads_values(predicate: Predicate) -> bool:
    """Whether a predicate looks at values that travel with the row."""
    return any(isinstance(value, ValueRef) for value in operands_of(predicate))


def read_columns(predicate: Predicate) -> tuple[Column, ...]:
    """Return the properties that a predicate looks at."""
    return tuple(operand for operand in operands_of(predicate) if isinstance(operand, Column))


Given = Callable[[Constant | ParameterRef], Any]


def storage_filter(predicates: Iterable[Predicate], given: Given) -> str | None:
    """Return what storage can be asked of predicates on one variable; None when that is nothing."""
    parts = [part for part in (_render(predicate, given) for predicate in predicates) if part is not None]
    # Storage nests the terms of a condition; leaving some out lets more pass, and all are tested again.
    return " AND ".join(f"({part})" for part in parts[:_LISTED_VALUES]) or None


def _render(predicate: Predicate, given: Given) -> str | None:
    if isinstance(predicate, Compare):
        return _comparison(predicate, given)
    if isinstance(predicate, TextContains | TextStartsWith):
        name = "contains" if isinstance(predicate, TextContains) else "starts_with"
        needle = predicate.needle if isinstance(predicate, TextContains) else predicate.prefix
        if isinstance(predicate.text, Column) and isinstance(needle, Constant | ParameterRef):
            value = given(needle)
            return "false" if value is None else f"{name}(`{predicate.text.property}`, {_quoted(value)})"
    if isinstance(predicate, ListContains):
        return _membership(predicate, given)
    return _condition(predicate.value, given) if isinstance(predicate, Condition) else None


def _membership(predicate: ListContains, given: Given) -> str | None:
    """Return the disjunction of comparisons that a list of values stands for."""
    if not isinstance(predicate.item, Column) or not isinstance(predicate.items, Constant | ParameterRef):
        return None
    members = given(predicate.items)
    if members is None or len(members) > _LISTED_VALUES:
        return None
    of = _item(predicate.items.type)
    same = (Compare(left=predicate.item, op="=", right=Constant(value=member, type=of)) for member in members)
    parts = [_comparison(one, given) for one in same]
    known = [part for part in parts if part is not None]
    return None if len(known) < len(parts) else " OR ".join(f"({part})" for part in known) or "false"


def _condition(value: Scalarlike, given: Given) -> str | None:
    """Return what storage can be asked of a condition: never less than what passes."""
    if isinstance(value, Truth):
        return _render(value.predicate, given)
    if not isinstance(value, Apply):
        return None
    if value.function in {"is_null", "is_not_null"}:
        tested = value.arguments[0]
        word = "IS NULL" if value.function == "is_null" else "IS NOT NULL"
        return f"`{tested.property}` {word}" if isinstance(tested, Column) else None
    if value.function in {"and", "or"}:
        parts = [_condition(argument, given) for argument in value.arguments]
        known = [f"({part})" for part in parts if part is not None]
        if not known or (value.function == "or" and (len(known) < len(parts) or len(known) > _LISTED_VALUES)):
            return None
        return f" {value.function.upper()} ".join(known[:_LISTED_VALUES])
    return None


def _comparison(predicate: Compare, given: Given) -> str | None:
    left, op, right = predicate.left, predicate.op, predicate.right
    if not isinstance(left, Column):
        left, op, right = right, FLIPPED[op], left
    if not isinstance(left, Column) or not isinstance(right, Constant | ParameterRef):
        return None
    comparison = compare(TargetColumn(property=left.property, type=left.type), op, given(right), right.type)
    return "false" if comparison.is_never else comparison.sql()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
