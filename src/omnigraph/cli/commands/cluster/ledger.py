"""``omnigraph cluster status``, ``refresh``, ``import`` and ``force-unlock``: the ledger of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.commands.cluster.options import ConfigDir
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output

status_app = new_app()
refresh_app = new_app()
import_app = new_app()
force_unlock_app = new_app()

LockId = Annotated[str, typer.Argument(metavar="LOCK_ID", help="The id of the lock, as `cluster status` shows it.")]


@status_app.command()
def status(*, config: ConfigDir = ".", as_json: AsJson = False) -> int:
    """Show the ledger, its lock, and problems of the stored texts. Reads no graph and takes no lock."""
    from omnigraph.cluster.session import ClusterSession  # noqa: PLC0415 - it brings the engine

    report = ClusterSession(config).status()
    choose_output(as_json=as_json).show(report)
    return report.exit_code


@refresh_app.command()
def refresh(*, config: ConfigDir = ".", as_json: AsJson = False) -> int:
    """Update the ledger from the actual graphs and stored texts; the next plan shows the drift."""
    from omnigraph.cluster.session import ClusterSession  # noqa: PLC0415 - it brings the engine

    report = ClusterSession(config).refresh()
    choose_output(as_json=as_json).show(report)
    return report.exit_code


@import_app.command("import")
def import_graphs(*, config: ConfigDir = ".", as_json: AsJson = False) -> int:
    """Create the ledger of a cluster from the existing graphs, if there are any."""
    from omnigraph.cluster.session import ClusterSession  # noqa: PLC0415 - it brings the engine

    report = ClusterSession(config).import_graphs()
    choose_output(as_json=as_json).show(report)
    return report.exit_code


@force_unlock_app.command("force-unlock")
def force_unlock(*, lock_id: LockId, config: ConfigDir = ".", as_json: AsJson = False) -> int:
    """Remove the lock of a crashed command. Make sure that it is not running: concurrent commands can interfere."""
    from omnigraph.cluster.session import ClusterSession  # noqa: PLC0415 - it brings the engine

    report = ClusterSession(config).force_unlock(lock_id)
    choose_output(as_json=as_json).show(report)
    return report.exit_code
