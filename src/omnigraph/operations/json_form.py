"""The JSON form of requests.

What a document says is read by the types that the fields of its request are declared with, so that it makes a record
only where one belongs, and never one that names a place of the machine that reads it. Parameters of a query stand for
themselves as far as JSON has a form for them; ``{"$": "date", "v": "2026-01-31"}`` is a value that JSON lacks, so that
they mean to a server what they mean in the process of the caller.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

from omnigraph.errors import BadValue, OmnigraphError, RemoteUnsupportedError, UsageError
from omnigraph.operations.request import Request, all_operations, check_request
from omnigraph.values import unfit

# Options that requests carry. They belong to the engine, which is loaded only when one is decoded.
_RECORDS = {
    "QueryOptions": "omnigraph.engine.query.options",
    "LoadSettings": "omnigraph.engine.load.options",
    "SentSource": "omnigraph.operations.writes",
    "Dialect": "omnigraph.engine.load.sources.dialect",
    "ExportSettings": "omnigraph.engine.export.options",
    "CompactionPolicy": "omnigraph.store.staging.compaction",
    "PageLimits": "omnigraph.history.feed.tokens",
}
_RECORD, _BASE64, _REQUEST = "$record", "$base64", "$request"
_TAG, _VALUE = "$", "v"
_SOURCES = "Sequence[Source | str]"
# The fields that hold parameters, as ``params_form`` says.
_PARAMETERS = ("params", "rows")
_INT_BITS = 64
# In bits: far below what Python refuses to write, and more than any field takes.
_LONGEST_INT = 4096


def request_to_json(request: Request[Any]) -> dict[str, Any]:
    """Return a request as JSON values.

    Raises:
        UsageError: a value has no JSON form.
    """
    try:
        return {"operation": request.operation.name, **_fields_to_json(request)}
    except RecursionError:
        details = BadValue(what="request", value=request.operation.name, expected="values that end")
        raise UsageError("the values of the request are nested too deeply", details=details) from None


def request_from_json(document: Mapping[str, Any]) -> Request[Any]:
    """Return the request that a document stands for. Bounds and choices are checked when it is executed.

    Raises:
        UsageError: there is no such operation, it has no such field, or a field holds a value of another type; the
            error names the field.
        ValueFormatError: a text holds half of a surrogate pair.
        RemoteUnsupportedError: a load names a source that is no file sent with the request.
    """
    try:
        request = _request_from_json(document, "")
    except RecursionError:
        details = BadValue(what="request", value="", expected="values that end")
        raise UsageError("the values of the request are nested too deeply", details=details) from None
    check_request(request)
    return request


def _request_from_json(document: Any, place: str) -> Request[Any]:
    if not isinstance(document, Mapping):
        raise unfit(place or "request", document, "an object with the fields of a request")
    values = dict(document)
    name = values.pop("operation", None)
    known = all_operations()
    declared = known.get(name) if isinstance(name, str) else None
    if declared is None:
        details = BadValue(what=f"{place}operation", value=ascii(name)[:100], expected=", ".join(sorted(known)))
        raise UsageError(f"unknown operation '{str(name)[:100]}'", details=details)
    request: Request[Any] = _record_from_json(declared, values, place)
    if getattr(request, "params_form", None) == "host":
        meant = {field: _host_from_json(values[field], place + field) for field in _PARAMETERS if field in values}
        request = replace(cast("Any", request), **meant)
    return request


def _fields_to_json(value: Any) -> dict[str, Any]:
    document = {one.name: getattr(value, one.name) for one in fields(value)}
    to_json = _host_to_json if document.get("params_form") == "host" else _to_json
    return {name: (to_json if name in _PARAMETERS else _to_json)(item) for name, item in document.items()}


def _to_json(value: Any) -> Any:
    if (
        value is None
        or isinstance(value, bool | float)
        or (isinstance(value, int) and value.bit_length() < _LONGEST_INT)
    ):
        return value
    for kind, encode in _ENCODERS:
        if isinstance(value, kind):
            return encode(value)
    if isinstance(value, Request):
        return {_REQUEST: request_to_json(value)}
    if is_dataclass(value) and type(value).__name__ in _RECORDS:
        return {_RECORD: type(value).__name__, **_fields_to_json(value)}
    if hasattr(value, "tolist"):
        # Scalars and arrays of numpy.
        return _to_json(value.tolist())
    raise _without_form(value)


def _without_form(value: Any) -> UsageError:
    name = type(value).__name__
    details = BadValue(what="value", value=name, expected="a JSON value")
    return UsageError(f"a value of type {name} cannot be part of a request", details=details)


# In this order: an enumeration of texts is a text too.
_ENCODERS: Sequence[tuple[type, Callable[[Any], Any]]] = (
    (Enum, lambda value: value.value),
    (str, str),
    (bytes, lambda value: {_BASE64: base64.b64encode(value).decode()}),
    (Path, str),
    (Decimal, str),
    (date, lambda value: value.isoformat()),
    (Mapping, lambda value: {str(key): _to_json(item) for key, item in value.items()}),
    (frozenset, lambda value: sorted(map(_to_json, value))),
    (Iterable, lambda value: [_to_json(item) for item in value]),
)


def _record_from_json(cls: Any, values: Mapping[str, Any], place: str) -> Any:
    known = {one.name: one for one in fields(cls)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        details = BadValue(what=f"{place}{unknown[0]}"[:100], value=unknown[0][:100], expected=", ".join(sorted(known)))
        raise UsageError(f"{cls.__name__} has no field '{unknown[0][:100]}'", details=details)
    for name, one in known.items():
        if name not in values and one.default is MISSING and one.default_factory is MISSING:
            details = BadValue(what=f"{place}{name}", value="nothing", expected=str(one.type))
            raise UsageError(f"{cls.__name__} lacks the field '{name}'", details=details)
    made = {name: _from_json(str(known[name].type), value, place + name) for name, value in values.items()}
    try:
        return cls(**made)
    except OmnigraphError as problem:
        # Options check themselves, and know only what they call a value.
        if not place or not isinstance(problem.details, BadValue):
            raise
        details = replace(problem.details, what=f"{place}{problem.details.what}")
        raise type(problem)(f"{place}{problem.message}", details=details, hint=problem.hint) from problem


def _from_json(declared: str, value: Any, place: str) -> Any:
    """Return the value of a field; a value of another type is left as it is, for the check of the whole request."""
    kinds = declared.split(" | ")
    if declared == _SOURCES:
        return [
            _sent(item, f"{place}[{number}]")
            for number, item in enumerate(value if isinstance(value, list) else [value])
        ]
    if declared == "Iterable[str | bytes]" and isinstance(value, list):
        return [_from_json("str | bytes", item, f"{place}[{number}]") for number, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if declared == "Request[Any]" and set(value) == {_REQUEST}:
        return _request_from_json(value[_REQUEST], f"{place}.")
    if "bytes" in kinds and set(value) == {_BASE64}:
        return _bytes_from_json(value[_BASE64], place)
    name = value.get(_RECORD)
    if isinstance(name, str) and name in kinds and name in _RECORDS:
        return _made(name, value, place)
    return value


def _made(name: str, value: Mapping[str, Any], place: str) -> Any:
    rest = {key: item for key, item in value.items() if key != _RECORD}
    return _record_from_json(getattr(import_module(_RECORDS[name]), name), rest, f"{place}.")


def _sent(value: Any, place: str) -> Any:
    """Return a source of a load. It names a file that was sent, in words that are no path of this machine."""
    if isinstance(value, dict) and value.get(_RECORD) == "SentSource":
        return _made("SentSource", value, place)
    details = BadValue(what=place, value=ascii(value)[:100], expected="a file that is sent with the request")
    raise RemoteUnsupportedError("a server reads no files but those that are sent to it", details=details)


def _bytes_from_json(text: Any, place: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        raise unfit(place, text, "bytes in base64") from None


class _FineMoment(datetime):
    """An instant of pandas, which has nanoseconds; they are refused where they are stored."""

    nanosecond = 0


def _host_to_json(value: Any) -> Any:
    """Return a value that a Python program gives as a parameter, so that it means the same where it arrives."""
    if value is None or isinstance(value, bool):
        return value
    for kinds, encode in _HOST_ENCODERS:
        if isinstance(value, kinds):
            return encode(value)
    for name in ("tolist", "to_pylist"):
        convert = getattr(value, name, None)
        listed = convert() if callable(convert) else None
        if isinstance(listed, list):
            return _host_to_json(listed)
    raise _without_form(value)


def _whole_to_json(value: Any) -> Any:
    number = int(value)
    return number if number.bit_length() < _INT_BITS else _tagged("int", hex(number))


def _float_to_json(value: Any) -> Any:
    number = float(value)
    return number if math.isfinite(number) else _tagged("float", repr(number))


def _mapping_to_json(value: Mapping[Any, Any]) -> Any:
    if all(isinstance(key, str) and key != _TAG for key in value):
        return {str(key): _host_to_json(item) for key, item in value.items()}
    return _tagged("map", [[_host_to_json(key), _host_to_json(item)] for key, item in value.items()])


# In this order: a datetime is a date.
_HOST_ENCODERS: Sequence[tuple[Any, Callable[[Any], Any]]] = (
    (str, str),
    (Integral, _whole_to_json),
    (Real, _float_to_json),
    (bytes | bytearray | memoryview, lambda value: _tagged("bytes", base64.b64encode(value).decode())),
    (datetime, lambda value: _tagged("datetime", [value.isoformat(), getattr(value, "nanosecond", 0)])),
    (date, lambda value: _tagged("date", value.isoformat())),
    (Decimal, lambda value: _tagged("decimal", str(value))),
    (Mapping, _mapping_to_json),
    (list | tuple, lambda value: [_host_to_json(item) for item in value]),
)


def _tagged(word: str, value: Any) -> dict[str, Any]:
    return {_TAG: word, _VALUE: value}


def _host_from_json(value: Any, place: str) -> Any:
    if isinstance(value, list):
        return [_host_from_json(item, place) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {name: _host_from_json(item, place) for name, item in value.items()}
    word = value[_TAG]
    decode = _HOST_DECODERS.get(word) if isinstance(word, str) else None
    try:
        if decode is not None and set(value) == {_TAG, _VALUE}:
            return decode(value[_VALUE], place)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        pass
    raise unfit(place, value, f"a value with one of the words {', '.join(_HOST_DECODERS)}")


def _datetime_from_json(parts: Any, place: str) -> datetime:
    del place
    text, nanosecond = parts
    found = datetime.fromisoformat(text)
    if nanosecond:
        found = _FineMoment.fromisoformat(text)
        found.nanosecond = int(nanosecond)
    return found


def _key_from_json(value: Any) -> Any:
    # No key is a list; a tuple that was one is only there to be refused.
    return tuple(map(_key_from_json, value)) if isinstance(value, list) else _host_from_json(value, "")


_HOST_DECODERS: Mapping[str, Callable[[Any, str], Any]] = {
    "int": lambda text, _: int(text, 16),
    "float": lambda text, _: float(text),
    "bytes": lambda text, _: base64.b64decode(text, validate=True),
    "datetime": _datetime_from_json,
    "date": lambda text, _: date.fromisoformat(text),
    "decimal": lambda text, _: Decimal(text),
    "map": lambda items, place: {_key_from_json(key): _host_from_json(item, place) for key, item in items},
}
