"""JSON as the write path stores it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


def _plain(value: Any) -> str:
    # Ids and names are text of their own type; msgspec takes plain text only.
    if isinstance(value, str):
        return str.__str__(value)
    msg = f"{type(value).__name__} has no JSON form"
    raise NotImplementedError(msg)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def encode_json(value: Any) -> bytes:
    """Return ``value`` as compact JSON."""
    return _ENCODER.encode(value)


def shape_check(shape: type) -> Callable[[Any], None]:
    """Return what raises ``msgspec.ValidationError`` for a decoded value of another shape.

    To be called while a module is imported: the library takes a type apart when it first meets it, and threads that
    come to that moment together bring the process down.
    """
    msgspec.json.Decoder(shape)

    def check(value: Any) -> None:
        msgspec.convert(value, shape)

    return check
