"""Cursors and page tokens: one envelope, four kinds, each bound to what it was an answer to.

The checksum finds damage and hides nothing. A forged token is harmless: it can name a place, never grant one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from omnigraph.errors import BadValue, ChangeCursorError, ChangeLimitError, LimitExceeded
from omnigraph.history.diff.change import OP_RANKS, EntityChange
from omnigraph.records import record
from omnigraph.runtime import check_call
from omnigraph.values import check_instance, check_whole

MAX_TOKEN = 4096
PURPOSE = "changes/forward"

_VERSION = 1
_CHECKSUM = hashlib.sha256().digest_size
# Ids up to this many bytes stand in a token as they are, longer ones as a prefix and a digest.
_EXACT_BYTES = 256
_PREFIX_BYTES = 64
_SHOWN = 80
_SOURCE_DIGITS = 32


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The last change that was delivered of a commit."""

    type_id: str
    id: str
    id_digest: str | None = None
    rank: int
    index: int

    @classmethod
    def after(cls, change: EntityChange, index: int) -> Position:
        """Return the position behind a change; ``index`` is how many changes of the commit came so far."""
        raw = change.id.encode()
        rank = OP_RANKS[change.op]
        if len(raw) <= _EXACT_BYTES:
            return cls(type_id=change.type.id, id=change.id, rank=rank, index=index)
        # Cutting inside a character leaves at most three bytes of it behind, which are dropped.
        prefix = raw[:_PREFIX_BYTES].decode(errors="ignore")
        return cls(type_id=change.type.id, id=prefix, id_digest=_digest(change.id), rank=rank, index=index)

    def names(self, entity_id: str) -> bool:
        """Whether this is the position of an entity."""
        if self.id_digest is None:
            return entity_id == self.id
        return entity_id.startswith(self.id) and _digest(entity_id) == self.id_digest


class CommitPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="commit-page"):
    """Where the changes of one commit go on."""

    version: int = _VERSION
    graph: str
    commit: str
    filter: str
    position: Position


class FeedPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="feed-page"):
    """Where a poll goes on inside a commit, up to the cut it was begun with."""

    version: int = _VERSION
    graph: str
    purpose: str = PURPOSE
    branch: str
    incarnation: str
    filter: str
    cut: str
    last: str
    current: str
    position: Position


class FeedCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="feed-cursor"):
    """The last commit that was delivered completely."""

    version: int = _VERSION
    graph: str
    purpose: str = PURPOSE
    branch: str
    incarnation: str
    filter: str
    last: str


class DiffPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="diff-page"):
    """Where the difference between two commits goes on."""

    version: int = _VERSION
    graph: str
    before: str
    after: str
    filter: str
    position: Position


Token = CommitPage | FeedPage | FeedCursor | DiffPlace
_DECODER = msgspec.json.Decoder(Token)


@record
class FeedScope:
    """What every token of a feed is bound to."""

    graph: str
    branch: str
    incarnation: str
    filter: str

    @classmethod
    def of(cls, graph_id: str, branch: str, incarnation: str, filter_digest: str) -> FeedScope:
        """Return the scope of a feed; names enter as digests of fixed size."""
        return cls(
            graph=graph_scope(graph_id), branch=_digest(branch), incarnation=_digest(incarnation), filter=filter_digest
        )

    @property
    def source(self) -> str:
        """What tells this feed from every other one."""
        return _digest(f"{self.graph} {self.branch} {self.incarnation} {self.filter}")[:_SOURCE_DIGITS]

    def check(self, token: FeedPage | FeedCursor) -> None:
        """See that a token belongs here.

        Raises:
            ChangeCursorError: it does not.
        """
        for name in ("graph", "branch", "incarnation", "filter"):
            if getattr(token, name) != getattr(self, name):
                reject(f"it belongs to another {name}")
        if token.purpose != PURPOSE:
            reject("it is a token of another kind")


def graph_scope(graph_id: str) -> str:
    """Return what stands for a graph in a token."""
    return _digest(graph_id)


def encode_token(token: Token) -> str:
    """Return a token as text."""
    body = msgspec.json.encode(token)
    text = base64.urlsafe_b64encode(body + hashlib.sha256(body).digest()).rstrip(b"=").decode()
    if len(text) > MAX_TOKEN:
        details = LimitExceeded(resource="change_continuation_token_encoded_bytes", limit=MAX_TOKEN, actual=len(text))
        raise ChangeLimitError(f"the continuation token is too long: {len(text)} characters", details=details)
    return text


def decode_token(text: str) -> Token:
    """Return the token that a text stands for.

    Raises:
        ChangeCursorError: it is damaged, or none of ours.
        UsageError: it is not a text.
    """
    check_instance("cursor", text, str)
    if len(text) > MAX_TOKEN:
        reject("it is too long", text)
    try:
        # Other alphabets are skipped silently otherwise, and one token would have many spellings.
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, UnicodeError):
        reject("it is not base64url", text)
    body, checksum = raw[:-_CHECKSUM], raw[-_CHECKSUM:]
    if hashlib.sha256(body).digest() != checksum:
        reject("its checksum is wrong", text)
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
        reject("it is not in canonical form", text)
    try:
        token: Token = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        reject("its format is unknown", text)
    if token.version != _VERSION:
        reject("its version is not supported", text)
    return token


def reject(reason: str, text: str = "") -> NoReturn:
    """Refuse a token.

    Raises:
        ChangeCursorError: always.
    """
    details = BadValue(what="cursor", value=text[:_SHOWN], expected=reason)
    raise ChangeCursorError(f"change cursor rejected: {reason}", details=details)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


DEFAULT_CHANGES, MAX_CHANGES = 1_000, 8_192
DEFAULT_BYTES, MAX_BYTES = 4 << 20, 32 << 20
DEFAULT_COMMITS, MAX_COMMITS = 128, 512


@record
class PageLimits:
    """What a page may hold.

    Args:
        changes: how many changes at most.
        size_bytes: how many bytes, measured on the changes as JSON; a page always carries its first change.
        commits: how many commits a poll looks at.

    Raises:
        UsageError: a limit is not a whole number, or below 1.
        ChangeLimitError: a limit is above what one answer may carry.
    """

    changes: int = DEFAULT_CHANGES
    size_bytes: int = DEFAULT_BYTES
    commits: int = DEFAULT_COMMITS

    def __post_init__(self) -> None:
        for name in ("changes", "size_bytes", "commits"):
            check_whole(name, getattr(self, name), least=1)
        _within(self.changes, MAX_CHANGES, "commit_changes_page_changes")
        _within(self.size_bytes, MAX_BYTES, "commit_changes_page_bytes")
        _within(self.commits, MAX_COMMITS, "change_feed_commits_per_poll")


class PageBudget:
    """What is left of a page while it is filled."""

    def __init__(self, limits: PageLimits) -> None:
        self._limits = limits
        self._changes = 0
        self._size_bytes = 0

    @property
    def is_spent(self) -> bool:
        """Whether no further change fits for sure."""
        return self._changes >= self._limits.changes or self._size_bytes >= self._limits.size_bytes

    def fill(self, changes: Iterator[EntityChange]) -> tuple[list[EntityChange], bool]:
        """Draw changes until the page is full; return them, and whether there are more."""
        drawn: list[EntityChange] = []
        for change in changes:
            check_call()
            size = len(msgspec.json.encode(change.to_json()))
            is_first = self._changes == 0
            if not is_first and (self.is_spent or self._size_bytes + size > self._limits.size_bytes):
                return drawn, True
            drawn.append(change)
            self._changes += 1
            self._size_bytes += size
        return drawn, False


def _within(value: int, limit: int, resource: str) -> None:
    if value > limit:
        exceeded = LimitExceeded(resource=resource, limit=limit, actual=value)
        raise ChangeLimitError(f"{resource} must be at most {limit}, not {value}", details=exceeded)
