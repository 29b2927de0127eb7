"""The commands of maintenance, as people and scripts meet them."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pytest

from tests.e2e.process import omnigraph
from tests.session_graph import create_graph, open_session

SCHEMA = "node Person { name: String @key  age: I32? }\n"
ADD = "query a($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    create_graph(tmp_path / "g", SCHEMA)
    with open_session(tmp_path / "g") as session:
        for number in range(4):
            session.mutate(ADD, {"n": f"p{number}"})
    return tmp_path


def test_a_graph_is_looked_at_optimized_and_cleaned(graph: Path):
    looked = json.loads(omnigraph("status", "g", "--json", cwd=graph).out)
    assert looked["advice"][0] == "run optimize to read node:Person faster"
    assert (looked["datasets"][0]["rows"], looked["datasets"][0]["fragments"]) == (4, 4)
    done = omnigraph("optimize", "g", cwd=graph)
    assert done.out == "node:Person: 4 fragments became 1, built 3 indexes on id, name\n1 commit\n"
    assert done.err == "omnigraph optimize → g (direct, local)\n"
    said = omnigraph("cleanup", "g", "--keep", "1", "--older-than", "0s", "--json", cwd=graph)
    went = json.loads(omnigraph("cleanup", "g", "--keep", "1", "--confirm", "--quiet", "--json", cwd=graph).out)
    assert (said.code, json.loads(said.out)["confirmed"], went["confirmed"]) == (0, False, True)
    assert json.loads(said.out)["datasets"] == went["datasets"]
    assert went["bytes_removed"] > 0
    gone = omnigraph("query", "--store", "g", "-e", "query q() { match { $p: Person } return { $p.name } }",
                     "--snapshot", "main~3", cwd=graph)  # fmt: skip
    assert gone.code == 8


def test_optimize_names_the_indexes_that_are_still_to_come(tmp_path: Path):
    create_graph(tmp_path / "g", "node Face { name: String @key  seen: Vector(8)? @index }\n")
    with open_session(tmp_path / "g") as session:
        session.mutate('query a() { insert Face { name: "Ada" } }')
    done = omnigraph("optimize", "g", "--quiet", cwd=tmp_path)
    assert done.out.splitlines()[0].endswith("index on seen pending (no vectors)")
    assert omnigraph("optimize", "g", "--quiet", cwd=tmp_path).out.splitlines() == [
        "node:Face: index on seen pending (no vectors)",
        "nothing to do",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["cleanup", "g"],
        ["cleanup", "g", "--older-than", "1y"],
        ["cleanup", "g", "--keep", "-1"],
        ["cleanup", "s3://nowhere/g", "--keep", "1", "--confirm", "--json"],
        ["repair", "g", "--force"],
        ["repair", "g", "--confirm", "--force", "--discard"],
    ],
    ids=lambda arguments: " ".join(arguments[2:]) or "nothing to keep",
)
def test_orders_that_make_no_sense_exit_with_2_and_change_nothing(graph: Path, arguments: list[str]):
    assert omnigraph(*arguments, cwd=graph).code == 2


def test_a_change_of_something_else_waits_for_a_decision(graph: Path):
    with open_session(graph / "g") as session:
        place = graph / "g" / session.snapshot().entry("node:Person").pin.location
    lance.dataset(str(place)).delete("name = 'p1'")
    refused = omnigraph("repair", "g", "--confirm", "--quiet", cwd=graph)
    assert refused.code == 11
    assert refused.err == "refused changes need a decision: --force adopts them, --discard undoes them\n"
    assert refused.out == "node:Person: refused, suspicious published=5 head=6 operations=Delete\n"
    assert omnigraph("cleanup", "g", "--keep", "1", cwd=graph).code == 11
    settled = json.loads(omnigraph("repair", "g", "--confirm", "--discard", "--json", cwd=graph).out)
    assert settled["datasets"][0]["action"] == "discarded"
    assert omnigraph("repair", "g", "--quiet", cwd=graph).out == "no drift in 1 table\n"
