"""``omnigraph profile``: commands about the profiles of the operator config."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.operator.config import STORE_VARIABLE, OperatorConfig, Profile, find_named, operator_config
from omnigraph.cli.operator.scope import (
    ClusterScope,
    Scope,
    ServerScope,
    active_profile,
    environment_store,
    profile_scope,
    server_url,
)
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output
from omnigraph.errors import OmnigraphError
from omnigraph.records import record

app = new_group(
    "List and show the profiles of the operator config.",
    {
        "list": Entry(app=f"{__name__}:list_app", summary="List the profiles and the graphs they name."),
        "show": Entry(app=f"{__name__}:show_app", summary="Show the graph that commands use by default."),
    },
)


list_app = new_app()


@record
class ProfileLine:
    """One profile: ``binding`` is what the file writes (``store: ../g``), ``target`` the address that this leads to.

    ``default_graph`` is the graph of a server; a storage holds one graph.
    """

    name: str
    binding: str | None
    scope_kind: str
    target: str | None
    valid: bool
    error: str | None
    default_graph: str | None
    active: bool


@record
class ProfileListReport:
    """All profiles, in the order of the file."""

    profiles: tuple[ProfileLine, ...]

    def to_json(self) -> list[Any]:
        """An object per profile."""
        return [asdict(profile) for profile in self.profiles]

    def to_lines(self) -> Iterable[str]:
        """A line per profile; a star marks the one that is in use."""
        if not self.profiles:
            return ["no profiles"]
        widest = max(len(profile.name) for profile in self.profiles)
        return [_line(profile, widest) for profile in self.profiles]

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@list_app.command("list")
def list_profiles(*, as_json: AsJson = False) -> int:
    """List the profiles of the operator config and the graphs they name; a star marks the one in use."""
    config, active = operator_config(), active_profile()
    lines = tuple(_describe(config, profile, active) for profile in config.profiles.values())
    choose_output(as_json=as_json).show(ProfileListReport(profiles=lines))
    return 0


def _describe(config: OperatorConfig, profile: Profile, active: str | None) -> ProfileLine:
    scope, error = None, None
    try:
        scope = profile_scope(config, profile)
    except OmnigraphError as problem:
        error = problem.message
    return ProfileLine(
        name=profile.name,
        binding=profile.binding,
        scope_kind=_kind(scope, "invalid"),
        target=_target(scope),
        valid=error is None,
        error=error,
        default_graph=None if scope is None or isinstance(scope, str) else scope.graph_id,
        active=profile.name == active,
    )


def _kind(scope: Scope | None, otherwise: str) -> str:
    match scope:
        case None:
            return otherwise
        case ServerScope():
            return "server"
        case ClusterScope():
            return "cluster"
        case _:
            return "store"


def _target(scope: Scope | None) -> str | None:
    if isinstance(scope, ClusterScope):
        return scope.place
    return scope.url if isinstance(scope, ServerScope) else scope


def _line(profile: ProfileLine, widest: int) -> str:
    mark = "*" if profile.active else " "
    what = profile.target if profile.valid else profile.error
    return f"{mark} {profile.name.ljust(widest)}  {profile.scope_kind.ljust(7)}  {what}"


show_app = new_app()

_DEFAULTS = "(defaults)"
_ENVIRONMENT = f"({STORE_VARIABLE})"
_NO_SCOPE = "none"


@record
class ProfileReport:
    """What a profile or the defaults lead to, and how rows read from it are written.

    The ``endpoint`` of a storage is the address itself, and it holds one graph; that of a server is where its graph is,
    if ``default_graph`` names one.
    """

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
        """A line per member that says something of its own."""
        shown = {name: value for name, value in asdict(self).items() if name != "endpoint" or value != self.target}
        return [f"{name}: {value}" for name, value in shown.items() if value is not None]

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@show_app.command()
def show(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The profile; OMNIGRAPH_PROFILE by default.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show the graph of a profile; without a profile, the graph that commands use by default."""
    config = operator_config()
    stored = environment_store() if name is None else None
    wanted = name or active_profile()
    scope = _default_scope(config) if wanted is None else profile_scope(config, find_named(config, "profile", wanted))
    if stored is not None:
        wanted, scope = _ENVIRONMENT, stored
    graph_id = None if scope is None or isinstance(scope, str) else scope.graph_id
    target = _target(scope)
    report = ProfileReport(
        name=wanted or _DEFAULTS,
        scope_kind=_kind(scope, _NO_SCOPE),
        target=target,
        endpoint=f"{target}/graphs/{graph_id}" if isinstance(scope, ServerScope) and graph_id is not None else target,
        default_graph=graph_id,
        output_format=config.defaults.output or "table",
    )
    choose_output(as_json=as_json).show(report)
    return 0


def _default_scope(config: OperatorConfig) -> Scope | None:
    defaults = config.defaults
    if defaults.server is None:
        return defaults.store
    return ServerScope(url=server_url(config, defaults.server), graph_id=defaults.default_graph)
