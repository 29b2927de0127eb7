"""``omnigraph cluster``: the commands about clusters as code."""

from __future__ import annotations

from omnigraph.cli.lazy import Entry, new_group

_FOLDER = __name__.rpartition(".")[0]

app = new_group(
    "Declare the graphs, schemas, queries and policies of a cluster in files, and apply them.",
    {
        "init": Entry(app=f"{_FOLDER}.declaration:init_app", summary="Write an example directory to start from."),
        "validate": Entry(app=f"{_FOLDER}.declaration:validate_app", summary="Check the files of a directory."),
        "import": Entry(app=f"{_FOLDER}.ledger:import_app", summary="Create the ledger of the cluster."),
        "plan": Entry(app=f"{_FOLDER}.applying:plan_app", summary="Show what `cluster apply` would do."),
        "apply": Entry(app=f"{_FOLDER}.applying:apply_app", summary="Apply what the directory declares."),
        "approve": Entry(app=f"{_FOLDER}.applying:approve_app", summary="Approve the deletion of a graph."),
        "status": Entry(app=f"{_FOLDER}.ledger:status_app", summary="Show the ledger and its lock."),
        "refresh": Entry(app=f"{_FOLDER}.ledger:refresh_app", summary="Bring the ledger in line with the graphs."),
        "force-unlock": Entry(
            app=f"{_FOLDER}.ledger:force_unlock_app", summary="Remove the lock that a crashed command left behind."
        ),
    },
)
