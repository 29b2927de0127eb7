"""What Spark's pages show of our work, and its types as views."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from omnigraph.spark import export, job_name, load, load_frames, optimize, query, views
from omnigraph.spark.loads import SparkLoadSettings
from tests.load_graph import make_graph

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\nedge Person: Person -> Person"


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def described(spark, after=-1):
    """Return the descriptions of jobs by their numbers, of those that began after one, in that order."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = sorted((jobs.apply(at) for at in range(jobs.size())), key=lambda job: job.jobId())
    texts = {job.jobId(): job.description() for job in found if job.jobId() > after}
    return {number: text.get() if text.isDefined() else None for number, text in texts.items()}


def test_every_job_is_named_after_its_command_or_pipeline_and_its_step(spark, graph, tmp_path):
    lines = [json.dumps({"type": "Person", "data": {"name": f"p{at}"}}) for at in range(100)]
    lines += [json.dumps({"edge": "Knows", "from": f"p{at}", "to": "p0"}) for at in range(50)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    spark.sparkContext.setJobDescription("the caller's own")
    before = max(described(spark), default=-1)
    load(graph, [str(tmp_path / "a.jsonl")], spark=spark, settings=SparkLoadSettings(part_bytes=1_000))
    with job_name("crm"):
        load_frames(graph, {"node:Person": spark.createDataFrame(pa.table({"name": ["x", "y"]}))}, spark=spark)
    query(graph, "query crew() { match { $p: Person  $p knows $q } return { count($p) as n } }", spark=spark)
    export(graph, str(tmp_path / "out"), spark=spark)
    optimize(graph, spark=spark)
    spark.range(1).collect()
    *ours, last = described(spark, before).values()
    spark.sparkContext.setJobDescription(None)
    assert last == "the caller's own"
    assert all(text.startswith("omnigraph: ") and text.count("/") == 1 for text in ours), ours
    commands = list(dict.fromkeys(text.removeprefix("omnigraph: ").partition("/")[0] for text in ours))
    assert commands == ["load", "crm", "query", "export", "optimize"]
    assert {"omnigraph: load/read the input", "omnigraph: query/crew", "omnigraph: export/export rows"} <= set(ours)


def test_types_are_views_of_one_commit(spark, graph):
    load_frames(graph, {"node:Person": spark.createDataFrame(pa.table({"name": ["x", "y"]}))}, spark=spark)
    first = str(graph.snapshot().state.head.commit)
    assert views(graph, spark, prefix="jobs_") == ("jobs_Person_node", "jobs_Knows", "jobs_Person_edge")
    load_frames(graph, {"node:Person": spark.createDataFrame(pa.table({"name": ["z"]}))}, spark=spark)
    assert spark.table("jobs_Person_node").count() == 2
    views(graph, spark, prefix="jobs_")
    views(graph, spark, as_of=first, prefix="then_")
    text = "SELECT (SELECT count(*) FROM jobs_Person_node) AS now, (SELECT count(*) FROM then_Person_node) AS then"
    assert tuple(spark.sql(text).first()) == (3, 2)
