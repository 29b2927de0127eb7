"""Errors as answers of tools: what went wrong, where, and which call makes sense next."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator
from typing import Any

from omnigraph import errors
from omnigraph.errors import Diagnostic, InternalError, MissingThing, OmnigraphError, details_to_json
from omnigraph.policy import Action

_log = logging.getLogger("omnigraph.mcp")
GUIDE = "omnigraph://guide"
# So much of the details as fits beside the message; a load can refuse a hundred rows.
_MOST_ITEMS = 20

# So many similar names help; a large schema has thousands.
_MOST_NAMES = 8

# The tool that helps after an error, and with what.
_STEPS: tuple[tuple[tuple[type[OmnigraphError], ...], str, str], ...] = (
    (
        (errors.TypeMissingError, errors.QueryTypeError, errors.QueryMeaningError),
        "schema_search",
        "list the types",
    ),
    ((errors.BranchMissingError, errors.BranchExistsError), "branch_list", "list the branches"),
    ((errors.StoredQueryMissingError,), "stored_query_list", "list the stored queries"),
    (
        (errors.QueryParameterError, errors.ConstraintViolationError),
        "describe_type",
        "see the types and rules of properties",
    ),
    (
        (errors.MergeConflictsError, errors.ConsentStaleError),
        "merge_preview",
        "see the result of the merge and its conflicts",
    ),
    ((errors.PreconditionFailedError, errors.CommitMissingError), "log", "list the commits"),
)


def problem_document(error: OmnigraphError) -> dict[str, Any]:
    """Return an error as the structured content of an answer."""
    found: dict[str, Any] = {
        "code": error.code,
        "kind": error.kind.word,
        "message": error.message,
        "retry": error.retry.value,
        "effect": error.effect.value,
    }
    if error.hint is not None:
        found["hint"] = error.hint
    if isinstance(error.details, Diagnostic):
        found["diagnostic"] = _diagnostic(error.details)
    elif type(error.details) is not errors.Details:
        found["details"] = _short(details_to_json(error.details))
        if isinstance(error.details, MissingThing):
            found["details"]["near"] = difflib.get_close_matches(
                error.details.name, error.details.near, _MOST_NAMES, 0.4
            )
    steps = list(_next_steps(error))
    if steps:
        found["next"] = steps
    return {"error": found}


def internal_problem(bug: Exception) -> InternalError:
    """Write a bug down, and return the error that is told of it."""
    _log.error("a tool failed", exc_info=bug)
    return InternalError(f"unexpected {type(bug).__name__}")


def _diagnostic(details: Diagnostic) -> dict[str, Any]:
    found: dict[str, Any] = {"expected": list(details.expected)}
    told = {"rule": details.rule, "found": details.found, "suggestion": details.suggestion}
    found |= {name: value for name, value in told.items() if value is not None}
    if details.place is not None:
        place = details.place
        found |= {"line": place.line, "column": place.column, "length": place.width, "source": place.text}
    return found


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list):
        rest = len(value) - _MOST_ITEMS
        return [*map(_short, value[:_MOST_ITEMS]), *([f"and {rest} more"] if rest > 0 else [])]
    return value


def _next_steps(error: OmnigraphError) -> Iterator[dict[str, str]]:
    if isinstance(error, errors.QuerySyntaxError):
        yield {"resource": GUIDE, "why": "read the guide to the query language"}
    if isinstance(error.details, errors.PolicyDenial) and error.details.action == Action.CHANGE:
        yield {"tool": "mutate", "why": "leave branch out to write to a new branch"}
    for kinds, tool, why in _STEPS:
        if isinstance(error, kinds):
            yield {"tool": tool, "why": why}
