"""Optimizing with executors: the same tables and answers as without them, beside whoever writes."""

from __future__ import annotations

import shutil

import pytest

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.spark.maintenance import ExecutorMaintenance, OptimizeStep, optimize_on_spark
from omnigraph.spark.runner import InProcessRunner, SparkRunner
from omnigraph.store.staging.compaction import CompactionPolicy
from omnigraph.store.tables.pinned import Search
from tests.session_graph import add_rows, create_graph, open_session, read_graph
from tests.unit.engine.maintenance.fake_projections import FakeBuilders

SCHEMA = """
node Person {
    name: String @key
    bio: String @index
    place: Vector(2)? @index
}
edge Knows: Person -> Person
"""
FIRST, LAST = 0, 6


def person(number):
    """One person; every third has a vector."""
    place = f"[{number}.0, 1.0]" if number % 3 == 0 else "null"
    return f'{{"type": "Person", "data": {{"name": "p{number}", "bio": "word{number % 2} all", "place": {place}}}}}'


def grown_graph(root):
    """A graph that got one person per commit."""
    create_graph(root, SCHEMA)
    with open_session(root) as session:
        for number in range(FIRST, LAST):
            add_rows(session, person(number))
    return root


class WritingBeside:
    """Runs what another runner would, with a write of somebody else before each of the first answers is used."""

    def __init__(self, runner, *writes):
        self.writes = list(writes)
        self._runner = runner

    def run(self, function, tasks, doing):
        found = self._runner.run(function, tasks, doing)
        if self.writes:
            self.writes.pop(0)()
        return found


def answers(session):
    """What the indexes of the people answer, and which fragments each of them covers."""
    table = session.snapshot().table("node:Person")
    columns = ["name"]
    words = table.read(columns, search=Search(full_text={"query": "word1", "columns": ["bio"]}))
    nearest = {"column": "place", "q": [3.0, 1.0], "k": 1}
    near = table.read(columns, search=Search(nearest=nearest))
    ids = table.read(["id"])["id"]
    return {
        "words": sorted(words["name"].to_pylist()),
        "near": near["name"].to_pylist(),
        "ids": sorted(table.lookup(ids.to_pylist(), ())["id"].to_pylist()),
        "indexes": {index.name: (index.kind, len(index.fragment_ids)) for index in table.indexes()},
        "fragments": len(table.fragments),
    }


@pytest.mark.core
def test_executors_optimize_a_graph_as_this_process_would(spark, tmp_path):
    here, there = grown_graph(tmp_path / "here"), tmp_path / "there"
    shutil.copytree(here, there)
    steps: list[OptimizeStep] = []
    with open_session(here) as embedded, open_session(there) as session:
        expected = embedded.optimize()
        before = read_graph(session)
        done = optimize_on_spark(session, spark=spark, actor="caretaker", progress=steps.append)
        assert [table.to_json() for table in done.tables] == [table.to_json() for table in expected.tables]
        assert read_graph(session) == before
        assert answers(session) == answers(embedded)
        assert answers(session)["words"] == ["p1", "p3", "p5"]
        assert {commit.actor for commit in done.commits} == {"caretaker"}
        assert optimize_on_spark(session, spark=spark).commits == ()
    assert [(step.doing, step.pieces) for step in steps if step.is_done] == [("compact", 1), ("index", 2)]


def test_an_index_built_in_pieces_answers_like_one_that_is_whole(tmp_path):
    here, there = grown_graph(tmp_path / "here"), tmp_path / "there"
    shutil.copytree(here, there)
    with open_session(here) as embedded, open_session(there) as session:
        embedded.optimize()
        runner = ExecutorMaintenance(session.store.storage, InProcessRunner(), group_rows=2)
        # Fragments are large enough as they are, so that there is something to divide an index by.
        session.optimize(runner=runner, policy=CompactionPolicy(target_rows=1))
        found, whole = answers(session), answers(embedded)
        table = session.snapshot().table("node:Person")
        assert {len(index.segments) for index in table.indexes()} == {3}
        assert (found["words"], found["near"], found["ids"]) == (whole["words"], whole["near"], whole["ids"])


def test_projections_are_built_where_the_tasks_run(tmp_path, monkeypatch):
    fake = FakeBuilders().install(monkeypatch, "keys", "text")
    root, steps = grown_graph(tmp_path / "graph"), list[OptimizeStep]()
    with open_session(root, maintenance=MaintenanceSettings(projection_rows=1, auto_every=0)) as session:
        runner = ExecutorMaintenance(session.store.storage, InProcessRunner(), progress=steps.append)
        done = session.optimize(runner=runner)
        built = [(one.kind, one.prop, one.rows) for table in done.tables for one in table.projections]
        assert built == [("keys", "", LAST), ("text", "bio", LAST)]
        assert ("project", 2) in [(step.doing, step.pieces) for step in steps if step.is_done]
        assert all(not one.is_stale for table in session.status().tables for one in table.projections)
        fake.fails = OSError(28, "No space left on device")
        for path in (root / "__projections").rglob("*.arrays"):
            path.unlink()
        failed = session.optimize(runner=runner)
        assert {one.error for table in failed.tables for one in table.projections} == {
            "[Errno 28] No space left on device"
        }


def test_writers_beside_the_executors_lose_nothing(spark, tmp_path):
    root = grown_graph(tmp_path / "graph")
    with open_session(root) as session, open_session(root) as writer:
        runner = WritingBeside(
            SparkRunner(spark=spark),
            # Changes what was just compacted, which is planned again; then adds to it, which changes nothing.
            lambda: writer.mutate('query q() { update Person set { bio: "changed" } where name = "p0" }'),
            lambda: add_rows(writer, person(LAST)),
        )
        done = session.optimize(runner=ExecutorMaintenance(session.store.storage, runner))
        assert not runner.writes
        assert {table.skipped for table in done.tables} == {None}
        people = {row["name"]: row["bio"] for row in read_graph(session)["node:Person"].values()}
        assert people == {f"p{number}": f"word{number % 2} all" for number in range(LAST + 1)} | {"p0": "changed"}
        assert len(answers(session)["ids"]) == LAST + 1
        assert answers(session)["words"] == ["p1", "p3", "p5"]
