"""The commits that a call has made so far, for whoever interrupts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from omnigraph.errors import WriteInterruptedError

_made: ContextVar[list[tuple[str, str]] | None] = ContextVar("omnigraph_commits", default=None)


def note_commit(branch: str, commit_id: str) -> None:
    """Say that the call that is being executed has published a commit."""
    made = _made.get()
    if made is not None:
        made.append((branch, commit_id))


@contextmanager
def telling_commits() -> Iterator[None]:
    """Let an interrupt of the block say which commit the block has published last, if any.

    Raises:
        WriteInterruptedError: there was one.
    """
    known = _made.get()
    made = [] if known is None else known
    token, count = _made.set(made), len(made)
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if len(made) == count or WriteInterruptedError.within(interrupt) is not None:
            raise
        raise WriteInterruptedError(*made[-1], lambda: "published") from interrupt
    finally:
        _made.reset(token)
