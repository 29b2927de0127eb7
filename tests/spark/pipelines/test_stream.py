"""Pipelines as streams: one commit per micro-batch, each once, and the graph that runs would make."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.pipelines import Pipeline
from omnigraph.pipelines.running import replay, run, status, stream
from tests.load_graph import export, make_graph
from tests.prop.model_change_log import SCHEMA as LOG_SCHEMA
from tests.prop.model_change_log import dealt, random_log
from tests.prop.test_apply_model import rows_of
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


# What a row of the log has, by type, as columns of its file.
TEXT, NUMBER = pa.string(), pa.int32()
COLUMNS = {
    "Person": {"name": TEXT, "age": NUMBER, "city": TEXT},
    "Team": {"code": TEXT},
    "Knows": {"id": TEXT, "from": TEXT, "to": TEXT, "since": NUMBER, "why": TEXT},
    "In": {"from": TEXT, "to": TEXT, "role": TEXT},
}


def whole_log(raw):
    """Return a pipeline that takes a change log of people, teams and their edges."""
    crm = Pipeline("whole")
    for name, columns in COLUMNS.items():
        source = name.lower()
        crm.source(source, format="parquet", path=str(raw / f"{name}-*.parquet"), incremental="files")
        common = {"name": f"{source}_rows", "input": source, "deletes": "op = 'delete'", "sequence": "seq"}
        if "from" not in columns:
            crm.node(name, **common)
            continue
        ends = {"src": "Person(`from`)", "dst": "Team(to)" if name == "In" else "Person(to)"}
        crm.edge(name, **common, **ends, missing_end="quarantine")
    return crm


def put_rows(raw, number, rows):
    """Write the rows of a log into a file of each type."""
    for name, columns in COLUMNS.items():
        found = [
            {**one, **one["data"], "op": one.get("_op", "upsert"), "seq": one["_seq"]}
            for one in rows
            if name == (one.get("type") or one["edge"])
        ]
        schema = pa.schema({**columns, "op": TEXT, "seq": pa.int64()})
        pq.write_table(pa.Table.from_pylist(found, schema), raw / f"{name}-{number}.parquet")


def test_a_delete_that_comes_behind_an_edge_above_it_blocks_no_run(spark, tmp_path):
    log = [
        {"type": "Person", "data": {"name": "ada", "city": "Rome"}, "_seq": 1},
        {"type": "Person", "data": {"name": "bob", "city": "Oslo"}, "_seq": 2},
        {"edge": "Knows", "from": "ada", "to": "bob", "data": {"id": "e1"}, "_seq": 5},
        {"type": "Person", "_op": "delete", "data": {"name": "bob"}, "_seq": 3},
        {"type": "Person", "data": {"name": "bob", "city": "Bonn"}, "_seq": 4},
    ]
    found = []
    for folder, calls in (("one", [log]), ("many", [log[:3], log[3:4], log[4:]])):
        raw = tmp_path / folder
        raw.mkdir()
        with make_graph(tmp_path / f"{folder}.omni", LOG_SCHEMA) as graph:
            for number, rows in enumerate(calls):
                put_rows(raw, number, rows)
                told = run(whole_log(raw), graph, spark=spark)
                assert (told.outcome, told.quarantine) == ("published", None)
            found.append(rows_of(graph))
    assert found[0] == found[1]
    assert found[0]["Knows"] == {"e1": {"since": None, "why": None, "from": "ada", "to": "bob"}}


@pytest.mark.parametrize("seed", [4, 10])
def test_a_log_that_is_dealt_out_to_runs_gives_the_graph_of_the_whole(spark, tmp_path, seed):
    """Edges whose nodes have not come yet wait in the quarantine."""
    chance = random.Random(seed)  # noqa: S311 - a log, not a secret
    log, states = random_log(chance, 60, ("upsert", "delete"))
    # An upsert of a row of a table says all of it.
    for one in log:
        if one.get("type") == "Person" and one.get("_op") != "delete":
            one["data"].setdefault("city", "Rome")
    raw = tmp_path / "raw"
    raw.mkdir()
    with make_graph(tmp_path / "graph", LOG_SCHEMA) as graph:
        for number, rows in enumerate(dealt(chance, log, 6)):
            put_rows(raw, number, rows)
            run(whole_log(raw), graph, spark=spark)
            replay(whole_log(raw), graph, spark=spark)
        assert rows_of(graph) == states[-1].rows()
