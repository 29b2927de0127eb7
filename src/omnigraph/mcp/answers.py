"""Answers that fit a context: rows within two caps, and a continuation that goes on in the same snapshot."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec

from omnigraph.errors import AnswerTooLargeError, BadValue, ContinuationError, LimitExceeded
from omnigraph.records import record

DEFAULT_ROWS = 100
MOST_ROWS = 1000
DEFAULT_BYTES = 64 << 10
MOST_BYTES = 1 << 20
LONGEST_CONTINUATION = 1024

MaxRows = Annotated[
    int,
    msgspec.Meta(
        ge=1, le=MOST_ROWS, description=f"Maximum number of rows, up to {MOST_ROWS}; use the continuation for the rest."
    ),
]
MaxBytes = Annotated[
    int,
    msgspec.Meta(ge=1024, le=MOST_BYTES, description=f"Maximum size of the rows in bytes, up to {MOST_BYTES}."),
]
GoOn = Annotated[
    Annotated[str, msgspec.Meta(max_length=LONGEST_CONTINUATION)] | None,
    msgspec.Meta(
        description=(
            "The continuation of the previous answer, to get its next rows; send the same text, name and params."
        ),
    ),
]


class Continuation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where rows go on: the snapshot, how many rows came before, and which query they belong to.

    The checksum finds damage and hides nothing. A forged one is harmless: it can name a snapshot and a row, and the
    policy decides about reading them as if they were named.
    """

    commit: str
    offset: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
    query: str
    schema: Literal["current", "commit"]
    version: Literal[1] = 1

    def encode(self) -> str:
        """Return it as text."""
        data = msgspec.json.encode(self)
        return base64.urlsafe_b64encode(_checksum(data) + data).decode().rstrip("=")


def decode_continuation(text: str, query: str) -> Continuation:
    """Return where a query goes on.

    Raises:
        ContinuationError: the text is damaged, or belongs to another query.
    """
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if _checksum(raw[_CHECKSUM:]) != raw[:_CHECKSUM]:
            raise _unfit(text, "it is damaged")
        found = msgspec.json.decode(raw[_CHECKSUM:], type=Continuation)
    except (ValueError, msgspec.DecodeError) as problem:
        raise _unfit(text, "it is damaged") from problem
    if found.query != query:
        raise _unfit(text, "it belongs to another query")
    return found


def query_digest(*parts: Any) -> str:
    """Return what tells a query with its parameters from others."""
    data = msgspec.json.encode(parts, order="deterministic", enc_hook=str)
    return hashlib.blake2b(data, digest_size=12).hexdigest()


_CHECKSUM = 8


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM).digest()


def _unfit(text: str, reason: str) -> ContinuationError:
    details = BadValue(what="continuation", value=text[:80], expected="the continuation of an earlier answer")
    return ContinuationError(f"invalid continuation: {reason}", details=details)


@record
class Page:
    """Some rows, and whether more follow."""

    rows: tuple[Any, ...]
    has_more: bool


def take_rows(lines: Iterator[str], *, skip: int, rows: int, size: int) -> Page:
    """Return the next rows of a result within both caps; what lies behind them is not drawn.

    Raises:
        AnswerTooLargeError: the first row alone is too large.
        OmnigraphError: the read fails.
    """
    found: list[Any] = []
    left = size
    for line in islice(lines, skip, None):
        left -= len(line.encode(errors="surrogatepass"))
        if len(found) == rows or left < 0:
            if not found:
                raise too_large("row", size, size - left)
            return Page(rows=tuple(found), has_more=True)
        found.append(msgspec.json.decode(line))
    return Page(rows=tuple(found), has_more=False)


def take_items(items: Iterable[Any], *, size: int, what: str) -> tuple[list[Any], bool]:
    """Return the first items whose JSON fits, and whether that are all of them.

    Raises:
        AnswerTooLargeError: the first alone is too large.
    """
    found: list[Any] = []
    left = size
    for item in items:
        left -= len(msgspec.json.encode(item, enc_hook=str))
        if left < 0:
            if not found:
                raise too_large(what, size, size - left)
            return found, False
        found.append(item)
    return found, True


def too_large(what: str, limit: int, actual: int) -> AnswerTooLargeError:
    """Return the error for something that no answer can hold."""
    details = LimitExceeded(resource=f"bytes of one {what}", limit=limit, actual=actual)
    return AnswerTooLargeError(
        f"one {what} has {actual} bytes, but an answer can have at most {limit}", details=details
    )
