"""The JSON form of responses: one codec for every record, which says of each value what it is.

Texts, numbers, booleans and null stand for themselves, an array is a tuple, and an object with plain keys is a mapping.
Everything else is an object with the key ``$``: a name of :mod:`~omnigraph.operations.wire.vocabulary` with the parts
of the record, or a word for a value that JSON lacks. Parts that a class does not know are left out, so that newer
servers can add some; parts that are missing have their default.

What is not data, such as rows that are still on their way, is handed to a hook, which writes a stream for it and
returns what stands for it in the document.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec

from omnigraph.errors import FormatMismatch, InternalError, ServerIncompatibleError
from omnigraph.operations.wire.vocabulary import class_named, is_known

TAG = "$"
_VALUE = "v"
_LARGEST = 1 << 63

# What reading a document fails with that is JSON and not of the form that it should have.
MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)

Hook = Callable[[Any], Any]
"""Gets a value that is not data and returns its stand-in; ``NotImplemented`` when it is none of its own either."""


def encode_value(value: Any, hook: Hook | None = None) -> Any:
    """Return a value as JSON values.

    Raises:
        InternalError: a part of it is of a class that responses do not hold.
    """
    kind = type(value)
    encode = _ENCODERS.get(kind)
    if encode is not None:
        return encode(value, hook)
    if is_known(kind):
        return _encode_known(value, hook)
    own = _OWN_FORMS.get((kind.__module__, kind.__name__))
    if own is not None:
        return _tagged(kind.__name__, own(value))
    if isinstance(value, Mapping):
        return _encode_mapping(value, hook)
    stand_in = NotImplemented if hook is None else hook(value)
    if stand_in is NotImplemented:
        raise InternalError(f"a value of type {kind.__name__} cannot be part of a response")
    return stand_in


def decode_value(value: Any, hooks: Mapping[str, Hook] | None = None) -> Any:
    """Return the value that JSON values stand for.

    Args:
        value: what :func:`encode_value` returned.
        hooks: what makes a value of a stand-in, by its word.

    Raises:
        ServerIncompatibleError: it holds a class, or a form of one, that this version does not know.
    """
    if isinstance(value, list):
        return tuple(decode_value(item, hooks) for item in value)
    if not isinstance(value, dict):
        return value
    word = value.get(TAG)
    if word is None:
        return {key: decode_value(item, hooks) for key, item in value.items()}
    try:
        hook = None if hooks is None else hooks.get(word)
        if hook is not None:
            return hook(value)
        decode = _DECODERS.get(word)
        if decode is not None:
            return decode(value[_VALUE], hooks)
        return _decode_known(word, value, hooks)
    except ServerIncompatibleError:
        raise
    except MALFORMED as error:
        raise _unreadable(word) from error


def to_bytes(document: Any) -> bytes:
    """Return JSON values as bytes."""
    try:
        return _ENCODER.encode(document)
    except (UnicodeEncodeError, OverflowError):
        # Half a surrogate pair, which only an escape can write, or a number of more than 64 bits.
        return json.dumps(document).encode()


def from_bytes(data: bytes) -> Any:
    """Return the JSON values of bytes.

    Raises:
        ServerIncompatibleError: they are none.
    """
    try:
        # It reads what every JSON text may hold, and a document is small; pieces of rows are Arrow.
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        details = FormatMismatch(what="response", expected="JSON", found=repr(data[:40]))
        raise ServerIncompatibleError("the response is not JSON", details=details) from error


def _plain_text(value: Any) -> str:
    # Names and ids are texts with a class of their own, which details of errors may hold.
    if isinstance(value, str):
        return str(value)
    raise TypeError(type(value).__name__)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain_text)


def _tagged(word: str, value: Any) -> dict[str, Any]:
    return {TAG: word, _VALUE: value}


def _encode_known(value: Any, hook: Hook | None) -> dict[str, Any]:
    name = type(value).__name__
    if isinstance(value, Enum):
        return _tagged(name, value.value)
    if isinstance(value, str):
        return _tagged(name, str(value))
    return {TAG: name, **{part: encode_value(getattr(value, part), hook) for part in _parts(type(value))}}


def _decode_known(name: str, document: Mapping[str, Any], hooks: Mapping[str, Hook] | None) -> Any:
    cls = class_named(name)
    if cls is None:
        raise _unreadable(name)
    if issubclass(cls, Enum | str):
        return cls(document[_VALUE])
    known = _parts(cls)
    return cls(**{part: decode_value(item, hooks) for part, item in document.items() if part in known})


def _parts(cls: type[Any]) -> tuple[str, ...]:
    """Return what a record is made from."""
    found = _PARTS.get(cls)
    if found is None:
        every = fields(cls) if is_dataclass(cls) else msgspec.structs.fields(cls)
        # A part that is computed from the others is computed again.
        found = _PARTS[cls] = tuple(one.name for one in every if getattr(one, "init", True))
    return found


_PARTS: dict[type, tuple[str, ...]] = {}


def _encode_mapping(value: Mapping[Any, Any], hook: Hook | None) -> dict[str, Any]:
    # A key that begins with the tag would be taken for one.
    if all(type(key) is str and not key.startswith(TAG) for key in value):
        return {key: encode_value(item, hook) for key, item in value.items()}
    return _tagged("map", [[encode_value(key, hook), encode_value(item, hook)] for key, item in value.items()])


def _decode_items(items: list[Any], hooks: Mapping[str, Hook] | None) -> list[Any]:
    return [decode_value(item, hooks) for item in items]


def _unreadable(name: str) -> ServerIncompatibleError:
    details = FormatMismatch(what="response", expected="values that this version supports", found=str(name)[:64])
    return ServerIncompatibleError(
        f"the response contains '{str(name)[:64]}', which this version cannot read", details=details
    )


def _catalog(text: str, _: object) -> Any:
    from omnigraph.catalog.codec import catalog_from_json  # noqa: PLC0415 - few responses hold one

    return catalog_from_json(text.encode())


def _encode_catalog(catalog: Any) -> str:
    from omnigraph.catalog.codec import catalog_to_json  # noqa: PLC0415 - few responses hold one

    return catalog_to_json(catalog).decode()


def _conflicts(document: Mapping[str, Any], hooks: Mapping[str, Hook] | None) -> Any:
    from omnigraph.history.merge.conflicts import Conflicts  # noqa: PLC0415 - few responses hold some

    return Conflicts(_decode_items(document["items"], hooks), total=document["total"])


def _encode_conflicts(conflicts: Any) -> dict[str, Any]:
    return {"items": [encode_value(item) for item in conflicts], "total": conflicts.total}


# Classes with a form of their own, known by where they are defined: most responses need none of them.
_OWN_FORMS: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("omnigraph.catalog.model", "Catalog"): _encode_catalog,
    ("omnigraph.history.merge.conflicts", "Conflicts"): _encode_conflicts,
}
_ENCODERS: Mapping[type, Callable[[Any, Hook | None], Any]] = {
    type(None): lambda value, _: value,
    bool: lambda value, _: value,
    str: lambda value, _: value,
    int: lambda value, _: value if -_LARGEST <= value < _LARGEST else _tagged("int", str(value)),
    float: lambda value, _: value if math.isfinite(value) else _tagged("float", repr(value)),
    tuple: lambda value, hook: [encode_value(item, hook) for item in value],
    list: lambda value, hook: _tagged("list", [encode_value(item, hook) for item in value]),
    frozenset: lambda value, hook: _tagged("set", [encode_value(item, hook) for item in sorted(value)]),
    bytes: lambda value, _: _tagged("bytes", base64.b64encode(value).decode()),
    datetime: lambda value, _: _tagged("datetime", value.isoformat()),
    date: lambda value, _: _tagged("date", value.isoformat()),
    time: lambda value, _: _tagged("time", value.isoformat()),
    timedelta: lambda value, _: _tagged("duration", [value.days, value.seconds, value.microseconds]),
    Decimal: lambda value, _: _tagged("decimal", str(value)),
}
_DECODERS: Mapping[str, Callable[[Any, Mapping[str, Hook] | None], Any]] = {
    "int": lambda text, _: int(text),
    "float": lambda text, _: float(text),
    "list": _decode_items,
    "set": lambda items, hooks: frozenset(_decode_items(items, hooks)),
    "map": lambda items, hooks: {decode_value(key, hooks): decode_value(item, hooks) for key, item in items},
    "bytes": lambda text, _: base64.b64decode(text),
    "datetime": lambda text, _: datetime.fromisoformat(text),
    "date": lambda text, _: date.fromisoformat(text),
    "time": lambda text, _: time.fromisoformat(text),
    "duration": lambda parts, _: timedelta(*parts),
    "decimal": lambda text, _: Decimal(text),
    "Catalog": _catalog,
    "Conflicts": _conflicts,
}
