"""Rules that a row keeps or breaks by itself: whole columns are judged at once, only offenders are looked at singly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.constraints import longest_value
from omnigraph.catalog.entity_ids import canonical_text
from omnigraph.catalog.model import (
    ENDPOINTS,
    FLOATS,
    INTEGERS,
    Bound,
    CheckRule,
    EdgeType,
    NodeType,
    PropertyDef,
    PropertyType,
    RangeRule,
    Scalar,
)
from omnigraph.engine.constraints.violations import RowPlace, describe_row
from omnigraph.errors import ConstraintRule, Violation
from omnigraph.records import record
from omnigraph.values.decimals import decimal_text, scaled
from omnigraph.values.names import enum_word


def below(column: pa.Array | pa.ChunkedArray, bound: Bound) -> pa.Array | pa.ChunkedArray:
    """Say of each value whether it is less than ``bound``; nulls stay null, NaN is not.

    >>> below(pa.array([2**63 - 1, 0]), 9223372036854775807.5).to_pylist()
    [True, True]
    """
    if pa.types.is_decimal(column.type):
        return _units_below(column, math.ceil(_units(column, bound)))
    if pa.types.is_integer(column.type):
        return _integers_below(column, math.ceil(bound))
    wide = column.cast(pa.float64())
    near = _nearest_double(bound)
    # When the nearest double lies under the bound, no double is between the two.
    return pc.less_equal(wide, near) if near < bound else pc.less(wide, near)


def above(column: pa.Array | pa.ChunkedArray, bound: Bound) -> pa.Array | pa.ChunkedArray:
    """Say of each value whether it is greater than ``bound``; nulls stay null, NaN is not."""
    if pa.types.is_decimal(column.type):
        return pc.invert(_units_below(column, math.floor(_units(column, bound)) + 1))
    if pa.types.is_integer(column.type):
        # Greater than the floor is the negation of less than the next integer.
        return pc.invert(_integers_below(column, math.floor(bound) + 1))
    wide = column.cast(pa.float64())
    near = _nearest_double(bound)
    return pc.greater_equal(wide, near) if near > bound else pc.greater(wide, near)


def _integers_below(column: pa.Array | pa.ChunkedArray, bound: int) -> pa.Array | pa.ChunkedArray:
    low, high = _limits(column.type)
    if bound <= low or bound > high:
        return pc.if_else(pc.is_valid(column), pa.scalar(bound > high), pa.scalar(None, pa.bool_()))
    return pc.less(column, pa.scalar(bound, column.type))


def _units(column: pa.Array | pa.ChunkedArray, bound: Bound) -> Fraction:
    power: int = 10**column.type.scale
    return Fraction(bound) * power


def _units_below(column: pa.Array | pa.ChunkedArray, bound: int) -> pa.Array | pa.ChunkedArray:
    """Say of each decimal whether it is less than so many units of its last digit."""
    precision, scale = column.type.precision, column.type.scale
    if abs(bound) >= 10**precision:
        return pc.if_else(pc.is_valid(column), pa.scalar(bound > 0), pa.scalar(None, pa.bool_()))
    return pc.less(column, pa.scalar(scaled(bound, scale), column.type))


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_signed_integer(kind):
        return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
    return 0, (1 << kind.bit_width) - 1


def _nearest_double(bound: Bound) -> float:
    try:
        return float(bound)
    except OverflowError:
        return math.inf if bound > 0 else -math.inf


# Of so few rows the values are looked at sooner than a kernel is called.
_FEW = 8
_SHAPE_WORDS = {Scalar.VECTOR: "vector property", Scalar.BLOB: "blob property"}


@record
class RowFinding:
    """Rows that break one rule, ascending, and beside each the value that does it.

    ``message`` and ``text`` take one of ``values`` and say what is wrong and how the value reads. ``place`` is that
    of the search among all searches of the type, the same for whichever rows are searched.
    """

    rule: ConstraintRule
    property: str
    rows: pa.Array
    values: pa.Array
    message: Callable[[Any], str]
    text: Callable[[Any], str | None]
    # The whole column has another type, so that its rows cannot be compared with others.
    is_misfit: bool = False
    place: int = 0

    def described(self, owner: NodeType | EdgeType, place: Callable[[int], RowPlace]) -> Iterator[Violation]:
        """Describe the rows; ``place`` says of a row how it is named and where it came from."""
        for row, value in zip(self.rows, self.values, strict=True):
            plain = value.as_py()
            message, text = self.message(plain), self.text(plain)
            yield describe_row(owner, self.rule, place(row.as_py()), message, name=self.property, value=text)


def find_in_rows(owner: NodeType | EdgeType, rows: pa.Table) -> Iterator[RowFinding]:
    """Find the rows that break a rule on their own: types, required values, ``@range``, ``@check``, enums in turn."""
    misfit = list(_misfits(owner, rows))
    if misfit:
        # Judging values of a column that holds something else would only confuse the report.
        yield from misfit
        return
    for place, name, search in _searches_of(owner):
        for finding in search(rows.column(name)):
            yield replace(finding, place=place)


_Search = Callable[[pa.ChunkedArray], Iterable[RowFinding]]


def _searches_of(owner: NodeType | EdgeType) -> tuple[tuple[int, str, _Search], ...]:
    """Return the searches of a type that can find something, each with its place among all and its column."""
    known = _known.get(id(owner))
    if known is None or known[0] is not owner:
        every = enumerate(_searches(owner))
        known = owner, tuple((place, *search) for place, search in every if search is not None)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        # With the type itself: while it is kept, nothing else gets its number.
        _known[id(owner)] = known
    return known[1]


_known: dict[int, tuple[NodeType | EdgeType, tuple[tuple[int, str, _Search], ...]]] = {}
_MOST_KNOWN = 1024


def _searches(owner: NodeType | EdgeType) -> Iterator[tuple[str, _Search] | None]:
    """Yield the searches in the order of their places, with their columns; None for one that can find nothing."""
    for name in ("id", *(ENDPOINTS if isinstance(owner, EdgeType) else ())):
        yield name, partial(_required, owner.name, name, "property")
    yield "id", partial(_empty_id, owner)
    for prop in owner.properties:
        if not prop.type.nullable:
            word = _SHAPE_WORDS.get(prop.type.scalar, "property")
            yield prop.name, partial(_required, owner.name, prop.name, word)
    ranged = {rule.property for rule in owner.ranges}
    for prop in owner.properties:
        has_items = prop.type.is_list or prop.type.is_vector
        yield (prop.name, partial(_items_missing, owner.name, prop)) if has_items else None
        is_float = prop.type.scalar in FLOATS or prop.type.is_vector
        says_nan = prop.name not in ranged
        yield (prop.name, partial(_not_finite, owner.name, prop, says_nan=says_nan)) if is_float else None
    for range_rule in owner.ranges:
        yield range_rule.property, partial(_out_of_range, owner, range_rule)
    for check_rule in owner.checks:
        yield check_rule.property, partial(_unmatched, owner, check_rule)
    for prop in owner.properties:
        is_enum = prop.type.enum_values is not None
        yield (prop.name, partial(_outside_enum, owner.name, prop)) if is_enum else None


def _misfits(owner: NodeType | EdgeType, rows: pa.Table) -> Iterator[RowFinding]:
    expected_schema = arrow_schema(owner)
    if rows.schema.equals(expected_schema):
        return
    for field in expected_schema:
        prop = owner.get(field.name)
        # A blob's column has several layouts while it is on its way to storage.
        if prop is not None and prop.type.scalar is Scalar.BLOB:
            continue
        at = rows.schema.get_field_index(field.name)
        found = None if at < 0 else rows.schema.field(at).type
        if found == field.type or not rows.num_rows:
            continue
        expected = prop.type if prop is not None else "String"
        message = f"property '{field.name}' of {owner.name} expects {expected}, got {found or 'nothing'}"
        yield RowFinding(
            rule="type",
            property=field.name,
            rows=pa.array([0], pa.int64()),
            values=pa.nulls(1),
            message=_says(message),
            text=_no_text,
            is_misfit=True,
        )


def _required(type_name: str, name: str, word: str, column: pa.ChunkedArray) -> Iterator[RowFinding]:
    if not column.null_count:
        return
    at = pc.indices_nonzero(pc.is_null(column))
    message = f"non-nullable {word} '{name}' of {type_name} has null or invalid values"
    yield _finding("required", name, at, pa.nulls(len(at)), _says(message), _no_text)


def _empty_id(owner: NodeType | EdgeType, column: pa.ChunkedArray) -> Iterator[RowFinding]:
    """Find rows that nothing could address."""
    if len(column) <= _FEW and "" not in column.to_pylist():
        return
    at = pc.indices_nonzero(pc.equal(column, ""))
    if len(at):
        name = owner.key[0] if owner.key and len(owner.key) == 1 else "id"
        message = f"{'key' if name != 'id' else 'id'} '{name}' of {owner.name} is empty"
        yield _finding("key", name, at, pa.nulls(len(at)), _says(message), _no_text)


def _items_missing(type_name: str, prop: PropertyDef, column: pa.ChunkedArray) -> Iterator[RowFinding]:
    items = _Items.of(prop.type, column)
    if not items.values.null_count:
        return
    at, _ = items.offenders(pc.is_null(items.values))
    word = "elements must be numeric, found a null or invalid item" if prop.type.is_vector else "null or invalid item"
    message = f"property '{prop.name}' of {type_name} expects {prop.type}: {word}"
    yield _finding("type", prop.name, at, pa.nulls(len(at)), _says(message), _no_text)


def _not_finite(type_name: str, prop: PropertyDef, column: pa.ChunkedArray, *, says_nan: bool) -> Iterator[RowFinding]:
    items = _Items.of(prop.type, column)
    # What is wrong with NaN where there is a range is for the range to say.
    bad = pc.invert(pc.is_finite(items.values)) if says_nan else pc.is_inf(items.values)
    at, values = items.offenders(bad)
    if not len(at):
        return

    def message(value: Any) -> str:
        return f"property '{prop.name}' of {type_name} expects a finite number, got {_number_text(prop, value)}"

    yield _finding("type", prop.name, at, values, message, lambda value: _number_text(prop, value))


def _out_of_range(owner: NodeType | EdgeType, rule: RangeRule, column: pa.ChunkedArray) -> Iterator[RowFinding]:
    prop = owner.get(rule.property)
    if prop is None:
        return
    items = _Items.of(prop.type, column)
    tests = [] if rule.low is None else [below(items.values, rule.low)]
    tests += [] if rule.high is None else [above(items.values, rule.high)]
    tests += [pc.is_nan(items.values)] if prop.type.scalar in FLOATS else []
    bad = tests[0]
    for test in tests[1:]:
        bad = pc.or_(bad, test)
    at, values = items.offenders(bad)
    if not len(at):
        return

    def message(value: Any) -> str:
        return f"@range violation on {owner.name}.{prop.name}: {_range_reason(rule, prop, value)}"

    yield _finding("range", prop.name, at, values, message, lambda value: _number_text(prop, value))


def _range_reason(rule: RangeRule, prop: PropertyDef, value: float | Decimal) -> str:
    if math.isnan(value):
        return "value is NaN"
    if rule.low is not None and value < rule.low:
        return f"value {_number_text(prop, value)} < min {_bound_text(rule.low)}"
    return f"value {_number_text(prop, value)} > max {_bound_text(rule.high)}"


def _bound_text(bound: Bound | None) -> str:
    return decimal_text(bound) if isinstance(bound, Decimal) else str(bound)


def _unmatched(owner: NodeType | EdgeType, rule: CheckRule, column: pa.ChunkedArray) -> Iterator[RowFinding]:
    prop = owner.get(rule.property)
    if prop is None:
        return
    items, longest = _Items.of(prop.type, column), longest_value(rule.pattern)
    texts, is_long = items.values, pc.greater(pc.binary_length(items.values), longest)
    if pc.any(is_long).as_py():
        # Not matched at all: the time it would take is what they are refused for.
        texts = pc.if_else(is_long, None, texts)
    is_bad = pc.or_(
        pc.fill_null(is_long, False), pc.fill_null(pc.invert(pc.match_substring_regex(texts, rule.pattern)), False)
    )
    at, values = items.offenders(is_bad)
    if not len(at):
        return

    def message(value: str) -> str:
        if (size := len(value.encode())) > longest:
            return f"@check violation on {owner.name}.{prop.name}: value of {size} bytes is too long for its pattern"
        return f"@check violation on {owner.name}.{prop.name}: value '{value}' does not match pattern '{rule.pattern}'"

    yield _finding("check", prop.name, at, values, message, str)


def _outside_enum(type_name: str, prop: PropertyDef, column: pa.ChunkedArray) -> Iterator[RowFinding]:
    if prop.type.enum_values is None:
        return
    items = _Items.of(prop.type, column)
    known = pa.array([*prop.type.enum_values, None], items.values.type)
    at, values = items.offenders(pc.invert(pc.is_in(items.values, value_set=known)))
    if not len(at):
        return
    expected = ", ".join(map(enum_word, prop.type.enum_values))

    def message(value: str) -> str:
        return f"invalid enum value '{value}' for {type_name}.{prop.name} (expected: {expected})"

    yield _finding("enum", prop.name, at, values, message, str)


@record
class _Items:
    """The single values of a column, those inside lists and vectors one by one, and the row each belongs to."""

    values: pa.Array | pa.ChunkedArray
    # The row of each value; None when value and row have the same number.
    rows: np.ndarray[Any, np.dtype[np.int64]] | None

    @classmethod
    def of(cls, kind: PropertyType, column: pa.ChunkedArray) -> _Items:
        if not kind.is_list and not kind.is_vector:
            return cls(values=column, rows=None)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        return cls(values=pc.list_flatten(column), rows=np.repeat(np.arange(len(lengths)), lengths))

    def offenders(self, bad: pa.Array | pa.ChunkedArray) -> tuple[Any, pa.Array | pa.ChunkedArray]:
        """Return the rows with a bad value, each once, and their first bad value; a null is never bad by itself."""
        at = pc.indices_nonzero(bad)
        if self.rows is None or not len(at):
            return at, self.values.take(at)
        owners, first = np.unique(self.rows[at.to_numpy()], return_index=True)
        return owners, self.values.take(at.take(pa.array(first)))


def _finding(
    rule: ConstraintRule,
    name: str,
    at: Any,
    values: Any,
    message: Callable[[Any], str],
    text: Callable[[Any], str | None],
) -> RowFinding:
    return RowFinding(
        rule=rule, property=name, rows=pa.array(at, pa.int64()), values=values, message=message, text=text
    )


def _no_text(_: Any) -> None:
    return None


def _says(message: str) -> Callable[[Any], str]:
    return lambda _: message


def _number_text(prop: PropertyDef, value: float | Decimal) -> str:
    if isinstance(value, Decimal):
        return decimal_text(value)
    if prop.type.scalar in INTEGERS or not math.isfinite(value):
        return str(value)
    return canonical_text(Scalar.F32 if prop.type.is_vector else prop.type.scalar, value)
