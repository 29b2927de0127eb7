"""Mappings of ``cluster.yaml``: what is wrong with their values is noted with its line, and reading goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from omnigraph.cluster.diagnostics import Findings
from omnigraph.lang.document import Document, Node, kind_of
from omnigraph.records import record
from omnigraph.values.checks import meant
from omnigraph.values.patterns import late_pattern

RESOURCE_ID = late_pattern(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN = 100


@record
class ConfigFolder:
    """The directory that is being read, its parsed config, and what was found so far."""

    path: Path
    document: Document
    findings: Findings

    def place(self, node: Node) -> str:
        """Return the file and line of a value, at its key if it has one."""
        return f"{self.document.source.name}:{self.document.line(node.key_span or node.span)}"

    def resolve(self, written: str) -> Path:
        """Return the file or directory that a path of the config means."""
        return self.path / written


class ConfigSection:
    """A mapping of the config.

    Args:
        folder: the config that it is a part of.
        node: its value; nothing, or what is no mapping, is read as an empty one.
        name: what messages call it; empty for the whole config.
        keys: the keys that may stand in it; None where people choose them.
    """

    def __init__(self, folder: ConfigFolder, node: Node | None, name: str, keys: Iterable[str] | None) -> None:
        self.folder = folder
        self.name = name
        self._node = node
        value = None if node is None else node.value
        self._entries: Mapping[str, Node] = value if isinstance(value, dict) else {}
        if node is not None and value is not None and not isinstance(value, dict):
            self._mistyped(node, name or "the config", "a mapping")
        for key, entry in self._entries.items():
            if keys is not None and key not in (known := tuple(keys)):
                self._unknown(key, entry, known)

    @property
    def place(self) -> str:
        """Where it stands."""
        if self._node is None:
            return f"{self.folder.document.source.name}:1"
        return self.folder.place(self._node)

    def place_of(self, key: str) -> str:
        """Return where a key stands; the section itself if it is missing."""
        node = self._entries.get(key)
        return self.place if node is None else self.folder.place(node)

    def add(self, code: str, message: str, key: str = "") -> None:
        """Note a finding at a key of the section."""
        self.folder.findings.add(code, self.place_of(key), message)

    def get(self, key: str) -> Node | None:
        """Return the value of a key, None if there is none."""
        node = self._entries.get(key)
        return None if node is None or node.value is None else node

    def has(self, key: str) -> bool:
        """Whether a key stands in it, with a value or without."""
        return key in self._entries

    def names(self) -> tuple[str, ...]:
        """Return its keys in the order of the file."""
        return tuple(self._entries)

    def text(self, key: str) -> str | None:
        """Return a text that is not blank, None if there is none."""
        node = self.get(key)
        if node is None:
            return None
        if isinstance(node.value, str) and node.value.strip():
            return node.value.strip()
        self._mistyped(node, self.full_name(key), "text")
        return None

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        node = self.get(key)
        if node is None:
            return default
        if isinstance(node.value, bool):
            return node.value
        self._mistyped(node, self.full_name(key), "true or false")
        return default

    def texts(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return the texts of a list, each with its place."""
        node = self.get(key)
        if node is None:
            return ()
        if not isinstance(node.value, tuple):
            self._mistyped(node, self.full_name(key), "a list of texts")
            return ()
        found = []
        for number, item in enumerate(node.value):
            if isinstance(item.value, str) and item.value.strip():
                found.append((item.value.strip(), self.folder.place(item)))
            else:
                self._mistyped(item, f"{self.full_name(key)}[{number}]", "text")
        return tuple(found)

    def section(self, key: str, keys: Iterable[str] | None = None) -> ConfigSection:
        """Return the section below a key, empty if it is missing."""
        return ConfigSection(self.folder, self.get(key), self.full_name(key), keys)

    def sections(self, key: str, keys: Iterable[str]) -> dict[str, ConfigSection]:
        """Return the sections below a key by the names that people chose, without those that have no valid name."""
        parent, found = self.section(key), {}
        for name in parent.names():
            if RESOURCE_ID.fullmatch(name) is None:
                expected = "a letter or '_', then letters, digits, '_' and '-'"
                parent.add("invalid_resource_id", f"'{name[:_SHOWN]}' is not a valid name: expected {expected}", name)
                continue
            node = parent.get(name)
            if node is None:
                parent.add("invalid_cluster_yaml", f"{parent.full_name(name)} is empty", name)
                continue
            found[name] = ConfigSection(self.folder, node, parent.full_name(name), keys)
        return found

    def items(self, key: str, keys: Iterable[str]) -> tuple[ConfigSection, ...]:
        """Return the sections of a list."""
        node = self.get(key)
        if node is None:
            return ()
        if not isinstance(node.value, tuple):
            self._mistyped(node, self.full_name(key), "a list of mappings")
            return ()
        name = self.full_name(key)
        return tuple(
            ConfigSection(self.folder, item, f"{name}[{number}]", keys) for number, item in enumerate(node.value)
        )

    def full_name(self, key: str) -> str:
        """Return what messages call a key.

        Keys of a whole config have their own name, others that of the section before it.
        """
        return f"{self.name}.{key}" if self.name else key

    def _unknown(self, key: str, entry: Node, known: tuple[str, ...]) -> None:
        hint = meant(key, known) or f"known names: {', '.join(known)}"
        message = f"unknown key '{self.full_name(key)[:_SHOWN]}'; {hint}"
        self.folder.findings.add("invalid_cluster_yaml", self.folder.place(entry), message)

    def _mistyped(self, node: Node, name: str, expected: str) -> None:
        # A text that stands in a wrong place may be a key of a provider: it is not repeated.
        found = "text" if isinstance(node.value, str) and node.value.strip() else kind_of(node)
        message = f"{name} must be {expected}, not {found}"
        self.folder.findings.add("invalid_cluster_yaml", self.folder.place(node), message)
