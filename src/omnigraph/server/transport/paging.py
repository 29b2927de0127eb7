"""Page tokens of routes whose pages no engine knows: a record as text, for this server and every other."""

from __future__ import annotations

import base64
from typing import TypeVar

import msgspec

from omnigraph.server.transport.bodies import malformed

Place = TypeVar("Place", bound=msgspec.Struct)
_LONGEST = 4096


def encode_place(place: msgspec.Struct) -> str:
    """Return a place as text."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def decode_place(text: str, shape: type[Place]) -> Place:
    """Return the place that a text stands for. It grants nothing: what it names is checked as if it were asked for.

    Raises:
        RequestFormatError: it is none.
    """
    if len(text) <= _LONGEST:
        try:
            raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
            return msgspec.json.decode(raw, type=shape)
        except (ValueError, UnicodeError, msgspec.MsgspecError, RecursionError):
            pass
    raise malformed("page_token", text, "the token of an earlier answer")
