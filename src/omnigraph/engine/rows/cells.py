"""One JSON value into the value that a column stores.

Dates become day counts and instants millisecond counts, as everywhere below this room. A value that does not fit
raises :class:`ValueFormatError`, whose details name the rule in ``what`` and the value.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_never

import numpy as np

from omnigraph.catalog.model import PropertyDef, PropertyType, Scalar
from omnigraph.engine.external_blobs import current_intake, shown_address
from omnigraph.errors import BadValue, ExternalBlobError, ExternalBlobSourceError, ValueFormatError, Violation
from omnigraph.records import record
from omnigraph.values.blobs import INLINE_BLOB, external_address
from omnigraph.values.counts import counted
from omnigraph.values.decimals import WrittenFloat, decimal_of_float, fit_decimal, parse_decimal, unscaled
from omnigraph.values.temporal import PRECISION, check_date_range, check_precision, parse_date, parse_datetime

# As many problems of one input are looked at; what is wrong so often is wrong as a whole, and looking costs time.
MAX_PROBLEMS = 100_000

_SHOWN = 80


@record
class RowProblem:
    """One row that cannot be read: where it stands, the rule it breaks, and the value that breaks it.

    ``line`` counts from 1: lines of a JSONL or CSV file, of which a record has its first; rows of a Parquet file. Rows
    that a program hands over count from 0, and have no line for their columns as such. ``more`` is what else is wrong
    with the row, in other columns.
    """

    line: int | None
    rule: str
    message: str
    type_name: str = ""
    property: str | None = None
    value: str | None = None
    more: tuple[RowProblem, ...] = ()

    def violation(self, source: str) -> Violation:
        """Return the problem as errors carry it."""
        return Violation(
            rule=self.rule,
            type_name=self.type_name,
            message=self.message,
            property=self.property,
            value=self.value,
            source=source,
            line=self.line,
        )

    def violations(self, source: str) -> Iterator[Violation]:
        """Return the problem, and what else is wrong with the row, as errors carry them."""
        yield self.violation(source)
        for other in self.more:
            yield from other.violations(source)


def as_one(problems: Sequence[RowProblem]) -> RowProblem | None:
    """Return several problems of one row as its first with the others behind it; None when there are none."""
    return replace(problems[0], more=tuple(problems[1:])) if problems else None


def show(value: Any) -> str:
    """Return a value as messages show it: short, whatever its size.

    >>> show("a" * 200)[-3:], show([1, 2]), show(True)
    ('a…"', 'an array', 'true')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"' if len(value) <= _SHOWN else f'"{value[:_SHOWN]}…"'
        case bytes():
            return show(value[: _SHOWN + 1].decode(errors="replace"))
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            text = value.text if isinstance(value, WrittenFloat) else str(value)
            return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def kind_of(value: Any) -> str:
    """Return what a JSON value is, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float() | Decimal():
            return "a number with a fraction or exponent"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


INTEGER_RANGES = {
    Scalar.I32: (-(1 << 31), (1 << 31) - 1, "Int32"),
    Scalar.I64: (-(1 << 63), (1 << 63) - 1, "Int64"),
    Scalar.U32: (0, (1 << 32) - 1, "UInt32"),
    Scalar.U64: (0, (1 << 64) - 1, "UInt64"),
}
EXTERNAL_BLOB_RULE = "external_blob_policy"
BLOB_SOURCE_RULE = "external_blob_source"


def read_cell(prop: PropertyDef, value: Any, *, truncate: bool = False) -> Any:
    """Return what the column of ``prop`` stores for a JSON value that is not null.

    Args:
        prop: the property.
        value: a JSON value; an instant may be a fraction of milliseconds as well.
        truncate: cut instants to milliseconds; otherwise finer ones do not fit.

    Raises:
        ValueFormatError: the value does not fit the property's type.
    """
    kind = prop.type
    if kind.is_vector:
        return _vector(prop, value)
    if not kind.is_list:
        return read_scalar(prop, value, truncate=truncate)
    if not isinstance(value, list):
        raise refused("type", value, f"property '{prop.name}' expects a JSON array, got {kind_of(value)}")
    items = []
    for at, item in enumerate(value):
        try:
            items.append(read_scalar(prop, item, truncate=truncate))
        except ValueFormatError as error:
            text = f"property '{prop.name}' has a null or invalid item at [{at}]: {error}"
            details = error.details
            if isinstance(details, BadValue) and details.what == PRECISION:
                raise ValueFormatError(text, details=details) from error
            raise refused("type", item, text) from error
    return items


def read_scalar(prop: PropertyDef, value: Any, *, truncate: bool = False) -> Any:  # noqa: C901, PLR0912 - a table: one case per scalar type
    """Return what is stored for one value, or one item of a list.

    Raises:
        ValueFormatError: the value does not fit the scalar type.
    """
    scalar = prop.type.scalar
    match scalar:
        case Scalar.STRING:
            if isinstance(value, str):
                return value
        case Scalar.BOOL:
            if isinstance(value, bool):
                return value
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            if isinstance(value, int) and not isinstance(value, bool):
                return _integer(prop, scalar, value)
        case Scalar.F32 | Scalar.F64:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return _float(prop.name, scalar, value)
        case Scalar.DECIMAL:
            if isinstance(value, int | float | str | Decimal) and not isinstance(value, bool):
                return _decimal(prop, value)
        case Scalar.DATE | Scalar.DATETIME:
            if isinstance(value, int | str | Fraction) and not isinstance(value, bool):
                return read_temporal(scalar, value, truncate=truncate)
        case Scalar.BLOB:
            return _blob(prop, value)
        case Scalar.VECTOR:
            return _vector(prop, value)
        case _:
            assert_never(scalar)
    raise refused("type", value, f"property '{prop.name}' expects {_expected(prop.type)}, got {kind_of(value)}")


def read_temporal(scalar: Scalar, value: int | str | Fraction, *, truncate: bool = False) -> int:
    """Return the days or milliseconds that a text or a count stands for.

    Raises:
        ValueFormatError: malformed text, out of range, or finer than a millisecond.
    """
    if isinstance(value, str):
        return parse_date(value) if scalar is Scalar.DATE else _instant(parse_datetime(value, truncate=truncate))
    if isinstance(value, Fraction):
        value = check_precision(value, truncate=truncate)
    if scalar is Scalar.DATE:
        return check_date_range(value)
    return _instant(value)


def refused(rule: str, value: Any, message: str) -> ValueFormatError:
    """Return the error for a value that breaks a rule of its column."""
    return ValueFormatError(message, details=BadValue(what=rule, value=show(value), expected=""))


def _expected(kind: PropertyType) -> str:
    return str(kind) if not kind.is_list else str(kind.single)


def _integer(prop: PropertyDef, scalar: Scalar, value: int) -> int:
    low, high, name = INTEGER_RANGES[scalar]
    if not low <= value <= high:
        raise refused("type", value, f"value {show(value)} of property '{prop.name}' exceeds {name} range")
    return value


def _float(name: str, scalar: Scalar, value: float) -> float:
    try:
        wide = float(value)
    except OverflowError:
        wide = math.inf
    if scalar is Scalar.F32:
        with np.errstate(over="ignore"):
            wide = float(np.float32(wide))
    if math.isnan(wide):
        raise refused("type", value, f"value of property '{name}' is not a number: NaN")
    if not math.isfinite(wide):
        width = "Float32" if scalar is Scalar.F32 else "Float64"
        raise refused("type", value, f"value {show(value)} of property '{name}' exceeds {width} range")
    return wide


def _decimal(prop: PropertyDef, value: float | str | Decimal) -> Decimal:
    """Return exactly the number that was written, which must have no more digits than the type."""
    try:
        exact = parse_decimal(value) if isinstance(value, str) else _exact(value)
    except ValueFormatError as error:
        raise refused("type", value, f"property '{prop.name}' expects {_expected(prop.type)}, got a string") from error
    precision, scale = prop.type.digits
    fitted = None if exact is None else fit_decimal(exact, precision, scale)
    if exact is None:
        text = f"value {show(value)} of property '{prop.name}' might have lost digits; write it as a string"
        raise refused("type", value, text)
    if fitted is None and unscaled(exact, scale) is None:
        text = f"value {show(value)} of property '{prop.name}' has more than {counted(scale, 'digit')} after the point"
        raise refused("type", value, text)
    if fitted is None:
        name = _expected(prop.type).removesuffix("?")
        raise refused("type", value, f"value {show(value)} of property '{prop.name}' exceeds {name} range")
    return fitted


def _exact(value: float | Decimal) -> Decimal | None:
    if isinstance(value, float):
        return decimal_of_float(value)
    exact = Decimal(value)
    return exact if exact.is_finite() else None


def _instant(value: int) -> int:
    low, high, name = INTEGER_RANGES[Scalar.I64]
    if not low <= value <= high:
        raise refused("type", value, f"DateTime value {show(value)} exceeds {name} range")
    return value


def _vector(prop: PropertyDef, value: Any) -> list[float]:
    if not isinstance(value, list):
        raise refused("type", value, f"property '{prop.name}' expects a JSON array, got {kind_of(value)}")
    dimension = prop.type.dimension
    if len(value) != dimension:
        text = f"property '{prop.name}' expects {dimension} dimensions, got {len(value)}"
        raise refused("type", value, text)
    for at, item in enumerate(value):
        if not isinstance(item, int | float) or isinstance(item, bool):
            text = f"property '{prop.name}' has {kind_of(item)} at [{at}]: elements must be numeric"
            raise refused("type", item, text)
    return [_float(prop.name, Scalar.F32, item) for item in value]


def _blob(prop: PropertyDef, value: Any) -> bytes:
    if not isinstance(value, str):
        raise refused("type", value, f"property '{prop.name}' must be a URI string or base64, got {kind_of(value)}")
    if not value.startswith(INLINE_BLOB):
        return take_external(prop.name, value)
    try:
        content = base64.b64decode(value[len(INLINE_BLOB) :].encode(), validate=True)
    except (binascii.Error, ValueError) as error:
        text = f"property '{prop.name}' holds invalid base64 blob data: {str(error).lower()}"
        raise refused("type", value, text) from error
    address = external_address(content)
    return content if address is None else take_external(prop.name, address)


def take_external(name: str, address: str) -> bytes:
    """Return what a Blob stores that is given as an address outside of the graph.

    Raises:
        ValueFormatError: it is not allowed, or its object cannot be read.
        SourceTooLargeError: too much is copied by one write.
    """
    try:
        return current_intake().take(address)
    except ExternalBlobError as error:
        text = f"property '{name}': {error.message}; use {INLINE_BLOB}…"
        raise _refused_address(EXTERNAL_BLOB_RULE, address, text) from error
    except ExternalBlobSourceError as error:
        raise _refused_address(BLOB_SOURCE_RULE, address, f"property '{name}': {error.message}") from error


def _refused_address(rule: str, address: str, message: str) -> ValueFormatError:
    return ValueFormatError(message, details=BadValue(what=rule, value=shown_address(address), expected=""))
