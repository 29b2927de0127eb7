"""Parameters: from JSON or host values to typed ones.

Decoded values are plain: text, bool, int, float, Decimal, days for a Date, milliseconds for a DateTime, a tuple for a
list or a vector, None for NULL. A Blob stays the text that names its content.

A column whose values all have the class that its type is stored by is checked as a whole. Everything else is decoded
value by value, and a batch with something wrong in it call by call, so that the first bad call is the one reported.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import repeat
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, Self, TypeAlias

import msgspec

from omnigraph.catalog.model import INTEGERS, PropertyType, Scalar
from omnigraph.errors import BadValue, ParameterProblem, QueryParameterError, ValueFormatError
from omnigraph.ir.descriptor import Kind, kind_fields
from omnigraph.ir.types import INTEGER_RANGES, item_type, resolve_type, round_to_f32
from omnigraph.lang.gq import ast
from omnigraph.lang.parsing import nearest_name
from omnigraph.records import record
from omnigraph.values.blobs import INLINE_BLOB, inline_text
from omnigraph.values.counts import counted
from omnigraph.values.decimals import WrittenFloat, decimal_of_float, fit_decimal, parse_decimal, unscaled
from omnigraph.values.patterns import late_pattern
from omnigraph.values.temporal import PRECISION, check_precision, parse_date, parse_datetime

_DECIMAL = late_pattern(r"-?[0-9]+")
_MAX_DIGITS = 64
_JAVASCRIPT_MAX = (1 << 53) - 1
_EPOCH = date(1970, 1, 1)
_EPOCH_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
_CUT = "cut it to milliseconds before it is sent"
# Numbers with a fraction keep the digits that are written.
_JSON = msgspec.json.Decoder(float_hook=WrittenFloat)


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
    if of.is_decimal:
        return _json_decimal(value, of, is_javascript=is_javascript)
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
    if of.is_numeric:
        return _host_number(value, of)
    if of.scalar is Scalar.DATETIME and isinstance(value, datetime):
        return _instant(value)
    if of.scalar is Scalar.DATE and isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH).days
    if of.scalar is Scalar.BLOB and isinstance(value, bytes | bytearray | memoryview):
        return inline_text(value)
    return _plain(value, of)


def _host_number(value: Any, of: PropertyType) -> int | float | Decimal:
    if of.is_decimal:
        return _host_decimal(value, of)
    if of.scalar in INTEGERS:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise Unfit(f"expected an integer, found {describe_value(value)}")
        return _in_range(int(value), of)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise Unfit(f"expected a number, found {describe_value(value)}")
    return _finite(value, of)


def _instant(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    micros = (aware - _EPOCH_INSTANT) // timedelta(microseconds=1)
    # A timestamp of pandas is a datetime that has nanoseconds beside its microseconds.
    nanos = micros * 1000 + getattr(value, "nanosecond", 0)
    try:
        from fractions import Fraction  # noqa: PLC0415 - few parameters need it

        return check_precision(Fraction(nanos, 1_000_000))
    except ValueFormatError as problem:
        raise Unfit(problem.message, hint=_CUT) from problem


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
            return repr(float(value))
        case Decimal():
            return str(value)
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
        if of.scalar is Scalar.BLOB and value.startswith(INLINE_BLOB):
            base64.b64decode(value[len(INLINE_BLOB) :], validate=True)
    except ValueFormatError as problem:
        is_fine = isinstance(problem.details, BadValue) and problem.details.what == PRECISION
        raise Unfit(problem.message, hint=_CUT if is_fine else None) from problem
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
        raise Unfit(f"{describe_value(value)} is too large for an exact JavaScript number", hint=hint)
    return _in_range(value, of)


def _json_decimal(value: Any, of: PropertyType, *, is_javascript: bool) -> Decimal:
    if is_javascript and isinstance(value, int) and abs(value) > _JAVASCRIPT_MAX:
        reason = f"{describe_value(value)} is too large for an exact JavaScript number"
        raise Unfit(reason, hint="send the number as a text")
    if isinstance(value, float):
        exact = decimal_of_float(value)
        if exact is None:
            raise Unfit(f"{describe_value(value)} might have lost digits", hint="send the number as a text")
        return _fit_digits(exact, of)
    return _host_decimal(value, of)


def _host_decimal(value: Any, of: PropertyType) -> Decimal:
    if isinstance(value, Decimal) and value.is_finite():
        return _fit_digits(value, of)
    if not isinstance(value, bool) and isinstance(value, Integral):
        return _fit_digits(Decimal(int(value)), of)
    if isinstance(value, str):
        try:
            return _fit_digits(parse_decimal(value), of)
        except ValueFormatError as problem:
            raise Unfit(problem.message) from problem
    hint = "pass a decimal.Decimal, or the number as text" if isinstance(value, Real) else None
    raise Unfit(f"expected a decimal number, found {describe_value(value)}", hint=hint)


def _fit_digits(value: Decimal, of: PropertyType) -> Decimal:
    fitted = fit_decimal(value, *of.digits)
    if fitted is None:
        _, scale = of.digits
        is_finer = unscaled(value, scale) is None
        reason = f"has more than {counted(scale, 'digit')} after the point" if is_finer else "is out of range"
        raise Unfit(f"{describe_value(value)} {reason}")
    return fitted


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


# From here on a number is infinite in single precision: half a step above the largest one.
_F32_BOUND = float((2 - 2**-24) * 2.0**127)


def _decode_items(items: list[Any], of: PropertyType, decode: Callable[[Any, PropertyType], Any]) -> tuple[Any, ...]:
    if of.is_vector and len(items) != of.dimension:
        raise Unfit(f"expected {of.dimension} numbers, found {len(items)}")
    if of.is_vector and all(type(item) is float and -_F32_BOUND < item < _F32_BOUND for item in items):
        # Nearly every vector; asking each of its numbers everything that a number may be takes far longer.
        return tuple(items)
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


Mode = Literal["strict", "javascript"]
ParamsForm = Literal["host", "strict", "javascript"]
ParameterTypes: TypeAlias = Mapping[str, PropertyType]
Decode: TypeAlias = Callable[[Any, PropertyType], Any]


@record
class ParameterType:
    """A declared parameter with its resolved type."""

    name: str
    type: PropertyType

    def descriptor(self) -> dict[str, Any]:
        """Return what catalogues and tool listings say of this parameter."""
        fields: dict[str, Kind | int] = kind_fields(self.type)
        return {"name": self.name, **fields, "nullable": self.type.nullable}


def parameter_types(decls: Sequence[ast.Parameter]) -> tuple[ParameterType, ...]:
    """Resolve declared types, in declaration order.

    Raises:
        QueryParameterError: a type that does not exist; the checker refuses it with its place.
    """
    resolved: list[ParameterType] = []
    for decl in decls:
        of = resolve_type(decl.type)
        if of is None:
            raise _problem(decl.name, "a known type", decl.type.scalar, "has an unknown type")
        resolved.append(ParameterType(name=decl.name, type=of))
    return tuple(resolved)


def decode_parameter_text(text: str | bytes) -> Any:
    """Read JSON text that should hold parameters; the shape is checked by :func:`decode_parameters`.

    Raises:
        QueryParameterError: not JSON, or nested too deeply to be parameters.
    """
    try:
        return _JSON.decode(text.encode() if isinstance(text, str) else text)
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise _problem("", "a JSON object", "text", f"are not valid JSON: {problem}") from problem
    except RecursionError:
        raise _problem("", "a JSON object", "text", "are nested too deeply") from None


def decode_parameters(decls: Sequence[ast.Parameter], json_value: Any, mode: Mode = "strict") -> Mapping[str, Any]:
    """Decode a JSON value into the declared parameters.

    Args:
        decls: the declarations of the query.
        json_value: an object keyed by bare names, or None for no parameters.
        mode: ``javascript`` takes integral floats for integers and refuses integers that such a client cannot hold.

    Returns:
        A value for every declared name.

    Raises:
        QueryParameterError: not an object, a missing required parameter, or a value that does not fit.
    """
    return decode_call({item.name: item.type for item in parameter_types(decls)}, json_value, mode)


def bind_parameters(decls: Sequence[ast.Parameter], values: Any) -> Mapping[str, Any]:
    """Check a mapping of host values against the declarations, as :func:`decode_parameters` does for JSON.

    Dates and datetimes may be given as such or as text, bytes stand for a Blob, and arrays for lists and vectors.

    Raises:
        QueryParameterError: a missing required parameter, or a value that does not fit.
    """
    return decode_call({item.name: item.type for item in parameter_types(decls)}, values, "host")


def decode_call(types: ParameterTypes, given: Any, form: ParamsForm) -> dict[str, Any]:
    """Decode the parameters of one call.

    Args:
        types: the declared parameters, as a checked query holds them.
        given: values by bare name, or None for no parameters.
        form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.

    Returns:
        A value for every declared name.

    Raises:
        QueryParameterError: a missing required parameter, one that is not declared, or a value that does not fit.
    """
    is_host = form == "host"
    if given is not None and not isinstance(given, dict) and not (is_host and isinstance(given, Mapping)):
        expected, what = ("a mapping", "a mapping") if is_host else ("a JSON object", "an object")
        raise _problem("", expected, describe_value(given), f"must be {what} keyed by parameter name")
    values: Mapping[str, Any] = given or {}
    has_others = not types.keys() >= values.keys()
    if has_others:
        _check_names(values)
    decode = decoder_of(form)
    decoded = {name: _decode_one(name, of, values, decode) for name, of in types.items()}
    if has_others:
        # A name that is missing says more than one that is misspelt.
        raise next(_undeclared(name, value, types) for name, value in values.items() if name not in types)
    return decoded


def decoder_of(form: ParamsForm) -> Decode:
    """Return what decodes one value that is not null; it raises :class:`Unfit`."""
    if form == "host":
        return decode_host
    return decode_json if form == "strict" else partial(decode_json, is_javascript=True)


def _check_names(given: Mapping[str, Any]) -> None:
    for name in given:
        if not isinstance(name, str):
            raise _problem(str(name), "a name", describe_value(name), "does not have a text name")


def _decode_one(name: str, of: PropertyType, given: Mapping[str, Any], decode: Decode) -> Any:
    value = given.get(name)
    if value is None:
        if of.nullable:
            return None
        if name not in given:
            raise _missing(name, of, given)
        raise _problem(name, str(of), "null", f"is null, but {of} is not optional")
    try:
        return decode(value, of)
    except Unfit as problem:
        found = describe_value(value)
        hint = problem.hint
        message = f"does not fit {of}: {problem.reason}"
        raise _problem(name, str(of), found, message, hint=hint) from problem


def _undeclared(name: str, value: Any, types: ParameterTypes) -> QueryParameterError:
    bare = name.removeprefix("$")
    near = bare if bare in types else nearest_name(name, types)
    known = ", ".join(types)
    hint = f"did you mean '{near}'?" if near else f"the query declares {known}" if known else "the query declares none"
    return _problem(name, "a declared parameter", describe_value(value), "is not declared", hint=hint)


def _missing(name: str, of: PropertyType, given: Mapping[str, Any]) -> QueryParameterError:
    near = f"${name}" if f"${name}" in given else nearest_name(name, given)
    hint = (
        f"the call has '{near}'; write '{name}'"
        if near
        else f"pass a value for '{name}', or declare it optional with '?'"
    )
    return _problem(name, str(of), "nothing", "is required but missing", hint=hint)


def _problem(name: str, expected: str, found: str, message: str, *, hint: str | None = None) -> QueryParameterError:
    subject = f"parameter '{name}'" if name else "parameters"
    details = ParameterProblem(name=name, expected=expected, found=found)
    return QueryParameterError(f"{subject} {message}", details=details, hint=hint)


_F32_MAX = 3.4028234663852886e38
_MAX_EXACT = {"host": math.inf, "strict": math.inf, "javascript": (1 << 53) - 1}


@record
class ParameterRows:
    """Decoded values of several calls: a column per declared name with a place per call."""

    columns: Mapping[str, Sequence[Any]]
    count: int

    @classmethod
    def of_one(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the decoded parameters of a single call."""
        return cls(columns={name: (value,) for name, value in parameters.items()}, count=1)

    def row(self, number: int) -> dict[str, Any]:
        """Return the parameters of one call, counted from 0."""
        return {name: column[number] for name, column in self.columns.items()}


def decode_calls(types: ParameterTypes, rows: Any, form: ParamsForm) -> ParameterRows:
    """Decode the parameters of many calls, each as :func:`decode_call` does.

    Args:
        types: the declared parameters, as a checked query holds them.
        rows: a sequence with what each call is given.
        form: as for :func:`decode_call`.

    Raises:
        QueryParameterError: a missing required parameter, or a value that does not fit; names the first such call.
    """
    # A stream is refused too: whoever has to decode again would find it empty.
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
        found = describe_value(rows)
        details = ParameterProblem(name="", expected="a sequence of mappings", found=found)
        raise QueryParameterError("parameters of a batch must be a sequence of mappings", details=details)
    if all(type(row) is dict and types.keys() >= row.keys() for row in rows):
        try:
            columns = {name: _column(of, [row.get(name) for row in rows], form) for name, of in types.items()}
            return ParameterRows(columns=columns, count=len(rows))
        except Unfit:
            # The call by call reading says which one it is.
            pass
    decoded = [_decode_row(types, row, number, form) for number, row in enumerate(rows, 1)]
    return ParameterRows(columns={name: [row[name] for row in decoded] for name in types}, count=len(decoded))


def _decode_row(types: ParameterTypes, row: Any, number: int, form: ParamsForm) -> dict[str, Any]:
    try:
        return decode_call(types, row, form)
    except QueryParameterError as problem:
        details = replace(problem.details, row=number)
        raise QueryParameterError(f"row {number}: {problem.message}", details=details, hint=problem.hint) from problem


def _column(of: PropertyType, values: list[Any], form: ParamsForm) -> list[Any]:
    """Return the decoded column; raises :class:`Unfit` without saying where."""
    kinds = set(map(type, values))
    if NoneType in kinds:
        if not of.nullable:
            raise Unfit("a value is missing")
        kinds.discard(NoneType)
    if not kinds or _is_decoded(of, kinds, values, form):
        return values
    decode = decoder_of(form)
    if kinds == {str}:
        return _decode_texts(of, values, decode)
    return [None if value is None else decode(value, of) for value in values]


def _is_decoded(of: PropertyType, kinds: set[type], values: list[Any], form: ParamsForm) -> bool:
    """Whether every value is what decoding would make of it, as far as a look at the whole column can tell."""
    if of.is_list:
        return False
    # By identity: an array of numpy says of each of its numbers whether it equals something.
    present = [value for value in values if value is not None]
    if of.scalar is Scalar.STRING and kinds == {str}:
        return _is_unicode(present)
    if of.scalar is Scalar.BOOL:
        return kinds == {bool}
    if of.scalar in INTEGERS and kinds == {int}:
        low, high = INTEGER_RANGES[of.scalar]
        exact = _MAX_EXACT[form]
        return bool(max(low, -exact) <= min(present) and max(present) <= min(high, exact))
    if of.scalar in {Scalar.F32, Scalar.F64} and kinds == {float}:
        bound = _F32_MAX if of.scalar is Scalar.F32 else math.inf
        return math.isfinite(sum(present)) and max(map(abs, present)) <= bound
    return False


def _is_unicode(texts: list[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode_texts(of: PropertyType, values: list[Any], decode: Decode) -> list[Any]:
    # Dates repeat: each is read once.
    known = dict(zip(distinct := set(values) - {None}, map(decode, distinct, repeat(of)), strict=True))
    return [known.get(value) for value in values]
