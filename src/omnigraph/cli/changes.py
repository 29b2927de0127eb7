"""``omnigraph changes``: commands about the change feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from omnigraph.cli.lazy import Entry, LazyGroup, new_app


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "poll": Entry(module="omnigraph.cli.changes_poll", summary="Show what was committed since a cursor."),
        "baseline": Entry(module="omnigraph.cli.changes_baseline", summary="Export a state to start a feed from."),
    }


app = new_app(cls=_Commands)


@app.callback()
def changes() -> None:
    """Follow what is committed to a branch."""
