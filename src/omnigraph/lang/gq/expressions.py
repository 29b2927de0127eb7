"""Builds names, literals and expressions from what the grammar recognises."""

# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule

from __future__ import annotations

import math
from typing import Any

from lark import Token, Transformer

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    AllProperties,
    Bm25,
    BooleanLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntegerLiteral,
    ListLiteral,
    Nearest,
    Now,
    PropertyAccess,
    Rrf,
    StringLiteral,
    TextSearch,
    Variable,
)
from omnigraph.lang.parsing import SyntaxFinding, token_span, unquote
from omnigraph.lang.source import Ident, Span

_MAX_INTEGER = 2**63 - 1


def ident(token: Token) -> Ident:
    """Return the name that a token spells."""
    return Ident(text=str(token), span=token_span(token))


def bounded_integer(token: Token, maximum: int, what: str) -> int:
    """Return the value of an integer token, refusing more than ``maximum``."""
    digits = token.lstrip("0") or "0"
    # Judged by length first: Python refuses to convert a decimal text of thousands of digits.
    if len(digits) > len(str(maximum)) or int(digits) > maximum:
        raise SyntaxFinding(f"{what} is too large, limit={maximum}", token_span(token))
    return int(digits)


def span_of(first: Any, last: Any) -> Span:
    """Return the span from one child to another; a child is a token or a node of ours."""
    start = first.start_pos or 0 if isinstance(first, Token) else first.span.start
    end = last.end_pos or 0 if isinstance(last, Token) else last.span.end
    return Span(start, end)


def _variable(token: Token) -> Variable:
    name = str(token)[1:]
    if name[0].isupper():
        lowered = name[0].lower() + name[1:]
        raise SyntaxFinding(
            f"variable names start with a lower-case letter or '_': '${name}'",
            token_span(token),
            expected=("a $variable",),
            suggestion=f"did you mean '${lowered}'?",
        )
    return Variable(name=name, span=token_span(token))


def _string(token: Token) -> StringLiteral:
    return StringLiteral(value=unquote(token), span=token_span(token))


def _float(token: Token) -> FloatLiteral:
    value = float(token)
    if math.isinf(value):
        raise SyntaxFinding("float literal does not fit a 64-bit float", token_span(token))
    return FloatLiteral(value=value, text=str(token), span=token_span(token))


class ExpressionBuilder(Transformer[Token, Any]):
    """One method per rule or alias of the grammar's lower half, each given its children in order."""

    NAME = staticmethod(ident)
    TYPE_NAME = staticmethod(ident)
    VARIABLE = staticmethod(_variable)
    STRING = staticmethod(_string)
    FLOAT = staticmethod(_float)

    def integer(self, children: list[Any]) -> IntegerLiteral:
        (token,) = children
        return IntegerLiteral(value=bounded_integer(token, _MAX_INTEGER, "integer literal"), span=token_span(token))

    def boolean(self, children: list[Any]) -> BooleanLiteral:
        (word,) = children
        return BooleanLiteral(value=word == "true", span=token_span(word))

    def date(self, children: list[Any]) -> DateLiteral:
        keyword, text, closing = children
        return DateLiteral(text=text.value, span=span_of(keyword, closing))

    def datetime(self, children: list[Any]) -> DateTimeLiteral:
        keyword, text, closing = children
        return DateTimeLiteral(text=text.value, span=span_of(keyword, closing))

    def list_literal(self, children: list[Any]) -> ListLiteral:
        opening, *items, closing = children
        return ListLiteral(items=tuple(items), span=span_of(opening, closing))

    def property_access(self, children: list[Any]) -> PropertyAccess:
        variable, name = children
        return PropertyAccess(variable=variable, property=name, span=span_of(variable, name))

    def all_properties(self, children: list[Any]) -> AllProperties:
        variable, star = children
        return AllProperties(variable=variable, span=span_of(variable, star))

    def alias_ref(self, children: list[Any]) -> AliasRef:
        (word,) = children
        name = ident(word) if isinstance(word, Token) else word
        return AliasRef(name=name.text, span=name.span)

    def now(self, children: list[Any]) -> Now:
        keyword, closing = children
        return Now(span=span_of(keyword, closing))

    def nearest(self, children: list[Any]) -> Nearest:
        keyword, target, query, closing = children
        return Nearest(target=target, query=query, span=span_of(keyword, closing))

    def bm25(self, children: list[Any]) -> Bm25:
        keyword, target, query, closing = children
        return Bm25(target=target, query=query, span=span_of(keyword, closing))

    def rrf(self, children: list[Any]) -> Rrf:
        keyword, first, second, k, closing = children
        return Rrf(first=first, second=second, k=k, span=span_of(keyword, closing))

    def search(self, children: list[Any]) -> TextSearch:
        function, target, query, closing = children
        name: Any = str(function)
        return TextSearch(function=name, target=target, query=query, span=span_of(function, closing))

    def fuzzy(self, children: list[Any]) -> TextSearch:
        function, target, query, max_edits, closing = children
        span = span_of(function, closing)
        return TextSearch(function="fuzzy", target=target, query=query, max_edits=max_edits, span=span)

    def aggregate(self, children: list[Any]) -> Aggregate:
        function, argument, closing = children
        name: Any = str(function)
        return Aggregate(function=name, argument=argument, span=span_of(function, closing))
