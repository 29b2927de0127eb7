"""Resolutions in runs: entities keep their ids over runs, people overrule, and all of it is part of one commit."""

from __future__ import annotations

import os

import pytest

from omnigraph.errors import PipelineInvalidError, UsageError
from omnigraph.pipelines import Pipeline, quarantine
from omnigraph.pipelines.running import quarantined, run, stream
from tests.load_graph import export, make_graph
from tests.spark.pipelines.persons import (
    SCHEMA,
    decide,
    members,
    pairs,
    person_pipeline,
    persons,
    write_records,
)

IS_LONG = bool(os.environ.get("OMNIGRAPH_SPARK_PIPELINES"))
long = pytest.mark.skipif(not IS_LONG, reason="make spark-pipelines: a resolution is many small jobs")


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def test_new_records_join_the_entities_of_earlier_runs(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_records(raw, "a.parquet", ("c2", "Mira Lowe", None), ("c4", "Bo Ek", None))
    crm = person_pipeline(raw, "files")
    first = run(crm, graph, spark=spark)
    assert members(graph) == {"c2": "c2", "c4": "c4"}
    assert first.changes["Person"] == {"inserted": 2, "updated": 0, "deleted": 0}
    # A smaller id joins. Only what is new is read, and compared with what is stored.
    write_records(raw, "b.parquet", ("c1", "Mira LOWE", None))
    second = run(crm, graph, spark=spark)
    assert members(graph) == {"c1": "c2", "c2": "c2", "c4": "c4"}
    assert pairs(graph) == {("c1", "c2"): "same"}
    assert {step.name: step.rows_in for step in second.steps} == {
        "customers": 1,
        "people": 0,
        "people.Person": 2,
        "Customer": 1,
        "people.SameAs": 3,
        "people.Compared": 1,
    }
    assert second.changes == {
        "Customer": {"inserted": 1, "updated": 0, "deleted": 0},
        "SameAs": {"inserted": 1, "updated": 0, "deleted": 0},
        "Compared": {"inserted": 1, "updated": 0, "deleted": 0},
    }
    # One commit for each run, beside that which made the graph.
    assert len([*graph.store.iter_commits(graph.snapshot())]) == 3
    assert run(crm, graph, spark=spark).outcome == "nothing"


@long
@pytest.mark.parametrize("incremental", ["files", None])
def test_what_people_decide_counts_in_the_next_run(spark, graph, tmp_path, incremental):
    raw = tmp_path / "raw"
    crm = person_pipeline(raw, incremental)
    write_records(raw, "a.parquet", ("c2", "Mira Lowe", None), ("c3", "mira löwe", None), ("c4", "Bo Ek", None))
    run(crm, graph, spark=spark)
    assert members(graph) == {"c2": "c2", "c3": "c2", "c4": "c4"}
    graph.mutate('query n() { update Person set { note: "vip" } where canonical = "c2" }')
    write_records(raw, "b.parquet", ("c1", "Mira LOWE", None), ("c6", "Mira Lowen", None), ("d1", "Bo Eck", None))
    run(crm, graph, spark=spark)
    assert members(graph) == {"c1": "c2", "c2": "c2", "c3": "c2", "c4": "c4", "c6": "c2", "d1": "c4"}

    # People say that c6 is somebody else. There is no new file, and the run finds their decision.
    decide(graph, "c2", "c6", "different by overrule")
    assert run(crm, graph, spark=spark).outcome == "published"
    assert members(graph) == {"c1": "c2", "c2": "c2", "c3": "c2", "c4": "c4", "c6": "c6", "d1": "c4"}
    assert pairs(graph)["c2", "c6"] == "different by overrule"
    assert pairs(graph)["c1", "c6"] == "cut by overrule"
    assert run(crm, graph, spark=spark).outcome == "nothing"

    # They join two that are not alike: of their two ids one is retired, and its entity gone.
    decide(graph, "c6", "c4", "same by overrule")
    told = run(crm, graph, spark=spark)
    assert members(graph) == {"c1": "c2", "c2": "c2", "c3": "c2", "c4": "c4", "c6": "c4", "d1": "c4"}
    assert persons(graph, "note") == {"c2": "vip", "c4": None}
    assert told.changes["Person"] == {"inserted": 0, "updated": 0, "deleted": 1}
    assert run(crm, graph, spark=spark).outcome == "nothing"


def linked(folder, incremental=None, **options):
    """Return a pipeline whose persons have names of their own, by names and addresses that are equal."""
    crm = Pipeline("crm", **options)
    crm.source("customers", format="parquet", path=str(folder), incremental=incremental)
    crm.resolve(
        "people",
        input="customers",
        id="code",
        blocking=["name", "email"],
        compare=["name", "email"],
        threshold=1,
        same_as="SameAs",
    )
    crm.node(
        "Customer",
        input="customers",
        set={"note": "upper(code)"},
        expect=quarantine("right", "note <> 'BAD'"),
        removes_missing=True,
    )
    crm.node(
        "Person",
        input="people",
        key="canonical_id",
        set={"name": "coalesce(name, email)"},
        dedupe="code",
        expect=quarantine("named", "coalesce(name, email) IS NOT NULL"),
    )
    return crm


@long
@pytest.mark.parametrize("publish", ["direct", "audit"])
def test_entities_with_rows_of_their_own_go_when_they_are_retired(spark, graph, tmp_path, publish):
    raw = tmp_path / "raw"
    crm = linked(raw, "files", publish=publish)
    write_records(raw, "a.parquet", ("a", "Ann", None), ("b", None, "ann@x"), ("bad", "Bad", None))
    run(crm, graph, spark=spark)
    assert (members(graph), persons(graph, "name")) == ({"a": "a", "b": "b"}, {"a": "Ann", "b": "ann@x"})
    assert [one.rows for one in quarantined(graph, "crm")] == [1]
    # One record is the same as both: the entity of the first gets all of them, the other one is gone.
    write_records(raw, "b.parquet", ("m", "Ann", "ann@x"))
    told = run(crm, graph, spark=spark)
    assert (members(graph), persons(graph, "name")) == ({"a": "a", "b": "a", "m": "a"}, {"a": "Ann"})
    assert told.changes["Person"] == {"inserted": 0, "updated": 0, "deleted": 1}
    assert run(crm, graph, spark=spark).outcome == "nothing"
    # A full refresh finds that the first record is gone: the entity stays with most of its records.
    write_records(raw, "a.parquet", ("b", None, "ann@x"))
    run(crm, graph, spark=spark, full_refresh=True)
    assert (members(graph), persons(graph, "name")) == ({"b": "a", "m": "a"}, {"a": "ann@x"})


@long
def test_a_decision_that_is_made_while_a_run_is_under_way_is_not_written_over(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    crm = person_pipeline(raw, "files")
    write_records(raw, "a.parquet", ("c1", "Mira Lowe", None), ("c2", "Mira Lowen", None))
    run(crm, graph, spark=spark)
    write_records(raw, "b.parquet", ("c3", "Mira Lowe", None))
    failpoints = graph.runtime.failpoints

    def meanwhile():
        failpoints.disable("spark.steps.before_publish")
        decide(graph, "c1", "c2", "different by overrule")

    failpoints.enable("spark.steps.before_publish", meanwhile)
    assert run(crm, graph, spark=spark).outcome == "published"
    assert members(graph) == {"c1": "c1", "c2": "c2", "c3": "c1"}
    assert pairs(graph)["c1", "c2"] == "different by overrule"


@long
def test_micro_batches_of_a_stream_make_the_same_entities(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    crm = person_pipeline(raw)
    write_records(raw, "a.parquet", ("c2", "Mira Lowe", None))
    stream(crm, graph, checkpoint=tmp_path / "checkpoint", spark=spark)
    write_records(raw, "b.parquet", ("c1", "Mira LOWE", None))
    stream(crm, graph, checkpoint=tmp_path / "checkpoint", spark=spark)
    assert members(graph) == {"c1": "c2", "c2": "c2"}


def test_records_that_cannot_be_compared_with_stored_ones_are_told_before_anything_is_read(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_records(raw, "a.parquet", ("c1", "Mira", None))
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="files")
    crm.view("records", sql="SELECT *, 1 AS rank, upper(name) AS shout FROM customers")
    crm.node("Customer", input="customers")
    crm.resolve(
        "people", input="records", id="code", blocking=["lower(shout)"], compare=["name"], threshold=1, same_as="SameAs"
    )
    crm.view("shown", input="people")
    before = export(graph)
    with pytest.raises(PipelineInvalidError) as refused:
        run(crm, graph, spark=spark)
    assert [item.message.partition(",")[0] for item in refused.value.details.items] == [
        "column 'shout' makes blocks",
        "column 'rank' is passed to 'shown'",
    ]
    assert export(graph) == before
    with pytest.raises(UsageError, match="with a part of the rows, removes_missing would delete all others"):
        run(person_pipeline(raw), graph, spark=spark, limit=1)
