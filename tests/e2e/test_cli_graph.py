"""The commands that open graphs, as people and scripts meet them."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.process import omnigraph
from tests.session_graph import open_session, read_graph

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "add.gq").write_text(ADD, encoding="utf-8")
    return tmp_path


@pytest.fixture
def graph(folder: Path) -> Path:
    made = omnigraph("init", "--schema", "schema.pg", "g", cwd=folder)
    assert (made.code, made.out, made.err) == (0, "initialized g\n", "")
    return folder


def people(folder: Path) -> dict[str, int | None]:
    with open_session(folder / "g") as session:
        return {name: row["age"] for name, row in read_graph(session)["node:Person"].items()}


class TestInit:
    def test_bad_schema_is_shown_with_its_place_and_creates_nothing(self, folder: Path):
        (folder / "bad.pg").write_text("node Person { name: Strin }\n", encoding="utf-8")
        made = omnigraph("init", "--schema", "bad.pg", "h", cwd=folder)
        assert (made.code, made.out) == (2, "")
        assert made.err.startswith("error: bad.pg:1:21: ")
        assert not (folder / "h").exists()

    @pytest.mark.parametrize(
        ("uri", "problem"),
        [
            ("http://host/graph", "usage"),
            ("ftp://host/graph", "value.format"),
            ("s3://", "value.format"),
            ("", "value.format"),
        ],
    )
    def test_place_that_is_no_storage_exits_with_2(self, folder: Path, uri: str, problem: str):
        made = omnigraph("init", "--schema", "schema.pg", uri, cwd=folder)
        assert (made.code, made.out) == (2, "")
        assert made.err.endswith(f"code: {problem}\n")


class TestMutate:
    def test_text_names_branch_query_counts_and_actor(self, graph: Path):
        done = omnigraph(
            "mutate", "--store", "g", "--query", "add.gq", "--params", '{"n": "Ann"}', "--as", "mira", cwd=graph
        )
        assert (done.code, done.err) == (0, "")
        assert done.out == "changed main via add: 1 node, 0 edges\nactor_id: mira\n"
        assert people(graph) == {"Ann": None}

    def test_json_holds_the_commit(self, graph: Path):
        arguments = ["mutate", "--store", "g", "-e", ADD, "--params", '{"n": "Ann", "a": "7"}', "--json"]
        done = omnigraph(*arguments, cwd=graph)
        assert (done.code, done.err) == (0, "")
        document = json.loads(done.out)
        commit = document.pop("commit")
        assert document == {
            "branch": "main",
            "query_name": "add",
            "affected_nodes": 1,
            "affected_edges": 0,
            "actor_id": None,
            "inserted": 1,
            "updated": 0,
            "deleted": 0,
            "unchanged": 0,
        }
        assert list(commit) == [
            "graph_commit_id",
            "graph_branch",
            "graph_manifest_version",
            "parent_commit_id",
            "merged_parent_commit_id",
            "actor_id",
            "created_at",
        ]
        assert ULID.fullmatch(commit["graph_commit_id"])
        assert (commit["graph_branch"], commit["graph_manifest_version"]) == ("main", 2)
        assert people(graph) == {"Ann": 7}

    def test_nothing_matched_is_success_without_a_commit(self, graph: Path):
        text = 'query gone() { delete Person where name = "Nobody" }'
        done = omnigraph("mutate", "--store", "g", "-e", text, "--json", cwd=graph)
        assert done.code == 0
        assert json.loads(done.out)["commit"] is None

    def test_lost_race_exits_with_4_and_changes_nothing(self, graph: Path):
        stale = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
        done = omnigraph(
            "mutate", "--store", "g", "-e", ADD, "--params", '{"n": "x"}', "--if-commit", stale, "--json", cwd=graph
        )
        assert (done.code, done.err) == (4, "")
        error = json.loads(done.out)["error"]
        assert (error["code"], error["details"]["expected"]) == ("write.precondition", stale)
        assert people(graph) == {}

    @pytest.mark.parametrize(
        ("options", "code", "ages"),
        [([], 0, {"Ann": 1, "Bo": 1}), (["--on-conflict", "refuse"], 3, {"Ann": 7, "Bo": 7})],
    )
    def test_overtaken_update_is_run_again_unless_it_refuses(self, graph: Path, options, code, ages):
        add = "query add($n: String) { insert Person { name: $n, age: 7 } }"
        update = "query up() { update Person set { age: 1 } where age = 7 }"
        assert omnigraph("mutate", "--store", "g", "-e", add, "--params", '{"n": "Ann"}', cwd=graph).code == 0
        gate = graph / "gate"
        with ThreadPoolExecutor(max_workers=1) as pool:
            overtaken = pool.submit(
                omnigraph,
                *("mutate", "--store", "g", "-e", update, "--json", *options),
                cwd=graph,
                OMNIGRAPH_FAILPOINTS=f"txn.stage.after_files=pause:{gate}",
            )
            while not gate.with_name("gate.reached").exists():
                assert not overtaken.done()
                time.sleep(0.005)
            assert omnigraph("mutate", "--store", "g", "-e", add, "--params", '{"n": "Bo"}', cwd=graph).code == 0
            gate.touch()
            done = overtaken.result()
        assert (done.code, people(graph)) == (code, ages)
        answer = json.loads(done.out)
        assert answer["affected_nodes"] == 2 if code == 0 else answer["error"]["code"] == "write.conflict"

    def test_one_of_several_queries_is_chosen_by_name(self, graph: Path):
        (graph / "two.gq").write_text(
            'query a() { insert Person { name: "a" } }\nquery b() { insert Person { name: "b" } }', encoding="utf-8"
        )
        unnamed = omnigraph("mutate", "--store", "g", "--query", "two.gq", cwd=graph)
        assert (unnamed.code, unnamed.out) == (5, "")
        named = omnigraph("mutate", "b", "--store", "g", "--query", "two.gq", cwd=graph)
        assert named.out == "changed main via b: 1 node, 0 edges\n"

    def test_parameters_come_from_a_file_or_standard_input(self, graph: Path):
        done = omnigraph(
            "mutate", "--store", "g", "--query", "add.gq", "--params-file", "-", cwd=graph, stdin='{"n": "Zoë"}'
        )
        assert done.code == 0
        assert people(graph) == {"Zoë": None}

    def test_broken_rule_is_named_and_nothing_changes(self, graph: Path):
        text = 'query q() { insert Person { name: "a" } insert Knows { from: "a", to: "b" } }'
        done = omnigraph("mutate", "--store", "g", "-e", text, cwd=graph)
        assert (done.code, done.out) == (2, "")
        assert done.err == "error: dst 'b' not found in Person\ncode: constraint.violated\n"
        assert people(graph) == {}

    def test_type_error_shows_its_place(self, graph: Path):
        done = omnigraph("mutate", "--store", "g", "-e", "query q() { delete Persn where age = 1 }", cwd=graph)
        assert done.code == 2
        assert done.err.startswith("error: <query>:1:20: type error: T10: unknown type 'Persn'\n")

    @pytest.mark.parametrize(
        ("arguments", "code", "ending"),
        [
            (["--query", "add.gq"], 2, "usage"),
            (["--store", "g"], 2, "usage"),
            (["--store", "g", "stored"], 2, "usage"),
            (["--store", "g", "-e", "  "], 2, "usage"),
            (["--store", "g", "-e", ADD, "--query", "add.gq"], 2, "usage"),
            (["--store", "g", "-e", ADD, "--params", "{}", "--params-file", "x"], 2, "usage"),
            (["--store", "g", "--query", "-", "--params-file", "-"], 2, "usage"),
            (["--store", "g", "-e", ADD, "--params", "{"], 2, "query.parameter"),
            (["--store", "g", "-e", ADD, "--params", "[1]"], 2, "query.parameter"),
            (["--store", "g", "-e", ADD], 2, "query.parameter"),
            (["--store", "g", "-e", "query q("], 2, "query.syntax"),
            (["--store", "g", "-e", "caf\udce9"], 2, "source.encoding"),
            (["--store", "nowhere", "-e", ADD], 5, "graph.not_found"),
            (["--store", "g", "-e", ADD, "--params", '{"n": "x"}', "--branch", "nowhere"], 5, "branch.not_found"),
            (["--store", "g", "-e", ADD, "--params", '{"n": "x"}', "--branch", "a b"], 2, "value.format"),
            (["--store", "g", "-e", ADD, "--params", '{"n": "x"}', "--if-commit", "head"], 2, "value.format"),
            (["--store", "g", "-e", ADD, "--params", '{"n": "x"}', "--on-conflict", "ignore"], 2, "usage"),
        ],
    )
    def test_mistakes_are_named_on_standard_error(self, graph: Path, arguments: list[str], code: int, ending: str):
        done = omnigraph("mutate", *arguments, cwd=graph)
        assert (done.code, done.out) == (code, "")
        assert done.err.endswith(f"code: {ending}\n")
