"""What runs cost, as numbers of jobs: nothing where nothing changed, and no row is read twice to be counted."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from omnigraph.pipelines import Pipeline
from omnigraph.pipelines.running import run
from omnigraph.spark.steps.sources import list_files
from tests.load_graph import make_graph
from tests.spark.pipelines.crm import SCHEMA, people, pipeline, row, write_customers


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


class Jobs:
    """Counts the jobs of a session by what they are called."""

    def __init__(self, spark):
        self._context = spark.sparkContext._jsc.sc()
        self._seen = {number for number, _ in self._all()}

    def new(self):
        """Return how many jobs there were since the last call, by description."""
        found = [(number, text) for number, text in self._all() if number not in self._seen]
        self._seen |= {number for number, _ in found}
        return Counter(text for _, text in found)

    def _all(self):
        self._context.listenerBus().waitUntilEmpty()
        jobs = self._context.statusStore().jobsList(None)
        for job in (jobs.apply(at) for at in range(jobs.size())):
            yield job.jobId(), job.description().get() if job.description().isDefined() else None


def named(jobs):
    """Return the steps that jobs were for."""
    return {str(text).rpartition("/")[2]: count for text, count in jobs.items()}


def two_sources(raw):
    """Return a pipeline whose people and teams have files of their own, with columns of different types."""
    crm = Pipeline("two")
    crm.source("customers", format="parquet", path=str(raw / "customers"), incremental="updated_at")
    crm.source("teams", format="parquet", path=str(raw / "teams"), incremental="age")
    crm.node("Person", name="person", input="customers", set={"slug": "lower(email)"})
    crm.node("Team", name="team", sql="SELECT DISTINCT team AS code FROM teams")
    return crm


def test_a_run_without_changes_starts_no_job(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("customers", "teams"):
        write_customers(raw / name, "a.parquet", [row(n, n) for n in range(4)])
    crm = two_sources(raw)
    assert run(crm, graph, spark=spark).outcome == "published"
    jobs = Jobs(spark)
    for publish in ("direct", "audit"):
        assert run(crm, graph, spark=spark, publish=publish).outcome == "nothing"
    assert named(jobs.new()) == {}


def test_other_files_without_newer_rows_cost_a_look_and_no_commit(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("customers", "teams"):
        write_customers(raw / name, "a.parquet", [row(n, n) for n in range(4)])
    crm = two_sources(raw)
    run(crm, graph, spark=spark)
    version = graph.snapshot().state.version
    for name in ("customers", "teams"):
        write_customers(raw / name, "b.parquet", [row(1, 1)])
    jobs = Jobs(spark)
    assert run(crm, graph, spark=spark).outcome == "nothing"
    told = named(jobs.new())
    # Columns of files are looked up once, and one aggregation has two stages at most.
    assert {name: told[name] for name in ("customers", "teams")} == {"customers": 1, "teams": 1}
    assert told["sources"] <= 2
    assert set(told) == {"customers", "teams", "sources"}
    assert graph.snapshot().state.version == version
    # Rows that are newer in one of them are read, and the other one is not passed over later.
    write_customers(raw / "customers", "c.parquet", [row(9, 50)])
    assert run(crm, graph, spark=spark).outcome == "published"
    write_customers(raw / "teams", "c.parquet", [row(50, 51, team="t9")])
    assert run(crm, graph, spark=spark).outcome == "published"
    assert sorted(people(graph)) == ["p0@x", "p1@x", "p2@x", "p3@x", "p9@x"]


def test_an_incremental_run_reads_each_step_by_one_job(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(6)])
    crm = pipeline(raw)
    run(crm, graph, spark=spark)
    write_customers(raw, "b.parquet", [row(1, 30, name="other")])
    jobs = Jobs(spark)
    assert run(crm, graph, spark=spark).outcome == "published"
    told = named(jobs.new())
    assert told.pop("sources") <= 2
    # DISTINCT has a shuffle, which is a job of its own where plans are adapted.
    assert told.pop("team") <= 2
    assert told == {"customers": 1, "person": 1, "works_in": 1}


def test_rows_of_sources_and_views_are_counted_on_their_way(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(6)])
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="updated_at")
    crm.source("unused", format="parquet", path=str(raw))
    crm.view("grown", sql="SELECT * FROM customers WHERE age >= 2", cache=True)
    crm.view("nobody", sql="SELECT * FROM customers WHERE 1 = 0")
    crm.node("Person", name="person", input="grown", set={"slug": "lower(email)"})
    crm.node("Team", name="team", sql="SELECT team AS code FROM nobody UNION SELECT team FROM customers")
    jobs = Jobs(spark)
    told = {step.name: step for step in run(crm, graph, spark=spark).steps}
    found = {name: (step.rows_in, step.rows_out) for name, step in told.items() if step.is_counted}
    assert (found["customers"], found["grown"]) == ((6, 6), (6, 4))
    assert found.get("nobody", (6, 0)) == (6, 0)
    assert not told["unused"].is_counted
    assert named(jobs.new())["person"] <= 2
    write_customers(raw, "b.parquet", [row(7, 30)])
    told = {step.name: step for step in run(crm, graph, spark=spark).steps}
    assert (told["customers"].rows_out, told["person"].rows_in, told["team"].rows_in) == (1, 1, 1)


def test_files_are_those_that_spark_reads(tmp_path):
    """A file that is overlooked would be rows that never come."""
    raw, elsewhere = tmp_path / "raw", tmp_path / "elsewhere"
    for folder in (raw / "_day=1", raw / "_temporary", elsewhere):
        folder.mkdir(parents=True)
    for path in (raw / "_day=1" / "a.csv", raw / "_temporary" / "b.csv", raw / "_SUCCESS", elsewhere / "c.csv"):
        path.write_text("x")
    (raw / "linked").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(raw)
    found = [os.path.relpath(file.path, raw) for file in list_files([str(raw)], {})]
    assert found == ["_day=1/a.csv", "linked/c.csv"]
