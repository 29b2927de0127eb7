"""Functions of a declaration, called to see what they return; what they raise is a mistake at its line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from omnigraph.errors import Mistake, OmnigraphError
from omnigraph.pipelines.model import Part, Place
from omnigraph.pipelines.parts import mistake_at

Explain = Callable[[BaseException], tuple[str, str | None] | None]
"""What is known better of an exception: a message and a hint."""


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
