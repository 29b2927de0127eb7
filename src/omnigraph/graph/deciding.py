"""Deciding conflicts for a merge, a revert or a proposal: by a word, by a mapping, or by a function of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from omnigraph.errors import MergeConflictsError
from omnigraph.operations.request import Backend, Request
from omnigraph.values.checks import LARGEST, unfit

if TYPE_CHECKING:
    from omnigraph.history.merge import ConflictRow, Resolution

    # A way for all conflicts, decisions for single ones, or a function that makes them.
    Resolve = Resolution | Mapping[tuple[str, ...], Any] | Callable[[ConflictRow], Any] | None

Response = TypeVar("Response")


def execute_decided(
    backend: Backend, request: Request[Response], resolve: Resolve, rest: Resolution | None
) -> Response:
    """Execute a request with the decisions of the caller.

    A function is asked here, wherever the request is executed: about the conflicts that a first try without any
    decision was refused for, or that a preview shows. Each decision carries what it was made on.
    """
    if rest is not None and (resolve is None or isinstance(resolve, str)):
        raise unfit("rest", rest, "a mapping or a function as resolve, which rest completes")

    def execute(rest: object, decisions: Sequence[Mapping[str, Any]] = (), **more: int) -> Response:
        decided: Any = request
        changed = replace(decided, resolve=rest, decisions=decisions, **more)
        return backend.execute(cast("Request[Response]", changed))

    if not callable(resolve) and not isinstance(resolve, Mapping):
        # Whether it is a word is looked at where it is executed.
        return execute(resolve)
    from omnigraph.history.merge.decisions import (  # noqa: PLC0415 - loaded only when there is something to decide
        rows_decided_by,
        rows_of_mapping,
    )

    if isinstance(resolve, Mapping):
        return execute(rest, rows_of_mapping(resolve))
    try:
        # It is asked about all of them, however many there are.
        done = execute(None, max_conflicts=LARGEST)
        conflicts = getattr(done, "conflicts", None)
        if not conflicts:
            return done
    except MergeConflictsError as refused:
        conflicts = refused.conflicts
    return execute(rest, rows_decided_by(resolve, conflicts))
