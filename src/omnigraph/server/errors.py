"""Errors as answers: the status, the body of the public contract, and what must not leave the process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnigraph import errors
from omnigraph.errors import OmnigraphError

RETRY_AFTER_S = 60

# Statuses of single classes; every other class has that of its kind.
_STATUSES: Mapping[type[OmnigraphError], int] = {
    errors.MediaTypeError: 415,
    errors.BlobRangeError: 416,
    errors.BodyTimeoutError: 408,
    errors.QueryTimeoutError: 408,
    errors.RequestDeadlineError: 408,
    errors.IdempotencyKeyError: 422,
    # The text of the request holds the queries, so that a name it lacks is a mistake in the request.
    errors.QueryNotFoundError: 400,
    # Names of types inside a request.
    errors.TypeMissingError: 400,
    # The storage refuses the server, not the caller.
    errors.StorageDeniedError: 500,
    errors.StorageUnauthenticatedError: 500,
    errors.ReadOnlyError: 409,
    errors.GraphClosedError: 503,
    # An unfinished write that the next writer settles.
    errors.WriteOutcomeError: 503,
    errors.OutcomeUnknownError: 503,
    errors.ClaimBusyError: 503,
}
# The closed set of words that older clients know; other statuses have none.
_CODES: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "bad_request",
    415: "bad_request",
    416: "bad_request",
    422: "bad_request",
    429: "too_many_requests",
    500: "internal",
    501: "bad_request",
}
# Errors that name places in storage; what they say stays in the log.
_INTERNAL = "the server failed to answer; its log has the request id and the cause"


def status_of(error: OmnigraphError) -> int:
    """Return the HTTP status of an error."""
    return _STATUSES.get(type(error), error.kind.http_status)


def is_internal(error: OmnigraphError) -> bool:
    """Whether what the error says is for the log of the server alone."""
    return (
        status_of(error) >= 500
        and not isinstance(
            error,
            errors.WriteOutcomeError | errors.ClaimBusyError | errors.GraphBlockedError | errors.ServerEndingError,
        )
        and error.kind is not errors.Kind.UNSUPPORTED
    )


def outside(error: OmnigraphError) -> OmnigraphError:
    """Return an error as callers may see it."""
    return errors.InternalError(_INTERNAL, retry=error.retry, effect=error.effect) if is_internal(error) else error


def error_body(error: OmnigraphError, request_id: str | None = None, *, whole: bool = False) -> dict[str, Any]:
    """Return the body that tells of an error: ``ErrorOutput`` of the contract, with our additions.

    ``whole`` adds the error itself, for clients of ours, which raise it again.
    """
    status = status_of(error)
    body: dict[str, Any] = {"error": _INTERNAL if is_internal(error) else _message(error)}
    code = _CODES.get(status)
    if code is not None:
        body["code"] = code
    if not is_internal(error):
        body |= _details(error)
        if isinstance(error.details, errors.Diagnostic) and error.details.place is not None:
            body["diagnostic"] = _diagnostic(error.details, error.code)
    if whole:
        body["problem"] = outside(error).to_json()
    if request_id is not None:
        body["request_id"] = request_id
    return body


def plain_body(status: int, message: str, request_id: str | None = None) -> dict[str, Any]:
    """Return the body of an answer that no error of ours stands behind, such as an unknown path."""
    code = {"code": _CODES[status]} if status in _CODES else {}
    return {"error": message, **code, **({} if request_id is None else {"request_id": request_id})}


def error_headers(error: OmnigraphError) -> dict[str, str]:
    """Return the headers that go with an error."""
    match status_of(error):
        case 401:
            return {"WWW-Authenticate": "Bearer"}
        case 429:
            return {"Retry-After": str(RETRY_AFTER_S)}
        case 503:
            return {"Retry-After": "1"}
        case _:
            return {}


def _message(error: OmnigraphError) -> str:
    details = error.details
    match error:
        case errors.PreconditionFailedError() if isinstance(details, errors.HeadMismatch):
            current = f"'{details.actual}'" if details.actual else "<absent>"
            return (
                f"precondition failed on branch '{details.branch}': expected head '{details.expected}' "
                f"but current is {current}"
            )
        case errors.KeyExistsError() if isinstance(details, errors.ExistingKeys):
            kind, name = _type_of(details.location)
            return f"{kind} type '{name}' already has id '{details.ids[0]}'"
        case errors.QueryParameterError() if isinstance(details, errors.ParameterProblem) and details.name:
            subject = f"parameter '{details.name}' "
            return f"param '{details.name}': {error.message.removeprefix(subject)}"
        case errors.QueryNotFoundError() if isinstance(details, errors.MissingThing):
            if details.name:
                return f"query '{details.name}' not found"
            return "query file contains multiple queries; pass --name" if details.near else error.message
        case errors.MergeConflictsError() if isinstance(details, errors.MergeConflicts):
            return _merge_message(details)
        case _ if isinstance(details, errors.LimitExceeded) and status_of(error) == 413:
            return f"resource limit exceeded for {details.resource}: actual {details.actual}, limit {details.limit}"
        case _:
            if isinstance(details, errors.Violations) and details.items and details.items[0].line is not None:
                first = details.items[0]
                return f"line {first.line}: {error.message.removeprefix(f'{first.place()}: ')}"
            # Lines of source belong to the diagnostic.
            return error.message if isinstance(details, errors.Diagnostic) else str(error)


def _merge_message(details: errors.MergeConflicts) -> str:
    total = len(details.items) if details.total is None else details.total
    told = []
    for conflict in details.items[:3]:
        kind, name = _type_of(conflict.type_key or "")
        identity = "" if conflict.entity_id is None else f", entity id '{conflict.entity_id}'"
        told.append(f"{kind} type '{name}'{identity} ({_conflict_kind(conflict.kind)})")
    if total > len(told):
        told.append(f"and {total - len(told)} more")
    return f"merge conflicts: {'; '.join(told)}"


def _details(error: OmnigraphError) -> dict[str, Any]:
    for kind, name, shape in _SHAPES:
        if isinstance(error.details, kind):
            found = shape(error.details)
            return {} if found is None else {name: found}
    return {}


def _conflict_kind(word: str) -> str:
    return word if word in _CONFLICT_KINDS else "value_constraint_violation"


_CONFLICT_KINDS = frozenset(
    {
        "divergent_insert",
        "divergent_update",
        "delete_vs_update",
        "orphan_edge",
        "unique_violation",
        "cardinality_violation",
        "value_constraint_violation",
    }
)


def conflict_output(conflict: errors.MergeConflict) -> dict[str, Any]:
    """Return a conflict of a merge as the contract shows it."""
    kind, name = _type_of(conflict.type_key or "")
    return {
        "entity_kind": kind,
        "type_name": name,
        "entity_id": conflict.entity_id,
        "kind": _conflict_kind(conflict.kind),
        "message": conflict.message,
    }


def _type_of(table_key: str) -> tuple[str, str]:
    kind, _, name = table_key.rpartition(":")
    return ("edge" if kind == "edge" else "node"), name


def _version_conflict(details: errors.VersionMismatch) -> dict[str, Any]:
    kind, name = _type_of(details.table_key)
    return {
        "entity_kind": kind,
        "type_name": name,
        "expected_published_dataset_version": details.expected,
        "actual_published_dataset_version": details.actual,
    }


def _key_conflict(details: errors.ExistingKeys) -> dict[str, Any]:
    kind, name = _type_of(details.location)
    return {"entity_kind": kind, "type_name": name, **({"entity_id": details.ids[0]} if details.ids else {})}


def _limit(details: errors.LimitExceeded) -> dict[str, Any] | None:
    # The plain limit of bodies has no detail object.
    if details.resource == "request_body_bytes":
        return None
    return {"resource": details.resource, "limit": details.limit, "actual": details.actual}


def _refusal(details: errors.DiffRefusal) -> dict[str, Any]:
    known = {"schema_boundary", "parentless_commit"}
    return {
        "reason": details.reason if details.reason in known else "unknown",
        "graph_commit_id": details.graph_commit_id or "",
        **({} if details.type_name is None else {"type_name": details.type_name}),
    }


def _gap(details: errors.FeedGap) -> dict[str, Any]:
    return {
        **({} if details.cursor is None else {"cursor": details.cursor}),
        "first_unreadable_commit_id": details.first_unreadable_commit_id,
    }


_SHAPES: tuple[tuple[type[errors.Details], str, Callable[[Any], Any]], ...] = (
    (errors.MergeConflicts, "merge_conflicts", lambda found: [conflict_output(item) for item in found.items]),
    (errors.VersionMismatch, "published_dataset_version_conflict", _version_conflict),
    (
        errors.ReadSetChange,
        "read_set_conflict",
        lambda found: {"member": found.member, "expected": found.expected, "actual": found.actual},
    ),
    (errors.ExistingKeys, "key_conflict", _key_conflict),
    (errors.LimitExceeded, "resource_limit", _limit),
    (
        errors.ByteRange,
        "blob_range",
        lambda found: {"start": found.start, "end": found.end, "length": found.length},
    ),
    (
        errors.BlobSource,
        "external_blob_source",
        lambda found: {"uri": found.uri, "reason": found.reason},
    ),
    (errors.CommitOutcome, "recovery_required", lambda found: {"operation_id": found.operation_id}),
    (
        errors.HeadMismatch,
        "precondition_failure",
        lambda found: {"expected": found.expected, **({"actual": found.actual} if found.actual else {})},
    ),
    (errors.FeedGap, "change_feed_gap", _gap),
    (errors.DiffRefusal, "change_diff_refusal", _refusal),
)


def _diagnostic(details: errors.Diagnostic, code: str) -> dict[str, Any]:
    place = details.place
    if place is None:
        return {}
    return {
        "code": details.rule or code,
        "line": place.line,
        "column": place.column,
        "length": place.width,
        "expected": list(details.expected),
        **({} if details.suggestion is None else {"suggestion": details.suggestion}),
        "source_excerpt": place.text,
    }
