"""Mapping files: what the files of a folder hold and how they are written, said once beside them.

Nothing in a mapping is guessed or ignored: every key is known, every file that it names is there, and everything that
is wrong with it is told at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args

from omnigraph.engine.load.sources.dialect import Dialect
from omnigraph.engine.load.sources.source import SourceFormat
from omnigraph.errors import MappingError, UsageError, Violation, Violations
from omnigraph.lang.document import Document, Node, parse_document
from omnigraph.lang.source import Span
from omnigraph.records import record

MAPPING_NAME = "mapping.yaml"
_SETTINGS = tuple(one.name for one in fields(Dialect))
_LISTS = frozenset({"header", "null"})
_OF_FILE = ("type", "format", "columns", *_SETTINGS)
_OF_ALL = ("files", "skip", *_SETTINGS)


@record
class MappedFile:
    """What a mapping says of one file, or of those that a pattern matches."""

    pattern: str
    line: int
    type_name: str | None
    format: SourceFormat | None
    columns: Mapping[str, str]
    settings: Mapping[str, Any]


@record
class FolderMapping:
    """A mapping; ``settings`` are of all files, ``skip`` names files that hold no rows."""

    name: str
    files: tuple[MappedFile, ...]
    skip: tuple[str, ...]
    settings: Mapping[str, Any]

    def problem(self, message: str, line: int) -> Violation:
        """Return what is wrong with a line."""
        return _violation(message, self.name, line)


def read_mapping(data: bytes, name: str) -> FolderMapping:
    """Return what a mapping says; ``name`` is what messages call it.

    Raises:
        MappingError: something in it makes no sense.
        ConfigError: it is not YAML.
        SourceEncodingError, SourceTooLargeError: it is no text that could be one.
    """
    reader = _Reader(parse_document(data, name, subject="the mapping"))
    found = reader.read()
    refuse(reader.problems)
    return found


def refuse(problems: Sequence[Violation]) -> None:
    """Return if there is no problem.

    Raises:
        MappingError: there is one.
    """
    if problems:
        ordered = sorted(problems, key=lambda problem: problem.line or 0)
        more = f" (and {len(ordered) - 1} more)" if len(ordered) > 1 else ""
        raise MappingError(
            f"{ordered[0].place()}: {ordered[0].message}{more}",
            details=Violations(items=tuple(ordered), total=len(ordered)),
        )


def _violation(message: str, name: str, line: int) -> Violation:
    return Violation(rule="mapping", type_name="", message=message, source=name, line=line)


class _Reader:
    """Reads a document to its end, whatever is wrong with parts of it."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Violation] = []

    def read(self) -> FolderMapping:
        root = self._entries(self._document.root, "the mapping", _OF_ALL)
        files = self._entries(root.get("files"), "files", None)
        return FolderMapping(
            name=self._document.source.name,
            files=tuple(self._file(pattern, node) for pattern, node in files.items()),
            skip=tuple(self._texts(root["skip"], "skip")) if "skip" in root else (),
            settings=self._settings(root),
        )

    def _file(self, pattern: str, node: Node) -> MappedFile:
        entries = self._entries(node, f"'{pattern}'", _OF_FILE)
        columns = self._entries(entries.get("columns"), "columns", None)
        return MappedFile(
            pattern=pattern,
            line=self._line(node),
            type_name=self._text(entries["type"], "type") if "type" in entries else None,
            format=self._format(entries["format"]) if "format" in entries else None,
            columns={name: self._text(column, name) for name, column in columns.items()},
            settings=self._settings(entries),
        )

    def _settings(self, entries: Mapping[str, Node]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in _SETTINGS:
            node = entries.get(name)
            if node is None:
                continue
            value: Any = self._texts(node, name) if name in _LISTS else node.plain()
            try:
                Dialect(**{name: value})
            except UsageError as problem:
                self._refuse(problem.message, node)
            else:
                found[name] = value
        return found

    def _format(self, node: Node) -> SourceFormat | None:
        for known in get_args(SourceFormat):
            if node.value == known:
                return known  # type: ignore[no-any-return]  # one of the words
        self._refuse(f"format must be {' | '.join(get_args(SourceFormat))}, not {node.plain()!r}", node)
        return None

    def _text(self, node: Node, name: str) -> str:
        if isinstance(node.value, str) and node.value:
            return node.value
        self._refuse(f"{name} must be text, not {node.plain()!r}", node)
        return ""

    def _texts(self, node: Node, name: str) -> list[str]:
        items = node.value if isinstance(node.value, tuple) else (node,)
        texts = []
        for item in items:
            if isinstance(item.value, str):
                texts.append(item.value)
            else:
                advice = "; write it in quotes" if not isinstance(item.value, dict | tuple) else ""
                self._refuse(f"{name} must be a list of texts, not {item.plain()!r}{advice}", item)
        return texts

    def _entries(self, node: Node | None, what: str, known: Sequence[str] | None) -> Mapping[str, Node]:
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self._refuse(f"{what} must be a mapping, not {node.plain()!r}", node)
            return {}
        for name, entry in node.value.items():
            if known is not None and name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                advice = f"; did you mean '{near[0]}'?" if near else f"; known keys: {', '.join(known)}"
                self._refuse(f"unknown key '{name}'{advice}", entry)
        return node.value

    def _refuse(self, message: str, node: Node) -> None:
        self.problems.append(_violation(message, self._document.source.name, self._line(node)))

    def _line(self, node: Node) -> int:
        span: Span = node.key_span or node.span
        return self._document.line(span)
