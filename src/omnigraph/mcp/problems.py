"""Errors as answers of tools: what went wrong, where, and which call makes sense next."""

from __future__ import annotations

import logging
from typing import Any

from omnigraph import errors
from omnigraph.errors import Diagnostic, InternalError, OmnigraphError, details_to_json
from omnigraph.mcp.tool import Step

_log = logging.getLogger("omnigraph.mcp")
GUIDE = "omnigraph://guide"
# So much of the details as fits beside the message; a load can refuse a hundred rows.
_MOST_ITEMS = 20

_SEARCH = Step(tool="schema_search", arguments={}, why="see which types there are")
_BRANCHES = Step(tool="branch_list", arguments={}, why="see which branches there are")
_STORED = Step(tool="stored_query_list", arguments={}, why="see which stored queries there are")
_STEPS: tuple[tuple[tuple[type[OmnigraphError], ...], Step], ...] = (
    ((errors.TypeMissingError, errors.QueryTypeError, errors.QueryMeaningError), _SEARCH),
    ((errors.BranchMissingError,), _BRANCHES),
    ((errors.StoredQueryMissingError,), _STORED),
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
    step = _next_step(error)
    if step is not None:
        found["next"] = [step]
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


def _next_step(error: OmnigraphError) -> dict[str, Any] | None:
    if isinstance(error, errors.QuerySyntaxError):
        return {"resource": GUIDE, "why": "read how queries are written"}
    for kinds, step in _STEPS:
        if isinstance(error, kinds):
            return {"tool": step.tool, "arguments": step.arguments, "why": step.why}
    return None
