"""Pipelines as streams: one commit per micro-batch, each once, and the graph that runs would make."""

from __future__ import annotations

import random

import pytest

from omnigraph.pipelines import Pipeline
from omnigraph.pipelines.running import run, status, stream
from tests.load_graph import export, make_graph
from tests.spark.pipelines.crm import SCHEMA, people, pipeline, row, write_customers


def log(folder):
    """Return a pipeline that takes a change log of customers."""
    crm = Pipeline("log")
    crm.source("customers", format="parquet", path=str(folder), incremental="files")
    crm.node(
        "Person",
        name="person",
        input="customers",
        set={"slug": "lower(email)"},
        deletes="name = 'gone'",
        sequence="updated_at",
    )
    return crm


def test_a_stream_that_dies_behind_its_commit_has_each_batch_once(spark, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2)])
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        crm = pipeline(raw, incremental="files")

        def fail():
            graph.runtime.failpoints.disable("spark.steps.after_publish")
            raise OSError("the driver is lost")

        graph.runtime.failpoints.enable("spark.steps.after_publish", fail)
        with pytest.raises(OSError, match="the driver is lost"):
            stream(crm, graph, spark=spark, checkpoint=tmp_path / "checkpoint")
        assert sorted(people(graph)) == ["p1@x", "p2@x"]
        again = stream(crm, graph, spark=spark, checkpoint=tmp_path / "checkpoint")
        assert again.reports == ()
        write_customers(raw, "b.parquet", [row(3, 3)])
        (told,) = stream(crm, graph, spark=spark, checkpoint=tmp_path / "checkpoint").reports
        assert (told.outcome, sorted(people(graph))) == ("published", ["p1@x", "p2@x", "p3@x"])
        assert len(status(graph, "crm")) == 2


def test_random_change_logs_give_the_graph_of_a_naive_model_by_runs_and_by_a_stream(spark, tmp_path):
    chance = random.Random(19)  # noqa: S311 - a log, not a secret
    expected = {}
    at = 0
    for number in range(3):
        rows = []
        for _ in range(30):
            at += 1
            key = chance.randrange(8)
            name = "gone" if chance.random() < 0.2 else f"v{at}"
            rows.append(row(key, at, name=name))
        for one in rows:
            key = one["email"].lower()
            if one["name"] == "gone":
                expected.pop(key, None)
            else:
                expected[key] = one["name"]
        rows += chance.sample(rows, 5)
        chance.shuffle(rows)
        write_customers(tmp_path / "all", f"{number}.parquet", rows)
        write_customers(tmp_path / "some", f"{number}.parquet", rows) if not number else None
    with make_graph(tmp_path / "runs", SCHEMA) as graph, make_graph(tmp_path / "stream", SCHEMA) as other:
        run(log(tmp_path / "some"), graph, spark=spark)
        for number in (1, 2):
            (tmp_path / "some" / f"{number}.parquet").write_bytes((tmp_path / "all" / f"{number}.parquet").read_bytes())
            told = run(log(tmp_path / "some"), graph, spark=spark)
            (person,) = (step for step in told.steps if step.name == "person")
            assert person.rows_in == 35
        assert {key: one["name"] for key, one in people(graph).items()} == expected
        # Files come in the order of their age.
        done = stream(log(tmp_path / "all"), other, spark=spark, checkpoint=tmp_path / "at", files_per_batch=1)
        assert len(done.reports) == 3
        assert export(other) == export(graph)
