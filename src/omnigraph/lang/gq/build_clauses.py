"""Builds the clauses of a match, and tells traversals from conditions that look like them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    Binding,
    Block,
    Bm25,
    BooleanLiteral,
    Comparison,
    Condition,
    DateLiteral,
    DateTimeLiteral,
    Each,
    Expression,
    Filter,
    FloatLiteral,
    Hops,
    IntegerLiteral,
    ListLiteral,
    Logical,
    Nearest,
    Negation,
    Not,
    Now,
    NullLiteral,
    OptionalBlock,
    PathClause,
    PropertyAccess,
    PropertyMatch,
    Rrf,
    StringLiteral,
    TextSearch,
    Traversal,
    Variable,
)
from omnigraph.lang.gq.build_expressions import ExpressionBuilder, bounded_integer, span_of
from omnigraph.lang.parsing import SyntaxFinding, nearest_name, token_span
from omnigraph.lang.source import Ident, Span

# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule

_MAX_HOPS = 2**32 - 1
COMPARE_OPS = ("=", "!=", ">", "<", ">=", "<=")
_FILTER_OPS = (*COMPARE_OPS, "contains", "starts_with")
_BLOCK_WORDS = ("exists", "not", "count", "optional")
_JOINING_WORDS = ("and", "or", "in", "contains", "starts_with", "ends_with", "matches")
# What a comparison of the two was made of before there were expressions: plans for it are as they were.
VALUES = (
    Variable,
    Now,
    StringLiteral,
    IntegerLiteral,
    FloatLiteral,
    BooleanLiteral,
    DateLiteral,
    DateTimeLiteral,
    ListLiteral,
)
_PLAIN = (*VALUES, PropertyAccess, AliasRef, Nearest, Bm25, Rrf, Aggregate, TextSearch)


def _is_plain(expression: Any) -> bool:
    """Whether an operand is one of the first edition, which knew no NULL in a list."""
    has_null = isinstance(expression, ListLiteral) and any(isinstance(item, NullLiteral) for item in expression.items)
    return isinstance(expression, _PLAIN) and not has_null


class ClauseBuilder(ExpressionBuilder):
    """One method per rule of a match."""

    def condition(self, children: list[Any]) -> Any:
        (expression,) = children
        match expression:
            case TextSearch():
                return expression
            case Block(kind="not", clauses=clauses, span=span):
                return Negation(clauses=clauses, span=span)
            case Comparison(left=Variable() as left, op="contains" | "starts_with" as op, right=Variable() as right):
                word = Ident(text=op, span=expression.op_span)
                return Traversal(source=left, edge=word, destination=right, span=expression.span)
            case Comparison(left=left, op=op, right=right, span=span) if op in _FILTER_OPS:
                if _is_plain(left) and _is_plain(right):
                    plain_op: Any = op
                    return Filter(left=left, op=plain_op, right=right, span=span)
            case Variable(name=name, span=span) | Not(operand=Variable(name=name, span=span)):
                is_negated = isinstance(expression, Not)
                suggestion = "write 'not { … }' around a traversal" if is_negated else f"write '${name} = true'"
                raise SyntaxFinding(f"'${name}' alone is not a condition", span, suggestion=suggestion)
            case Nearest(span=span) | Bm25(span=span) | Rrf(span=span):
                raise SyntaxFinding("a ranking is not a condition", span, suggestion="write it in 'order { … }'")
            case AliasRef(name=name, span=span):
                raise SyntaxFinding(f"'{name}' alone is not a condition", span, suggestion=_word_hint(name))
        return Condition(expression=expression, span=expression.span)

    def worded(self, children: list[Any]) -> Traversal:
        left, op, right, where = children
        word = _EDGE_WORDS.get(str(op))
        if word is None or not isinstance(left, Variable) or not isinstance(right, Variable):
            message = "'where' belongs after a traversal, not after a condition"
            raise SyntaxFinding(message, where.span, suggestion=_word_hint("where"))
        edge = Ident(text=word, span=token_span(op))
        return Traversal(source=left, edge=edge, destination=right, where=where, span=span_of(left, where))

    def optional(self, children: list[Any]) -> OptionalBlock:
        return OptionalBlock(clauses=tuple(children[1:-1]), span=span_of(children[0], children[-1]))

    def each(self, children: list[Any]) -> Each:
        keyword, variable, _in, items = children
        return Each(variable=variable, items=items, span=span_of(keyword, items))

    def path(self, children: list[Any]) -> PathClause:
        keyword, every, variable, traversal = children
        span = span_of(keyword, traversal)
        return PathClause(variable=variable, traversal=traversal, is_all=every is not None, span=span)

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

    def edge_names(self, children: list[Any]) -> tuple[Ident, ...]:
        return tuple(children)

    def directed(self, children: list[Any]) -> Traversal:
        source, (edge, *others), hops, destination, where = children
        return Traversal(
            source=source,
            edge=edge,
            destination=destination,
            alternatives=tuple(others),
            hops=hops,
            where=where,
            span=source.span.to(destination.span if where is None else where.span),
        )

    def undirected(self, children: list[Any]) -> Traversal:
        source, _less, edges, _more, *rest = children
        return replace(self.directed([_source(source), edges, *rest]), is_undirected=True)

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


def _source(left: Any) -> Variable:
    if isinstance(left, Variable):
        return left
    raise SyntaxFinding("a traversal starts at a variable", left.span, expected=("a $variable",))


def _word_hint(word: str) -> str | None:
    """Return what was probably meant by a word that stands where a clause begins."""
    if word in _BLOCK_WORDS:
        return f"write '{word} {{ … }}'"
    if word in _JOINING_WORDS:
        return f"write a value on both sides of '{word}'"
    near = nearest_name(word, _JOINING_WORDS, cutoff=0.7)
    from omnigraph.lang.gq.foreign import foreign_word_hint  # noqa: PLC0415 - for mistakes

    return foreign_word_hint(word) or (f"did you mean '{near}'?" if near else None)


# Operators that an edge may be called like.
_EDGE_WORDS = {word: word for word in ("contains", "starts_with", "ends_with", "matches", "in")}


def edge_reading(condition: Expression) -> Traversal | None:
    """Return the traversal that a condition would be if its word were an edge, as ``$a in $b`` may be.

    The grammar reads it as a condition. Where the schema has such an edge, the texts of the first edition want it.
    """
    match condition:
        case Comparison(left=Variable() as left, op="in" | "ends_with" | "matches" as word, right=Variable() as right):
            at = condition.op_span
        case Logical(op=word, operands=(Variable() as left, Variable() as right)):
            at = Span(left.span.end, right.span.start)
        case _:
            return None
    return Traversal(source=left, edge=Ident(text=word, span=at), destination=right, span=condition.span)
