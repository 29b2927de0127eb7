"""How errors leave a process of Spark: their class and text are all that survives, so the text carries the code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import OmnigraphError
from omnigraph.spark.sessions.workers import freeze_gc_once


@contextmanager
def reporting() -> Iterator[None]:
    """Let errors of ours say their code, once, and what to do next."""
    freeze_gc_once()
    try:
        yield
    except OmnigraphError as error:
        code, text = f"[{error.code}]", str(error)
        if code in text:
            raise
        hint = f" ({error.hint})" if error.hint else ""
        told = type(error)(
            f"{code} {text}{hint}",
            details=error.details,
            hint=error.hint,
            retry=error.retry,
            effect=error.effect,
        )
        # What led to it is in the error itself; Spark shows the caller the whole trace otherwise.
        raise told from None
