"""Asking a person: over the channel that the version of the protocol has for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from omnigraph.errors import ConsentError
from omnigraph.errors.agents import Consent
from omnigraph.mcp.tool import Question

_KEY, _FIELD = "consent", "agree"
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "boolean", "title": "Agree", "description": "True to proceed."}},
    "required": [_FIELD],
}


class _State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the client hands back with the answer.

    It is not sealed: whoever could forge it could as well forge the answer of the person, since both come from the
    client. The call goes on upon these heads alone, and only if it is the one that was asked about.
    """

    question: str
    call: str
    heads: dict[str, str]


def agreed_before(params: CallToolRequestParams) -> Mapping[str, str] | None:
    """Return the heads that a person agreed to, if the call brings their answer; None if nobody was asked yet.

    Raises:
        ConsentError: they did not agree.
    """
    if not params.request_state or not params.input_responses or _KEY not in params.input_responses:
        return None
    try:
        state = msgspec.json.decode(params.request_state, type=_State)
    except (ValueError, msgspec.DecodeError):
        # As if nobody had been asked: they are asked again.
        return None
    if state.call != _digest(params):
        return None
    _check(params.input_responses[_KEY], state.question)
    return state.heads


async def ask(
    context: ServerRequestContext[Any, Any], params: CallToolRequestParams, question: Question
) -> Mapping[str, str] | InputRequiredResult:
    """Ask a person, and return the heads that they agreed to, or what makes the client ask and call again.

    Raises:
        ConsentError: they did not agree, or the client cannot ask anybody.
    """
    if question.text is None:
        return question.heads
    if not _can_ask(context):
        raise ConsentError(
            "this call needs the consent of a person, and this client cannot ask for it",
            details=Consent(question=question.text),
        )
    form = ElicitRequestFormParams(message=question.text, requested_schema=_FORM)
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        state = _State(question=question.text, call=_digest(params), heads=dict(question.heads))
        return InputRequiredResult(
            input_requests={_KEY: ElicitRequest(params=form)}, request_state=msgspec.json.encode(state).decode()
        )
    answer = await context.session.elicit_form(question.text, _FORM, related_request_id=context.request_id)
    _check(answer, question.text)
    return question.heads


def _digest(params: CallToolRequestParams) -> str:
    call = msgspec.json.encode([params.name, params.arguments or {}], order="deterministic")
    return hashlib.blake2b(call, digest_size=16).hexdigest()


def _can_ask(context: ServerRequestContext[Any, Any]) -> bool:
    capabilities = context.session.client_capabilities
    able = None if capabilities is None else capabilities.elicitation
    # Clients from before there were several modes say nothing of forms.
    has_forms = able is not None and (able.form is not None or able.url is None)
    return has_forms and (context.protocol_version in MODERN_PROTOCOL_VERSIONS or context.session.can_send_request)


def _check(answer: object, question: str) -> None:
    """Return if a person agreed.

    Raises:
        ConsentError: they did not.
    """
    if isinstance(answer, ElicitResult):
        if answer.action == "accept" and (answer.content or {}).get(_FIELD) is True:
            return
        if answer.action == "cancel":
            raise ConsentError("the person closed the question without an answer", details=Consent(question=question))
    raise ConsentError("the person did not agree", details=Consent(question=question))
