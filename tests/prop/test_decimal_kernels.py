"""Kernels of decimals against fractions: every digit is right, or the error is ours."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from fractions import Fraction
from random import Random

import pyarrow as pa
import pytest

from omnigraph.engine.decimals import decimal_texts, exact_cast, to_doubles, total_units
from omnigraph.engine.query.functions.table import KERNELS
from omnigraph.errors import QueryRuntimeError
from omnigraph.ir.decimals import arithmetic_type, decimal_type, rounded_type
from omnigraph.ir.model import Apply, Constant
from omnigraph.ir.types import I64
from omnigraph.values.decimals import scaled

COUNT = 3000 if os.environ.get("OMNIGRAPH_FUZZ") == "long" else 60
# Parts of all ones are what divisions of many bits get wrong.
ODD = (2**64 - 1, 2**126 - 1, 2**96 - 1, 2**100 - 2**64, 2**64 - 2**32, 0, 1, 10**18, 10**37)
TOO_LARGE = "too large"


def half_away(value):
    doubled = abs(value) * 2
    whole = (doubled.numerator + doubled.denominator) // (2 * doubled.denominator)
    return -whole if value < 0 else whole


def expected(value, of):
    precision, scale = of.digits
    units = half_away(value * 10**scale)
    return TOO_LARGE if abs(units) >= 10**precision else scaled(units, scale)


def draw(rng):
    precision = rng.randint(1, 38)
    scale = rng.randint(0, precision)
    units = [rng.choice((*ODD, rng.randrange(10 ** rng.randint(1, precision)))) % 10**precision for _ in range(3)]
    values = [scaled(number * rng.choice((1, -1)), scale) for number in units]
    return decimal_type(precision, scale), values, pa.array(values, pa.decimal128(precision, scale))


def run(function, of, arrays, types):
    call = Apply(function=function, arguments=tuple(Constant(value=None, type=one) for one in types), type=of)
    try:
        return KERNELS[function](call, arrays, list(types))[0].as_py()
    except QueryRuntimeError:
        return TOO_LARGE


@pytest.mark.parametrize("op", "+-*/")
def test_arithmetic_is_exact_and_quotients_are_rounded_once(op):
    rng = Random(op)  # noqa: S311 - the same numbers for everyone, no secret
    compute = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__, "/": Fraction.__truediv__}[op]
    seen = 0
    for _ in range(COUNT):
        (left, ones, first), (right, twos, second) = draw(rng), draw(rng)
        of = arithmetic_type(op, left, right)
        for at in range(len(ones) if of is not None else 0):
            if op == "/" and not twos[at]:
                continue
            wanted = expected(compute(Fraction(ones[at]), Fraction(twos[at])), of)
            assert run(op, of, [first.slice(at, 1), second.slice(at, 1)], (left, right)) == wanted
            seen += 1
    assert seen > COUNT


def test_rounding_is_exact():
    rng = Random(7)  # noqa: S311 - as above
    for _ in range(COUNT):
        of, values, column = draw(rng)
        digits = rng.choice((0, 1, 2, -1, -3, 12, -38))
        unit = Fraction(10) ** -digits
        for at, value in enumerate(map(Fraction, values)):
            one = column.slice(at, 1)
            wide = rounded_type(of, digits)
            wanted = expected(half_away(value / unit) * unit, wide)
            assert run("round", wide, [one, pa.array([digits])], (of, I64)) == wanted
            whole = rounded_type(of, 0)
            assert run("floor", whole, [one], (of,)) == expected(Fraction(math.floor(value)), whole)
            assert run("ceil", whole, [one], (of,)) == expected(Fraction(math.ceil(value)), whole)
            assert run("round", whole, [one], (of,)) == expected(value, whole)


def test_casts_texts_doubles_and_sums_are_exact():
    rng = Random(8)  # noqa: S311 - as above
    for _ in range(COUNT):
        (of, values, column), (other, _, _) = draw(rng), draw(rng)
        precision, scale = other.digits
        for at, value in enumerate(values):
            units = Fraction(value) * 10**scale
            fits = units.denominator == 1 and abs(units) < 10**precision
            try:
                found = exact_cast(column.slice(at, 1), pa.decimal128(precision, scale))[0].as_py()
            except pa.ArrowInvalid:
                found = TOO_LARGE
            assert found == (scaled(int(units), scale) if fits else TOO_LARGE)
        assert to_doubles(column).to_pylist() == list(map(float, values))
        assert [Decimal(text) for text in decimal_texts(column).to_pylist()] == values
        halves = [rng.choice(ODD) % 10**37 for _ in range(2)]
        high, low = (pa.array([Decimal(half)], pa.decimal128(38, 0)) for half in halves)
        assert int(total_units(high, low)[0].as_py()) == halves[0] * 10**19 + halves[1]
        assert of.is_decimal
