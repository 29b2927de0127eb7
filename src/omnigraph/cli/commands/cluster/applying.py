"""``omnigraph cluster plan``, ``apply`` and ``approve``: from what is declared to what exists."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.commands.cluster.options import ConfigDir
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson
from omnigraph.cli.output import choose_output
from omnigraph.cli.usage import usage_error

plan_app = new_app()
apply_app = new_app()
approve_app = new_app()

Resource = Annotated[
    str, typer.Argument(metavar="RESOURCE", help="The address of the resource, as the plan shows it: graph.crm.")
]


@plan_app.command()
def plan(*, config: ConfigDir = ".", as_json: AsJson = False) -> int:
    """Show what `cluster apply` would do: every change, its effects, and the approvals it needs. Changes nothing.

    For schema updates, the steps of the migration are shown.
    """
    from omnigraph.cluster.session import ClusterSession  # noqa: PLC0415 - it brings the engine

    report = ClusterSession(config).plan()
    choose_output(as_json=as_json).show(report)
    return report.exit_code


@apply_app.command()
def apply(*, config: ConfigDir = ".", actor: Actor = None, as_json: AsJson = False) -> int:
    """Apply the graphs, schemas, queries, policies and providers that the directory declares.

    The ledger records them, and servers load the applied revision. A graph is deleted only with an approval. A change
    that fails is skipped together with everything that depends on it; run the command again to continue, also after a
    crash.
    """
    from omnigraph.cluster.session import ClusterSession  # noqa: PLC0415 - it brings the engine

    report = ClusterSession(config).apply(actor=actor)
    choose_output(as_json=as_json).show(report)
    return report.exit_code


@approve_app.command()
def approve(*, resource: Resource, config: ConfigDir = ".", actor: Actor = None, as_json: AsJson = False) -> int:
    """Approve the planned deletion of a graph; any later edit of the config makes the approval stale."""
    from omnigraph.cluster.session import ClusterSession  # noqa: PLC0415 - it brings the engine

    if actor is None:
        raise usage_error("an approval needs an actor", expected="--as ACTOR, or operator.actor in the operator config")
    report = ClusterSession(config).approve(resource, actor=actor)
    choose_output(as_json=as_json).show(report)
    return report.exit_code
