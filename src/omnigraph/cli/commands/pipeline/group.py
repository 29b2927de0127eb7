"""``omnigraph pipeline``: the commands about declared pipelines."""

from __future__ import annotations

from omnigraph.cli.lazy import Entry, new_group

_FOLDER = __name__.rpartition(".")[0]

app = new_group(
    "Declare, check and run pipelines, which load tables of other systems into a graph and keep it current.",
    {
        "init": Entry(app=f"{_FOLDER}.declaration:init_app", summary="Write an example to start from."),
        "validate": Entry(
            app=f"{_FOLDER}.declaration:validate_app", summary="Check a declaration and report every mistake."
        ),
        "plan": Entry(app=f"{_FOLDER}.declaration:plan_app", summary="Show what a run would do."),
        "run": Entry(app=f"{_FOLDER}.running:run_app", summary="Load the new data of the sources into the graph."),
        "status": Entry(
            app=f"{_FOLDER}.runs:status_app", summary="Show the runs, and the position reached in each source."
        ),
        "report": Entry(app=f"{_FOLDER}.runs:report_app", summary="Show what a run did."),
        "quarantine": Entry(app=f"{_FOLDER}.runs:quarantine_app", summary="List, export or replay rejected rows."),
    },
)
