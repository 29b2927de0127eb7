"""Columns of decimals: exact casts, comparable columns, texts, and sums that cannot overflow.

Two things must not be left to Arrow. It multiplies by a power of ten when it casts decimals, and does not always notice
when that leaves its 128 bits: in 256 bits, with 38 digits on either side of the point, every value of ours has its
place, so that is where we multiply. And its division of 256 bits is wrong for some values, by which rounding and casts
to fewer digits are too: here numbers are divided as integers of the machine, or of Python.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.decimals import MAX_PRECISION, decimal_text, round_half_away, scaled, unscaled

WIDEST = pa.decimal256(2 * MAX_PRECISION, MAX_PRECISION)
_UNSCALED = pa.decimal128(MAX_PRECISION, 0)
_ALIGNMENT = 16
# Every integer up to here is a double of its own, and so is every power of ten up to that one.
_EXACT_DOUBLE, _EXACT_POWER = 1 << 53, 22
_I64_MAXIMUM = (1 << 63) - 1
_LOSES = "a decimal has more digits after the point"
# A sum is added up in two halves; each stays far below what 128 bits hold, however many rows there are.
HALF = 10**19
_WHOLE_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def is_decimal_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists of decimals."""
    return bool(pa.types.is_list(kind) and pa.types.is_decimal(kind.value_type))


def is_whole(kind: pa.DataType) -> bool:
    """Whether all values of a type are whole numbers: integers, or decimals without digits behind the point."""
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0))


def whole_cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return decimals without digits behind the point as integers.

    Raises:
        pa.ArrowInvalid: a value is out of the range of the type.
    """
    # Narrower decimals are compared with a range that does not fit into them, and all refused.
    wide = values.type if values.type.bit_width >= _UNSCALED.bit_width else _UNSCALED
    return values.cast(wide).cast(kind)


def aligned(values: pa.Array) -> pa.Array:
    """Return decimals at an address where every reader takes them; others may hand them over anywhere in memory."""
    data = values.buffers()[1]
    if data is None or data.address % _ALIGNMENT == 0:
        return values
    copied = pa.allocate_buffer(data.size)
    np.frombuffer(copied, np.uint8)[:] = np.frombuffer(data, np.uint8)
    buffers = [values.buffers()[0], copied]
    return pa.Array.from_buffers(values.type, len(values), buffers, values.null_count, values.offset)


def relabelled(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the same units under a type with another number of digits behind the point."""
    return pa.Array.from_buffers(kind, len(values), values.buffers(), values.null_count, values.offset)


def as_decimals(values: pa.Array) -> pa.Array:
    """Return integers as decimals without a fraction, and decimals as they are."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.decimal128(_WHOLE_DIGITS[values.type.bit_width], 0))
    return values


def widened(values: pa.Array, scale: int = MAX_PRECISION) -> pa.Array:
    """Return integers or decimals as decimals with room for 38 digits before the point and more behind it."""
    return as_decimals(values).cast(pa.decimal256(2 * MAX_PRECISION, scale))


def exact_cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers or decimals, or lists of them, as decimals of another type.

    Raises:
        pa.ArrowInvalid: a value has more digits than the type, before or behind the point.
    """
    if values.type == kind:
        return values
    if pa.types.is_list(kind):
        plain = values.cast(pa.list_(values.type.value_type))
        items = exact_cast(plain.flatten(), kind.value_type)
        lengths = pc.fill_null(pc.list_value_length(plain), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, items, type=kind, mask=plain.is_null())
    values = as_decimals(values)
    if kind.scale >= values.type.scale:
        return widened(values, kind.scale).cast(kind)
    return rounded(values, kind, exactly=True)


def rounded(values: pa.Array, kind: pa.DataType, *, exactly: bool = False) -> pa.Array:
    """Return decimals with fewer digits behind the point, halves away from zero.

    Raises:
        pa.ArrowInvalid: a value has more digits than the type before the point; with ``exactly``, behind it as well.
    """
    unit = 10 ** (values.type.scale - kind.scale)
    small = small_units(values, _I64_MAXIMUM // 2) if unit <= _I64_MAXIMUM // 2 else None
    if small is not None:
        quotients, rest = np.divmod(np.abs(small), unit)
        if exactly and rest.any():
            raise pa.ArrowInvalid(_LOSES)
        quotients += 2 * rest >= unit
        return of_units(np.where(small < 0, -quotients, quotients), kind, np.asarray(values.is_null()))
    found = []
    for value in units_of(values).to_pylist():
        units = None if value is None else int(value)
        if exactly and units is not None and units % unit:
            raise pa.ArrowInvalid(_LOSES)
        found.append(None if units is None else scaled(round_half_away(units, unit), kind.scale))
    return pa.array(found, pa.decimal256(2 * MAX_PRECISION, kind.scale)).cast(kind)


def of_units(units: npt.NDArray[np.int64], kind: pa.DataType, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the decimals of so many units of their last digit.

    Raises:
        pa.ArrowInvalid: one has more digits than the type.
    """
    wide = pa.array(units, pa.int64(), mask=is_null).cast(_UNSCALED)
    return relabelled(wide, pa.decimal128(MAX_PRECISION, kind.scale)).cast(kind)


def units_of(values: pa.Array) -> pa.Array:
    """Return how many units of their last digit decimals are, as decimals without a fraction."""
    wide = (
        values
        if values.type.precision == MAX_PRECISION
        else values.cast(pa.decimal128(MAX_PRECISION, values.type.scale))
    )
    return relabelled(wide, _UNSCALED)


def small_units(values: pa.Array, bound: int) -> npt.NDArray[np.int64] | None:
    """Return the units of decimals as machine integers, 0 for NULL; None if one of them is further than ``bound``."""
    extremes = pc.min_max(values)
    for end in (extremes["min"].as_py(), extremes["max"].as_py()):
        if end is not None and abs(unscaled(end, values.type.scale) or 0) > bound:
            return None
    units = pc.fill_null(units_of(values).cast(pa.int64()), 0)
    return np.asarray(units.to_numpy(zero_copy_only=False), dtype=np.int64)


def to_doubles(values: pa.Array) -> pa.Array:
    """Return the double that is nearest to each decimal."""
    scale = values.type.scale
    units = small_units(values, _EXACT_DOUBLE) if scale <= _EXACT_POWER else None
    if units is not None:
        return pa.array(units.astype(np.float64) / 10.0**scale, pa.float64(), mask=np.asarray(values.is_null()))
    return pa.array([None if value is None else float(value) for value in values.to_pylist()], pa.float64())


def decimal_texts(values: pa.Array) -> pa.Array:
    """Return decimals as texts, with all digits of their type behind the point."""
    texts = values.cast(pa.string())
    # Arrow writes what is very small with an exponent.
    odd = pc.fill_null(pc.match_substring(texts, "E"), fill_value=False)
    if not pc.any(odd, min_count=0).as_py():
        return texts
    written = [decimal_text(value) for value in values.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(written, pa.string()))


def total_units(high: pa.Array, low: pa.Array) -> pa.Array:
    """Return sums whose halves were added up, as 256-bit decimals without a fraction."""
    wide = pa.decimal256(MAX_PRECISION, 0)
    factor = pa.scalar(HALF, pa.decimal256(len(str(HALF)), 0))
    return pc.add(pc.multiply(high.cast(wide), factor), low.cast(wide))
