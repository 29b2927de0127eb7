"""The types of decimals that are computed: how many digits a sum, a product, a quotient or a mean has.

Nothing is rounded that is not said to be: sums and products keep every digit, and a value of more than 38 digits is an
error of the row that has it. Quotients and means are rounded, halves away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from omnigraph.catalog.model import INTEGERS, PropertyType, Scalar
from omnigraph.lang.gq import ast
from omnigraph.values.decimals import MAX_PRECISION, digits_of

# The digits of the largest number of each type.
_WHOLE_DIGITS = {Scalar.I32: 10, Scalar.U32: 10, Scalar.I64: 19, Scalar.U64: 20}
# So many digits more than its operands have behind the point a quotient has, and a mean.
_QUOTIENT_DIGITS, _MEAN_DIGITS = 6, 4


def decimal_type(precision: int, scale: int) -> PropertyType:
    """Return a nullable decimal type, of 38 digits where more are asked for."""
    return PropertyType(
        scalar=Scalar.DECIMAL, precision=max(1, min(precision, MAX_PRECISION)), scale=scale, nullable=True
    )


def exact_digits(of: PropertyType) -> tuple[int, int]:
    """Return the precision and scale that hold every value of an integer or decimal type."""
    return of.digits if of.is_decimal else (_WHOLE_DIGITS[of.scalar], 0)


def is_exact(of: PropertyType) -> bool:
    """Whether a type is one of integers or decimals."""
    return of.is_decimal or of.scalar in INTEGERS


def common_decimal(types: Sequence[PropertyType]) -> PropertyType:
    """Return the decimal type that holds values of all integer and decimal types.

    >>> str(common_decimal([decimal_type(5, 2), decimal_type(4, 0)]))
    'Decimal(6, 2)?'
    """
    known = [exact_digits(of) for of in types]
    scale = max(scale for _, scale in known)
    return decimal_type(max(precision - scale for precision, scale in known) + scale, scale)


def arithmetic_type(op: ast.ArithmeticOp, left: PropertyType, right: PropertyType) -> PropertyType | None:
    """Return the type of ``left op right`` with a decimal on one side at least; None if there is no such value.

    >>> price, rate = decimal_type(12, 2), decimal_type(5, 4)
    >>> [str(arithmetic_type(op, price, rate)) for op in ("+", "*", "/")]
    ['Decimal(15, 4)?', 'Decimal(17, 6)?', 'Decimal(24, 10)?']
    """
    (precision, scale), (other, fraction) = exact_digits(left), exact_digits(right)
    match op:
        case "+" | "-":
            both = max(scale, fraction)
            return decimal_type(max(precision - scale, other - fraction) + both + 1, both)
        case "*":
            return decimal_type(precision + other, scale + fraction) if scale + fraction <= MAX_PRECISION else None
        case "/":
            whole, least = precision - scale + fraction, max(scale, fraction)
            digits = max(least, min(least + _QUOTIENT_DIGITS, MAX_PRECISION - whole))
            return decimal_type(whole + digits, digits)
        case _:
            return None


def rounded_type(of: PropertyType, digits: int | None) -> PropertyType:
    """Return the type of decimals that are rounded to so many digits, if that many are known before any row is."""
    precision, scale = of.digits
    kept = scale if digits is None else max(0, min(digits, scale))
    # A nine may become a ten.
    return decimal_type(precision - scale + kept + (kept < scale or digits is None), kept)


def sum_type(of: PropertyType) -> PropertyType:
    """Return the type of a sum of decimals."""
    return decimal_type(MAX_PRECISION, of.digits[1])


def mean_type(of: PropertyType) -> PropertyType:
    """Return the type of a mean of decimals, which lies between the least and the greatest of them."""
    precision, scale = of.digits
    digits = min(scale + _MEAN_DIGITS, MAX_PRECISION - (precision - scale))
    return decimal_type(precision - scale + digits, digits)


def literal_type(literal: ast.Literal) -> PropertyType | None:
    """Return the type of the decimal, or of the list of them, that numbers are beside a decimal; None if of none.

    >>> str(literal_type(ast.FloatLiteral(value=0.1, text="0.10")))
    'Decimal(2, 2)'
    """
    if isinstance(literal, ast.FloatLiteral):
        precision, scale = digits_of(Decimal(literal.text))
        fits = precision <= MAX_PRECISION
        return PropertyType(scalar=Scalar.DECIMAL, precision=precision, scale=scale) if fits else None
    if not isinstance(literal, ast.ListLiteral):
        return None
    items = [item for item in literal.items if not isinstance(item, ast.NullLiteral)]
    found = [
        PropertyType(scalar=Scalar.I64) if isinstance(item, ast.IntegerLiteral) else literal_type(item)
        for item in items
    ]
    known = [of for of in found if of is not None]
    if len(known) < len(found) or not any(of.is_decimal for of in known):
        return None
    common = common_decimal(known)
    precision, scale = common.digits
    return PropertyType(scalar=Scalar.DECIMAL, precision=precision, scale=scale, is_list=True)
