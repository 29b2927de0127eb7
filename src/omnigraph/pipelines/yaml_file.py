"""Pipelines declared in YAML: the same parts as in Python, with SQL instead of functions.

Every key is known, each mistake has the line of its own key, and all of them are told at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from omnigraph.errors import DiagnosticError, Mistakes, PipelineInvalidError
from omnigraph.lang.document import Document, Node, parse_document
from omnigraph.pipelines.given import KEYS, Declared, Given
from omnigraph.pipelines.mistakes import mistake_at
from omnigraph.pipelines.model import Declaration, Expectation, Place
from omnigraph.pipelines.parts import PartMaker

SECTIONS: Mapping[str, str] = {
    "sources": "source",
    "views": "view",
    "resolve": "resolve",
    "nodes": "node",
    "edges": "edge",
    "checks": "check",
    "after": "after",
}
"""The kind of the parts of each section."""

EXPECTATION_KEYS = ("fail", "drop", "quarantine", "warn", "max_ratio")
COMPARISON_KEYS = ("column", "method", "weight")


def read_yaml(data: bytes, name: str) -> Declared:
    """Return what a file declares; ``name`` is what messages call it.

    Raises:
        PipelineInvalidError: it is not YAML.
        SourceEncodingError, SourceTooLargeError: it is no text that could be a declaration.
    """
    try:
        document = parse_document(data, name, subject="the pipeline")
    except DiagnosticError as problem:
        line = 1 if problem.details.place is None else problem.details.place.line
        item = mistake_at(Place(file=name, line=line), problem.message)
        details = Mistakes(pipeline="", items=(item,))
        raise PipelineInvalidError(f"{name}:{line}: {problem.message}", details=details) from problem
    return _Reader(document).read()


class _Reader:
    """Reads a document to its end, whatever is wrong with parts of it."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._maker = PartMaker(has_functions=False)

    def read(self) -> Declared:
        root = self._document.root
        start = Place(file=self._document.source.name, line=1)
        whole = Given(kind="pipeline", name="", place=start, values={})
        entries = self._entries(root, whole, "the pipeline", (*KEYS["pipeline"], *SECTIONS))
        named = entries.get("pipeline")
        if named is None:
            self._maker.refuse(whole, "the pipeline has no name", hint="begin with `pipeline: NAME`")
        elif not isinstance(named.value, str) or not named.value:
            self._maker.refuse(
                replace(whole, place=self._place(named)), f"pipeline must be text, not {named.plain()!r}"
            )
        name = named.value if named is not None and isinstance(named.value, str) else ""
        settings = {key: node for key, node in entries.items() if key in KEYS["pipeline"] and key != "pipeline"}
        whole = replace(
            whole,
            name=name,
            place=start if named is None else self._place(named),
            values={key: node.plain() for key, node in settings.items()},
            places={key: self._place(node) for key, node in settings.items()},
        )
        declaration = self._maker.pipeline(whole)
        return Declared(declaration=self._with_parts(declaration, entries), mistakes=tuple(self._maker.mistakes))

    def _with_parts(self, declaration: Declaration, entries: Mapping[str, Node]) -> Declaration:
        maker = self._maker
        given = {section: [*self._given(section, entries.get(section))] for section in SECTIONS}
        return replace(
            declaration,
            sources=tuple(map(maker.source, given["sources"])),
            views=tuple(map(maker.view, given["views"])),
            resolves=tuple(map(maker.resolve, given["resolve"])),
            types=tuple(map(maker.type_step, self._in_order(given["nodes"], given["edges"]))),
            checks=tuple(map(maker.check, given["checks"])),
            afters=tuple(map(maker.after, given["after"])),
        )

    def _in_order(self, nodes: list[Given], edges: list[Given]) -> list[Given]:
        """Return the steps that write in the order of their lines."""
        return sorted([*nodes, *edges], key=lambda one: one.place.line)

    def _given(self, section: str, node: Node | None) -> Iterator[Given]:
        kind = SECTIONS[section]
        place = Place(file=self._document.source.name, line=1) if node is None else self._place(node)
        for name, part in self._entries(node, Given(kind=kind, name="", place=place, values={}), section, None).items():
            yield self._part(kind, name, part)

    def _part(self, kind: str, name: str, node: Node) -> Given:
        given = Given(kind=kind, name=name, place=self._place(node), values={})
        if kind == "check" and isinstance(node.value, str):
            return replace(given, values={"query": node.value})
        values: dict[str, Any] = {}
        places: dict[str, Place] = {}
        for key, item in self._entries(node, given, f"{kind} '{name}'", KEYS[kind]).items():
            places[key] = self._place(item)
            if isinstance(item.value, dict):
                places |= {f"{key}.{inner}": self._place(one) for inner, one in item.value.items()}
            elif isinstance(item.value, tuple):
                places |= {f"{key}.{number}": self._place(one) for number, one in enumerate(item.value)}
            if key == "expect":
                values[key] = [*self._expectations(given, item)]
            elif key == "compare":
                values[key] = [*self._comparisons(given, item)]
            else:
                values[key] = item.plain()
        return replace(given, values=values, places=places)

    def _expectations(self, step: Given, node: Node) -> Iterator[Expectation]:
        for name, item in self._entries(node, step, "expect", None).items():
            given = replace(step, place=self._place(item), places={})
            inner = self._entries(item, given, f"expectation '{name}'", EXPECTATION_KEYS)
            made = self._maker.expectation(
                Given(
                    kind="expectation",
                    name=name,
                    place=self._place(item),
                    values={key: one.plain() for key, one in inner.items()},
                    places={key: self._place(one) for key, one in inner.items()},
                )
            )
            if made is not None:
                yield made

    def _comparisons(self, step: Given, node: Node) -> Iterator[Any]:
        items = node.value if isinstance(node.value, tuple) else (node,)
        for item in items:
            if not isinstance(item.value, dict):
                yield item.plain()
                continue
            given = replace(step, place=self._place(item), places={})
            inner = self._entries(item, given, "compare", COMPARISON_KEYS)
            told = {key: one.plain() for key, one in inner.items()}
            yield [told.get("column"), told.get("method", "exact"), told.get("weight", 1.0)]

    def _entries(self, node: Node | None, given: Given, what: str, known: tuple[str, ...] | None) -> Mapping[str, Node]:
        """Return the entries of a mapping, without those that mean nothing."""
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self._maker.refuse(
                replace(given, place=self._place(node)), f"{what} must be a mapping, not {node.plain()!r}"
            )
            return {}
        for key, entry in node.value.items():
            if known is not None and key not in known:
                self._maker.unknown_key(replace(given, place=self._place(entry), places={}), key, known)
        return {key: entry for key, entry in node.value.items() if known is None or key in known}

    def _place(self, node: Node) -> Place:
        return Place(file=self._document.source.name, line=self._document.line(node.key_span or node.span))
