"""``query`` and ``explain``, as people and scripts meet them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.e2e.process import omnigraph
from tests.session_graph import commit_ids, create_graph, open_session

SCHEMA = "node Person { name: String @key  age: I32?  note: String? }\nedge Knows: Person -> Person\n"
SEED = """
{"type": "Person", "data": {"name": "Ann", "age": 36, "note": "one\\ntwo, \\"three\\""}}
{"type": "Person", "data": {"name": "Bo"}}
{"edge": "Knows", "from": "Ann", "to": "Bo", "data": {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}
"""
ALL = "query all() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }"
ONE = "query one($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
NOTES = "query notes() { match { $p: Person } return { $p.note as note } order { note desc } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph that no test changes."""
    folder = tmp_path_factory.mktemp("reads")
    create_graph(folder / "g", SCHEMA, SEED)
    (folder / "two.gq").write_text(f"{ALL}\n{ONE}\n", encoding="utf-8")
    return folder


def head(folder: Path) -> str:
    with open_session(folder / "g") as session:
        return commit_ids(session)[0]


class TestQuery:
    def test_table_is_what_people_get(self, graph: Path):
        done = omnigraph("query", "--store", "g", "-e", ALL, cwd=graph)
        assert (done.code, done.err) == (0, "")
        assert done.out == "2 rows from branch main via all\nname | age \n-----+-----\nAnn  | 36  \nBo   | null\n"

    @pytest.mark.parametrize("flags", [["--json"], ["--format", "json"], ["--json", "--format", "csv"]])
    def test_json_is_one_document_with_the_commit_that_was_read(self, graph: Path, flags: list[str]):
        done = omnigraph("query", "--store", "g", "-e", ALL, *flags, cwd=graph)
        assert (done.code, done.err) == (0, "")
        assert json.loads(done.out) == {
            "query_name": "all",
            "target": {"branch": "main", "snapshot": None},
            "row_count": 2,
            "columns": ["name", "age"],
            "rows": [{"name": "Ann", "age": 36}, {"name": "Bo", "age": None}],
            "graph_commit_id": head(graph),
        }
        assert done.out == json.dumps(json.loads(done.out), indent=2) + "\n"

    def test_other_formats(self, graph: Path):
        def show(form: str) -> str:
            return omnigraph("query", "--store", "g", "-e", NOTES, "--format", form, cwd=graph).out

        assert list(csv.reader(io.StringIO(show("csv"), newline=""))) == [["note"], ['one\ntwo, "three"'], ["null"]]
        assert show("kv").splitlines()[1:3] == ["row 1", 'note: one\\ntwo, "three"']
        lines = [json.loads(line) for line in show("jsonl").splitlines()]
        assert lines[0]["kind"] == "metadata"
        assert lines[1:] == [{"note": 'one\ntwo, "three"'}, {"note": None}]

    def test_snapshot_is_named_in_the_answer(self, graph: Path):
        at = head(graph)
        text = omnigraph("query", "--store", "g", "-e", ALL, "--snapshot", at, cwd=graph)
        assert text.out.startswith(f"2 rows from snapshot {at} via all\n")
        document = json.loads(omnigraph("query", "--store", "g", "-e", ALL, "--snapshot", at, "--json", cwd=graph).out)
        assert document["target"] == {"branch": None, "snapshot": at}
        assert document["graph_commit_id"] == at

    def test_earlier_state_is_read_at_its_commit(self, tmp_path: Path):
        create_graph(tmp_path / "g", SCHEMA, SEED)
        before = head(tmp_path)
        omnigraph("mutate", "--store", "g", "-e", 'query x() { delete Person where name = "Bo" }', cwd=tmp_path)
        now = omnigraph("query", "--store", "g", "-e", ALL, "--format", "csv", cwd=tmp_path)
        then = omnigraph("query", "--store", "g", "-e", ALL, "--format", "csv", "--snapshot", before, cwd=tmp_path)
        assert (now.out, then.out) == ("name,age\nAnn,36\n", "name,age\nAnn,36\nBo,null\n")

    @pytest.mark.parametrize(
        "flags",
        [["--param", "n=Bo"], ["--params", '{"n": "Bo"}'], ["--params", '{"n": "Ann"}', "--param", "n=Bo"]],
    )
    def test_name_chooses_the_query_and_parameters_fill_it(self, graph: Path, flags: list[str]):
        done = omnigraph("query", "one", "--store", "g", "--query", "two.gq", *flags, "--format", "csv", cwd=graph)
        assert (done.code, done.out) == (0, "p.name\nBo\n")

    @pytest.mark.parametrize("mode", ["auto", "indexed", "csr"])
    def test_edges_are_walked_either_way_to_the_same_rows(self, graph: Path, mode: str):
        text = 'query f() { match { $p: Person { name: "Ann" } $p knows $f } return { $f.name } }'
        done = omnigraph("query", "--store", "g", "-e", text, "--mode", mode, "--format", "csv", cwd=graph)
        assert (done.code, done.out) == (0, "f.name\nBo\n")

    def test_reading_changes_nothing_and_a_mutation_is_refused(self, graph: Path):
        before = head(graph)
        done = omnigraph("query", "--store", "g", "-e", 'query x() { insert Person { name: "x" } }', cwd=graph)
        assert (done.code, done.out) == (2, "")
        assert done.err.endswith("code: query.lane\n")
        assert head(graph) == before

    @pytest.mark.parametrize(
        ("arguments", "code", "ending"),
        [
            (["-e", ALL], 2, "usage"),
            (["--store", "g"], 2, "usage"),
            (["--store", "g", "stored"], 2, "usage"),
            (["--store", "g", "-e", " "], 2, "usage"),
            (["--store", "g", "-e", ALL, "--format", "xml"], 2, "usage"),
            (["--store", "g", "-e", ALL, "--mode", "fast"], 2, "usage"),
            (["--store", "g", "-e", ALL, "--limit-rows", "-1"], 2, "usage"),
            (["--store", "g", "-e", ALL, "--branch", "main", "--snapshot", "x"], 2, "usage"),
            (["--store", "g", "-e", ALL, "--snapshot", "main~x"], 2, "value.format"),
            (["--store", "g", "-e", ALL, "--snapshot", "tag:x"], 5, "tag.not_found"),
            (["--store", "g", "-e", ALL, "--branch", "nowhere"], 5, "branch.not_found"),
            (["--store", "g", "-e", ONE], 2, "query.parameter"),
            (["--store", "g", "-e", ONE, "--param", "n=5"], 2, "query.parameter"),
            (["--store", "g", "-e", ONE, "--params", "[]", "--param", "n=Bo"], 2, "query.parameter"),
            (["--store", "g", "-e", "query q("], 2, "query.syntax"),
            (["--store", "g", "--query", "two.gq"], 5, "query.not_found"),
            (["--store", "nowhere", "-e", ALL], 5, "graph.not_found"),
            (["--store", "g", "-e", ALL, "--limit-rows", "1"], 9, "query.row_limit"),
        ],
    )
    def test_mistakes_are_named_on_standard_error(self, graph: Path, arguments: list[str], code: int, ending: str):
        done = omnigraph("query", *arguments, cwd=graph)
        assert (done.code, done.out) == (code, "")
        assert done.err.endswith(f"code: {ending}\n")
