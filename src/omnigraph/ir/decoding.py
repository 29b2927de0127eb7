"""One value against one type: the strict reader of JSON values and of host values."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Real
from typing import Any

from omnigraph.catalog.model import INTEGERS, PropertyType, Scalar
from omnigraph.errors import ValueFormatError
from omnigraph.ir.convert import INTEGER_RANGES, round_to_f32
from omnigraph.ir.types import item_type
from omnigraph.values.temporal import parse_date, parse_datetime

_DECIMAL = re.compile(r"-?[0-9]+")
_MAX_DIGITS = 64
_JAVASCRIPT_MAX = (1 << 53) - 1
_BASE64 = "base64:"
_EPOCH = date(1970, 1, 1)
_EPOCH_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


class Unfit(Exception):  # noqa: N818 - a signal inside this room; the caller knows the name to report
    """A value is not one of the type; the reason completes "does not fit <type>: …"."""

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def decode_json(value: Any, of: PropertyType, *, is_javascript: bool = False) -> Any:
    """Decode a JSON value that is not null.

    Raises:
        Unfit: the value is not of the type.
    """
    if of.is_list or of.is_vector:
        if not isinstance(value, list):
            raise Unfit(f"expected an array, found {describe_value(value)}")
        return _decode_items(value, of, lambda item, plain: decode_json(item, plain, is_javascript=is_javascript))
    if of.scalar in INTEGERS:
        return _json_integer(value, of, is_javascript=is_javascript)
    if of.scalar in {Scalar.F32, Scalar.F64}:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit(f"expected a number, found {describe_value(value)}")
        return _finite(value, of)
    return _plain(value, of)


def decode_host(value: Any, of: PropertyType) -> Any:
    """Decode a Python value that is not None; numbers may be of any numeric class, arrays of any that lists itself.

    Raises:
        Unfit: the value is not of the type.
    """
    if type(value) is str and of.is_text:
        # By far the most frequent case, before the questions about all others.
        return _plain(value, of)
    if of.is_list or of.is_vector:
        return _decode_items(_as_list(value), of, decode_host)
    if of.scalar in INTEGERS:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise Unfit(f"expected an integer, found {describe_value(value)}")
        return _in_range(int(value), of)
    if of.scalar in {Scalar.F32, Scalar.F64}:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise Unfit(f"expected a number, found {describe_value(value)}")
        return _finite(value, of)
    if of.scalar is Scalar.DATETIME and isinstance(value, datetime):
        instant = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (instant - _EPOCH_INSTANT) // timedelta(milliseconds=1)
    if of.scalar is Scalar.DATE and isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH).days
    if of.scalar is Scalar.BLOB and isinstance(value, bytes | bytearray | memoryview):
        return _BASE64 + base64.b64encode(value).decode()
    return _plain(value, of)


def describe_value(value: Any) -> str:
    """Name a value for an error without showing more of it than helps."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value.bit_length() <= 256 else "an integer of many digits"
        case float():
            return repr(value)
        case str():
            shown = value if len(value) <= 60 else value[:59] + "…"
            return f"text {shown!r}"
        case list() | tuple():
            return f"an array of {len(value)}"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _plain(value: Any, of: PropertyType) -> Any:
    if of.scalar is Scalar.BOOL:
        if not isinstance(value, bool):
            raise Unfit(f"expected true or false, found {describe_value(value)}")
        return value
    if not isinstance(value, str):
        raise Unfit(f"expected text, found {describe_value(value)}")
    try:
        value.encode()
        if of.scalar is Scalar.DATE:
            return parse_date(value)
        if of.scalar is Scalar.DATETIME:
            return parse_datetime(value)
        if of.scalar is Scalar.BLOB and value.startswith(_BASE64):
            base64.b64decode(value[len(_BASE64) :], validate=True)
    except ValueFormatError as problem:
        raise Unfit(problem.message) from problem
    except UnicodeEncodeError:
        raise Unfit("the text is not valid Unicode") from None
    except (binascii.Error, ValueError):
        raise Unfit("invalid base64 blob data") from None
    return value


def _json_integer(value: Any, of: PropertyType, *, is_javascript: bool) -> int:
    if isinstance(value, str):
        # Python refuses to read very long numbers; none of them is in range.
        if _DECIMAL.fullmatch(value) is None or len(value) > _MAX_DIGITS:
            raise Unfit(f"expected an integer or its decimal text, found {describe_value(value)}")
        return _in_range(int(value), of)
    if is_javascript and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit(f"expected an integer, found {describe_value(value)}")
    if is_javascript and abs(value) > _JAVASCRIPT_MAX:
        hint = "send the number as a decimal string"
        raise Unfit(f"{describe_value(value)} is beyond what a JavaScript number holds exactly", hint=hint)
    return _in_range(value, of)


def _in_range(value: int, of: PropertyType) -> int:
    low, high = INTEGER_RANGES[of.scalar]
    if not low <= value <= high:
        raise Unfit(f"{describe_value(value)} is out of range")
    return value


def _finite(value: Any, of: PropertyType) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number if of.scalar is Scalar.F64 else round_to_f32(number)):
        raise Unfit("the number is not finite in this type")
    return number


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    for name in ("tolist", "to_pylist"):
        convert = getattr(value, name, None)
        listed = convert() if callable(convert) else None
        if isinstance(listed, list):
            return listed
    raise Unfit(f"expected a list, found {describe_value(value)}")


def _decode_items(items: list[Any], of: PropertyType, decode: Callable[[Any, PropertyType], Any]) -> tuple[Any, ...]:
    if of.is_vector and len(items) != of.dimension:
        raise Unfit(f"expected {of.dimension} numbers, found {len(items)}")
    plain = PropertyType(scalar=Scalar.F32) if of.is_vector else item_type(of)
    decoded: list[Any] = []
    for index, item in enumerate(items):
        if item is None:
            raise Unfit(f"item {index} is null")
        try:
            decoded.append(decode(item, plain))
        except Unfit as problem:
            raise Unfit(f"item {index}: {problem.reason}", hint=problem.hint) from problem
    return tuple(decoded)
