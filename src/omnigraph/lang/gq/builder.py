"""Builds declarations, bodies and clauses from what the grammar recognises, bottom up, one rule at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from lark import Token, Transformer

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    AllProperties,
    Assignment,
    Binding,
    Bm25,
    BooleanLiteral,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Filter,
    FloatLiteral,
    Hops,
    Insert,
    IntegerLiteral,
    ListLiteral,
    MutationBody,
    Nearest,
    Negation,
    Now,
    Ordering,
    Parameter,
    Predicate,
    Projection,
    PropertyAccess,
    PropertyMatch,
    QueryDecl,
    ReadBody,
    Rrf,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Update,
    Variable,
)
from omnigraph.lang.parsing import SyntaxFinding, nearest_name, token_span, unquote
from omnigraph.lang.source import Ident, Span

# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule


_MAX_INTEGER = 2**63 - 1


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
    start = first.start_pos or 0 if isinstance(first, Token) else first.span.start
    end = last.end_pos or 0 if isinstance(last, Token) else last.span.end
    return Span(start, end)


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


# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule


BASE_TYPES = ("Blob", "Bool", "Date", "DateTime", "F32", "F64", "I32", "I64", "String", "U32", "U64")
VECTOR = "Vector"
ANNOTATIONS = ("@description", "@instruction")

_MAX_DIMENSION_TEXT = 2**63 - 1
_MAX_HOPS = 2**32 - 1
_MAX_LIMIT = 2**64 - 1


def _annotation_name(token: Token) -> Token:
    if token not in ANNOTATIONS:
        near = nearest_name(str(token), ANNOTATIONS)
        raise SyntaxFinding(
            f"unknown annotation '{token}'",
            token_span(token),
            expected=ANNOTATIONS,
            suggestion=f"did you mean '{near}'?" if near else f"remove '{token}'",
        )
    return token


class TreeBuilder(ExpressionBuilder):
    """The builder of a whole file; its result is the tuple of declarations."""

    ANNOTATION = staticmethod(_annotation_name)

    def start(self, children: list[Any]) -> tuple[QueryDecl, ...]:
        return tuple(children)

    def query_decl(self, children: list[Any]) -> QueryDecl:
        keyword, name, parameters, annotations, body, closing = children
        return QueryDecl(
            name=name,
            body=body,
            parameters=parameters or (),
            description=annotations.get("@description"),
            instruction=annotations.get("@instruction"),
            span=span_of(keyword, closing),
        )

    def params(self, children: list[Any]) -> tuple[Parameter, ...]:
        return tuple(children)

    def param(self, children: list[Any]) -> Parameter:
        variable, type_ref = children
        return Parameter(name=variable.name, type=type_ref, span=variable.span.to(type_ref.span))

    def scalar_type(self, children: list[Any]) -> TypeRef:
        name, mark = children
        _require_base_type(name)
        return TypeRef(scalar=name.text, nullable=mark is not None, span=span_of(name, mark or name))

    def list_type(self, children: list[Any]) -> TypeRef:
        opening, name, closing, mark = children
        _require_base_type(name)
        return TypeRef(
            scalar=name.text, nullable=mark is not None, is_list=True, span=span_of(opening, mark or closing)
        )

    def vector_type(self, children: list[Any]) -> TypeRef:
        name, dimension, closing, mark = children
        if name.text != VECTOR:
            msg = f"only {VECTOR} takes a dimension, not '{name.text}'"
            raise SyntaxFinding(msg, name.span, suggestion=f"write '{name.text}' or '{VECTOR}({dimension})'")
        return TypeRef(
            scalar=VECTOR,
            nullable=mark is not None,
            dimension=bounded_integer(dimension, _MAX_DIMENSION_TEXT, "dimension"),
            span=span_of(name, mark or closing),
        )

    def annotations(self, children: list[Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, text, span in children:
            if name in found:
                raise SyntaxFinding(f"annotation '{name}' is given twice", span, suggestion="keep one of them")
            found[name] = text
        return found

    def annotation(self, children: list[Any]) -> tuple[str, str, Span]:
        name, text, closing = children
        return str(name), text.value, span_of(name, closing)

    def read_body(self, children: list[Any]) -> ReadBody:
        (opening, match), (last, projections), order, limit = children
        if order is not None:
            last = order[0]
        if limit is not None:
            last = limit[0]
        return ReadBody(
            match=match,
            projections=projections,
            orderings=order[1] if order is not None else (),
            limit=limit[1] if limit is not None else None,
            span=span_of(opening, last),
        )

    def match_part(self, children: list[Any]) -> tuple[Token, tuple[Any, ...]]:
        return children[0], tuple(children[1:])

    def return_part(self, children: list[Any]) -> tuple[Token, tuple[Any, ...]]:
        return children[-1], tuple(children[1:-1])

    order_part = return_part

    def limit_part(self, children: list[Any]) -> tuple[Token, int]:
        return children[1], bounded_integer(children[1], _MAX_LIMIT, "limit")

    def projection(self, children: list[Any]) -> Projection:
        expression, keyword, alias = children
        if keyword is not None and isinstance(expression, AllProperties):
            msg = f"'${expression.variable.name}.*' stands for several columns and takes no alias"
            raise SyntaxFinding(msg, span_of(keyword, alias), suggestion=f"remove 'as {alias.text}'")
        return Projection(expression=expression, alias=alias, span=span_of(expression, alias or expression))

    def ordering(self, children: list[Any]) -> Ordering:
        expression, direction = children
        if direction is not None and isinstance(expression, Nearest):
            msg = f"nearest orders by distance and takes no '{direction}'"
            raise SyntaxFinding(msg, token_span(direction), suggestion=f"remove '{direction}'")
        return Ordering(
            expression=expression,
            direction=_word(direction),
            span=span_of(expression, direction or expression),
        )

    def negation(self, children: list[Any]) -> Negation:
        return Negation(clauses=tuple(children[1:-1]), span=span_of(children[0], children[-1]))

    def binding(self, children: list[Any]) -> Binding:
        variable, type_name, *rest = children
        return Binding(
            variable=variable,
            type_name=type_name,
            predicates=rest[0] if rest else (),
            span=span_of(variable, children[-1]),
        )

    def prop_matches(self, children: list[Any]) -> tuple[PropertyMatch, ...]:
        return tuple(children)

    def prop_match(self, children: list[Any]) -> PropertyMatch:
        name, value = children
        return PropertyMatch(property=name, value=value, span=span_of(name, value))

    def directed(self, children: list[Any]) -> Traversal:
        source, edge, hops, destination = children
        span = source.span.to(destination.span)
        return Traversal(source=source, edge=_edge_name(edge), destination=destination, hops=hops, span=span)

    def undirected(self, children: list[Any]) -> Traversal:
        return replace(self.directed(children), is_undirected=True)

    def directed_bound(self, children: list[Any]) -> Traversal:
        source, edge_variable, *rest = children
        return replace(self.directed([source, *rest]), edge_variable=edge_variable)

    def undirected_bound(self, children: list[Any]) -> Traversal:
        return replace(self.directed_bound(children), is_undirected=True)

    def hops(self, children: list[Any]) -> Hops:
        opening, least, most, closing = children
        return Hops(
            minimum=bounded_integer(least, _MAX_HOPS, "hop bound"),
            maximum=bounded_integer(most, _MAX_HOPS, "hop bound") if most is not None else None,
            span=span_of(opening, closing),
        )

    def filter(self, children: list[Any]) -> Filter:
        left, op, right = children
        return Filter(left=left, op=_word(op), right=right, span=span_of(left, right))

    def mutation_body(self, children: list[Any]) -> MutationBody:
        return MutationBody(statements=tuple(children), span=span_of(children[0], children[-1]))

    def insert(self, children: list[Any]) -> Insert:
        keyword, type_name, *assignments, closing = children
        return Insert(type_name=type_name, assignments=tuple(assignments), span=span_of(keyword, closing))

    def update(self, children: list[Any]) -> Update:
        keyword, type_name, _set, *assignments, _where, predicate = children
        return Update(
            type_name=type_name,
            assignments=tuple(assignments),
            predicate=predicate,
            span=span_of(keyword, predicate),
        )

    def delete(self, children: list[Any]) -> Delete:
        keyword, type_name, _where, predicate = children
        return Delete(type_name=type_name, predicate=predicate, span=span_of(keyword, predicate))

    def assignment(self, children: list[Any]) -> Assignment:
        name, value = children
        return Assignment(property=name, value=value, span=span_of(name, value))

    def predicate(self, children: list[Any]) -> Predicate:
        name, op, value = children
        return Predicate(property=name, op=_word(op), value=value, span=span_of(name, value))


def _require_base_type(name: Ident) -> None:
    if name.text in BASE_TYPES:
        return
    if name.text == VECTOR:
        raise SyntaxFinding("a vector needs its dimension", name.span, suggestion=f"write '{VECTOR}(N)'")
    near = nearest_name(name.text, BASE_TYPES)
    raise SyntaxFinding(
        f"'{name.text}' is not a parameter type",
        name.span,
        expected=(*BASE_TYPES, f"{VECTOR}(N)"),
        suggestion=f"did you mean '{near}'?" if near else None,
    )


def _edge_name(word: Ident | Token) -> Ident:
    return ident(word) if isinstance(word, Token) else word


def _word(token: Token | None) -> Any:
    """Return the plain text of a keyword or operator; the grammar has already chosen among the legal ones."""
    return None if token is None else str(token)
