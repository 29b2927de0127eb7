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
    assert done.out == "node:Person: 4 fragments became 1, built 1 index on name\n1 commit\n"
    assert done.err == "omnigraph optimize → g (direct, local)\n"
    said = omnigraph("cleanup", "g", "--keep", "1", "--older-than", "0s", "--json", cwd=graph)
    went = json.loads(omnigraph("cleanup", "g", "--keep", "1", "--confirm", "--quiet", "--json", cwd=graph).out)
    assert (said.code, json.loads(said.out)["confirmed"], went["confirmed"]) == (0, False, True)
    assert json.loads(said.out)["datasets"] == went["datasets"]
    assert went["bytes_removed"] > 0
    gone = omnigraph("query", "--store", "g", "-e", "query q() { match { $p: Person } return { $p.name } }",
                     "--snapshot", "main~3", cwd=graph)  # fmt: skip
    assert gone.code == 8


def test_projections_are_built_by_a_large_load_or_by_optimize_and_shown(tmp_path: Path):
    create_graph(tmp_path / "g", "node Person { name: String @key }\nedge Knows: Person -> Person {}\n")
    count = 1 << 16
    (tmp_path / "Person.csv").write_text("name\n" + "".join(f"p{number}\n" for number in range(300)))
    ends = (f"p{number % 300},p{number // 300}\n" for number in range(count))
    (tmp_path / "Knows.csv").write_text("from,to\n" + "".join(ends))
    load = ["load", "g", "--data", "Person.csv", "--data", "Knows.csv", "--engine", "local", "--quiet"]
    first = omnigraph(*load, "--mode", "append", "--no-projections", cwd=tmp_path)
    assert (first.code, len(first.out.splitlines())) == (0, 1)
    assert "  projection adjacency-out: not built" in omnigraph("status", "g", cwd=tmp_path).out.splitlines()
    built = json.loads(omnigraph("optimize", "g", "--quiet", "--json", cwd=tmp_path).out)
    (edges,) = (one["projections"] for one in built["datasets"] if one["type_key"] == "edge:Knows")
    made = [(one["kind"], one["rows"], one["error"]) for one in edges if one["kind"].startswith("adjacency")]
    assert made == [("adjacency-out", count, None), ("adjacency-in", count, None)]
    shown = json.loads(omnigraph("status", "g", "--json", cwd=tmp_path).out)
    (edges,) = (one["projections"] for one in shown["datasets"] if one["type_key"] == "edge:Knows")
    assert {(one["built"], one["covered_share"], one["stale"]) for one in edges} == {(True, 1.0, False)}
    assert shown["projection_bytes"] >= sum(one["bytes"] for one in edges) > count
    again = omnigraph(*load, "--mode", "overwrite", "--yes", cwd=tmp_path).out
    assert f"edge:Knows: built projection adjacency-in ({count} rows" in again


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
