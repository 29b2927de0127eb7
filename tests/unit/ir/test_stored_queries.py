"""Stored queries: files become names, each parsed once, with everything that is wrong told at once."""

from __future__ import annotations

import pytest

from omnigraph.catalog import compile_schema
from omnigraph.errors import (
    QueryNotFoundError,
    QuerySyntaxError,
    QueryTypeError,
    StoredQueryDuplicateError,
    StoredQueryMissingError,
)
from omnigraph.ir import compile_query, stored_queries
from omnigraph.ir.stored_queries import QuerySource, StoredQueries, examine_queries
from omnigraph.lang.pg import parse_schema

CATALOG = compile_schema(parse_schema("node Person { slug: String @key  age: I32?  v: Vector(2)? }"))
READ = "query {name}($slug: String) {{ match {{ $p: Person {{ slug: $slug }} }} return {{ $p.age }} }}\n"
FIND = (
    'query find($slug: String, $least: I32?) @description("One person") @instruction("Ask for the slug") {\n'
    "    match { $p: Person { slug: $slug } }\n    return { $p.age }\n}\n"
)
WRITE = '  query forget($slug: String) @mcp("expose") { delete Person where slug = $slug }\n'
NEAR = "query near($v: Vector(2)) { match { $p: Person } return { $p.slug } order { nearest($p.v, $v) } limit 1 }"


def source(text, name="people.gq", only=None):
    return QuerySource(name=name, text=text, only=only)


def test_a_declaration_tells_how_it_is_called():
    queries = StoredQueries.check([source(FIND + WRITE)], CATALOG)
    find, forget = queries
    assert [one.name for one in queries] == ["find", "forget"]
    assert (find.entry.description, find.entry.instruction) == ("One person", "Ask for the slug")
    assert find.entry.signature() == "find($slug: String, $least: I32?)"
    assert (find.is_mutation, find.mcp_expose, forget.is_mutation, forget.mcp_expose) == (False, False, True, True)
    assert find.to_json()["params"] == [
        {"name": "slug", "kind": "string", "nullable": False},
        {"name": "least", "kind": "int", "nullable": True},
    ]


def test_what_is_run_is_the_declaration_alone_at_its_place_in_the_file():
    """A plan of one of 300 declarations must not cost the parsing of all of them, nor errors their lines."""
    forget = StoredQueries.parse([source(FIND + WRITE)]).get("forget")
    assert "find" not in forget.declaration
    assert compile_query(forget.declaration, None, CATALOG).decl == forget.declared
    broken = StoredQueries.parse([source(FIND + WRITE.replace("Person", "Persn"))]).get("forget")
    with pytest.raises(QueryTypeError) as alone:
        compile_query(broken.declaration, None, CATALOG, broken.source_name)
    with pytest.raises(QueryTypeError) as whole:
        compile_query(broken.text, "forget", CATALOG, broken.source_name)
    places = [caught.value.details.place for caught in (alone, whole)]
    assert [(one.source, one.line, one.column) for one in places] == [("people.gq", 5, 55)] * 2


def test_a_text_is_parsed_once_however_many_declarations_are_wanted_of_it(monkeypatch):
    parsed = []
    parse = stored_queries.parse_queries
    monkeypatch.setattr(stored_queries, "parse_queries", lambda *given: parsed.append(given) or parse(*given))
    names = [f"q{number}" for number in range(300)]
    text = "".join(READ.format(name=name) for name in names)
    assert len(StoredQueries.check([source(text)], CATALOG)) == 300
    payloads = [source(text, name=f"{name}/payload.gq", only=frozenset({name})) for name in names]
    assert len(StoredQueries.check(payloads, CATALOG)) == 300
    assert len(parsed) == 2


def test_everything_that_is_wrong_is_told_with_its_place_and_the_rest_can_be_used():
    text = FIND + WRITE + READ.format(name="find") + "query odd() { match { $p: Persn } return { $p.age } }"
    vector = NEAR.replace(")) {", ')) @mcp("expose") {')
    sources = [
        source(text),
        source("query", "cut.gq"),
        source(vector, "near.gq"),
        source(WRITE, "b.gq", frozenset({"x"})),
    ]
    examined = examine_queries(sources, CATALOG)
    assert [one.name for one in examined.queries] == ["find", "forget", "near"]
    assert [(one.kind, one.query, str(one)) for one in examined.breakages] == [
        ("duplicate", "find", "people.gq:6:7: query 'find' is declared already, in people.gq:1"),
        ("type", "odd", "people.gq:7:27: type error: T1: unknown node type 'Persn'"),
        ("parse", None, "cut.gq:1:6: syntax error: unexpected end of file; expected a name"),
        ("undeclared", "x", "b.gq: query 'x' was not found in b.gq"),
    ]
    assert [str(one) for one in examined.warnings] == [
        "near.gq:1:12: 'near' is exposed as an MCP tool, but agents cannot supply the vector '$v'"
    ]


def test_a_vector_is_a_warning_for_queries_that_agents_get_alone():
    assert examine_queries([source(NEAR)], CATALOG).problems == ()
    assert [one.kind for one in examine_queries([source(NEAR)], CATALOG, exposes_all=True).problems] == ["vector"]
    queries = StoredQueries.parse([source(NEAR)])
    assert [one.kind for one in queries.examine(CATALOG, exposes_all=True).problems] == ["vector"]


def test_without_a_schema_only_what_needs_none_is_said():
    text = "query odd() { match { $p: Persn } return { $p.age } }"
    assert examine_queries([source(text)]).problems == ()
    large = "query wide($d: Decimal(99, 2)) { match { $p: Person } return { $p.slug } }"
    (problem,) = examine_queries([source(large)]).problems
    assert (problem.kind, problem.query, problem.place.line) == ("type", "wide", 1)
    queries = StoredQueries.parse([source(text)])
    assert [one.kind for one in queries.examine(CATALOG).breakages] == ["type"]
    with pytest.raises(QueryTypeError):
        queries.expect_fit(CATALOG)


@pytest.mark.parametrize(
    ("text", "only", "problem"),
    [
        ("query", None, QuerySyntaxError),
        (WRITE + WRITE, None, StoredQueryDuplicateError),
        (WRITE, frozenset({"forgot"}), QueryNotFoundError),
        (WRITE.replace("Person", "Persn"), None, QueryTypeError),
    ],
)
def test_a_strict_reader_raises_the_first_problem(text, only, problem):
    with pytest.raises(problem):
        StoredQueries.check([source(text, only=only)], CATALOG)


def test_a_file_that_is_named_twice_declares_nothing_twice_and_a_copy_of_it_does():
    assert len(StoredQueries.parse([source(WRITE), source(WRITE)])) == 1
    with pytest.raises(StoredQueryDuplicateError, match=r"declared already, in people.gq:1"):
        StoredQueries.parse([source(WRITE), source(WRITE, "copy.gq")])


def test_a_name_that_is_missing_is_told_with_those_that_are_like_it():
    queries = StoredQueries.parse([source(FIND + WRITE)])
    assert "find" in queries
    with pytest.raises(StoredQueryMissingError, match="stored query 'fnd' was not found") as caught:
        queries.get("fnd")
    assert (caught.value.details.near, caught.value.hint) == (("find",), "did you mean 'find'?")


def test_an_annotation_says_what_agents_get():
    with pytest.raises(QuerySyntaxError, match="'@mcp' does not take 'hide'"):
        StoredQueries.parse([source(WRITE.replace("expose", "hide"))])
