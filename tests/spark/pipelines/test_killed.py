"""Runs killed at every named step: run again, graph and progress are as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from omnigraph.operations.history import ListBranchesRequest
from omnigraph.pipelines.running import quarantined, run
from omnigraph.pipelines.running.progress import read_so_far
from omnigraph.store.location import Storage
from tests.crash.checks import assert_sound
from tests.load_graph import RELAXED, export, make_graph
from tests.session import Session
from tests.spark.pipelines.crm import SCHEMA, pipeline, row, write_customers
from tests.spark.pipelines.persons import SCHEMA as PERSONS
from tests.spark.pipelines.persons import decide, person_pipeline, write_records

IS_LONG = bool(os.environ.get("OMNIGRAPH_SPARK_PIPELINES"))
POINTS = (
    "spark.load.after_read",
    "spark.load.after_check",
    "spark.load.after_write",
    "spark.steps.after_quarantine",
    "spark.steps.before_publish",
    "spark.steps.after_publish",
    "txn.stage.after_table",
    "txn.claim.after_put",
    "txn.commit.before_table",
    "txn.commit.after_tables",
    "txn.publish.before_cas",
    "txn.publish.after_cas",
    "txn.release.before_delete",
)
BRANCH_POINTS = ("txn.branch.after_ref", "history.merge.after_capture", "txn.branch_delete.after_claim")


@pytest.mark.skipif(not IS_LONG, reason="make spark-pipelines: it starts another session of Spark")
def test_a_killed_run_leaves_nothing_or_all_and_running_again_gives_the_same(spark, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(5)])
    jobs = [(point, "direct") for point in POINTS] + [(point, "audit") for point in (*POINTS[:6], *BRANCH_POINTS)]
    first = tmp_path / "first"
    with make_graph(first, SCHEMA) as graph:
        run(pipeline(raw), graph, spark=spark)
    roots = {job: tmp_path / f"graph{number}" for number, job in enumerate(jobs)}
    for root in roots.values():
        shutil.copytree(first, root)
    write_customers(raw, "b.parquet", [row(1, 20, name="new"), row(9, 21), row(8, 22, age=-1)])
    with Session.open(storage(first), settings=RELAXED) as graph:
        run(pipeline(raw), graph, spark=spark)
        wanted, reached = export(graph), columns(graph)
    kill_at(jobs, roots, raw, "customers")
    for job in jobs:
        with Session.open(storage(roots[job]), settings=RELAXED) as graph:
            again = run(pipeline(raw, publish=job[1]), graph, spark=spark)
            assert export(graph) == wanted, job
            assert columns(graph) == reached, job
            (kept,) = quarantined(graph, "crm")
            assert kept.rows == 2, job
            assert again.outcome in {"published", "nothing"}
            # What the dead run had begun is gone, its branch as well as its note.
            assert [one.name for one in graph.backend.execute(ListBranchesRequest())] == ["main"], job
            assert not [*roots[job].glob("__pipelines/**/*.json")], job
            assert job[1] == "direct" or len([*roots[job].glob("__quarantine/crm/*")]) == 1, job
        assert_sound(storage(roots[job]))


@pytest.mark.skipif(not IS_LONG, reason="make spark-pipelines: it starts another session of Spark")
def test_entities_of_a_killed_run_are_those_of_one_that_was_not(spark, tmp_path):
    raw = tmp_path / "raw"
    write_records(raw, "a.parquet", ("c2", "Mira Lowe", None), ("c4", "Bo Ek", None))
    crm = person_pipeline(raw, "files")
    first = tmp_path / "first"
    with make_graph(first, PERSONS) as graph:
        run(crm, graph, spark=spark)
        write_records(raw, "b.parquet", ("c1", "Mira LOWE", None), ("c6", "Mira Lowen", None))
        run(crm, graph, spark=spark)
        decide(graph, "c2", "c6", "different by overrule")
    jobs = [(point, "direct") for point in ("spark.load.after_read", "txn.publish.before_cas", "txn.publish.after_cas")]
    roots = {job: tmp_path / f"graph{number}" for number, job in enumerate(jobs)}
    for root in roots.values():
        shutil.copytree(first, root)
    with Session.open(storage(first), settings=RELAXED) as graph:
        run(crm, graph, spark=spark)
        wanted = export(graph)
    kill_at(jobs, roots, raw, "persons")
    for job in jobs:
        with Session.open(storage(roots[job]), settings=RELAXED) as graph:
            told = run(crm, graph, spark=spark)
            assert export(graph) == wanted, job
            # What was about to be published is finished by whoever opens the graph next.
            assert told.outcome == ("published" if job[0] == "spark.load.after_read" else "nothing")
        assert_sound(storage(roots[job]))


def kill_at(jobs, roots, raw, of):
    """Run a pipeline upon graphs in a process that dies when each run is at its point."""
    told = [
        {"of": of, "point": point, "publish": publish, "root": str(roots[point, publish]), "raw": str(raw)}
        for point, publish in jobs
    ]
    died = subprocess.run(
        [sys.executable, "-m", "tests.spark.pipelines.killed_child"],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
        timeout=590,
    )
    assert (died.returncode, sorted(died.stdout.split())) == (-9, sorted(point for point, _ in jobs)), died.stderr


def storage(root):
    return Storage.open(str(root))


def columns(graph):
    return read_so_far(graph.engine, graph.snapshot(), "crm").columns
