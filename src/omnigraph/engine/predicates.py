"""Comparing stored values with a set of wanted ones: as a pushed predicate, or as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

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
