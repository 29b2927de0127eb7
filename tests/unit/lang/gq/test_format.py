"""Formatting beyond the corpus: trees that no text was parsed to."""

from __future__ import annotations

from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import (
    Binding,
    Delete,
    IntegerLiteral,
    MutationBody,
    Predicate,
    Projection,
    PropertyMatch,
    QueryDecl,
    QueryFile,
    ReadBody,
    Variable,
)
from omnigraph.lang.gq.format import format_queries
from omnigraph.lang.source import Comment, Ident

ONE = IntegerLiteral(value=1)
DELETE = Delete(type_name=Ident(text="P"), predicate=Predicate(property=Ident(text="a"), op="=", value=ONE))


def test_a_tree_built_by_hand_is_written_like_a_parsed_one():
    pair = PropertyMatch(property=Ident(text="a"), value=ONE)
    binding = Binding(variable=Variable(name="p"), type_name=Ident(text="P"), predicates=(pair, pair))
    projection = Projection(expression=Variable(name="p"))
    body = ReadBody(match=(binding, binding), projections=(projection, projection), limit=0)
    tree = QueryFile(queries=(QueryDecl(name=Ident(text="q"), body=body),))
    written = format_queries(tree)
    assert written == (
        "query q() {\n"
        "    match {\n"
        "        $p: P { a: 1, a: 1 }\n"
        "        $p: P { a: 1, a: 1 }\n"
        "    }\n"
        "    return { $p, $p }\n"
        "    limit 0\n"
        "}\n"
    )
    assert parse_queries(written) == tree


def test_comments_of_a_tree_built_by_hand_are_written_once():
    query = QueryDecl(name=Ident(text="q"), body=MutationBody(statements=(DELETE,)))
    tree = QueryFile(queries=(query,), comments=(Comment(text="// made"), Comment(text="/* by hand */")))
    assert parse_queries(format_queries(tree)) == tree


def test_carriage_returns_do_not_survive_outside_comments():
    tree = parse_queries("query q() {\r\n    delete P where a = 1\r\n}\r\n")
    assert "\r" not in format_queries(tree)
