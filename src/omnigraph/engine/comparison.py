"""One comparison of a column with a value, brought into the column's own type without loss.

Rows in storage and rows that are only pending are decided by the same Arrow kernels, so they cannot disagree. The
predicate pushed to storage only narrows what is read; it may let through too much, never too little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import INTEGERS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.predicates import comparable
from omnigraph.ir.convert import INTEGER_RANGES, fit_compared
from omnigraph.ir.model import TargetColumn
from omnigraph.lang.gq.ast import CompareOp
from omnigraph.records import record

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
    if float(value).is_integer():
        return Comparison(column=left.property, type=left.type, op=op, value=int(value))
    if op in {"=", "!="}:
        return Comparison(column=left.property, type=left.type, op=op, verdict=op == "!=")
    if op in {"<", "<="}:
        return Comparison(column=left.property, type=left.type, op="<=", value=math.floor(value))
    return Comparison(column=left.property, type=left.type, op=">=", value=math.ceil(value))


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
