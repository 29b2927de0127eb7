"""A YAML text as values that know where they stand.

The tree is built from the events of the parser: marks stay at hand for messages, depth is bounded, and nothing is
expanded or constructed. Plain scalars mean what YAML 1.2 says, so that ``on`` and ``no`` are words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import yaml

from omnigraph.errors import ConfigError, Diagnostic, DiagnosticError, Place
from omnigraph.lang.source import MAX_NESTING, SourceText, Span, read_source
from omnigraph.records import record

Scalar = str | int | float | bool | None
DUPLICATE_KEY = "duplicate_key"
"""The rule that a mapping breaks in which a key stands twice."""

_WORDS: dict[str, Scalar] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# The parser of libyaml is many times faster, and not in every build of the package.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@record
class Node:
    """A value of the document: a scalar, a list of nodes, or a mapping from texts to nodes; and where it stands."""

    value: Scalar | tuple[Node, ...] | dict[str, Node]
    span: Span
    key_span: Span | None = None

    def plain(self) -> Any:
        """Return the value as JSON values."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value


@record
class Document:
    """A parsed text and its root; None when it holds nothing.

    ``error`` is the class of what is raised about it, ``subject`` what messages call the whole.
    """

    source: SourceText
    root: Node | None
    error: type[DiagnosticError] = ConfigError
    subject: str = "the config"

    def line(self, span: Span) -> int:
        """Return the number of the line, from 1, on which a span starts."""
        return self.source.place(span).line

    def problem(
        self, message: str, span: Span, *, expected: str = "", found: str | None = None, rule: str | None = None
    ) -> DiagnosticError:
        """Return an error about a place of the document."""
        about = (expected,) if expected else ()
        details = Diagnostic(rule=rule, place=self.source.place(span), expected=about, found=found)
        return self.error(message, details=details)


def parse_document(
    data: bytes, name: str, *, error: type[DiagnosticError] = ConfigError, subject: str = "the config"
) -> Document:
    """Parse one YAML document; ``name``, ``error`` and ``subject`` are for what is raised about it.

    Raises:
        DiagnosticError: of class ``error``: it is not YAML, nests too deeply, repeats a key, or uses anchors or tags.
        SourceEncodingError, SourceTooLargeError: it is no text that could be one.
    """
    source = read_source(data, name)
    empty = Document(source=source, root=None, error=error, subject=subject)
    try:
        events = iter(list(yaml.parse(source.text, Loader=_LOADER)))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
        at = _offset(source, mark) if mark is not None else 0
        reason = getattr(problem, "problem", None) or "it cannot be read"
        raise empty.problem(f"not valid YAML: {reason}", Span(at, at + 1), expected="YAML") from problem
    return replace(empty, root=_Builder(empty).build(events))


class _Builder:
    """Turns events into nodes, without recursion beyond the bound on nesting."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def build(self, events: Iterator[yaml.Event]) -> Node | None:
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                if root is not None:
                    raise self._refusal("more than one YAML document", event)
                root = self._node(event, events, depth=0)
        if root is not None and root.value is None:
            return None
        return root

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], *, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise self._refusal(f"nested more than {MAX_NESTING} levels deep", event)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._refusal("YAML anchors and aliases are not supported", event)
        tag = getattr(event, "tag", None)
        if tag not in {None, "!"}:
            raise self._refusal("YAML tags are not supported", event, found=str(tag))
        if isinstance(event, yaml.ScalarEvent):
            is_plain = event.implicit[0]
            return Node(value=_scalar(event.value) if is_plain else event.value, span=self._span(event))
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                items.append(self._node(item, events, depth=depth + 1))
            return Node(value=tuple(items), span=self._span(event))
        return Node(value=self._entries(events, depth), span=self._span(event))

    def _entries(self, events: Iterator[yaml.Event], depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._node(event, events, depth=depth + 1)
            if isinstance(key.value, tuple | dict):
                raise self._document.problem("a key is not text", key.span, expected="a name")
            # A name that looks like a number or a truth value is still a name.
            name = event.value if isinstance(event, yaml.ScalarEvent) else ""
            if name in entries:
                message = f"key '{name}' occurs twice"
                raise self._document.problem(message, key.span, expected="each key once", rule=DUPLICATE_KEY)
            node = self._node(next(events), events, depth=depth + 1)
            entries[name] = Node(value=node.value, span=node.span, key_span=key.span)
        return entries

    def _span(self, event: yaml.Event) -> Span:
        source = self._document.source
        start = _offset(source, event.start_mark)
        return Span(start, max(start + 1, _offset(source, event.end_mark)))

    def _refusal(self, message: str, event: yaml.Event, *, found: str | None = None) -> DiagnosticError:
        return self._document.problem(message, self._span(event), expected="plain values", found=found)


def _offset(source: SourceText, mark: Any) -> int:
    return min(int(mark.index), len(source.text))


def _scalar(text: str) -> Scalar:
    lowered = text.lower()
    if lowered in _WORDS and text in {lowered, lowered.title(), lowered.upper()}:
        return _WORDS[lowered]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class Section:
    """A mapping of the document, empty where it is missing.

    It remembers the keys that were asked for, so that what remains can be reported.
    """

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
                raise self._mistyped(item, f"{self._name(key)}[{place}]", "text that occurs only once")
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

    def items(self, key: str) -> tuple[Section, ...]:
        """Return the sections of a list."""
        node = self._value(key)
        if node is None:
            return ()
        if not isinstance(node.value, tuple):
            raise self._mistyped(node, self._name(key), "a list of mappings")
        found = [Section(self._document, item, f"{self._name(key)}[{place}]") for place, item in enumerate(node.value)]
        self._children.extend(found)
        return tuple(found)

    def names(self) -> tuple[str, ...]:
        """Return the keys of the section, in the order of the file."""
        return tuple(self._entries)

    def problem(self, message: str, key: str | None = None, *, expected: str = "") -> DiagnosticError:
        """Return an error about a key of the section, or about the section itself."""
        node = self._entries.get(key) if key is not None else None
        if node is None:
            node = self._node
        span = Span(0, 1) if node is None else node.span if key in self._entries else node.key_span or node.span
        return self._document.problem(message, span, expected=expected)

    def refuse_unknown(self) -> None:
        """Raise for the first key, here and below, that was not asked for."""
        for key, node in self._entries.items():
            if key not in self._asked:
                expected = ", ".join(sorted(self._asked))
                span = node.key_span or node.span
                raise self._document.problem(f"unknown key '{self._name(key)}'", span, expected=expected, found=key)
        for child in self._children:
            child.refuse_unknown()

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

    def _mistyped(self, node: Node, name: str, expected: str) -> DiagnosticError:
        found = kind_of(node)
        subject = name or self._document.subject
        return self._document.problem(f"{subject} is not {expected}", node.span, expected=expected, found=found)


def kind_of(node: Node) -> str:
    """Return what a value is, as messages call it."""
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
