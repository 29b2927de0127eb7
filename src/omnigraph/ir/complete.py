"""Completion of query texts: what can stand at a place, by the state of the parser and the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from omnigraph.catalog.model import Catalog, EdgeType, Scalar
from omnigraph.ir.functions import FUNCTIONS, GRAMMAR_FUNCTIONS
from omnigraph.ir.visible_names import Owner, VisibleNames, read_names
from omnigraph.lang.gq.parser import scan_queries, words_of
from omnigraph.lang.lalr import Scan
from omnigraph.records import record

CompletionKind = Literal["property", "variable", "alias", "edge", "type", "function", "keyword"]

_KINDS: tuple[CompletionKind, ...] = ("property", "variable", "alias", "edge", "type", "function", "keyword")
_WORD = re.compile(r"[$@]?[A-Za-z0-9_]*\Z")
_STRING_OR_COMMENT = re.compile(
    r""""[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?(?P<open1>\Z))|'[^'\\]*(?:\\[\s\S][^'\\]*)*(?:'|\\?(?P<open2>\Z))"""
    r"""|//[^\n]*(?:\n|(?P<open3>\Z))|/\*[\s\S]*?(?:\*/|(?P<open4>\Z))"""
)

_AGGREGATES = frozenset({"COUNT", "AGGREGATE"})
_FUNCTION_TERMINALS = _AGGREGATES | {"NOW", "NEAREST", "BM25", "RRF", "TEXT_FUNCTION", "FUZZY", "DATE", "DATETIME"}
_BLOCKS = frozenset({"EXISTS", "NOT", "COUNT", "CASE"})
_CLAUSES = frozenset({"OPTIONAL", "EACH", "PATH"})
_CLAUSE_ENDS = frozenset(
    {
        *("LBRACE", "RBRACE", "NAME", "TYPE_NAME", "VARIABLE", "STRING", "INTEGER", "FLOAT", "RPAR", "RSQB", "END"),
        *("TRUE", "FALSE", "NULL", "IS_NULL", "IS_NOT_NULL"),
    }
)
_STATEMENTS = frozenset({"INSERT", "UPSERT", "UPDATE", "DELETE"})


@record
class Completion:
    """A text that can stand from ``start`` to the position that was asked for.

    ``detail`` is its type or signature, ``about`` one line on it; either may be empty.
    """

    text: str
    kind: CompletionKind
    start: int
    detail: str = ""
    about: str = ""


def complete(text: str, position: int, catalog: Catalog) -> list[Completion]:
    """Return what can stand at a position of a query text, what belongs to the place first.

    What is behind the position does not matter. Behind an error, in a string and in a comment nothing is returned.

    Args:
        text: a ``.gq`` text, which may end anywhere.
        position: an offset in it, at the end of what was typed.
        catalog: the schema whose names are offered.
    """
    text = text[: max(0, position)]
    if _is_in_string(text):
        return []
    start = _word_start(text)
    typed = text[start:]
    scan = scan_queries(text[:start])
    if not scan.accepted:
        return []
    names = read_names(scan.tokens, catalog)
    place = _Place(scan, names, catalog, start)
    found = {(item.kind, item.text): item for item in place.completions() if _fits(item.text, typed)}
    return sorted(found.values(), key=lambda item: (_KINDS.index(item.kind), item.text))


def _is_in_string(text: str) -> bool:
    return any(match.lastgroup is not None for match in _STRING_OR_COMMENT.finditer(text))


def _word_start(text: str) -> int:
    found = _WORD.search(text)
    return len(text) if found is None else found.start()


def _fits(text: str, typed: str) -> bool:
    return text.lower().startswith(typed.lower()) and text != typed


class _Place:
    """The end of a text that can go on."""

    def __init__(self, scan: Scan, names: VisibleNames, catalog: Catalog, start: int) -> None:
        self._accepted = scan.accepted
        self._names = names
        self._catalog = catalog
        self._start = start
        kinds = [token.type for token in scan.tokens[-3:]]
        self._third, self._second, self._last = [""] * (3 - len(kinds)) + kinds
        self._owner = names.owners.get(scan.tokens[-2][1:]) if self._last == "DOT" else None

    def completions(self) -> Iterator[Completion]:
        """Yield everything that can follow, in any order."""
        if self._last == "DOT":
            yield from self._properties(self._owner)
            return
        if "TYPE_NAME" in self._accepted:
            yield from self._types()
        if self._is_edge_place():
            for name in self._catalog.edges:
                edge = self._catalog.edges[name]
                ends = f"{edge.from_type} -> {edge.to_type}"
                yield self._item(name[:1].lower() + name[1:], "edge", ends)
        if self._last in {"VBAR", "AS"} or (self._last == "COLON" and "VARIABLE" not in self._accepted):
            return
        if "NAME" in self._accepted and self._names.holds in {"bind", "assign"} and self._last != "COLON":
            owner = self._names.braces[-1].owner
            if "VARIABLE" not in self._accepted:
                yield from self._properties(owner, with_ends=self._names.holds == "assign")
        if "VARIABLE" in self._accepted:
            yield from self._variables()
        if self._begins_expression():
            yield from self._bare_names()
            yield from self._functions()
        yield from self._keywords()

    def _is_edge_place(self) -> bool:
        if self._names.holds != "match" or "NAME" not in self._accepted:
            return False
        return (
            self._last in {"VARIABLE", "VBAR"}
            or (self._last == "COLON" and self._third == "VARIABLE")
            or (self._last == "LESSTHAN" and self._second in {"VARIABLE", "COLON"})
        )

    def _begins_expression(self) -> bool:
        return {"VARIABLE", "NAME", "LPAR"} <= self._accepted

    def _types(self) -> Iterator[Completion]:
        catalog = self._catalog
        if not self._names.braces:
            for scalar in Scalar:
                text = "Vector" if scalar is Scalar.VECTOR else scalar.value
                yield self._item(text, "type", "parameter type")
            return
        for name in catalog.nodes:
            yield self._item(name, "type", "node type")
        if self._last in _STATEMENTS:
            for name, edge in catalog.edges.items():
                yield self._item(name, "type", f"edge type {edge.from_type} -> {edge.to_type}")
        else:
            for name in catalog.interfaces:
                yield self._item(name, "type", "interface")

    def _properties(self, owner: Owner | None, *, with_ends: bool = False) -> Iterator[Completion]:
        if owner is None:
            return
        for prop in owner.properties:
            yield self._item(prop.name, "property", str(prop.type))
        if with_ends and isinstance(owner, EdgeType):
            yield self._item("from", "property", owner.from_type)
            yield self._item("to", "property", owner.to_type)

    def _variables(self) -> Iterator[Completion]:
        names = self._names
        if not names.braces:
            return
        for name, owner in names.owners.items():
            yield self._item(f"${name}", "variable", owner.name)
        if self._is_value_place():
            for name, written in names.parameters.items():
                yield self._item(f"${name}", "variable", written)
        for name, detail in names.values.items():
            if name.startswith("$"):
                yield self._item(name, "variable", detail)

    def _is_value_place(self) -> bool:
        """Whether a parameter can stand here: an expression can, or an amount."""
        return self._begins_expression() or "INTEGER" in self._accepted

    def _bare_names(self) -> Iterator[Completion]:
        names = self._names
        if names.target is not None and (names.holds in {"assign", "body"}):
            yield from self._properties(names.target, with_ends=True)
            yield self._item("id", "property", "String")
        elif names.holds in {"order", "body"}:
            yield from (self._item(name, "alias") for name in names.aliases)
        yield from (self._item(name, "alias") for name in names.values if not name.startswith("$"))

    def _functions(self) -> Iterator[Completion]:
        for function in FUNCTIONS.values():
            yield self._item(function.name, "function", function.signature, function.about)
        terminals = _FUNCTION_TERMINALS & self._accepted
        if self._names.holds == "match":
            terminals -= _AGGREGATES
        for terminal in sorted(terminals):
            for word in words_of(terminal):
                signature, about = GRAMMAR_FUNCTIONS[word]
                yield self._item(word, "function", signature, about)

    def _keywords(self) -> Iterator[Completion]:
        words = self._accepted - _FUNCTION_TERMINALS
        if not self._begins_expression():
            words -= _BLOCKS
        elif "COUNT" in self._accepted and self._names.holds != "hops":
            words |= {"COUNT"} if self._names.holds == "match" else set()
        if not (self._names.holds == "match" and self._last in _CLAUSE_ENDS and self._begins_expression()):
            words -= _CLAUSES
        is_distinct = self._last in {"RETURN", "WITH"} or (self._last == "LPAR" and self._second in _AGGREGATES)
        if not is_distinct:
            words -= {"DISTINCT"}
        for terminal in words:
            yield from self._words(words_of(terminal))

    def _words(self, words: Iterable[str]) -> Iterator[Completion]:
        return (self._item(word, "keyword") for word in words)

    def _item(self, text: str, kind: CompletionKind, detail: str = "", about: str = "") -> Completion:
        return Completion(text=text, kind=kind, start=self._start, detail=detail, about=about)
