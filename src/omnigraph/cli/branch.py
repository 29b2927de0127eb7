"""``omnigraph branch``: commands about branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from omnigraph.cli.lazy import Entry, LazyGroup, new_app


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "create": Entry(module="omnigraph.cli.branch_create", summary="Create a branch."),
        "list": Entry(module="omnigraph.cli.branch_list", summary="List the branches."),
        "merge": Entry(module="omnigraph.cli.branch_merge", summary="Merge a branch into another, row by row."),
        "delete": Entry(module="omnigraph.cli.branch_delete", summary="Delete a branch and its own commits."),
    }


app = new_app(cls=_Commands)


@app.callback()
def branch() -> None:
    """Create, list, merge and delete branches."""
