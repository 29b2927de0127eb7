"""The parts of a query as one line of text each."""

from __future__ import annotations

from typing import assert_never

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    AllProperties,
    Assignment,
    Binding,
    Bm25,
    BooleanLiteral,
    Clause,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Expression,
    Filter,
    FloatLiteral,
    Insert,
    IntegerLiteral,
    ListLiteral,
    Literal,
    Nearest,
    Negation,
    Now,
    Ordering,
    Parameter,
    Predicate,
    Projection,
    PropertyAccess,
    PropertyMatch,
    Rrf,
    Statement,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Update,
    Variable,
)
from omnigraph.lang.parsing import quote_string


def format_type(type_ref: TypeRef) -> str:
    """Return a parameter type as people write it.

    >>> format_type(TypeRef(scalar="String", is_list=True, nullable=True))
    '[String]?'
    """
    scalar = type_ref.scalar if type_ref.dimension is None else f"{type_ref.scalar}({type_ref.dimension})"
    return f"{f'[{scalar}]' if type_ref.is_list else scalar}{'?' if type_ref.nullable else ''}"


def format_parameter(parameter: Parameter) -> str:
    """Return ``$name: Type``."""
    return f"${parameter.name}: {format_type(parameter.type)}"


def format_expression(expression: Expression) -> str:
    """Return an expression.

    >>> format_expression(Aggregate(function="count", argument=Variable(name="p")))
    'count($p)'
    """
    match expression:
        case Variable(name=name):
            return f"${name}"
        case PropertyAccess(variable=variable, property=name):
            return f"${variable.name}.{name.text}"
        case AllProperties(variable=variable):
            return f"${variable.name}.*"
        case Now():
            return "now()"
        case AliasRef(name=name):
            return name
        case Nearest() | Bm25() | Rrf():
            return _ranking(expression)
        case TextSearch(function=function, target=target, query=query, max_edits=max_edits):
            return _call(function, target, query, max_edits)
        case Aggregate(function=function, argument=argument):
            return _call(function, argument)
        case _:
            return format_literal(expression)


def format_literal(literal: Literal) -> str:
    """Return a literal.

    >>> format_literal(ListLiteral(items=(IntegerLiteral(value=1), BooleanLiteral(value=True))))
    '[1, true]'
    """
    match literal:
        case StringLiteral(value=text):
            return quote_string(text)
        case IntegerLiteral(value=number):
            return str(number)
        case FloatLiteral(text=digits):
            return digits
        case BooleanLiteral(value=truth):
            return "true" if truth else "false"
        case DateLiteral(text=text):
            return f"date({quote_string(text)})"
        case DateTimeLiteral(text=text):
            return f"datetime({quote_string(text)})"
        case ListLiteral(items=items):
            return f"[{', '.join(map(format_literal, items))}]"
        case _:
            assert_never(literal)


def format_clause(clause: Clause) -> str:
    """Return a match clause, however long.

    >>> format_clause(Filter(left=Variable(name="a"), op="<", right=Now()))
    '$a < now()'
    """
    match clause:
        case Binding(predicates=()):
            return binding_head(clause)
        case Binding(predicates=predicates):
            return f"{binding_head(clause)} {{ {', '.join(map(format_pair, predicates))} }}"
        case Traversal():
            return _traversal(clause)
        case Filter(left=left, op=op, right=right):
            return f"{format_expression(left)} {op} {format_expression(right)}"
        case TextSearch():
            return format_expression(clause)
        case Negation(clauses=clauses):
            return f"not {{ {' '.join(map(format_clause, clauses))} }}"
        case _:
            assert_never(clause)


def binding_head(binding: Binding) -> str:
    """Return ``$x: Type``, the part of a binding before its braces."""
    return f"${binding.variable.name}: {binding.type_name.text}"


def format_pair(pair: PropertyMatch | Assignment) -> str:
    """Return ``prop: value``."""
    return f"{pair.property.text}: {format_expression(pair.value)}"


def format_projection(projection: Projection) -> str:
    """Return an expression with its alias."""
    alias = f" as {projection.alias.text}" if projection.alias is not None else ""
    return f"{format_expression(projection.expression)}{alias}"


def format_ordering(ordering: Ordering) -> str:
    """Return an expression with its direction."""
    direction = f" {ordering.direction}" if ordering.direction is not None else ""
    return f"{format_expression(ordering.expression)}{direction}"


def statement_head(statement: Statement) -> str:
    """Return a statement up to its braces or its ``where``."""
    match statement:
        case Insert():
            return f"insert {statement.type_name.text}"
        case Update():
            return f"update {statement.type_name.text} set"
        case Delete():
            return f"delete {statement.type_name.text}"
        case _:
            assert_never(statement)


def format_predicate(predicate: Predicate) -> str:
    """Return the comparison of a ``where``."""
    return f"{predicate.property.text} {predicate.op} {format_expression(predicate.value)}"


def _ranking(ranking: Nearest | Bm25 | Rrf) -> str:
    match ranking:
        case Nearest(target=target, query=query):
            return _call("nearest", target, query)
        case Bm25(target=target, query=query):
            return _call("bm25", target, query)
        case Rrf(first=first, second=second, k=k):
            return _call("rrf", first, second, k)
        case _:
            assert_never(ranking)


def _call(function: str, *arguments: Expression | None) -> str:
    written = (format_expression(argument) for argument in arguments if argument is not None)
    return f"{function}({', '.join(written)})"


def _traversal(traversal: Traversal) -> str:
    edge = f"<{traversal.edge.text}>" if traversal.is_undirected else traversal.edge.text
    if traversal.edge_variable is not None:
        edge = f"${traversal.edge_variable.name}:{edge}"
    if traversal.hops is not None:
        maximum = "" if traversal.hops.maximum is None else traversal.hops.maximum
        edge = f"{edge}{{{traversal.hops.minimum},{maximum}}}"
    return f"${traversal.source.name} {edge} ${traversal.destination.name}"
