"""``OmnigraphError``, the only root of the family, and the row of facts each class declares about itself."""

from __future__ import annotations

from typing import Any, ClassVar

from omnigraph.errors.details import Details, details_from_json, details_to_json
from omnigraph.errors.kinds import Effect, Kind, Retry
from omnigraph.records import record


@record
class Row:
    """One line of the error table: what is true of every error with this code unless an instance says otherwise."""

    code: str
    kind: Kind
    details: type[Details] = Details
    hint: str | None = None
    retry: Retry = Retry.NEVER
    effect: Effect = Effect.NONE


class OmnigraphError(Exception):
    """Root of every error this package raises.

    ``code`` and ``kind`` are stable and belong to the class; ``message`` may change between releases;
    ``details`` is typed evidence; ``hint`` is the next thing to do; ``retry`` and ``effect`` say whether sending
    the request again can help and what the failed one left behind.
    """

    row: ClassVar[Row]

    def __init__(
        self,
        message: str,
        *,
        details: Details | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
        effect: Effect | None = None,
    ) -> None:
        # What is wrong may be a text that no terminal can show.
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
        return hash(self._facts())

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process pools and Spark workers, so they must survive pickling with every field.
        return (_rebuild, (type(self), self._facts()))

    def _facts(self) -> tuple[str, Details, str | None, Retry, Effect]:
        return (self.message, self.details, self.hint, self.retry, self.effect)

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON values; :func:`omnigraph.errors.error_from_json` is the way back."""
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


def rebuild_from_json(cls: type[OmnigraphError], data: dict[str, Any]) -> OmnigraphError:
    """Rebuild an error of class ``cls`` from what :meth:`OmnigraphError.to_json` gave."""
    return cls(
        data["message"],
        details=details_from_json(cls.row.details, data["details"]),
        hint=data["hint"],
        retry=Retry(data["retry"]),
        effect=Effect(data["effect"]),
    )
