"""Runs the mutation corpus: what each mutation counts, publishes and leaves behind, row by row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.ir import decode_parameter_text
from omnigraph.runtime import Runtime
from omnigraph.values import is_ulid
from tests.corpus.cases import Case, Expectation, load_cases, read_expectation
from tests.session import Session
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

FOLDER = Path(__file__).parent / "mutations"
CASES = load_cases(FOLDER)
# What a case writes for an id that the engine makes up.
MADE = "*"

Graph = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Seeded graphs by schema and seed; a case works on a copy."""
    return _Templates(tmp_path_factory)


class _Templates(dict[tuple[str, str], Path]):
    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self._factory = factory

    def __missing__(self, key: tuple[str, str]) -> Path:
        root = self._factory.mktemp("template") / "graph"
        create_graph(root, *key, runtime=Runtime.seeded(1))
        self[key] = root
        return root


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_mutation_does_what_the_case_says(case: Case, templates: dict[tuple[str, str], Path], tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(templates[_world_of(case)], root)
    with open_session(root, runtime=Runtime.seeded(2)) as session:
        if "before" in case.sections:
            session.mutate(case.sections["before"])
        before, commits = read_graph(session), commit_ids(session)
        expected = read_expectation(case.sections["expect"])
        _run(session, case, expected)
        after = read_graph(session)
        _check_graph(case, before, after)
        published = len(commit_ids(session)) - len(commits)
        assert published == (0 if _has_no_commit(expected) else 1)
    with open_session(root) as session:
        assert read_graph(session) == after


def test_every_worked_mutation_has_a_case() -> None:
    numbers = {int(case.title.split()[0]) for case in CASES if case.title[0].isdigit()}
    assert numbers == set(range(45, 55))


def _world_of(case: Case) -> tuple[str, str]:
    """The schema and the seed of a case: its file's own ones if there are any, else graph A."""
    own = FOLDER / f"{case.id.partition('-')[0]}.pg"
    schema = own if own.exists() else FOLDER / "schema.pg"
    seed = own.with_suffix(".jsonl") if own.exists() else FOLDER / "seed.jsonl"
    return schema.read_text(encoding="utf-8"), case.sections.get("seed", seed.read_text(encoding="utf-8"))


def _has_no_commit(expected: Expectation) -> bool:
    return expected.verdict.startswith("error") or expected.all("commit") == ["none"]


def _run(session: Session, case: Case, expected: Expectation) -> None:
    params = decode_parameter_text(case.sections["params"]) if "params" in case.sections else None
    if expected.verdict.startswith("error"):
        with pytest.raises(OmnigraphError) as caught:
            session.mutate(case.sections["query"], params)
        assert caught.value.code == expected.verdict.removeprefix("error ")
        text = f"{caught.value}\n{caught.value.hint}"
        assert [fragment for fragment in expected.all("contains") if fragment not in text] == []
        return
    result = session.mutate(case.sections["query"], params, actor="corpus")
    assert f"ok {result.affected_nodes}/{result.affected_edges}" == expected.verdict
    assert (result.commit is None) == _has_no_commit(expected)
    for counts in expected.all("counts"):
        found = f"{result.inserted} inserted, {result.updated} updated, {result.deleted} deleted"
        assert f"{found}, {result.unchanged} unchanged" == counts
    if expected.all("row"):
        assert result.to_json()["rows"] == [json.loads(row) for row in expected.all("row")]
    if result.commit is not None:
        assert (result.commit.actor, result.commit.id) == ("corpus", commit_ids(session)[0])


def _check_graph(case: Case, before: Graph, after: Graph) -> None:
    """The types that a case lists hold exactly those rows; all others are as they were."""
    expected = dict(before)
    lines = case.sections.get("graph", "").splitlines()
    for name in {line.split()[0] for line in lines}:
        expected[_table_key(after, name)] = {}
    made: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        name, entity_id, *row = line.split(maxsplit=2)
        table_key = _table_key(after, name)
        if entity_id == MADE:
            made.setdefault(table_key, []).append(json.loads(row[0]))
        elif entity_id != "-":
            expected[table_key][entity_id] = json.loads(row[0])
    for table_key, rows in after.items():
        fresh = {name for name in rows if name not in expected[table_key]}
        assert [name for name in fresh if not is_ulid(name)] == [], table_key
        known = {name: _given(row) for name, row in rows.items() if name not in fresh}
        assert known == {name: _given(row) for name, row in expected[table_key].items()}, table_key
        found = [_given(rows[name]) for name in fresh]
        assert sorted(found, key=_text) == sorted(made.get(table_key, []), key=_text), table_key


def _given(row: dict[str, Any]) -> dict[str, Any]:
    """The row without its nulls, which cases leave out."""
    return {name: value for name, value in row.items() if value is not None}


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def _table_key(graph: Graph, name: str) -> str:
    return next(key for key in graph if key.partition(":")[2] == name)
