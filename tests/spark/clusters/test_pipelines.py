"""A pipeline on every kind of Spark: read, judged, audited, merged, and read further."""

from __future__ import annotations

from omnigraph.operations.history import BlameRequest, ListBranchesRequest
from omnigraph.pipelines.running import quarantined, read_quarantine, replay, run, status
from tests.load_graph import make_graph
from tests.spark.pipelines.crm import SCHEMA, people, pipeline, row, write_customers


def test_a_pipeline_runs_wherever_spark_does(spark, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(4)])
    write_customers(raw, "b.parquet", [row(4, 4), row(5, 5, age=-1), row(6, 6, email=None)])
    crm = pipeline(raw, publish="audit")
    crm.check("nobody is old", query="query q() { match { $p: Person  $p.age > 50 } return { $p.slug } }")
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        first = run(crm, graph, spark=spark)
        counts = {step.name: step for step in first.steps}
        assert (first.outcome, counts["customers"].rows_out) == ("published", 7)
        assert (counts["person"].written, counts["person"].quarantined) == (5, 2)
        assert [one.rows for one in quarantined(graph, "crm")] == [4]
        assert {one["rule"] for one in read_quarantine(graph, "crm").to_pylist()} == {"adult", "decodes", "missing_end"}
        (author, *_) = graph.backend.execute(BlameRequest(type_name="Person", entity_id="p4@x")).properties
        assert author.files == (str(raw / "b.parquet"),)
        assert run(crm, graph, spark=spark).outcome == "nothing"
        write_customers(raw, "c.parquet", [row(1, 30, name="other"), row(7, 31)])
        again = run(crm, graph, spark=spark)
        assert {step.name: step.rows_in for step in again.steps if step.type_name} == {
            "team": 1,
            "person": 2,
            "works_in": 2,
        }
        assert (people(graph)["p1@x"]["name"], len(people(graph))) == ("other", 6)
        assert [one.run for one in status(graph, "crm")] == [again.run, first.run]
        assert replay(pipeline(raw), graph, spark=spark).outcome == "published"
        assert [one.name for one in graph.backend.execute(ListBranchesRequest())] == ["main"]
