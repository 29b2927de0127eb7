"""What ends up in tables: row ids kept, equal rows left alone, branches, clusters, repeated attempts, other writers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from tests.load_graph import export, load_lines, make_graph

from omnigraph.errors import ExpectedVersionMismatchError, FileAccessError, KeyExistsError
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.loads.rows import cluster_columns
from omnigraph.spark.runner import InProcessRunner
from omnigraph.values import BranchName

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
edge Knows: Person -> Person
"""
PERSON, KNOWS = "node:Person", "edge:Knows"
SMALL = SparkLoadSettings(part_bytes=2000, merge_rows=40, fragment_rows=64)


@dataclass
class RestlessRunner:
    """Does every task twice and answers with the second attempt; before a step somebody else may write."""

    cores = None

    before: dict[str, object] = field(default_factory=dict)

    def run(self, function, tasks, doing):
        if tasks and doing in self.before:
            self.before.pop(doing)()
        return [self._twice(function, task) for task in tasks]

    def _twice(self, function, task):
        function(task)
        return function(task)


def people(numbers, **values):
    return "".join(
        json.dumps({"type": "Person", "data": {"name": f"p{number:03}", **values}}) + "\n" for number in numbers
    )


def knows(pairs):
    return "".join(json.dumps({"edge": "Knows", "from": f"p{a:03}", "to": f"p{b:03}"}) + "\n" for a, b in pairs)


def rows_of(graph, key=PERSON, branch="main"):
    table = graph.snapshot(branch).table(key)
    names = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    return {row["id"]: row for row in table.read([*table.schema.names, *names[1:]]).to_pylist()}


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        load_lines(opened, tmp_path / "seed.jsonl", people(range(100), age=1) + knows([(1, 2), (3, 4)]), "append")
        yield opened


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data.jsonl"


def run(graph, data, mode, runner=None, settings=SMALL, **options):
    return run_load(
        graph, [str(data)], SparkLoadRequest(mode=mode, settings=settings, **options), runner or InProcessRunner()
    )


def test_a_merge_keeps_row_ids_and_leaves_equal_rows_alone(graph, data):
    before = rows_of(graph)
    same = [number for number in range(50) if number != 7]
    data.write_text(people(same, age=1) + people([7], age=9, tags=["a"]) + people(range(50, 130), age=2))
    result = run(graph, data, "merge")
    after = rows_of(graph)
    assert len(after) == 130
    assert result.unchanged == {"Person": 49}
    assert {key: row["_rowid"] for key, row in after.items() if key in before} == {
        key: row["_rowid"] for key, row in before.items()
    }
    touched = {key for key, row in after.items() if key in before and row != before[key]}
    assert touched == {"p007", *(f"p{number:03}" for number in range(50, 100))}
    assert (after["p007"]["age"], after["p007"]["tags"]) == (9, ["a"])


def test_the_last_row_of_an_id_is_the_one_that_a_merge_writes(graph, data):
    ends = [{"edge": "Knows", "from": "p001", "to": f"p{number:03}", "data": {"id": "e"}} for number in range(90)]
    data.write_text("".join(json.dumps(line) + "\n" for line in ends))
    run(graph, data, "merge")
    assert rows_of(graph, KNOWS)["e"]["dst"] == "p089"
    assert len(rows_of(graph, KNOWS)) == 3


def test_a_merge_of_nothing_new_is_a_commit_that_touches_no_table(graph, data):
    data.write_text(people(range(30), age=1))
    before = graph.snapshot().entry(PERSON)
    result = run(graph, data, "merge")
    assert result.commit is not None
    assert result.unchanged == {"Person": 30}
    assert graph.snapshot().entry(PERSON) == before


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_branch_that_inherits_its_tables_is_written_and_main_is_not(graph, data, mode):
    graph.store.create_branch(BranchName("draft"))
    before = export(graph)
    start = 100 if mode == "append" else 0
    data.write_text(people(range(start, 150), age=3) + knows([(120, 121)] if mode != "overwrite" else [(5, 6)]))
    run(graph, data, mode, branch="draft")
    assert export(graph) == before
    found = rows_of(graph, branch="draft")
    assert len(found) == 150
    assert sum(row["age"] == 3 for row in found.values()) == 150 - start
    assert len(rows_of(graph, KNOWS, "draft")) == (1 if mode == "overwrite" else 3)


def test_rows_are_clustered_into_fragments_that_do_not_overlap(graph, data):
    data.write_text(people(sorted(range(100, 400), key=lambda number: number * 37 % 300), age=5))
    clustered = cluster_columns(graph.catalog(), "key")
    run(graph, data, "append", cluster_by=clustered)
    table = graph.snapshot().table(PERSON)
    spans = []
    for fragment in table.fragments[1:]:
        names = table.read(["name"], fragment_ids=[fragment.metadata.id])["name"].to_pylist()
        assert names == sorted(names)
        spans.append((names[0], names[-1]))
    assert len(spans) >= 4
    assert all(first[1] < second[0] for first, second in pairwise(spans))
    assert len(rows_of(graph)) == 400


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_every_task_done_twice_leaves_each_row_once(graph, data, mode):
    start = 100 if mode == "append" else 0
    data.write_text(people(range(start, 200), age=4))
    run(graph, data, mode, RestlessRunner())
    assert len(rows_of(graph)) == 200


def test_a_merge_starts_again_when_its_table_moves(graph, data, tmp_path):
    def meddle():
        load_lines(graph, tmp_path / "other.jsonl", people([5, 300], age=77), "merge")

    data.write_text(people(range(4, 110), age=6))
    run(graph, data, "merge", RestlessRunner(before={"write the rows": meddle}))
    found = rows_of(graph)
    assert (found["p005"]["age"], found["p300"]["age"], len(found)) == (6, 77, 111)


def test_an_append_goes_on_when_its_table_moves_and_is_judged_again(graph, data, tmp_path):
    def meddle(numbers):
        return lambda: load_lines(graph, tmp_path / "other.jsonl", people(numbers), "append")

    data.write_text(people(range(200, 260)))
    run(graph, data, "append", RestlessRunner(before={"read the input": meddle([300])}))
    assert len(rows_of(graph)) == 161


@pytest.fixture
def meddled(graph, data, tmp_path):
    """Overwrite persons while another load adds one between the check and the write."""

    def overwrite(**options):
        data.write_text(people(range(20)) + knows([(1, 2)]))
        steps = []

        def meddle(progress):
            if progress.phase == "write" and not steps:
                steps.append(progress)
                load_lines(graph, tmp_path / "other.jsonl", people([300]), "append")

        return run(graph, data, "overwrite", progress=meddle, **options)

    return overwrite


def test_an_overwrite_is_written_again_when_its_table_moves_while_it_is_checked(graph, meddled):
    meddled()
    assert len(rows_of(graph)) == 20


def test_an_overwrite_with_refuse_is_refused_when_its_table_moves_while_it_is_checked(graph, meddled):
    with pytest.raises(ExpectedVersionMismatchError):
        meddled(on_conflict="refuse")
    assert len(rows_of(graph)) == 101


def test_a_load_that_fails_takes_its_files_away(graph, data, tmp_path):
    def files():
        return sorted(str(path) for path in (tmp_path / "graph").rglob("*.lance"))

    before = files()
    data.write_text(people([*range(150, 180), 3]))
    with pytest.raises(KeyExistsError):
        run(graph, data, "append")
    assert files() == before


def test_tasks_name_the_file_that_is_gone(graph, data):
    class Losing(InProcessRunner):
        def run(self, function, tasks, doing):
            if doing == "read the input":
                data.unlink()
            return super().run(function, tasks, doing)

    data.write_text(people([400]))
    with pytest.raises(FileAccessError, match="data"):
        run(graph, data, "append", Losing())
