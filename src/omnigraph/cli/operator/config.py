"""What an operator config says, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, assert_never

from omnigraph.errors import BadValue, ConfigError, Diagnostic, Place, ScopeUnsupportedError
from omnigraph.records import record

FORMATS = ("table", "kv", "csv", "jsonl", "json")
LAYOUTS = ("truncate", "wrap")
MAX_COLUMN_WIDTH = 10_000

ScopeKind = Literal["server", "cluster", "store"]


@record
class Scope:
    """What an address leads to: a graph's storage, or a server or cluster by the name or address that was written.

    ``origin`` is the part of the config that says so.
    """

    kind: ScopeKind
    written: str
    origin: str

    def storage(self) -> str:
        """Return the storage of the graph.

        Raises:
            ScopeUnsupportedError: it is reached through a server or a cluster.
        """
        match self.kind:
            case "store":
                return self.written
            case "server" | "cluster":
                raise unsupported_scope(f"{self.origin} leads to {self.kind} '{self.written}'", self.written)
            case _:
                assert_never(self.kind)


@record
class Profile:
    """A named scope. Whether it is one is looked at when it is used, not when the file is read."""

    name: str
    server: str | None = None
    cluster: str | None = None
    store: str | None = None
    default_graph: str | None = None
    place: Place | None = None

    def scope(self) -> Scope:
        """Return what the profile binds.

        Raises:
            ConfigError: nothing, or several things.
        """
        candidates: tuple[tuple[ScopeKind, str | None], ...] = (
            ("server", self.server),
            ("cluster", self.cluster),
            ("store", self.store),
        )
        origin = f"profile '{self.name}'"
        bound = [
            Scope(kind=kind, written=written, origin=origin) for kind, written in candidates if written is not None
        ]
        if len(bound) == 1:
            return bound[0]
        expected = "exactly one of server, cluster and store"
        found = ", ".join(scope.kind for scope in bound) or "nothing"
        details = Diagnostic(place=self.place, expected=(expected,), found=found)
        raise ConfigError(f"{origin} does not bind {expected}", details=details)


@record
class Defaults:
    """What holds where a command line says nothing."""

    output: str | None = None
    table_max_column_width: int | None = None
    table_cell_layout: Literal["truncate", "wrap"] | None = None
    server: str | None = None
    default_graph: str | None = None
    store: str | None = None

    def scope(self) -> Scope | None:
        """Return the scope of a command line that names none."""
        if self.server is not None:
            return Scope(kind="server", written=self.server, origin="the default")
        return None if self.store is None else Scope(kind="store", written=self.store, origin="the default")


@record
class Alias:
    """A query under a short name. What it lacks is found when it is used, not when the file is read."""

    name: str
    server: str | None = None
    graph: str | None = None
    store: str | None = None
    profile: str | None = None
    file: str | None = None
    query: str | None = None
    branch: str | None = None
    args: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    mutation: bool = False
    place: Place | None = None

    def problem(self, message: str, *, expected: str) -> ConfigError:
        """Return an error about the alias, at its place in the file."""
        details = Diagnostic(place=self.place, expected=(expected,))
        return ConfigError(f"alias '{self.name}' {message}", details=details)


@record
class OperatorConfig:
    """A whole config; ``path`` is where it was looked for, ``warnings`` what was ignored in it."""

    path: Path
    actor: str | None = None
    servers: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def unsupported_scope(finding: str, value: str) -> ScopeUnsupportedError:
    """Return the error about a graph that is not addressed by its storage."""
    return ScopeUnsupportedError(
        f"{finding}, and this version works on stores",
        details=BadValue(what="scope", value=value, expected="the storage of a graph"),
        hint="name the graph's storage with --store, or with store: in the operator config",
    )
