"""``omnigraph cluster``: the commands about clusters as code."""

from __future__ import annotations

from omnigraph.cli.lazy import Entry, new_group

_FOLDER = __name__.rpartition(".")[0]

app = new_group(
    "Declare a cluster as files, and bring graphs, schemas, queries and policies to what they say.",
    {
        "init": Entry(app=f"{_FOLDER}.declaration:init_app", summary="Write an example directory to start from."),
        "validate": Entry(app=f"{_FOLDER}.declaration:validate_app", summary="Check a directory on its own."),
        "import": Entry(app=f"{_FOLDER}.ledger:import_app", summary="Make the first ledger."),
        "plan": Entry(app=f"{_FOLDER}.applying:plan_app", summary="Show what an apply would do."),
        "apply": Entry(app=f"{_FOLDER}.applying:apply_app", summary="Make what the directory declares."),
        "approve": Entry(app=f"{_FOLDER}.applying:approve_app", summary="Approve the deletion of a graph."),
        "status": Entry(app=f"{_FOLDER}.ledger:status_app", summary="Show the ledger and its lock."),
        "refresh": Entry(app=f"{_FOLDER}.ledger:refresh_app", summary="Bring the ledger in line with the graphs."),
        "force-unlock": Entry(app=f"{_FOLDER}.ledger:force_unlock_app", summary="Remove the lock of a dead command."),
    },
)
