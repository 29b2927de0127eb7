"""``omnigraph profile show``: what a command works on where its arguments say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.config import OperatorConfig, Scope
from omnigraph.cli.operator.loading import operator_config
from omnigraph.cli.operator.names import find_named
from omnigraph.cli.operator.scope import active_profile
from omnigraph.cli.operator.targets import resolve_target
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output
from omnigraph.records import record

app = new_app()

_DEFAULTS = "(defaults)"
_NO_SCOPE = "none"


@record
class ProfileReport:
    """A scope: what it leads to, and how rows read from it are written."""

    name: str
    scope_kind: str
    target: str | None
    endpoint: str | None
    default_graph: str | None
    output_format: str

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)

    def to_lines(self) -> Iterable[str]:
        """A line per member that says something."""
        return [f"{name}: {value}" for name, value in asdict(self).items() if value is not None]

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@app.command()
def show(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The profile; by default what OMNIGRAPH_PROFILE says.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show what a profile leads to; without one, what commands work on by the defaults of the operator config."""
    config = operator_config()
    wanted = name or active_profile()
    if wanted is None:
        scope, graph = config.defaults.scope(), config.defaults.default_graph
    else:
        profile = find_named(config, "profile", wanted)
        scope, graph = profile.scope(), profile.default_graph
    report = ProfileReport(
        name=wanted or _DEFAULTS,
        scope_kind=_NO_SCOPE if scope is None else scope.kind,
        target=None if scope is None else resolve_target(config, scope),
        endpoint=_endpoint(config, scope, graph),
        default_graph=graph,
        output_format=config.defaults.output or "table",
    )
    choose_output(as_json=as_json).show(report)
    return 0


def _endpoint(config: OperatorConfig, scope: Scope | None, graph: str | None) -> str | None:
    if scope is None or scope.kind != "server":
        return None
    base = resolve_target(config, scope).rstrip("/")
    return base if graph is None else f"{base}/graphs/{graph}"
