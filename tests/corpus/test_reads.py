"""Runs the read corpus: the rows of each query, however the engine comes to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.ir import decode_parameter_text
from omnigraph.lang.gq import parse_queries
from omnigraph.runtime import Runtime
from tests.corpus.cases import Case, Expectation, load_cases, read_expectation
from tests.corpus.ways import ways_to_read
from tests.marks import first
from tests.query_graph import build_indexes, oracle_graph
from tests.query_oracle import Kind, evaluate, read_schema
from tests.query_oracle.agreement import arrow_kind, table_rows
from tests.query_oracle.values import from_text, to_text
from tests.session import Session
from tests.session_graph import add_rows, create_graph, open_session

FOLDER = Path(__file__).parent / "reads"
CASES = load_cases(FOLDER)
# The oracle does not search text.
ORACLE_CASES = [
    case for case in CASES if not any(word in case.sections["query"] for word in ("search(", "match_text(", "fuzzy("))
]
# The instant at which seeded worlds stand still.
NOW_MS = 1_700_000_000_000
INDEXES = ("partial", "full", "none")

Sessions = dict[tuple[str, str], Session]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Open graphs by the name of their schema and by how much of them is indexed."""
    made = _Sessions(tmp_path_factory)
    yield made
    for session in made.values():
        session.close()


class _Sessions(dict[tuple[str, str], Session]):
    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self._factory = factory

    def __missing__(self, key: tuple[str, str]) -> Session:
        name, indexes = key
        root = self._factory.mktemp("reads") / "graph"
        schema, seed = ((FOLDER / f"{name}{suffix}").read_text(encoding="utf-8") for suffix in (".pg", ".jsonl"))
        # In two commits, so that a table is more than one fragment and an index may know only the first.
        lines = sorted(seed.splitlines(keepends=True), key=lambda line: '"edge"' in line)
        create_graph(root, schema, "".join(lines[::2]), runtime=Runtime.seeded(1))
        session = self[key] = open_session(root, runtime=Runtime.seeded(2))
        if indexes == "partial":
            build_indexes(session)
        add_rows(session, "".join(lines[1::2]))
        if indexes == "full":
            build_indexes(session)
        return session


@pytest.mark.parametrize("indexes", first(1, INDEXES))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_read_gives_the_rows_of_the_case(case: Case, indexes: str, sessions: Sessions) -> None:
    session = sessions[_world_of(case), indexes]
    expected = read_expectation(case.sections["expect"])
    leaves_out = indexes == "partial"
    for options in ways_to_read(session, case.sections["query"], _parameters(case), leaves_rules_out=leaves_out):
        result = session.query(
            case.sections["query"], _parameters(case), params_form="strict", options=options, source_name=case.id
        )
        table = result.to_arrow()
        kinds = [arrow_kind(field.type) for field in table.schema]
        assert table.column_names == expected.all("column"), options
        assert _shown(table.column_names, kinds, table_rows(table), expected) == _rows(case, expected), options


@pytest.mark.more
@pytest.mark.parametrize("case", ORACLE_CASES, ids=lambda case: case.id)
def test_oracle_gives_the_rows_of_the_case(case: Case, sessions: Sessions) -> None:
    """What the differential tests trust must itself be right."""
    schema = read_schema((FOLDER / f"{_world_of(case)}.pg").read_text(encoding="utf-8"))
    (decl,) = parse_queries(case.sections["query"]).queries
    kinds = {item.name: Kind(scalar=item.type.scalar) for item in decl.parameters}
    given = {name: from_text(value, kinds[name]) for name, value in (_parameters(case) or {}).items()}
    graph = oracle_graph(sessions[_world_of(case), "none"], schema)
    answer = evaluate(decl, schema, graph, given, NOW_MS)
    expected = read_expectation(case.sections["expect"])
    rows = list(answer.rows[: answer.limit])
    assert list(answer.columns) == expected.all("column")
    assert _shown(answer.columns, answer.kinds, rows, expected) == _rows(case, expected)


def test_every_worked_read_has_a_case() -> None:
    numbers = {int(case.title.split()[0]) for case in CASES if case.title[0].isdigit()}
    assert numbers == set(range(1, 45))


def _world_of(case: Case) -> str:
    """The name of a case's schema and seed: its file's own ones if there are any, else graph A."""
    own = case.id.partition("-")[0]
    return own if (FOLDER / f"{own}.pg").exists() else "graph"


def _parameters(case: Case) -> Any:
    return decode_parameter_text(case.sections["params"]) if "params" in case.sections else None


def _shown(columns: Any, kinds: Any, rows: list[tuple[Any, ...]], expected: Expectation) -> list[str]:
    return _lines([dict(zip(columns, map(to_text, row, kinds), strict=True)) for row in rows], expected)


def _rows(case: Case, expected: Expectation) -> list[str]:
    return _lines([json.loads(line) for line in case.sections["rows"].splitlines()], expected)


def _lines(rows: list[dict[str, Any]], expected: Expectation) -> list[str]:
    # The last digits of a score depend on how its parts are added up.
    lines = [
        json.dumps({name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in row.items()})
        for row in rows
    ]
    return lines if expected.verdict == "rows" else sorted(lines)
