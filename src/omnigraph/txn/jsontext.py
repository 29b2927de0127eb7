"""JSON as the write path stores it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec


def _plain(value: Any) -> str:
    # Ids and names are text of their own type; msgspec takes plain text only.
    if isinstance(value, str):
        return str.__str__(value)
    msg = f"{type(value).__name__} has no JSON form"
    raise NotImplementedError(msg)


_SEAL = b',"checksum":"%b"}'
_SEAL_LENGTH = len(_SEAL % bytes(16))
_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def encode_json(value: Any) -> bytes:
    """Return ``value`` as compact JSON."""
    return _ENCODER.encode(value)


def encode_sealed(value: dict[str, Any]) -> bytes:
    """Return an object as compact JSON that ends in a checksum of everything before it.

    >>> encode_sealed({"a": 1})
    b'{"a":1,"checksum":"1f8c00645b7df6ce"}'
    """
    body = encode_json(value)
    return body[:-1] + _SEAL % _checksum(body)


def check_seal(data: bytes, *, is_required: bool) -> None:
    """Refuse bytes that are not as :func:`encode_sealed` wrote them.

    Raises:
        ValueError: the checksum is another one, or there is none although it is required.
    """
    body, seal = data[:-_SEAL_LENGTH] + b"}", data[-_SEAL_LENGTH:]
    if b'"checksum"' not in data and not is_required:
        return
    if seal != _SEAL % _checksum(body):
        msg = "the checksum does not match"
        raise ValueError(msg)


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8).hexdigest().encode()


def shape_check(shape: type) -> Callable[[Any], None]:
    """Return what raises ``msgspec.ValidationError`` for a decoded value of another shape.

    To be called while a module is imported: the library takes a type apart when it first meets it, and threads that
    come to that moment together bring the process down.
    """
    msgspec.json.Decoder(shape)

    def check(value: Any) -> None:
        msgspec.convert(value, shape)

    return check
