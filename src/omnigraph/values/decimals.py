"""Decimal numbers: texts to exact values and back, and whether a value fits so many digits.

The decimal module rounds to the digits of a context wherever it computes; nothing here does. Whoever needs to compute
takes the unscaled integer of a value.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import Self

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.values.patterns import late_pattern

MAX_PRECISION = 38
# So many digits every 64-bit float tells apart: a number that was written with no more of them is known from the float.
_FLOAT_DIGITS = 15
# No number that fits has a longer text, unless it is padded with zeros.
_MAX_TEXT = 400
_NUMBER = late_pattern(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", re.ASCII)
_EXACT = Context(prec=1000)


class WrittenFloat(float):
    """A float that was read from a text, and still knows it."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Read the number.

        Raises:
            ValueError: no float is large enough.
        """
        number = super().__new__(cls, text)
        if number in {float("inf"), float("-inf")}:
            msg = "Number out of range"
            raise ValueError(msg)
        number.text = text
        return number

    def __reduce__(self) -> tuple[type[WrittenFloat], tuple[str]]:
        return WrittenFloat, (self.text,)


def parse_decimal(text: str) -> Decimal:
    """Return exactly the number that ``text`` writes.

    Raises:
        ValueFormatError: not a decimal number, or one of so many digits that no Decimal holds it.

    >>> parse_decimal("1.50"), parse_decimal("-2e3")
    (Decimal('1.50'), Decimal('-2E+3'))
    """
    if len(text) > _MAX_TEXT or _NUMBER.fullmatch(text) is None:
        shown = text if len(text) <= 80 else text[:79] + "…"
        details = BadValue(what="Decimal", value=shown, expected="a decimal number such as 12.50")
        raise ValueFormatError(f"invalid Decimal '{shown}': expected a decimal number such as 12.50", details=details)
    return Decimal(text)


def decimal_of_float(value: float) -> Decimal | None:
    """Return the number that a float of JSON was written as, or None when the float no longer tells.

    >>> decimal_of_float(0.1), decimal_of_float(0.1 + 0.2)
    (Decimal('0.1'), None)
    """
    if isinstance(value, WrittenFloat):
        return Decimal(value.text) if len(value.text) <= _MAX_TEXT else None
    written = Decimal(repr(value))
    return (
        written if written.is_finite() and len(written.normalize(_EXACT).as_tuple().digits) <= _FLOAT_DIGITS else None
    )


def unscaled(value: Decimal | int, scale: int) -> int | None:
    """Return how many units of the last of ``scale`` digits behind the point a number has; None if that is no integer.

    >>> unscaled(Decimal("1.5"), 2), unscaled(Decimal("1.555"), 2)
    (150, None)
    """
    if isinstance(value, int):
        return value * _power(scale)
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    number = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    if number == 0:
        return 0
    if shift < 0:
        if -shift > len(digits):
            return None
        number, rest = divmod(number, _power(-shift))
        if rest:
            return None
    elif shift > _MAX_TEXT:
        # Further from zero than any number that fits.
        number = _power(_MAX_TEXT)
    else:
        number *= _power(shift)
    return -number if sign else number


def _power(digits: int) -> int:
    power: int = 10**digits
    return power


def scaled(number: int, scale: int) -> Decimal:
    """Return the number of so many units of the last of ``scale`` digits behind the point.

    >>> scaled(-150, 2)
    Decimal('-1.50')
    """
    return Decimal(number).scaleb(-scale, _EXACT)


def fit_decimal(value: Decimal | int, precision: int, scale: int) -> Decimal | None:
    """Return a number with exactly ``scale`` digits behind the point, or None if it has more or is too large.

    >>> fit_decimal(Decimal("1.5"), 4, 2), fit_decimal(Decimal("1.555"), 4, 2), fit_decimal(100, 4, 2)
    (Decimal('1.50'), None, None)
    """
    number = unscaled(value, scale)
    return None if number is None or abs(number) >= 10**precision else scaled(number, scale)


def digits_of(value: Decimal) -> tuple[int, int]:
    """Return the precision and scale of the smallest type that holds a number.

    >>> digits_of(Decimal("0.05")), digits_of(Decimal("1E+3")), digits_of(Decimal("-12.50"))
    ((2, 2), (4, 0), (4, 2))
    """
    _, digits, exponent = value.as_tuple()
    power = exponent if isinstance(exponent, int) else 0
    scale = max(0, -power)
    return max(len(digits) + max(0, power), scale, 1), scale


def round_half_away(number: int, divisor: int) -> int:
    """Return a quotient as the nearest integer, halves away from zero.

    >>> round_half_away(5, 2), round_half_away(-5, 2), round_half_away(4, 3)
    (3, -3, 1)
    """
    quotient, rest = divmod(abs(number), abs(divisor))
    quotient += 2 * rest >= abs(divisor)
    return -quotient if (number < 0) != (divisor < 0) else quotient


def decimal_text(value: Decimal) -> str:
    """Return a number as people write it: all its digits, never an exponent.

    >>> decimal_text(Decimal("1E-7")), decimal_text(Decimal("1.50")), decimal_text(Decimal("-0.0"))
    ('0.0000001', '1.50', '0.0')
    """
    return format(value or value.copy_abs(), "f")


def canonical_decimal(value: Decimal) -> str:
    """Return the one text of a number, however many zeros it has behind its last digit.

    >>> canonical_decimal(Decimal("1.50")), canonical_decimal(Decimal("-100.00")), canonical_decimal(Decimal("0.00"))
    ('1.5', '-100', '0')
    """
    text = decimal_text(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
