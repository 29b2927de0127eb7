"""The graph of a command line that names none, and who writes to it: profile, then defaults."""

from __future__ import annotations

import os
from contextvars import ContextVar

from omnigraph.cli.operator.config import Scope
from omnigraph.cli.operator.loading import operator_config
from omnigraph.cli.operator.names import find_named
from omnigraph.errors import BadValue, UsageError

PROFILE_VARIABLE = "OMNIGRAPH_PROFILE"

# What --profile said on the command line of this process. The option stands on every command that opens a graph, and
# none of them has to hand it on.
_chosen: ContextVar[str | None] = ContextVar("chosen_profile", default=None)


def choose_profile(name: str | None) -> None:
    """Keep what ``--profile`` said."""
    _chosen.set(name)


def active_profile() -> str | None:
    """Return the name of the profile that is asked for, by option or else by environment."""
    chosen = _chosen.get()
    return (os.environ.get(PROFILE_VARIABLE) or None) if chosen is None else chosen


def default_scope() -> Scope:
    """Return the scope of a command line that names no graph.

    Raises:
        UsageError: nothing else names one either.
        ProfileMissingError: the profile that is asked for does not exist.
        ConfigError: the config, or the profile, is not valid.
    """
    config = operator_config()
    name = active_profile()
    if name is not None:
        return find_named(config, "profile", name).scope()
    scope = config.defaults.scope()
    if scope is None:
        raise UsageError(
            "no graph is named",
            details=BadValue(what="graph", value="", expected="--store URI"),
            hint=(
                "give its storage with --store: a path, file:// or s3://bucket/prefix; "
                f"or use --profile NAME, {PROFILE_VARIABLE}, or defaults.store of the operator config"
            ),
        )
    return scope


def default_actor(given: str | None) -> str | None:
    """Return who writes: the actor that was given, or else the operator.

    Raises:
        ConfigError: the config is not valid.
    """
    return operator_config().actor if given is None else given
