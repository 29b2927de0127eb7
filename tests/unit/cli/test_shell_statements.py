"""What is typed into the shell, as statements."""

from __future__ import annotations

import pytest

from omnigraph.cli.shell.statements import Statement, split_script
from omnigraph.errors import QuerySyntaxError

READ = "match { $p: Person } return { $p.name }"


def test_a_body_becomes_a_declaration_and_a_declaration_stays():
    assert Statement.of(READ).source == f"query statement() {{\n{READ}\n}}"
    declared = f"// all\nquery all() {{ {READ} }}"
    assert Statement.of(f" {declared} ; ").source == declared
    assert Statement.of("query: 1").prefix


def test_a_body_takes_the_parameters_that_it_names():
    params = {"n": "Ada", "age": 3, "list": [1.5], "flag": True, "unused": 1}
    text = "match { $p: P { name: $n } $p.age > $age $p.x in $list $p.y = $flag } return { $p.name }"
    assert Statement.of(text, params).prefix == "query statement($n: String, $age: I64, $list: [F64], $flag: Bool) {\n"


@pytest.mark.parametrize(
    "text",
    [
        "match { $p: Person }",
        "match {",
        "match { $p: Person } return { $p.name",
        "insert Person { name:",
        "query q(",
        "query q() { match { $p: Person } return { $p.name }",
    ],
)
def test_a_statement_that_needs_more_is_unfinished(text: str):
    assert Statement.of(text).is_unfinished()


@pytest.mark.parametrize("text", [READ, "matsch { $p }", "match { $p: Person } retrun { $p }", "insert Person }"])
def test_a_statement_that_ends_or_is_wrong_is_not_unfinished(text: str):
    assert not Statement.of(text).is_unfinished()


def placed(text: str) -> QuerySyntaxError:
    statement = Statement.of(text)
    with pytest.raises(QuerySyntaxError) as caught:
        statement.declaration()
    found = statement.placed(caught.value)
    assert isinstance(found, QuerySyntaxError)
    return found


def test_errors_stand_where_they_were_typed():
    found = placed("match { $p: Person }\nretrun { $p.name }")
    place = found.details.place
    assert place is not None
    assert (place.line, place.column, place.text) == (2, 1, "retrun { $p.name }")
    assert "match { $p: Person }\nretrun"[place.start : place.end] == "retrun"


def test_an_unfinished_statement_says_what_is_missing_at_its_end():
    found = placed("match { $p: Person }")
    place = found.details.place
    assert place is not None
    assert (place.line, place.column) == (1, 21)
    assert found.message.startswith("the statement is not finished: expected 'return'")


def test_a_script_is_cut_at_semicolons_empty_lines_and_commands():
    script = ["", ":branch x", READ, "", "insert A {", "", '  b: "1" }', "insert B { c: 1 };", READ, ":quit", "match {"]
    assert list(split_script(f"{line}\n" for line in script)) == [
        ":branch x",
        READ,
        'insert A {\n\n  b: "1" }\ninsert B { c: 1 };',
        READ,
        ":quit",
        "match {",
    ]
