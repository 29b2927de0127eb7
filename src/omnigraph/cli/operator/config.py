"""What an operator config says, as values.

The YAML library is loaded only where there is a config to read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from omnigraph.cli.files import read_input
from omnigraph.cli.output import choose_output
from omnigraph.errors import (
    AliasMissingError,
    ConfigError,
    Diagnostic,
    FileMissingError,
    MissingThing,
    Place,
    ProfileMissingError,
)
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.lang.document import Section

FORMATS = ("table", "kv", "csv", "jsonl", "json")
LAYOUTS = ("truncate", "wrap")
MAX_COLUMN_WIDTH = 10_000


# What a profile may name, one of them.
_BINDINGS = ("server", "cluster", "store")


@record
class Profile:
    """A graph by name. Whether it names one is looked at when it is used, not when the file is read.

    ``binding`` is what it names as the file writes it, ``store`` the address that this leads to. A profile names a
    storage, or a server or a cluster and which of its graphs is meant by default.
    """

    name: str
    binding: str | None = None
    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    default_graph: str | None = None
    place: Place | None = None

    def check(self) -> None:
        """See that the profile names exactly one thing.

        Raises:
            ConfigError: it does not.
        """
        bound = [one for one in (self.store, self.server, self.cluster) if one is not None]
        if len(bound) != 1:
            found = "nothing" if not bound else "several of them"
            expected = "server, cluster or store"
            raise self._problem("must set exactly one of server, cluster and store", expected, found)
        if self.store is not None and self.default_graph is not None:
            raise self._problem("names a storage, which holds one graph", "no default_graph", self.default_graph)

    def _problem(self, message: str, expected: str, found: str) -> ConfigError:
        details = Diagnostic(place=self.place, expected=(expected,), found=found)
        return ConfigError(f"profile '{self.name}' {message}", details=details)

    def storage(self) -> str:
        """Return the storage of the graph.

        Raises:
            ConfigError: the profile names none.
        """
        if self.store is not None:
            return self.store
        raise self._problem("has no store", "store", "nothing")


@record
class Defaults:
    """What holds where a command line says nothing."""

    output: str | None = None
    table_max_column_width: int | None = None
    table_cell_layout: Literal["truncate", "wrap"] | None = None
    store: str | None = None
    server: str | None = None
    default_graph: str | None = None


@record
class Alias:
    """A query under a short name. What it lacks is found when it is used, not when the file is read.

    With a ``file`` it is a declaration of that, otherwise a stored query of the server.
    """

    name: str
    store: str | None = None
    profile: str | None = None
    server: str | None = None
    graph: str | None = None
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
        f"{what} '{name}' was not found",
        details=MissingThing(what=what, name=name, near=known),
        hint=f"known names: {', '.join(known)}" if known else f"no {what} is defined in {config.path}",
    )


HOME_VARIABLE = "OMNIGRAPH_HOME"
FILE_NAME = "config.yaml"
_FOLDER = "~/.omnigraph"


def config_path() -> Path:
    """Return where the config is looked for."""
    written = os.environ.get(HOME_VARIABLE) or _FOLDER
    try:
        return Path(written).expanduser() / FILE_NAME
    except RuntimeError:
        return Path(written) / FILE_NAME


def operator_config() -> OperatorConfig:
    """Return the config, empty if there is no file; what is ignored in it is said on standard error, once.

    Raises:
        ConfigError: the file is no config.
        FileAccessError, SourceEncodingError, SourceTooLargeError: it cannot be read, or is no text that could be one.
    """
    return _loaded(config_path())


@cache
def _loaded(path: Path) -> OperatorConfig:
    try:
        read = read_input(str(path))
    except FileMissingError:
        return OperatorConfig(path=path)

    config = parse_config(read.data, path)
    output = choose_output(as_json=False)
    for warning in config.warnings:
        output.warn(warning)
    return config


PROFILE_VARIABLE = "OMNIGRAPH_PROFILE"
STORE_VARIABLE = "OMNIGRAPH_STORE"


def parse_config(data: bytes, path: Path) -> OperatorConfig:
    """Read a config; ``path`` names it in messages, and paths in it are relative to its folder.

    Raises:
        ConfigError: it is no YAML, or a key holds the wrong type.
        SourceEncodingError, SourceTooLargeError: it is no text that could be one.
    """
    from omnigraph.lang.document import Section, parse_document  # noqa: PLC0415 - there is a file to be parsed

    document = parse_document(data, str(path))
    root = Section(document, document.root)
    folder = path.parent
    return OperatorConfig(
        path=path,
        actor=root.section("operator").text("actor"),
        servers={name: _url(one) for name, one in root.sections("servers").items()},
        clusters={name: _root(one, folder) for name, one in root.sections("clusters").items()},
        profiles={name: _profile(name, one, folder) for name, one in root.sections("profiles").items()},
        defaults=_defaults(root.section("defaults"), folder),
        aliases={name: _alias(name, one, folder) for name, one in root.sections("aliases").items()},
        warnings=tuple(
            f"unknown key `{key}` (a typo, or from a later version); ignored in {path}:{line}"
            for key, line in root.unknown()
        ),
    )


def _url(section: Section) -> str:
    url = section.text("url")
    if url is None:
        raise section.problem("a server has no url", expected="url")
    if not url.startswith(("http://", "https://")):
        raise section.problem("the url of a server is not http:// or https://", "url", expected="https://host")
    return url


def _root(section: Section, folder: Path) -> str:
    root = section.text("root")
    if root is None:
        raise section.problem("a cluster has no root", expected="root")
    return root if "://" in root else str(_below(folder, root))


def _cluster(section: Section, folder: Path) -> str | None:
    """A path is relative to the folder of the config; a word without a slash is the name of a cluster."""
    written = section.text("cluster")
    if written is None or "://" in written or "/" not in written:
        return written
    return str(_below(folder, written))


def _profile(name: str, section: Section, folder: Path) -> Profile:
    return Profile(
        name=name,
        binding=", ".join(f"{key}: {section.text(key)}" for key in _BINDINGS if section.text(key) is not None) or None,
        store=_store(section, folder),
        server=section.text("server"),
        cluster=_cluster(section, folder),
        default_graph=section.text("default_graph"),
        place=section.place,
    )


def _defaults(section: Section, folder: Path) -> Defaults:
    layout = section.choice("table_cell_layout", LAYOUTS)
    for key in ("server", "default_graph"):
        if section.text("store") is not None and section.text(key) is not None:
            raise section.problem(f"defaults.{key} and defaults.store exclude each other", key, expected="one of them")
    return Defaults(
        output=section.choice("output", FORMATS),
        table_max_column_width=section.whole_number("table_max_column_width", least=1, most=MAX_COLUMN_WIDTH),
        table_cell_layout="wrap" if layout == "wrap" else None if layout is None else "truncate",
        store=_store(section, folder),
        server=section.text("server"),
        default_graph=section.text("default_graph"),
    )


def _alias(name: str, section: Section, folder: Path) -> Alias:
    file = section.text("file")
    return Alias(
        name=name,
        store=_store(section, folder),
        profile=section.text("profile"),
        server=section.text("server"),
        graph=section.text("graph"),
        file=None if file is None else str(_below(folder, file)),
        query=section.text("query"),
        branch=section.text("branch"),
        args=section.texts("args"),
        params=section.values("params"),
        format=section.choice("format", FORMATS),
        mutation=section.flag("mutation"),
        place=section.place,
    )


def _store(section: Section, folder: Path) -> str | None:
    """A path means the same from wherever a command runs; an address with a scheme stands as it is."""
    written = section.text("store")
    if written is None or "://" in written:
        return written
    return str(_below(folder, written))


def _below(folder: Path, written: str) -> Path:
    try:
        return folder / Path(written).expanduser()
    except RuntimeError:
        # A home that the system does not know: the path is then taken as it is written.
        return folder / written
