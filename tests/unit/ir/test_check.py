"""What the checker does with trees that no parser makes, and how it reports."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.ir.graphs import compile_text

from omnigraph.errors import QueryTypeError
from omnigraph.ir import RULES, check_query
from omnigraph.lang.gq import ast, parse_queries
from omnigraph.lang.source import Ident, SourceText

CATALOG = compile_text()
SOURCE = SourceText("built", "")


def refuse(decl: ast.QueryDecl) -> QueryTypeError:
    with pytest.raises(QueryTypeError) as caught:
        check_query(decl, CATALOG, SOURCE)
    return caught.value


def declare(body: ast.ReadBody | ast.MutationBody, *parameters: ast.Parameter) -> ast.QueryDecl:
    return ast.QueryDecl(name=Ident(text="q"), body=body, parameters=parameters)


def read(expression: ast.Expression, alias: str | None = None) -> ast.QueryDecl:
    binding = ast.Binding(variable=ast.Variable(name="p"), type_name=Ident(text="Person"))
    named = None if alias is None else Ident(text=alias)
    projection = ast.Projection(expression=expression, alias=named)
    return declare(ast.ReadBody(match=(binding,), projections=(projection,)))


def test_an_insert_that_assigns_nothing_is_refused() -> None:
    insert = ast.Insert(type_name=Ident(text="Person"), assignments=())
    assert refuse(declare(ast.MutationBody(statements=(insert,)))).details.rule == "T10"


def test_an_update_that_assigns_nothing_is_refused() -> None:
    predicate = ast.Predicate(property=Ident(text="name"), op="=", value=ast.StringLiteral(value="x"))
    update = ast.Update(type_name=Ident(text="Person"), assignments=(), predicate=predicate)
    assert refuse(declare(ast.MutationBody(statements=(update,)))).details.rule == "T10"


def test_a_fusion_of_something_else_than_rankings_is_refused() -> None:
    search = ast.TextSearch(
        function="search",
        target=ast.PropertyAccess(variable=ast.Variable(name="p"), property=Ident(text="name")),
        query=ast.StringLiteral(value="x"),
    )
    fusion = ast.Rrf(first=search, second=search)  # type: ignore[arg-type]
    assert refuse(read(fusion)).details.rule == "T21"


def test_all_properties_take_no_alias() -> None:
    everything = ast.AllProperties(variable=ast.Variable(name="p"))
    assert refuse(read(everything, alias="x")).details.rule is None


def test_all_properties_stand_in_return_only() -> None:
    counted = ast.Aggregate(function="count", argument=ast.AllProperties(variable=ast.Variable(name="p")))
    assert "only be returned" in refuse(read(counted)).message


@pytest.mark.parametrize(
    "written",
    [
        ast.TypeRef(scalar="Vector", dimension=2, is_list=True),
        ast.TypeRef(scalar="Vector"),
        ast.TypeRef(scalar="Person"),
    ],
)
def test_a_parameter_of_an_unknown_type_is_refused(written: ast.TypeRef) -> None:
    decl = read(ast.Variable(name="p"))
    typed = dataclasses.replace(decl, parameters=(ast.Parameter(name="x", type=written),))
    assert "'$x'" in refuse(typed).message


def test_a_violation_shows_the_line_the_place_and_one_suggestion() -> None:
    text = "query q() {\n    match { $p: Persn }\n    return { $p }\n}"
    file = parse_queries(text, "people.gq")
    with pytest.raises(QueryTypeError) as caught:
        check_query(file.queries[0], CATALOG, file.source)
    assert str(caught.value).splitlines() == [
        "people.gq:2:17: type error: T1: unknown node type 'Persn'",
        "2 |     match { $p: Persn }",
        "  |                 ^^^^^",
        "  = suggestion: did you mean 'Person'?",
    ]


def test_rules_are_numbered_without_gaps() -> None:
    assert list(RULES) == [f"T{number}" for number in range(1, 30)]


def test_other_declarations_of_the_file_are_not_checked() -> None:
    file = parse_queries(
        "query a() { match { $p: Person } return { $p } } query b() { match { $x: No } return { $x } }"
    )
    assert check_query(file.queries[0], CATALOG, file.source).decl.name.text == "a"
