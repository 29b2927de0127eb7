"""The closed sets every error is described with: kind, retry and effect.

A kind tells the caller what to do next, so it pairs one to one with an exit code and has one HTTP status.
A new kind is a change to the public contract; a new code inside a kind is not.
"""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """What an error means for the caller, with its HTTP status and process exit code."""

    INTERNAL = ("internal", 500, 1)
    INVALID = ("invalid", 400, 2)
    CONFLICT = ("conflict", 409, 3)
    PRECONDITION = ("precondition", 412, 4)
    NOT_FOUND = ("not_found", 404, 5)
    UNAUTHENTICATED = ("unauthenticated", 401, 6)
    DENIED = ("denied", 403, 7)
    GONE = ("gone", 410, 8)
    TOO_LARGE = ("too_large", 413, 9)
    BUSY = ("busy", 429, 10)
    UNAVAILABLE = ("unavailable", 503, 11)
    DEPENDENCY = ("dependency", 424, 12)
    INDETERMINATE = ("indeterminate", 504, 13)
    UNSUPPORTED = ("unsupported", 501, 14)
    INTEGRITY = ("integrity", 500, 15)

    def __init__(self, word: str, http_status: int, exit_code: int) -> None:
        self.word = word
        self.http_status = http_status
        self.exit_code = exit_code

    @classmethod
    def from_word(cls, word: str) -> Kind:
        """Return the kind whose stable word is ``word``.

        >>> Kind.from_word("conflict").exit_code
        3
        """
        for kind in cls:
            if kind.word == word:
                return kind
        msg = f"no error kind is called {word!r}"
        raise ValueError(msg)


class Retry(Enum):
    """When sending the same request again can help."""

    NEVER = "never"
    AS_IS = "as_is"
    AFTER_REFRESH = "after_refresh"
    AFTER_RECOVERY = "after_recovery"


class Effect(Enum):
    """What the failed operation left behind: the thing a caller must not have to guess."""

    NONE = "none"
    STAGED = "staged"
    PUBLISHED = "published"
    UNKNOWN = "unknown"
