"""Reads a document key by key: every value has a type, every mistake a place, and what nobody asks for is listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from omnigraph.cli.operator.document import Document, Node
from omnigraph.errors import ConfigError, Place
from omnigraph.lang.source import Span


class Section:
    """A mapping of the document, empty where it is missing."""

    def __init__(self, document: Document, node: Node | None, path: str = "") -> None:
        self._document = document
        self._node = node
        self._path = path
        self._asked: set[str] = set()
        self._children: list[Section] = []
        if node is not None and node.value is not None and not isinstance(node.value, dict):
            raise self._mistyped(node, path, "a mapping")
        self._entries: dict[str, Node] = node.value if node is not None and isinstance(node.value, dict) else {}

    @property
    def place(self) -> Place:
        """Where the section begins, at its key if it has one."""
        node = self._node
        span = Span(0, 1) if node is None else node.key_span or node.span
        return self._document.source.place(span)

    def text(self, key: str) -> str | None:
        """Return a text that is not empty."""
        node = self._value(key)
        if node is None:
            return None
        if not isinstance(node.value, str) or not node.value:
            raise self._mistyped(node, self._name(key), "text")
        return node.value

    def choice(self, key: str, known: Sequence[str]) -> str | None:
        """Return a text that is one of several."""
        found = self.text(key)
        if found is not None and found not in known:
            raise self._mistyped(self._entries[key], self._name(key), f"one of {', '.join(known)}")
        return found

    def whole_number(self, key: str, *, least: int, most: int) -> int | None:
        """Return a whole number within bounds."""
        node = self._value(key)
        if node is None:
            return None
        found = node.value
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise self._mistyped(node, self._name(key), f"a whole number from {least} to {most}")
        return found

    def flag(self, key: str) -> bool:
        """Return true or false, false where nothing stands."""
        node = self._value(key)
        if node is None:
            return False
        if not isinstance(node.value, bool):
            raise self._mistyped(node, self._name(key), "true or false")
        return node.value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of different texts."""
        node = self._value(key)
        if node is None:
            return ()
        if not isinstance(node.value, tuple):
            raise self._mistyped(node, self._name(key), "a list of texts")
        found: list[str] = []
        for place, item in enumerate(node.value):
            if not isinstance(item.value, str) or not item.value or item.value in found:
                raise self._mistyped(item, f"{self._name(key)}[{place}]", "text that stands there once")
            found.append(item.value)
        return tuple(found)

    def values(self, key: str) -> dict[str, Any]:
        """Return a mapping to values of any kind."""
        node = self._value(key)
        if node is None:
            return {}
        if not isinstance(node.value, dict):
            raise self._mistyped(node, self._name(key), "a mapping")
        return {name: value.plain() for name, value in node.value.items()}

    def section(self, key: str) -> Section:
        """Return the section below a key."""
        child = Section(self._document, self._value(key), self._name(key))
        self._children.append(child)
        return child

    def sections(self, key: str) -> dict[str, Section]:
        """Return the sections below a key whose names people choose."""
        parent = Section(self._document, self._value(key), self._name(key))
        self._children.append(parent)
        return {name: parent.section(name) for name in parent._entries}

    def exclusive(self, first: str, second: str) -> None:
        """Refuse two keys that contradict each other.

        Raises:
            ConfigError: both are given.
        """
        if self._value(first) is not None and self._value(second) is not None:
            span = self._entries[second].key_span or self._entries[second].span
            message = f"{self._name(second)} and {self._name(first)} exclude each other"
            raise self._document.problem(message, span, expected="one of them")

    def unknown(self) -> Iterator[tuple[str, int]]:
        """Yield path and line of every key, here and below, that nobody asked for."""
        for key, node in self._entries.items():
            if key not in self._asked:
                yield self._name(key), self._document.line(node.key_span or node.span)
        for child in self._children:
            yield from child.unknown()

    def _value(self, key: str) -> Node | None:
        self._asked.add(key)
        node = self._entries.get(key)
        return None if node is None or node.value is None else node

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _mistyped(self, node: Node, name: str, expected: str) -> ConfigError:
        found = _kind(node)
        subject = name or "the config"
        return self._document.problem(f"{subject} is not {expected}", node.span, expected=expected, found=found)


def _kind(node: Node) -> str:
    match node.value:
        case dict():
            return "a mapping"
        case tuple():
            return "a list"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case None:
            return "nothing"
        case str():
            return f"'{node.value}'"
