"""From the text of an operator config to its values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omnigraph.cli.operator.config import (
    FORMATS,
    LAYOUTS,
    MAX_COLUMN_WIDTH,
    Alias,
    Defaults,
    OperatorConfig,
    Profile,
)
from omnigraph.cli.operator.document import parse_document
from omnigraph.cli.operator.sections import Section


def parse_config(data: bytes, path: Path) -> OperatorConfig:
    """Read a config; ``path`` names it in messages, and paths in it are relative to its folder.

    Raises:
        ConfigError: it is no YAML, a key holds the wrong type, or defaults contradict each other.
        SourceEncodingError, SourceTooLargeError: it is no text that could be one.
    """
    document = parse_document(data, str(path))
    root = Section(document, document.root)
    folder = path.parent
    return OperatorConfig(
        path=path,
        actor=root.section("operator").text("actor"),
        servers=_addresses(root.sections("servers"), "url"),
        clusters=_addresses(root.sections("clusters"), "root"),
        profiles={name: _profile(name, one, folder) for name, one in root.sections("profiles").items()},
        defaults=_defaults(root.section("defaults"), folder),
        aliases={name: _alias(name, one, folder) for name, one in root.sections("aliases").items()},
        warnings=tuple(
            f"unknown key `{key}` (of a later version, or a typo); ignored in {path}:{line}"
            for key, line in root.unknown()
        ),
    )


def _addresses(sections: Mapping[str, Section], key: str) -> dict[str, str]:
    found = {name: section.text(key) for name, section in sections.items()}
    return {name: address for name, address in found.items() if address is not None}


def _profile(name: str, section: Section, folder: Path) -> Profile:
    return Profile(
        name=name,
        server=section.text("server"),
        cluster=section.text("cluster"),
        store=_store(section, folder),
        default_graph=section.text("default_graph"),
        place=section.place,
    )


def _defaults(section: Section, folder: Path) -> Defaults:
    section.exclusive("server", "store")
    section.exclusive("default_graph", "store")
    layout = section.choice("table_cell_layout", LAYOUTS)
    return Defaults(
        output=section.choice("output", FORMATS),
        table_max_column_width=section.whole_number("table_max_column_width", least=1, most=MAX_COLUMN_WIDTH),
        table_cell_layout="wrap" if layout == "wrap" else None if layout is None else "truncate",
        server=section.text("server"),
        default_graph=section.text("default_graph"),
        store=_store(section, folder),
    )


def _alias(name: str, section: Section, folder: Path) -> Alias:
    file = section.text("file")
    return Alias(
        name=name,
        server=section.text("server"),
        graph=section.text("graph"),
        store=_store(section, folder),
        profile=section.text("profile"),
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
