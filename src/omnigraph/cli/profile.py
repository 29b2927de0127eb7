"""``omnigraph profile``: commands about the profiles of the operator config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from omnigraph.cli.lazy import Entry, LazyGroup, new_app


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "list": Entry(module="omnigraph.cli.profile_list", summary="List the profiles and what they lead to."),
        "show": Entry(module="omnigraph.cli.profile_show", summary="Show what a command works on by default."),
    }


app = new_app(cls=_Commands)


@app.callback()
def profile() -> None:
    """List and show the profiles of the operator config."""
