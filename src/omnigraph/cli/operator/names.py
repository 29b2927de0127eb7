"""Profiles and aliases by their names."""

from __future__ import annotations

from typing import Literal, overload

from omnigraph.cli.operator.config import Alias, OperatorConfig, Profile
from omnigraph.errors import AliasMissingError, MissingThing, ProfileMissingError


@overload
def find_named(config: OperatorConfig, what: Literal["profile"], name: str) -> Profile: ...
@overload
def find_named(config: OperatorConfig, what: Literal["alias"], name: str) -> Alias: ...
def find_named(config: OperatorConfig, what: Literal["profile", "alias"], name: str) -> Profile | Alias:
    """Return what the config calls by a name.

    Raises:
        ProfileMissingError, AliasMissingError: there is none of that name.
    """
    defined = config.profiles if what == "profile" else config.aliases
    if name in defined:
        return defined[name]
    missing = ProfileMissingError if what == "profile" else AliasMissingError
    known = tuple(defined)
    raise missing(
        f"no {what} has this name name={name}",
        details=MissingThing(what=what, name=name, near=known),
        hint=f"there are {', '.join(known)}" if known else f"no {what} is defined in {config.path}",
    )
