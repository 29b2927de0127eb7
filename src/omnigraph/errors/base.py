"""``OmnigraphError``, the only root of the family, the facts each class declares about itself, and the table by code.

A kind tells the caller what to do next, so it has one exit code of its own and one HTTP status.
A new kind is a change to the public contract; a new code inside a kind is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, ClassVar

from omnigraph.errors.details import Details, details_from_json, details_to_json
from omnigraph.records import record


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
        msg = f"unknown error kind {word!r}"
        raise ValueError(msg)


class Retry(StrEnum):
    """Whether and when sending the same request again can help."""

    NEVER = "never"
    AS_IS = "as_is"
    AFTER_REFRESH = "after_refresh"
    AFTER_RECOVERY = "after_recovery"


class Effect(StrEnum):
    """What the failed operation left behind, so that callers need not guess."""

    NONE = "none"
    STAGED = "staged"
    PUBLISHED = "published"
    UNKNOWN = "unknown"


@record
class ErrorRow:
    """One row of the error table: what holds for every error with this code unless an instance says otherwise."""

    code: str
    kind: Kind
    details: type[Details] = Details
    hint: str | None = None
    retry: Retry = Retry.NEVER
    effect: Effect = Effect.NONE


_REGISTERED: dict[str, type[OmnigraphError]] = {}
BY_CODE: Mapping[str, type[OmnigraphError]] = MappingProxyType(_REGISTERED)
"""Every class that can be raised. HTTP handlers, exit codes, clients and docs are made from it."""


class OmnigraphError(Exception):
    """Root of every error this package raises.

    ``code`` and ``kind`` are stable and belong to the class; ``message`` may change between releases;
    ``details`` is typed evidence; ``hint`` is the next thing to do; ``retry`` and ``effect`` say whether a retry can
    help and what the failed operation left behind.
    """

    row: ClassVar[ErrorRow]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A class without a row is a shared shape; one that inherits a row would come back from JSON as its parent.
        row = vars(cls).get("row")
        if row is None:
            if hasattr(cls, "row"):
                msg = f"{cls.__name__} needs a row of its own"
                raise TypeError(msg)
            return
        first = _REGISTERED.setdefault(row.code, cls)
        if first is not cls:
            msg = f"{cls.__name__} and {first.__name__} have the same code {row.code!r}"
            raise TypeError(msg)

    def __init__(
        self,
        message: str,
        *,
        details: Details | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
        effect: Effect | None = None,
    ) -> None:
        # The message may quote text that a terminal cannot show.
        message = message if message.isascii() else message.encode(errors="backslashreplace").decode()
        super().__init__(message)
        self.message = message
        self.details = details if details is not None else Details()
        if not isinstance(self.details, self.row.details):
            wrong = type(self.details).__name__
            msg = f"{type(self).__name__} carries {self.row.details.__name__}, not {wrong}"
            raise TypeError(msg)
        self.hint = hint if hint is not None else self.row.hint
        self.retry = retry if retry is not None else self.row.retry
        self.effect = effect if effect is not None else self.row.effect

    @property
    def code(self) -> str:
        """The dotted, stable code of this class."""
        return self.row.code

    @property
    def kind(self) -> Kind:
        """What the error means for the caller."""
        return self.row.kind

    def __str__(self) -> str:
        return self.message

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, OmnigraphError):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        # Equal errors are of one class, and unlike the facts the class never changes: callers set `effect` afterwards.
        return hash(type(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process pools and Spark workers, so they must survive pickling with every field.
        return (_rebuild, (type(self), self._facts()))

    def _facts(self) -> tuple[str, Details, str | None, Retry, Effect]:
        return (self.message, self.details, self.hint, self.retry, self.effect)

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON values, for :func:`error_from_json` to read."""
        return {
            "code": self.code,
            "kind": self.kind.word,
            "message": self.message,
            "details": details_to_json(self.details),
            "hint": self.hint,
            "retry": self.retry.value,
            "effect": self.effect.value,
        }


def _rebuild(cls: type[OmnigraphError], facts: tuple[str, Details, str | None, Retry, Effect]) -> OmnigraphError:
    message, details, hint, retry, effect = facts
    return cls(message, details=details, hint=hint, retry=retry, effect=effect)


def error_from_json(data: dict[str, Any]) -> OmnigraphError:
    """Rebuild the error that :meth:`OmnigraphError.to_json` described, as the same class.

    A code from a newer version becomes an ``InternalError`` that keeps the message, so that a client never fails on a
    code it does not know yet.
    """
    cls = BY_CODE.get(data["code"])
    if cls is None:
        return BY_CODE["internal"](
            f"{data['code']}: {data['message']}",
            hint=data.get("hint"),
            retry=Retry(data["retry"]) if "retry" in data else None,
            effect=Effect(data["effect"]) if "effect" in data else None,
        )
    return cls(
        data["message"],
        details=details_from_json(cls.row.details, data["details"]),
        hint=data["hint"],
        retry=Retry(data["retry"]),
        effect=Effect(data["effect"]),
    )
