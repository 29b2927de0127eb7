"""Builds expressions from what the grammar recognises, bottom up, one rule at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    AllProperties,
    Arithmetic,
    Binding,
    Block,
    Bm25,
    BooleanLiteral,
    Call,
    Case,
    CaseBranch,
    Comparison,
    Condition,
    DateLiteral,
    DateTimeLiteral,
    Filter,
    FloatLiteral,
    IntegerLiteral,
    ListExpression,
    ListItem,
    ListLiteral,
    Literal,
    Logical,
    Nearest,
    Negation,
    Negative,
    Not,
    Now,
    NullLiteral,
    NullTest,
    OptionalBlock,
    PropertyAccess,
    Rrf,
    StringLiteral,
    TextSearch,
    Traversal,
    Variable,
)
from omnigraph.lang.lalr import Token
from omnigraph.lang.parsing import SyntaxFinding, token_span, unquote
from omnigraph.lang.source import Ident, Span

# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule

_MAX_INTEGER = 2**63 - 1
_MAX_DEPTH = 100


def ident(token: Token) -> Ident:
    """Return the name that a token spells."""
    return Ident(text=str(token), span=token_span(token))


def bounded_integer(token: Token, maximum: int, what: str) -> int:
    """Return the value of an integer token, refusing more than ``maximum``."""
    digits = token.lstrip("0") or "0"
    # Judged by length first: Python refuses to convert a decimal text of thousands of digits.
    if len(digits) > len(str(maximum)) or int(digits) > maximum:
        raise SyntaxFinding(f"{what} is too large, the limit is {maximum}", token_span(token))
    return int(digits)


def span_of(first: Any, last: Any) -> Span:
    """Return the span from one child to another; a child is a token or a node of ours."""
    start = first.start_pos if isinstance(first, Token) else first.span.start
    end = last.end_pos if isinstance(last, Token) else last.span.end
    return Span(start, end)


def plain_word(token: Token | None) -> Any:
    """Return the plain text of a keyword or operator; the grammar has already chosen among the legal ones."""
    return None if token is None else str(token)


def _variable(token: Token) -> Variable:
    name = str(token)[1:]
    if name[0].isupper():
        lowered = name[0].lower() + name[1:]
        raise SyntaxFinding(
            f"variable '${name}' must start with a lower-case letter or '_'",
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


def _depth(at: Span, *inner: Any) -> int:
    """Return how deep the expression at ``at`` is, refusing one that is too deep to be walked."""
    found = 1 + max(map(_depth_of, inner), default=0)
    if found > _MAX_DEPTH:
        raise SyntaxFinding(
            f"an expression is nested more than {_MAX_DEPTH} levels deep",
            at,
            suggestion="name a part of it in a 'with'",
        )
    return found


def _depth_of(node: Any) -> int:
    match node:
        case Condition(expression=expression):
            return _depth_of(expression)
        case Filter(left=left, right=right):
            return max(_depth_of(left), _depth_of(right))
        case Negation(clauses=clauses) | OptionalBlock(clauses=clauses):
            return 1 + max(map(_depth_of, clauses))
        case Binding(predicates=predicates):
            return max((_depth_of(pair.value) for pair in predicates), default=0)
        case Traversal(where=where) if where is not None:
            return _depth_of(where)
        case _:
            return getattr(node, "depth", 0)


def _logical(op: Any, operands: list[Any]) -> Logical:
    """Return operands joined by one word; those that are joined by the same word themselves stand beside them."""
    flat: list[Any] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, Logical) and operand.op == op else [operand])
    span = span_of(operands[0], operands[-1])
    return Logical(op=op, operands=tuple(flat), depth=_depth(span, *flat), span=span)


class ExpressionBuilder:
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

    def null(self, children: list[Any]) -> NullLiteral:
        return NullLiteral(span=token_span(children[0]))

    def list_literal(self, children: list[Any]) -> ListLiteral | ListExpression:
        opening, *items, closing = children
        span = span_of(opening, closing)
        if all(isinstance(item, Literal) for item in items):
            return ListLiteral(items=tuple(items), span=span)
        return ListExpression(items=tuple(items), depth=_depth(span, *items), span=span)

    def property_access(self, children: list[Any]) -> PropertyAccess:
        variable, name = children
        return PropertyAccess(variable=variable, property=name, span=span_of(variable, name))

    def all_properties(self, children: list[Any]) -> AllProperties:
        variable, star = children
        return AllProperties(variable=variable, span=span_of(variable, star))

    def word(self, children: list[Any]) -> Ident:
        return ident(children[0])

    soft_word = word

    def alias_ref(self, children: list[Any]) -> AliasRef:
        (name,) = children
        return AliasRef(name=name.text, span=name.span)

    def now(self, children: list[Any]) -> Now:
        keyword, closing = children
        return Now(span=span_of(keyword, closing))

    def nearest(self, children: list[Any]) -> Nearest:
        keyword, target, query, closing = children
        if not isinstance(target, PropertyAccess):
            raise SyntaxFinding("nearest ranks by a property", target.span, expected=("'$x.property'",))
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
        function, distinct, argument, fraction, where, closing = children
        name: Any = str(function)
        if fraction is not None and name != "percentile":
            raise SyntaxFinding(f"{name} takes one argument", fraction.span, suggestion="remove the second one")
        if isinstance(argument, Token) and name != "count":
            raise SyntaxFinding(f"{name} needs a value, not '*'", token_span(argument), suggestion="name a property")
        return Aggregate(
            function=name,
            argument=None if isinstance(argument, Token) else argument,
            is_distinct=distinct is not None,
            fraction=fraction,
            where=where,
            depth=_depth(token_span(function), argument, fraction, where),
            span=span_of(function, closing),
        )

    def walk_where(self, children: list[Any]) -> Any:
        return children[1]

    def call(self, children: list[Any]) -> Call:
        function, _opening, *arguments, closing = children
        given = tuple(argument for argument in arguments if argument is not None)
        depth = _depth(function.span, *given)
        return Call(function=function, arguments=given, depth=depth, span=span_of(function, closing))

    def case(self, children: list[Any]) -> Case:
        keyword, *branches, _else, otherwise, end = children
        inner = [part for branch in branches for part in (branch.condition, branch.value)]
        depth = _depth(token_span(keyword), *inner, otherwise)
        return Case(branches=tuple(branches), otherwise=otherwise, depth=depth, span=span_of(keyword, end))

    def branch(self, children: list[Any]) -> CaseBranch:
        keyword, condition, _then, value = children
        return CaseBranch(condition=condition, value=value, span=span_of(keyword, value))

    def block(self, children: list[Any]) -> Block:
        keyword, *clauses, closing = children
        depth = _depth(token_span(keyword), *clauses)
        return Block(kind=plain_word(keyword), clauses=tuple(clauses), depth=depth, span=span_of(keyword, closing))

    def grouped(self, children: list[Any]) -> Any:
        opening, inner, closing = children
        return replace(inner, span=span_of(opening, closing))

    def disjunction(self, children: list[Any]) -> Logical:
        return _logical("or", children[::2])

    def all_of(self, children: list[Any]) -> Logical:
        return _logical("and", children[::2])

    def negation(self, children: list[Any]) -> Not:
        keyword, operand = children
        return Not(operand=operand, depth=_depth(token_span(keyword), operand), span=span_of(keyword, operand))

    def compare(self, children: list[Any]) -> Comparison:
        left, op, right = children
        name: Any = "not in" if op.type == "NOT_IN" else str(op)
        at = token_span(op)
        depth = _depth(at, left, right)
        return Comparison(left=left, op=name, right=right, op_span=at, depth=depth, span=span_of(left, right))

    def null_test(self, children: list[Any]) -> NullTest:
        operand, test = children
        depth, span = _depth(token_span(test), operand), span_of(operand, test)
        return NullTest(operand=operand, is_negated=test.type == "IS_NOT_NULL", depth=depth, span=span)

    def arithmetic(self, children: list[Any]) -> Arithmetic:
        left, op, right = children
        depth = _depth(token_span(op), left, right)
        return Arithmetic(left=left, op=plain_word(op), right=right, depth=depth, span=span_of(left, right))

    def negative(self, children: list[Any]) -> Any:
        sign, operand = children
        span = span_of(sign, operand)
        if isinstance(operand, IntegerLiteral) and operand.value >= 0:
            return IntegerLiteral(value=-operand.value, span=span)
        if isinstance(operand, FloatLiteral) and not operand.text.startswith("-"):
            return FloatLiteral(value=-operand.value, text=f"-{operand.text}", span=span)
        return Negative(operand=operand, depth=_depth(token_span(sign), operand), span=span)

    def list_item(self, children: list[Any]) -> ListItem:
        items, _opening, index, closing = children
        depth = _depth(token_span(closing), items, index)
        return ListItem(items=items, index=index, depth=depth, span=span_of(items, closing))
