"""Runs the read corpus of the second edition: what each query gives, or how it fails, by the engine and the oracle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import OmnigraphError
from omnigraph.ir import decode_parameter_text
from omnigraph.lang.gq import parse_queries
from omnigraph.runtime import Runtime
from tests.corpus.cases import Case, Expectation, load_cases, read_expectation
from tests.corpus.ways import ways_to_read
from tests.marks import first
from tests.query_graph import build_indexes
from tests.query_oracle import Fault, Graph, Illegal, Kind, evaluate, read_schema
from tests.query_oracle.agreement import arrow_kind, table_rows
from tests.query_oracle.functions import FUNCTIONS, OTHERS
from tests.query_oracle.seeds import read_seed
from tests.query_oracle.values import from_text, to_text
from tests.session import Session
from tests.session_graph import add_rows, create_graph, open_session

FOLDER = Path(__file__).parent / "reads-2"
SCHEMA, SEED = ((FOLDER / f"graph{suffix}").read_text(encoding="utf-8") for suffix in (".pg", ".jsonl"))
CASES = load_cases(FOLDER)
# The instant at which seeded worlds stand still.
NOW_MS = 1_700_000_000_000


@pytest.mark.more
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_oracle_gives_what_the_case_says(case: Case) -> None:
    expected = read_expectation(case.sections["expect"])
    if expected.verdict.startswith("error "):
        # Whether a text breaks a rule or means nothing is told by the checker alone.
        assert _oracle_error(case) == expected.verdict.removeprefix("error ").replace("query.meaning", "query.type")
        return
    answer = _answer(case)
    assert list(answer.columns) == expected.all("column")
    assert [str(kind) for kind in answer.kinds] == expected.all("type")
    rows = list(answer.rows[: answer.limit])
    assert _shown(answer.columns, answer.kinds, rows, expected) == _rows(case, expected)


@pytest.fixture(scope="module", params=first(1, ("full", "none")))
def indexes(request: pytest.FixtureRequest) -> str:
    """How much of the graph is indexed."""
    return str(request.param)


@pytest.fixture(scope="module")
def session(indexes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The graph of the corpus in two commits, so that a table is more than one fragment."""
    root = tmp_path_factory.mktemp("reads") / "graph"
    lines = _lines_by_kind()
    create_graph(root, SCHEMA, "".join(lines[::2]), runtime=Runtime.seeded(1))
    opened = open_session(root, runtime=Runtime.seeded(2))
    add_rows(opened, "".join(lines[1::2]))
    if indexes == "full":
        build_indexes(opened)
    yield opened
    opened.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_engine_gives_what_the_case_says(case: Case, indexes: str, session: Session) -> None:
    expected = read_expectation(case.sections["expect"])
    leaves_out = indexes == "full"
    for options in ways_to_read(session, case.sections["query"], _parameters(case), leaves_rules_out=leaves_out):
        if expected.verdict.startswith("error "):
            with pytest.raises(OmnigraphError) as caught:
                _query(session, case, options).to_arrow()
            assert caught.value.code == expected.verdict.removeprefix("error "), options
            assert [part for part in expected.all("contains") if part not in caught.value.message] == [], options
            continue
        table = _query(session, case, options).to_arrow()
        kinds = [arrow_kind(field.type) for field in table.schema]
        assert table.column_names == expected.all("column"), options
        assert [str(kind) for kind in kinds] == expected.all("type"), options
        assert _shown(table.column_names, kinds, table_rows(table), expected) == _rows(case, expected), options


def test_every_function_has_a_case() -> None:
    texts = "\n".join(case.sections["query"] for case in CASES)
    assert [name for name in (*FUNCTIONS, *OTHERS) if f"{name}(" not in texts] == []


def _query(session: Session, case: Case, options: QueryOptions) -> Any:
    return session.query(
        case.sections["query"], _parameters(case), params_form="strict", options=options, source_name=case.id
    )


def _answer(case: Case) -> Any:
    (decl,) = parse_queries(case.sections["query"]).queries
    kinds = {item.name: Kind(scalar=item.type.scalar, is_list=item.type.is_list) for item in decl.parameters}
    given = {name: from_text(value, kinds[name]) for name, value in (_parameters(case) or {}).items()}
    return evaluate(decl, read_schema(SCHEMA), _seeded(), given, NOW_MS)


@cache
def _seeded() -> Graph:
    """The graph with the second of its commits as the version of what that wrote."""
    graph = read_seed(SCHEMA, SEED)
    late = read_seed(SCHEMA, "".join(_lines_by_kind()[1::2]))
    for tables in (late.nodes, late.edges):
        graph.versions.update({(name, chosen): "2" for name, rows in tables.items() for chosen in rows})
    return graph


def _lines_by_kind() -> list[str]:
    return sorted(SEED.splitlines(keepends=True), key=lambda line: '"edge"' in line)


def _oracle_error(case: Case) -> str | None:
    try:
        _answer(case)
    except Illegal:
        return "query.type"
    except Fault as fault:
        return "query.parameter" if fault.reason == "amount" else "query.runtime"
    except OmnigraphError as error:
        return error.code
    return None


def _parameters(case: Case) -> Any:
    return decode_parameter_text(case.sections["params"]) if "params" in case.sections else None


def _shown(columns: Any, kinds: Any, rows: list[tuple[Any, ...]], expected: Expectation) -> list[str]:
    return _lines([dict(zip(columns, map(to_text, row, kinds), strict=True)) for row in rows], expected)


def _rows(case: Case, expected: Expectation) -> list[str]:
    return _lines([json.loads(line) for line in case.sections["rows"].splitlines()], expected)


def _lines(rows: list[dict[str, Any]], expected: Expectation) -> list[str]:
    # The last digits of a float depend on how its parts are added up.
    lines = [
        json.dumps({name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in row.items()})
        for row in rows
    ]
    return lines if expected.verdict == "rows" else sorted(lines)
