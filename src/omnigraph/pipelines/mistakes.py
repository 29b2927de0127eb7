"""What is wrong with a declaration, at its place: how it is told, and what exceptions of functions of people become."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from omnigraph.errors import Mistake, Mistakes, OmnigraphError, PipelineInvalidError
from omnigraph.pipelines.model import Part, Place
from omnigraph.values.counts import counted

Explain = Callable[[BaseException], tuple[str, str | None] | None]
"""What is known better of an exception: a message and a hint."""


def refuse(pipeline: str, mistakes: Iterable[Mistake]) -> None:
    """Raise one error for all mistakes, if there are any.

    Raises:
        PipelineInvalidError: there is one; it has all of them.
    """
    items = tuple(dict.fromkeys(sorted(mistakes, key=lambda one: (one.file, one.line))))
    if items:
        first = items[0]
        is_one = len(items) == 1
        raise PipelineInvalidError(
            f"{first.file}:{first.line}: {first.message}"
            if is_one
            else f"pipeline '{pipeline}' has {counted(len(items), 'mistake')}",
            details=Mistakes(pipeline=pipeline, items=items),
            hint=first.hint if is_one else None,
        )


def mistake_at(place: Place, message: str, *, step: str | None = None, hint: str | None = None) -> Mistake:
    """Return what is wrong at a place."""
    return Mistake(message=message, file=place.file, line=place.line, step=step, hint=hint)


def step_mistake(part: Part, message: str, hint: str | None = None, *, key: str = "") -> Mistake:
    """Return what is wrong with a step, at the line of one of its keys."""
    return mistake_at(part.place_of(key), message, step=part.name, hint=hint)


def near_name(name: object, known: Iterable[str]) -> str | None:
    """Return the hint that names the nearest of some names, in whatever letter case it is written.

    >>> near_name("persn", ["Team", "Person"])
    "did you mean 'Person'?"
    """
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1) if isinstance(name, str) else []
    return f"did you mean '{by_lower[near[0]]}'?" if near else None


def called(
    part: Part, function: Callable[..., Any], inputs: Sequence[Any] = (), *, explain: Explain = lambda _: None
) -> Any:
    """Return what a function of a step returns, or the mistake that an exception of it is."""
    try:
        return function(*inputs)
    except Exception as problem:  # noqa: BLE001 - whatever code of people raises is told to them
        told, hint = explain(problem) or (None, None)
        return raised_mistake(problem, part.place, step=part.name, told=told, hint=hint)


def raised_mistake(
    problem: BaseException, place: Place, step: str | None = None, *, told: str | None = None, hint: str | None = None
) -> Mistake:
    """Return an exception as a mistake, at the last line of the file of a declaration that it came through.

    ``told`` and ``hint`` are what it says, if that is known better.
    """
    if isinstance(problem, SyntaxError) and problem.filename == place.file:
        where = Place(file=place.file, line=problem.lineno or place.line)
        return mistake_at(where, f"not valid Python: {problem.msg}", step=step)
    lines = [one.lineno for one in traceback.extract_tb(problem.__traceback__) if one.filename == place.file]
    where = Place(file=place.file, line=next((line for line in reversed(lines) if line), place.line))
    if told is not None:
        return mistake_at(where, told, step=step, hint=hint)
    if isinstance(problem, OmnigraphError):
        return mistake_at(where, problem.message, step=step, hint=problem.hint)
    first = (str(problem).strip().splitlines() or [""])[0]
    return mistake_at(where, f"{type(problem).__name__}: {first}" if first else type(problem).__name__, step=step)
