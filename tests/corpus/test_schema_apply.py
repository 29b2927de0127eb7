"""Runs the schema corpus against stored rows: what is applied, what is refused, and which rows are there afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import ConstraintViolationError, OmnigraphError, QueryTypeError, VersionMissingError
from omnigraph.ir import decode_parameter_text
from omnigraph.runtime import Runtime
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import is_ulid
from tests.corpus.cases import Case, Expectation, load_cases, read_expectation
from tests.session import Session
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

CASES = load_cases(Path(__file__).parent / "schema-apply")
# What a case writes for an id that the engine makes up.
MADE = "*"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_schema_is_applied_as_the_case_says(case: Case, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    create_graph(root, case.sections["accepted"], case.sections.get("seed", ""), runtime=Runtime.seeded(1))
    expected = read_expectation(case.sections["expect"])
    with open_session(root, runtime=Runtime.seeded(2)) as session:
        earlier, before = session.snapshot(), read_graph(session)
        if expected.verdict == "applied":
            _apply(session, case, expected)
            _check_graph(read_graph(session), case.sections.get("graph", ""))
            _check_earlier(earlier, before, expected)
            _go_on(session, case)
        else:
            _leave(session, case, expected)
            assert read_graph(session) == before
            assert session.snapshot().state == earlier.state
        after = read_graph(session)
    with open_session(root) as session:
        assert read_graph(session) == after


def test_every_planner_example_has_a_case() -> None:
    titles = {case.title.partition(":")[0].split()[0] for case in CASES if case.title.startswith("E-")}
    assert titles == {"E-14", "E-15", "E-16", "E-17", "E-18"}


def _apply(session: Session, case: Case, expected: Expectation) -> None:
    commits = commit_ids(session)
    loss = "allow_data_loss" in case.sections.get("options", "")
    result = session.apply_schema(case.sections["desired"], actor="corpus", allow_data_loss=loss)
    assert (result.supported, result.applied, result.warnings) == (True, True, ())
    assert [step.kind for step in result.steps] == expected.all("step")
    assert {step.to_json()["mode"] for step in result.steps if "mode" in step.to_json()} >= set(expected.all("mode"))
    assert result.commit is not None
    assert (result.commit.actor, result.commit.operation) == ("corpus", "schema_apply")
    assert commit_ids(session) == [result.commit.id, *commits]
    assert session.snapshot().state.schema.source == case.sections["desired"]
    repeated = session.apply_schema(case.sections["desired"])
    assert (repeated.applied, repeated.commit, repeated.manifest_version) == (False, None, result.manifest_version)


def _leave(session: Session, case: Case, expected: Expectation) -> None:
    if expected.verdict == "unchanged":
        result = session.apply_schema(case.sections["desired"])
        assert (result.supported, result.applied, result.commit, result.steps) == (True, False, None, ())
        return
    with pytest.raises(OmnigraphError) as caught:
        session.apply_schema(case.sections["desired"])
    assert f"error {caught.value.code}" == expected.verdict
    assert [fragment for fragment in expected.all("contains") if fragment not in str(caught.value)] == []
    for total in expected.all("total"):
        assert caught.value.details.total == int(total)


def _check_earlier(earlier: GraphSnapshot, before: dict[str, Any], expected: Expectation) -> None:
    """A soft drop leaves the earlier state readable, a hard one takes away the tables that lost a column."""
    for claim in expected.all("earlier"):
        for table_key, rows in before.items():
            if claim == "gone" and rows:
                with pytest.raises(VersionMissingError):
                    earlier.table(table_key).read()
            else:
                found = earlier.table(table_key).read(["id"])
                assert sorted(found["id"].to_pylist()) == sorted(rows)


def _go_on(session: Session, case: Case) -> None:
    if "refused" in case.sections:
        with pytest.raises((ConstraintViolationError, QueryTypeError)):
            session.mutate(case.sections["refused"])
    if "again" in case.sections:
        places = {key: entry.pin.location for key, entry in session.snapshot().state.tables.items()}
        session.apply_schema(case.sections["again"])
        for key, entry in session.snapshot().state.tables.items():
            assert places.get(key, entry.pin.location) == entry.pin.location
    if "then" in case.sections:
        session.mutate(case.sections["then"], _params(case))
    if "afterwards" in case.sections:
        _check_graph(read_graph(session), case.sections["afterwards"])


def _check_graph(graph: dict[str, Any], text: str) -> None:
    expected: dict[str, dict[str, Any]] = {}
    made: dict[str, list[Any]] = {}
    for line in text.splitlines():
        table_key, entity_id, *row = line.split(maxsplit=2)
        rows = expected.setdefault(table_key, {})
        if entity_id == MADE:
            made.setdefault(table_key, []).append(json.loads(row[0]))
        elif entity_id != "-":
            rows[entity_id] = json.loads(row[0])
    assert set(graph) == set(expected)
    for table_key, rows in graph.items():
        fresh = {name: row for name, row in rows.items() if name not in expected[table_key]}
        assert {name: row for name, row in rows.items() if name not in fresh} == expected[table_key]
        assert all(is_ulid(name) for name in fresh)
        assert list(fresh.values()) == made.get(table_key, [])


def _params(case: Case) -> Any:
    return decode_parameter_text(case.sections["params"]) if "params" in case.sections else None
