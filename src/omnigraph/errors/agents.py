"""Errors of the tools for agents: answers that go on, consent of a person, names of tools."""

from __future__ import annotations

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, LimitExceeded, MissingThing
from omnigraph.records import record


class ToolMissingError(OmnigraphError, KeyError):
    """There is no tool, resource or prompt of that name, or the server is read-only and the tool writes."""

    row = ErrorRow(code="agent.not_found", kind=Kind.NOT_FOUND, details=MissingThing, hint="list what exists")


class ToolArgumentError(OmnigraphError):
    """The arguments of a tool do not fit its schema."""

    row = ErrorRow(
        code="agent.arguments", kind=Kind.INVALID, details=BadValue, hint="correct the arguments by the tool's schema"
    )


class ContinuationError(OmnigraphError):
    """A continuation is damaged, or belongs to another query."""

    row = ErrorRow(
        code="agent.continuation",
        kind=Kind.INVALID,
        details=BadValue,
        hint="send the continuation with the same text, name and parameters, or repeat the call without it",
    )


class AnswerTooLargeError(OmnigraphError):
    """One row, commit or change alone is larger than an answer may be."""

    row = ErrorRow(
        code="agent.answer_too_large",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="return fewer properties of it, or allow a larger answer with max_bytes",
    )


@record
class Consent(Details):
    """What a person has to agree to."""

    question: str


class ConsentError(OmnigraphError, PermissionError):
    """A merge into a protected branch, or a write to one, needs a person's consent, who declined or cannot be asked."""

    row = ErrorRow(
        code="agent.consent",
        kind=Kind.DENIED,
        details=Consent,
        hint="write to a branch of your own, and ask a person to merge it with `omnigraph branch merge`, "
        "or to review it with `omnigraph proposal open`",
    )


class ConsentStaleError(OmnigraphError):
    """A branch has moved since a person agreed to the merge or the write; nothing was written."""

    row = ErrorRow(
        code="agent.consent_stale",
        kind=Kind.PRECONDITION,
        details=Consent,
        retry=Retry.AFTER_REFRESH,
        hint="list the branches again and repeat the call, which asks for consent again",
    )
