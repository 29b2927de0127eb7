"""``omnigraph cluster``: the commands about clusters as code."""

from __future__ import annotations

from omnigraph.cli.lazy import Entry, new_group

_FOLDER = __name__.rpartition(".")[0]

app = new_group(
    "Declare a cluster as files, and bring graphs, schemas, queries and policies to what they say.",
    {
        "init": Entry(app=f"{_FOLDER}.declaration:init_app", summary="Write an example directory to start from."),
        "validate": Entry(app=f"{_FOLDER}.declaration:validate_app", summary="Check a directory on its own."),
    },
)
