"""Sums of floats that are rounded once, at the end, so that no order of the numbers shows in the result.

A float is an integer times a power of two. Cut at fixed places, every 32 bits, it is at most three small integers, its
limbs, and limbs of the same place add up as integers do: exactly, in any order, in any number of parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.records import record

# How partial sums travel: for each a text of bytes, the place of its first limb and the limbs.
PARTIAL = pa.binary()

_BITS = 32
_MASK = (1 << _BITS) - 1
_LIMBS = 3
_PLACE_BITS = 5
# How a double is laid out: sign, exponent, fraction.
_WORD, _FRACTION, _EXPONENTS, _ONE = 64, 52, 0x7FF, 1023
_BIAS = _ONE + _FRACTION
# The weight of the lowest bit of place 0 is two to the power of minus this: below that of every float.
_SHIFT = 36 * _BITS
# Numbers that are worked on at once; as many limbs of 32 bits add up without a rounding, as doubles.
_PIECE_ROWS, _MAX_PIECE_ROWS = 1 << 16, 1 << 20
# How often leading bits are taken off before the rest is taken apart; numbers that are too large for it.
_LEVELS, _LARGE = 4, 2.0**900
# The exponent of the smallest float.
_LOWEST = -1074
_EXACT_DOUBLE = float(1 << 53)
_POSITIVE, _NEGATIVE, _NAN = 1, 2, 4
_FLAG_BITS = 3
_FLAGS = (1 << _FLAG_BITS) - 1

_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


@record
class ExactSums:
    """A sum for each of several groups.

    Args:
        base: the place of the first limb.
        limbs: a row for each group, a column for each place; they may be large and of either sign.
        flags: which infinities, and whether NaN, are among the numbers of a group.
    """

    base: int
    limbs: _Integers
    flags: _Integers

    @classmethod
    def of(cls, values: _Floats, codes: _Integers, count: int) -> ExactSums:
        """Return the sums of numbers by the code of their group; codes are below ``count``."""
        found = cls.of_limbs(_SHIFT // _BITS, np.zeros((count, 1), dtype=np.int64))
        whole, bound = np.zeros(count), 0.0
        rows = min(max(count, _PIECE_ROWS), _MAX_PIECE_ROWS)
        for start in range(0, len(values), rows):
            piece, places = values[start : start + rows], codes[start : start + rows]
            largest = float(np.abs(piece).max())
            more = bound + largest * len(piece)
            if more < _EXACT_DOUBLE and bool((piece == np.trunc(piece)).all()):
                # Whole numbers whose sums are doubles, too, whatever the order.
                whole += np.bincount(places, weights=piece, minlength=count)
                bound = more
                continue
            if largest < _LARGE and count < len(piece) // _LEVELS:
                piece, found = _take_leading(piece, places, largest, found)
            if piece.any():
                found = found.plus(_summed(piece, places, count, is_finite=bool(np.isfinite(largest))))
        return found.plus(_summed(whole, np.arange(count), count, is_finite=True)) if whole.any() else found

    @classmethod
    def of_limbs(cls, base: int, limbs: _Integers) -> ExactSums:
        """Return sums of which the limbs were added up elsewhere."""
        return cls(base=base, limbs=limbs, flags=np.zeros(len(limbs), dtype=np.int64))

    def merge(self, codes: _Integers, count: int) -> ExactSums:
        """Return the sums of these sums by the code of their group."""
        limbs = np.zeros((count, self.limbs.shape[1]), dtype=np.int64)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        flags = np.zeros(count, dtype=np.int64)
        if len(order):
            groups = codes[order][starts]
            limbs[groups] = np.add.reduceat(self.limbs[order], starts, axis=0)
            flags[groups] = np.bitwise_or.reduceat(self.flags[order], starts)
        return ExactSums(base=self.base, limbs=limbs, flags=flags)

    def plus(self, other: ExactSums) -> ExactSums:
        """Return the sums of both, group by group."""
        if self.base == other.base and self.limbs.shape == other.limbs.shape:
            return ExactSums(base=self.base, limbs=self.limbs + other.limbs, flags=self.flags | other.flags)
        base = min(self.base, other.base)
        ends = [each.base + each.limbs.shape[1] for each in (self, other)]
        limbs = np.zeros((len(self.limbs), max(ends) - base), dtype=np.int64)
        for each, end in zip((self, other), ends, strict=True):
            limbs[:, each.base - base : end - base] += each.limbs
        return ExactSums(base=base, limbs=limbs, flags=self.flags | other.flags)

    def times(self, counts: _Integers) -> ExactSums:
        """Return each sum so many times."""
        return ExactSums(base=self.base, limbs=self.limbs * counts[:, None], flags=self.flags)

    def encode(self) -> pa.Array:
        """Return the sums as they travel."""
        filled = np.flatnonzero(self.limbs.any(axis=0))
        first, last = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)
        head = ((self.base + first) << _FLAG_BITS) | self.flags
        table = np.ascontiguousarray(np.column_stack([head, self.limbs[:, first:last]]), dtype=np.int64)
        width = table.shape[1] * table.itemsize
        offsets = pa.py_buffer((np.arange(len(table) + 1) * width).astype(np.int32).tobytes())
        return pa.Array.from_buffers(PARTIAL, len(table), [None, offsets, pa.py_buffer(table.tobytes())])

    @classmethod
    def decode(cls, partials: pa.Array) -> ExactSums:
        """Return sums that :meth:`encode` made, of several makings perhaps."""
        count = len(partials)
        if not count:
            return cls.of_limbs(0, np.zeros((0, 1), dtype=np.int64))
        shapes = list(_shapes(partials))
        base = min(start for _, start, _, _ in shapes)
        width = max(start - base + rows.shape[1] for _, start, rows, _ in shapes)
        limbs = np.zeros((count, max(1, width)), dtype=np.int64)
        flags = np.zeros(count, dtype=np.int64)
        for chosen, start, rows, marks in shapes:
            limbs[chosen, start - base : start - base + rows.shape[1]] = rows
            flags[chosen] = marks
        return cls(base=base, limbs=limbs, flags=flags)

    def rounded(self) -> _Floats:
        """Return the sums as the floats that are nearest to them."""
        starts = range(0, len(self.limbs), _PIECE_ROWS)
        pieces = [self._slice(start, start + _PIECE_ROWS)._rounded() for start in starts]  # noqa: SLF001 - its own
        return np.concatenate([np.zeros(0), *pieces])

    def _slice(self, start: int, end: int) -> ExactSums:
        return ExactSums(base=self.base, limbs=self.limbs[start:end], flags=self.flags[start:end])

    def _rounded(self) -> _Floats:
        signs, limbs = _carried(self.limbs)
        count, width = limbs.shape
        lowest = np.argmax(limbs != 0, axis=1)
        top = width - 1 - np.argmax(limbs[:, ::-1] != 0, axis=1)
        rows = np.arange(count)
        # Two places below all others stand for the zeros that follow.
        padded = np.concatenate([np.zeros((count, 2), dtype=np.uint64), limbs.astype(np.uint64)], axis=1)
        first, second, third = (padded[rows, top + 2 - step] for step in range(3))
        # How many bits the leading limb has; one, wrongly, if there is none at all.
        bits = (first.astype(np.float64).view(np.int64) >> _FRACTION) - (_ONE - 1)
        bits = np.maximum(bits, 1)
        used, free = bits.astype(np.uint64), (_BITS - bits).astype(np.uint64)
        leading = ((first << np.uint64(_BITS)) | second) << free | (third >> used)
        rest = (third & ((np.uint64(1) << used) - np.uint64(1)) != 0) | (lowest < top - 2)
        # Sixty-four bits, the last of them set if anything follows, are rounded as the number itself would be.
        exponent = _BITS * (self.base + top - 1) - _SHIFT - (_BITS - bits)
        sums = signs * _scaled((leading | rest.astype(np.uint64)).astype(np.float64), exponent)
        sums[first == 0] = 0.0
        if not self.flags.any():
            return sums
        sums[self.flags & _POSITIVE != 0] = np.inf
        sums[self.flags & _NEGATIVE != 0] = -np.inf
        is_nan = (self.flags & _NAN != 0) | (self.flags & (_POSITIVE | _NEGATIVE) == _POSITIVE | _NEGATIVE)
        return np.where(is_nan, np.nan, sums)


def _take_leading(values: _Floats, codes: _Integers, largest: float, found: ExactSums) -> tuple[_Floats, ExactSums]:
    """Add the leading bits of numbers to sums, and return what is left of the numbers; that is nothing, mostly.

    Bits down to a fixed one are what is left when a large number is added and taken away again. So few of them are
    taken that they add up as doubles without a rounding: far cheaper than limb by limb.
    """
    leading, rest = np.empty_like(values), values.copy()
    room = 52 - len(values).bit_length()
    exponent = math.frexp(largest)[1]
    count = len(found.limbs)
    for _ in range(_LEVELS):
        unit = max(exponent - room, _LOWEST)
        large = math.ldexp(1.5, unit + 52)
        np.add(rest, large, out=leading)
        leading -= large
        rest -= leading
        sums: _Floats = np.bincount(codes, weights=leading, minlength=count).astype(np.float64, copy=False)
        found = found.plus(_summed(sums, np.arange(count), count, is_finite=True))
        if unit == _LOWEST or not rest.any():
            break
        exponent = unit
    return rest, found


def _summed(values: _Floats, codes: _Integers, count: int, *, is_finite: bool) -> ExactSums:
    """Return the sums of so few numbers that their limbs add up without a rounding, as doubles."""
    flags = np.zeros(count, dtype=np.int64)
    if not is_finite:
        for flag, found in ((_POSITIVE, np.isposinf), (_NEGATIVE, np.isneginf), (_NAN, np.isnan)):
            flags[np.unique(codes[found(values)])] |= flag
        values = np.where(np.isfinite(values), values, 0.0)
    places, parts = _split(values)
    first = int(places.min())
    width = int(places.max()) - first + _LIMBS
    limbs = np.zeros(count * width)
    at = codes * width + (places - first)
    for step, part in enumerate(parts):
        limbs += np.bincount(at + step, weights=part, minlength=len(limbs))
    return ExactSums(base=first, limbs=limbs.astype(np.int64).reshape(count, width), flags=flags)


def limb_columns(values: _Floats, base: int, width: int) -> tuple[list[_Integers], npt.NDArray[np.bool_]]:
    """Return the limbs of numbers at each of ``width`` places, and which numbers do not fit there; those have none."""
    most = math.ldexp(1.0, _BITS * (base + width - 1) - _SHIFT)
    others = ~(np.abs(values) < most)
    columns, rest = _leading_limbs(np.where(others, 0.0, values) if others.any() else values, base, width)
    if rest.any():
        # Their last bits are below the lowest place.
        others |= rest != 0
        columns, _ = _leading_limbs(np.where(others, 0.0, values), base, width)
    return columns, others


def _leading_limbs(values: _Floats, base: int, width: int) -> tuple[list[_Integers], _Floats]:
    rest, leading = values.copy(), np.empty_like(values)
    nothing = np.zeros(len(values), dtype=np.int64)
    columns = [nothing] * width
    exponent = math.frexp(float(np.abs(values).max(initial=0.0)))[1]
    top = min(max((exponent + _SHIFT) // _BITS - base, 0), width - 1)
    for at in range(top, -1, -1):
        unit = _BITS * (base + at) - _SHIFT
        large = math.ldexp(1.5, unit + 52)
        np.add(rest, large, out=leading)
        leading -= large
        rest -= leading
        leading *= math.ldexp(1.0, -unit)
        columns[at] = leading.astype(np.int64)
        if not rest.any():
            break
    return columns, rest


def _split(values: _Floats) -> tuple[_Integers, tuple[_Integers, ...]]:
    """Return the place of the lowest limb of each number, and its limbs from there on."""
    # By their bits, because the functions that take floats apart take them one by one.
    bits = np.ascontiguousarray(values).view(np.int64)
    exponent = (bits >> _FRACTION) & _EXPONENTS
    mantissa = bits & ((1 << _FRACTION) - 1)
    mantissa |= np.minimum(exponent, 1) << _FRACTION
    exponent = np.maximum(exponent, 1)
    exponent += _SHIFT - _BIAS
    shift = exponent & (_BITS - 1)
    low = (mantissa & _MASK) << shift
    high = (mantissa >> _BITS) << shift
    high += low >> _BITS
    sign = (bits >> (_WORD - 1)) | 1
    return exponent >> _PLACE_BITS, (sign * (low & _MASK), sign * (high & _MASK), sign * (high >> _BITS))


def _scaled(values: _Floats, exponents: _Integers) -> _Floats:
    """Return numbers times powers of two, in two steps because one of them may be no float."""
    half = exponents >> 1
    first, second = (((power + _ONE) << _FRACTION).view(np.float64) for power in (half, exponents - half))
    with np.errstate(over="ignore"):
        return values * first * second


def _carried(limbs: _Integers) -> tuple[_Floats, _Integers]:
    """Return the sign of each number, and its size in limbs of 32 bits each."""
    wide = np.concatenate([limbs, np.zeros((len(limbs), 2), dtype=np.int64)], axis=1)
    is_negative = _carry(wide.copy()) < 0
    wide = np.where(is_negative[:, None], -wide, wide)
    _carry(wide)
    return np.where(is_negative, -1.0, 1.0), wide


def _carry(limbs: _Integers) -> _Integers:
    carry = np.zeros(len(limbs), dtype=np.int64)
    for at in range(limbs.shape[1]):
        total = limbs[:, at] + carry
        limbs[:, at] = total & _MASK
        carry = total >> _BITS
    return carry


def _shapes(partials: pa.Array) -> Iterator[tuple[_Integers, int, _Integers, _Integers]]:
    """Yield the sums of the same form: which they are, the place of their first limb, the limbs, the flags."""
    offsets = np.frombuffer(partials.buffers()[1], np.int32)[partials.offset :][: len(partials) + 1].astype(np.int64)
    data = np.frombuffer(partials.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    for length in np.unique(lengths).tolist():
        chosen = np.flatnonzero(lengths == length)
        starts = offsets[:-1][chosen]
        if bool((np.diff(starts) == length).all()):
            raw = data[starts[0] : starts[0] + length * len(chosen)]
        else:
            raw = data[starts[:, None] + np.arange(length)]
        rows = np.ascontiguousarray(raw).view(np.int64).reshape(len(chosen), length // 8)
        heads = rows[:, 0] >> _FLAG_BITS
        for base in np.unique(heads).tolist():
            same = heads == base
            yield chosen[same], base, rows[same, 1:], rows[same, 0] & _FLAGS
