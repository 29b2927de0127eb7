"""One comparison of a column with a value, brought into the column's own type without loss.

Rows in storage and rows that are only pending are decided by the same Arrow kernels, so they cannot disagree. The
predicate pushed to storage only narrows what is read; it may let through too much, never too little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import INTEGERS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.ir.model import TargetColumn
from omnigraph.ir.types import INTEGER_RANGES, exact_decimal, fit_compared
from omnigraph.lang.gq.ast import CompareOp
from omnigraph.records import record
from omnigraph.values.decimals import decimal_text, scaled

# Beyond this many values one pass over the column beats a predicate that lists them all.
_VALUES_PER_PREDICATE = 10_000
_I64_MINIMUM = -(1 << 63)


def one_of(column: str, values: pa.Array) -> str | None:
    """Return a predicate that is true where ``column`` is one of ``values``, or None if a scan has to compare them.

    >>> one_of("name", pa.array(["it's"]))
    "`name` IN ('it''s')"
    """
    literal = _literal_writer(values.type)
    if literal is None or len(values) > _VALUES_PER_PREDICATE:
        return None
    plain = comparable(values).to_pylist()
    # The predicate parser reads the sign as an operator on a number that is then one too big.
    if _I64_MINIMUM in plain:
        return None
    return f"`{column}` IN ({', '.join(literal(value) for value in plain)})"


def comparable(values: pa.Array) -> pa.Array:
    """Return values so that equal ones are the same for every Arrow kernel: dates as numbers, one zero per float."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32())
    if pa.types.is_date64(values.type):
        return values.view(pa.int64())
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0, values.type))
    return values


def _literal_writer(kind: pa.DataType) -> Callable[[object], str] | None:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return lambda value: "'" + str(value).replace("'", "''") + "'"
    if pa.types.is_integer(kind):
        return str
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_date32(kind):
        return lambda value: f"cast({value} as date)"
    if pa.types.is_date64(kind):
        return lambda value: f"arrow_cast({value}, 'Date64')"
    return None


_ENDS = {"from": "src", "to": "dst"}
# A load may store unsigned values that the query language cannot write.
_STORED_RANGES = {**INTEGER_RANGES, Scalar.U64: (0, (1 << 64) - 1)}
_KERNELS: dict[CompareOp, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CASTS = {
    Scalar.I32: "Int32",
    Scalar.I64: "Int64",
    Scalar.U32: "UInt32",
    Scalar.U64: "UInt64",
    Scalar.F32: "Float32",
    Scalar.F64: "Float64",
}


@record
class Comparison:
    """``column op value`` with a value of the column's own type.

    ``verdict`` is set when the answer does not depend on the row: then every row without a NULL gets it.
    """

    column: str
    type: PropertyType
    op: CompareOp
    value: Any = None
    verdict: bool | None = None

    @property
    def is_never(self) -> bool:
        """Whether no row can match."""
        return self.verdict is False

    @property
    def columns(self) -> tuple[str, ...]:
        """What deciding needs of a row."""
        return (self.column,)

    def mask(self, rows: pa.Table) -> pa.Array:
        """Return which rows match; a NULL never does."""
        column = rows.column(self.column)
        return self.matches(pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type))

    def matches(self, values: pa.Array) -> pa.Array:
        """Return which values of the column match; a NULL never does."""
        stored = comparable(values)
        if self.verdict is not None:
            return pc.and_(stored.is_valid(), pa.scalar(self.verdict))
        return pc.fill_null(_KERNELS[self.op](stored, pa.scalar(self.value, stored.type)), fill_value=False)

    def sql(self) -> str | None:
        """Return a predicate that lets through at least the matching rows, or None when storage cannot be asked."""
        if self.verdict is not None:
            return f"`{self.column}` IS NOT NULL"
        literal = self._literal()
        return None if literal is None else f"`{self.column}` {self.op} {literal}"

    def _literal(self) -> str | None:
        scalar = self.type.scalar
        if scalar is Scalar.STRING:
            return "'" + str(self.value).replace("'", "''") + "'"
        if scalar is Scalar.BOOL:
            return "true" if self.value else "false"
        if scalar is Scalar.DECIMAL:
            precision, scale = self.type.digits
            return f"arrow_cast('{decimal_text(self.value)}', 'Decimal128({precision}, {scale})')"
        if scalar is Scalar.DATE:
            return f"arrow_cast({self.value}, 'Date32')"
        if scalar is Scalar.DATETIME:
            return f"arrow_cast({self.value}, 'Date64')"
        # Storage tells the two zeros apart, which the language does not.
        if scalar not in _CASTS or (isinstance(self.value, float) and self.value == 0):
            return None
        # As text, because the lowest integer is not a number to the predicate parser.
        return f"arrow_cast('{self.value!r}', '{_CASTS[scalar]}')"


def compare(left: TargetColumn, op: CompareOp, value: Any, of: PropertyType) -> Comparison:
    """Return the comparison of a property, or of an end of an edge, with a decoded value of type ``of``."""
    kind = left.type
    if value is None:
        return Comparison(column=left.property, type=kind, op=op, verdict=False)
    fitted, fitted_kind = fit_compared(value, of, kind)
    if kind.is_decimal and fitted_kind.single != kind.single:
        return _between_decimals(left, op, fitted)
    if fitted_kind.scalar is kind.scalar:
        return Comparison(column=left.property, type=kind, op=op, value=fitted)
    if kind.scalar in INTEGERS:
        return _between_integers(left, op, fitted)
    return _between_floats(left, op, fitted)


def column_of(owner: NodeType | EdgeType, name: str) -> str:
    """Return the column that a statement means by ``name``: the ends of an edge are stored under other names."""
    return _ENDS.get(name, name) if isinstance(owner, EdgeType) else name


def _between_integers(left: TargetColumn, op: CompareOp, value: float) -> Comparison:
    """A number that no value of the column equals: it lies beyond their range, or between two of them."""
    low, high = _STORED_RANGES[left.type.scalar]
    if value > high or value < low:
        return _beyond(left, op, is_above=value > high)
    if value == int(value):
        return Comparison(column=left.property, type=left.type, op=op, value=int(value))
    if op in {"=", "!="}:
        return Comparison(column=left.property, type=left.type, op=op, verdict=op == "!=")
    if op in {"<", "<="}:
        return Comparison(column=left.property, type=left.type, op="<=", value=math.floor(value))
    return Comparison(column=left.property, type=left.type, op=">=", value=math.ceil(value))


def _between_decimals(left: TargetColumn, op: CompareOp, value: Any) -> Comparison:
    """A number that no value of the column equals: it lies beyond their range, or between two of them."""
    precision, scale = left.type.digits
    exact = exact_decimal(value)
    if exact is None or exact.copy_abs() >= Decimal((0, (1,), precision - scale)):
        return _beyond(left, op, is_above=value > 0)
    if op in {"=", "!="}:
        return Comparison(column=left.property, type=left.type, op=op, verdict=op == "!=")
    numerator, denominator = exact.as_integer_ratio()
    below = numerator * 10**scale // denominator
    units, chosen = (below, "<=") if op in {"<", "<="} else (below + 1, ">=")
    if abs(units) >= 10**precision:
        return _beyond(left, op, is_above=units > 0)
    near: CompareOp = "<=" if chosen == "<=" else ">="
    return Comparison(column=left.property, type=left.type, op=near, value=scaled(units, scale))


def _between_floats(left: TargetColumn, op: CompareOp, value: float) -> Comparison:
    """A number that a float column cannot hold: too large for 32 bits, or an integer that 64 bits round."""
    if left.type.scalar is Scalar.F32:
        return _beyond(left, op, is_above=value > 0)
    if op in {"=", "!="}:
        return Comparison(column=left.property, type=left.type, op=op, verdict=op == "!=")
    near = float(value)
    is_below = near < value
    chosen: CompareOp = ("<=" if is_below else "<") if op in {"<", "<="} else (">" if is_below else ">=")
    return Comparison(column=left.property, type=left.type, op=chosen, value=near)


def _beyond(left: TargetColumn, op: CompareOp, *, is_above: bool) -> Comparison:
    matching = {"<", "<=", "!="} if is_above else {">", ">=", "!="}
    return Comparison(column=left.property, type=left.type, op=op, verdict=op in matching)


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; its chunks are copied only if there are several."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
