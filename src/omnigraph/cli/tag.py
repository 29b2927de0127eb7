"""``omnigraph tag``: commands about tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from omnigraph.cli.lazy import Entry, LazyGroup, new_app


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "create": Entry(module="omnigraph.cli.tag_create", summary="Name a state and keep it."),
        "list": Entry(module="omnigraph.cli.tag_list", summary="List the tags."),
        "delete": Entry(module="omnigraph.cli.tag_delete", summary="Delete a tag."),
    }


app = new_app(cls=_Commands)


@app.callback()
def tag() -> None:
    """Name states of a graph; what a tag names is never cleaned up."""
