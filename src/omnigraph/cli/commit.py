"""``omnigraph commit``: commands about commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from omnigraph.cli.lazy import Entry, LazyGroup, new_app


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "list": Entry(module="omnigraph.cli.commit_list", summary="List commits, newest first."),
        "show": Entry(module="omnigraph.cli.commit_show", summary="Show one commit."),
        "changes": Entry(module="omnigraph.cli.commit_changes", summary="Show what one commit changed."),
    }


app = new_app(cls=_Commands)


@app.callback()
def commit() -> None:
    """List and show commits, and what they changed."""
