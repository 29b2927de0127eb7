"""``omnigraph profile list``: the profiles of the operator config."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.config import OperatorConfig, Profile
from omnigraph.cli.operator.loading import operator_config
from omnigraph.cli.operator.scope import active_profile
from omnigraph.cli.operator.targets import resolve_target
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output
from omnigraph.errors import OmnigraphError
from omnigraph.records import record

app = new_app()


@record
class ProfileLine:
    """One profile: ``binding`` as it is written, ``target`` the address that it leads to."""

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


@app.command("list")
def list_profiles(*, as_json: AsJson = False) -> int:
    """List the profiles of the operator config and what they lead to; a star marks the one in use."""
    config, active = operator_config(), active_profile()
    lines = tuple(_describe(config, profile, active) for profile in config.profiles.values())
    choose_output(as_json=as_json).show(ProfileListReport(profiles=lines))
    return 0


def _describe(config: OperatorConfig, profile: Profile, active: str | None) -> ProfileLine:
    binding: str | None = None
    kind, target, error = "invalid", None, None
    try:
        scope = profile.scope()
        binding, kind = scope.written, scope.kind
        target = resolve_target(config, scope)
    except OmnigraphError as problem:
        error = problem.message
    return ProfileLine(
        name=profile.name,
        binding=binding,
        scope_kind=kind if error is None else "invalid",
        target=target,
        valid=error is None,
        error=error,
        default_graph=profile.default_graph,
        active=profile.name == active,
    )


def _line(profile: ProfileLine, widest: int) -> str:
    mark = "*" if profile.active else " "
    graph = "" if profile.default_graph is None else f" graph={profile.default_graph}"
    what = f"{profile.target}{graph}" if profile.valid else profile.error
    return f"{mark} {profile.name.ljust(widest)}  {profile.scope_kind.ljust(7)}  {what}"
