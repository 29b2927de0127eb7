"""``omnigraph pipeline``: the commands about declared pipelines."""

from __future__ import annotations

from omnigraph.cli.lazy import Entry, new_group

_FOLDER = __name__.rpartition(".")[0]

app = new_group(
    "Declare, check and run pipelines: how tables of other systems become a graph and keep it current.",
    {
        "init": Entry(app=f"{_FOLDER}.declaration:init_app", summary="Write an example to start from."),
        "validate": Entry(app=f"{_FOLDER}.declaration:validate_app", summary="Tell everything that is wrong with one."),
        "plan": Entry(app=f"{_FOLDER}.declaration:plan_app", summary="Show what a run would do."),
        "run": Entry(app=f"{_FOLDER}.running:run_app", summary="Bring what is new of the sources into the graph."),
        "status": Entry(app=f"{_FOLDER}.runs:status_app", summary="Show the runs, and how far sources were read."),
        "report": Entry(app=f"{_FOLDER}.runs:report_app", summary="Show what a run did."),
        "quarantine": Entry(app=f"{_FOLDER}.runs:quarantine_app", summary="List, export or replay rejected rows."),
    },
)
