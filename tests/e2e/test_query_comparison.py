"""The page that compares: ours gives the rows it shows, and SQL over the same data gives the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest

import omnigraph
from omnigraph.graph.branch import BranchVerbs
from tests.query_pages import COMPARISON, Example, open_club, read_examples, run_example

EXAMPLES = read_examples(COMPARISON)
TABLES = next(example.text for example in EXAMPLES if example.language == "sql")
# The name of each table is that of its type; the first columns of an edge are its ends.
TYPES = {
    **dict.fromkeys(("Sailor", "Boat", "Harbour"), "node"),
    **dict.fromkeys(("Owns", "Crews", "Taught", "MooredIn", "Route"), "edge"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question in our words, and in those of SQL if it has them."""

    ours: Example
    sql: str | None

    def __str__(self) -> str:
        return f"{self.ours.line}-{self.ours.heading}"


def questions() -> list[Question]:
    """Return every question of the page; the blocks of one stand below one heading."""
    by_heading: dict[str, dict[str, Example]] = {}
    for example in EXAMPLES:
        by_heading.setdefault(example.heading, {})[example.language] = example
    return [
        Question(ours=asked["gq"], sql=asked["sql"].text if "sql" in asked else None)
        for asked in by_heading.values()
        if "gq" in asked
    ]


QUESTIONS = questions()


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> Iterator[omnigraph.Graph]:
    with open_club(tmp_path_factory.mktemp("club")) as graph:
        yield graph


@pytest.fixture(scope="module")
def tables(club: omnigraph.Graph) -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables of the page with the rows of the club."""
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        for type_name in TYPES:
            table = connection.table(table_name(type_name))
            for row in stored(club, type_name, connection):
                table.insert(list(row))
        yield connection


def test_page_has_forty_questions_and_most_of_them_in_all_languages():
    assert len(QUESTIONS) >= 40
    assert sum(question.sql is not None for question in QUESTIONS) >= 40
    assert sum(example.language == "cypher" for example in EXAMPLES) >= 40


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_question_gives_what_the_page_shows_and_what_sql_gives(
    question: Question, club: omnigraph.Graph, tables: duckdb.DuckDBPyConnection
):
    ours = question.ours
    if ours.is_mutation:
        check_change(question, club.create_branch(f"line-{ours.line}"), tables)
        return
    assert run_example(club, ours) == ours.shown
    if question.sql is not None:
        rows = club.query(ours.text, ours.parameters)
        assert ask(tables, question.sql, ours.parameters) == (rows.columns, [tuple(row.values()) for row in rows])


def check_change(question: Question, branch: BranchVerbs, tables: duckdb.DuckDBPyConnection) -> None:
    """Both change the same rows, and return the same, in any order."""
    ours = question.ours
    assert run_example(branch, ours) == ours.shown
    assert question.sql is not None
    tables.begin()
    try:
        columns, rows = ask(tables, question.sql, ours.parameters)
        for type_name in TYPES:
            found = tables.table(table_name(type_name)).fetchall()
            assert listed(found) == listed(stored(branch, type_name, tables)), type_name
    finally:
        tables.rollback()
    if "return" in ours.text:
        assert ours.shown is not None
        head, _, *lines = [[cell.strip() for cell in line.split("|")] for line in ours.shown.splitlines()[1:]]
        assert tuple(head) == columns
        assert sorted(lines) == sorted([cell_of(value) for value in row] for row in rows)


def ask(
    tables: duckdb.DuckDBPyConnection, text: str, parameters: dict[str, Any]
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Run the statements of a text, and return the columns and rows of the last."""
    for statement in filter(None, map(str.strip, text.split(";"))):
        used = {name: value for name, value in parameters.items() if re.search(rf"\${name}\b", statement)}
        tables.execute(statement, used)
    columns = tuple(column[0] for column in tables.description or ())
    return columns, [tuple(map(as_ours, row)) for row in tables.fetchall()]


def as_ours(value: Any) -> Any:
    """Return a value of DuckDB in the form in which a result of ours has it."""
    if isinstance(value, tuple):
        return list(value)
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def cell_of(value: Any) -> str:
    """Return a value as a table shows it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def table_name(type_name: str) -> str:
    """Return the table of a type: ``moored_in`` for ``MooredIn``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type_name).lower()


def stored(graph: BranchVerbs, type_name: str, tables: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """Return the rows of a type with the columns that its table has."""
    columns = tables.table(table_name(type_name)).columns
    if TYPES[type_name] == "node":
        wanted = ", ".join(f"$x.{name}" for name in columns)
        text = f"query all() {{ match {{ $x: {type_name} }} return {{ {wanted} }} }}"
    else:
        wanted = ", ".join(["$a", "$b", *(f"$x.{name}" for name in columns[2:])])
        edge = type_name[0].lower() + type_name[1:]
        text = f"query all() {{ match {{ $a $x:{edge} $b }} return {{ {wanted} }} }}"
    return [tuple(row.values()) for row in graph.query(text)]


def listed(rows: list[tuple[Any, ...]]) -> list[str]:
    """Return rows in an order of their own, since a table has none."""
    return sorted(repr(tuple(map(as_ours, row))) for row in rows)
