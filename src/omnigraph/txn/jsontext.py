"""JSON as the write path stores it."""

from __future__ import annotations

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
