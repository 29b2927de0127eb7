"""Errors of identity and policy: who asks, and what they may do."""

from __future__ import annotations

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, Diagnostic, StorageFault
from omnigraph.errors.language import DiagnosticError
from omnigraph.records import record


@record
class PolicyDenial(Details):
    """What was denied to whom; a branch is None where the action concerns none."""

    action: str
    actor: str | None = None
    branch: str | None = None
    target_branch: str | None = None


class TokenMissingError(OmnigraphError, PermissionError):
    """A request carries no bearer token, and the server demands one."""

    row = ErrorRow(
        code="token.missing", kind=Kind.UNAUTHENTICATED, hint="send the header `Authorization: Bearer TOKEN`"
    )


class TokenInvalidError(OmnigraphError, PermissionError):
    """The bearer token of a request is not one that the server accepts: unknown, expired, or issued for another."""

    row = ErrorRow(code="token.invalid", kind=Kind.UNAUTHENTICATED, hint="check the token, or log in again")


class IdentityConfigError(OmnigraphError):
    """The tokens, the identity provider or the combination of them with policies cannot be used by a server."""

    row = ErrorRow(code="identity.config", kind=Kind.INVALID, details=BadValue)


class IdentityProviderError(OmnigraphError):
    """The keys of the identity provider cannot be fetched, so its tokens cannot be checked."""

    row = ErrorRow(
        code="identity.provider",
        kind=Kind.UNAVAILABLE,
        details=StorageFault,
        retry=Retry.AS_IS,
        hint="try again; if it keeps failing, check the address of the provider and the network",
    )


class OriginError(OmnigraphError, PermissionError):
    """A request names a host, or comes from a page, that the server does not answer."""

    row = ErrorRow(
        code="request.origin",
        kind=Kind.DENIED,
        details=BadValue,
        hint="name the host in OMNIGRAPH_MCP_HOSTS of the server",
    )


class PolicyFormatError(DiagnosticError):
    """A policy bundle or a file of policy tests is not valid."""

    row = ErrorRow(code="policy.format", kind=Kind.INVALID, details=Diagnostic)


class PolicyDeniedError(OmnigraphError, PermissionError):
    """A policy does not allow the actor to do this."""

    row = ErrorRow(
        code="policy.denied",
        kind=Kind.DENIED,
        details=PolicyDenial,
        hint="ask for a rule that allows it; `omnigraph policy explain` shows how a decision is made",
    )


class UnreadableRefusalError(OmnigraphError, PermissionError):
    """A write conflicts with stored data that a policy does not let the actor read; nothing was written."""

    row = ErrorRow(
        code="policy.unreadable",
        kind=Kind.DENIED,
        details=PolicyDenial,
        hint="ask for a rule that allows `read` on the branch to see why",
    )


class PolicyEvaluationError(OmnigraphError):
    """A policy could not be evaluated, so the action was neither allowed nor denied."""

    row = ErrorRow(
        code="policy.evaluation",
        kind=Kind.INTERNAL,
        details=PolicyDenial,
        hint="report this with the bundle that led to it",
    )
