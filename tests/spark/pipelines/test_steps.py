"""Rows of steps: compared or folded they become the same graph, and values that were reached are kept as they are."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import ConstraintViolationError, KeyExistsError
from omnigraph.pipelines import Pipeline, quarantine
from omnigraph.pipelines.running import quarantined, read_quarantine, run
from omnigraph.runtime import Runtime
from omnigraph.spark.steps.sources import NewestQuestion, Watermark, find_newest, is_beyond, rows_between
from tests.load_graph import export, make_graph
from tests.spark.pipelines.crm import SCHEMA, people, pipeline, row, write_customers

AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def folded(crm):
    """Return a pipeline whose rows say what is to be done with them, which is nothing special."""
    declared = crm.declaration()
    return replace(declared, types=tuple(replace(step, deletes="false") for step in declared.types))


def counts(report):
    names = ("rows_in", "written", "unchanged", "superseded", "deleted", "dropped", "quarantined", "stubs")
    return {step.name: [getattr(step, name) for name in names] for step in report.steps}


def test_rows_that_are_compared_and_rows_that_are_folded_give_the_same_graph_and_counts(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    with make_graph(tmp_path / "other", SCHEMA) as other:
        first = [row(n, n) for n in range(5)]
        # Missing ends, values that do not fit, a broken rule, and a key that occurs twice.
        odd = [row(7, 7, age=-1), row(8, 8, email=None), row(9, 9, team=None), row(1, 10, name="again")]
        for name, rows in (("a.parquet", first + odd), ("b.parquet", [row(2, 20, name="new"), row(3, 21), row(6, 22)])):
            write_customers(raw, name, rows)
            one, two = run(pipeline(raw), graph, spark=spark), run(folded(pipeline(raw)), other, spark=spark)
            assert counts(one) == counts(two)
            assert one.changes == two.changes
            assert export(graph) == export(other)
        kept = [
            sorted((one["step"], one["rule"]) for one in read_quarantine(each, "crm").to_pylist())
            for each in (graph, other)
        ]
        assert kept[0] == kept[1]
        assert ("person", "duplicate_key") in kept[0]


def test_a_run_all_of_whose_edges_lack_an_end_writes_none(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2)])
    run(pipeline(raw), graph, spark=spark)
    for number, make in ((3, pipeline), (4, lambda folder: folded(pipeline(folder)))):
        write_customers(raw, f"{number}.parquet", [row(number, number, age=-1)])
        assert counts(run(make(raw), graph, spark=spark))["works_in"] == [1, 0, 0, 0, 0, 0, 1, 0]
    assert sorted(people(graph)) == ["p1@x", "p2@x"]


def test_two_rows_of_one_key_fail_where_nothing_says_which_counts(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(1, 2, name="again")])
    for deletes in (None, "false"):
        crm = Pipeline("crm")
        crm.source("customers", format="parquet", path=str(raw))
        crm.node("Person", name="person", input="customers", set={"slug": "lower(email)"}, deletes=deletes)
        with pytest.raises(ConstraintViolationError):
            run(crm, graph, spark=spark)
    assert people(graph) == {}


def test_appended_rows_may_not_be_there_whichever_way_they_go(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1)])
    for dry_run in (False, True):
        crm = Pipeline("crm")
        crm.source("customers", format="parquet", path=str(raw))
        crm.node("Person", name="person", input="customers", set={"slug": "lower(email)"}, mode="append")
        if not dry_run:
            run(crm, graph, spark=spark)
        with pytest.raises(KeyExistsError):
            run(crm, graph, spark=spark, dry_run=dry_run)


def test_late_rows_lose_against_what_earlier_runs_have_stored(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="files")
    crm.node("Person", name="person", input="customers", set={"slug": "lower(email)"}, sequence="age")
    write_customers(raw, "a.parquet", [row(1, 1, age=10, name="newer")])
    run(crm, graph, spark=spark)
    write_customers(raw, "b.parquet", [row(1, 2, age=9, name="older"), row(2, 3, age=1)])
    told = run(crm, graph, spark=spark)
    assert (counts(told)["person"][:4], people(graph)["p1@x"]["name"]) == ([2, 1, 0, 1], "newer")


def test_texts_of_csv_files_become_values_and_conditions_see_what_set_adds(spark, tmp_path):
    schema = "node Customer { number: I64 @key  name: String  vip: Bool?  since: Date?  score: F64? }"
    edge = "\nedge Knows: Customer -> Customer"
    (tmp_path / "customers.csv").write_text(
        "No;Full Name;VIP;Since;Score\n1;Ann;1;2024-01-05;0.5\n2;Bob;no;05.01.2024;\n3;;yes;;1\n4;Dan;maybe;;\nx;E;;;\n"
    )
    (tmp_path / "knows.csv").write_text("a,b\n1,2\n2,1\n1,x\n1,9\n")
    crm = Pipeline("crm")
    options = {"sep": ";"}
    crm.source("customers", format="csv", path=str(tmp_path / "customers.csv"), options=options)
    crm.source("knows", format="csv", path=str(tmp_path / "knows.csv"))
    given = {"number": "No", "name": "`Full Name`", "vip": "VIP", "since": "Since", "score": "Score"}
    crm.node("Customer", input="customers", set=given, expect=[quarantine("named", "name IS NOT NULL")])
    crm.edge("Knows", input="knows", src="Customer(a)", dst="Customer(b)", missing_end="quarantine")
    with make_graph(tmp_path / "graph", schema + edge) as graph:
        told = run(crm, graph, spark=spark)
        found = [tuple(row["data"].get(name) for name in given) for row in export(graph) if "type" in row]
        edges = [(row["from"], row["to"]) for row in export(graph) if "edge" in row]
        rejected = sorted((one["step"], one["rule"]) for one in read_quarantine(graph, "crm").to_pylist())
    assert counts(told)["Customer"] == [5, 2, 0, 0, 0, 0, 3, 0]
    assert rejected == [("Customer", "decodes")] * 2 + [
        ("Customer", "named"),
        ("Knows", "decodes"),
        ("Knows", "missing_end"),
    ]
    day = date(2024, 1, 5).toordinal() - date(1970, 1, 1).toordinal()
    assert found == [(1, "Ann", True, day, 0.5), (2, "Bob", False, day, None)]
    assert len(edges) == 2


def test_rejected_rows_lie_where_they_are_wanted_and_cleanup_leaves_them(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1, age=-1), row(2, 2)])
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw))
    crm.node("Person", input="customers", set={"slug": "lower(email)"}, expect=[quarantine("adult", "age >= 0")])
    run(crm, graph, spark=spark)
    Cleanup(graph.store, Retention(keep=1), AT_ONCE, Runtime.system()).run()
    write_customers(raw, "a.parquet", [row(1, 1, age=-1), row(3, 3)])
    told = run(crm, graph, spark=spark, quarantine_to=tmp_path / "elsewhere")
    assert told.quarantine == str(tmp_path / "elsewhere" / "crm" / f"run={told.run}")
    assert [one.rows for one in quarantined(graph, "crm")] == [1, 1]
    assert sorted(people(graph)) == ["p2@x", "p3@x"]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.timestamp("us", tz="UTC"), 1_767_268_800_000_001, 1_767_268_800_000_002),
        (pa.timestamp("us"), 1_767_268_800_000_001, 1_767_268_800_000_002),
        (pa.int64(), 9, 10),
        (pa.float64(), 0.1, 0.30000000000000004),
        (pa.decimal128(20, 4), Decimal("9.0001"), Decimal("10.0000")),
        (pa.date32(), date(2026, 1, 1), date(2026, 1, 2)),
        (pa.string(), "it's", 'it\'s \\ "so"'),
    ],
    ids=str,
)
def test_a_value_that_was_reached_is_read_back_as_it_was(spark, kind, low, high):
    frame = spark.createDataFrame(pa.table({"at": pa.array([low, high, None], kind)}))
    older = frame.filter("at IS NOT NULL").orderBy("at").limit(1)
    # One job answers for several frames, each by the type of its own column.
    numbers = spark.range(3).selectExpr("id AS at")
    asked = [NewestQuestion(frame=one, column="at") for one in (frame, older, numbers, frame.filter("at IS NULL"))]
    reached, before, two, none = (answer.newest for answer in find_newest(asked))
    assert (two.value, none) == ("2", None)
    again = Watermark(**{name: reached.to_json()[name] for name in ("column", "type", "value")})
    assert again == reached
    answers = find_newest([NewestQuestion(frame=frame, column="at", before=one) for one in (None, before, again)])
    assert [answer.is_beyond for answer in answers] == [True, True, False]
    assert not is_beyond(spark, again, reached)
    assert is_beyond(spark, reached, before)
    assert (rows_between(frame, before, again).count(), rows_between(frame, None, again).count()) == (1, 3)


def die_once(marker, batches):
    """Kill the process of a worker amid its rows, the first time."""
    for batch in batches:
        yield batch
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_amid_its_rows_changes_nothing_about_the_run(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    rows = [row(n, n, age=-1 if n == 3 else n) for n in range(40)]
    write_customers(raw, "a.parquet", rows)
    crm = Pipeline("crm")

    @crm.source
    def customers(spark):
        frame = spark.read.parquet(str(raw))
        return frame.mapInArrow(partial(die_once, tmp_path / "marker"), frame.schema)

    crm.node("Person", input="customers", set={"slug": "lower(email)"}, expect=[quarantine("adult", "age >= 0")])
    told = run(crm, graph, spark=spark)
    assert (tmp_path / "marker").exists()
    assert counts(told)["Person"][:2] == [40, 39]
    assert [one.rows for one in quarantined(graph, "crm")] == [1]
    assert len(people(graph)) == 39
    assert not list((tmp_path / "graph").glob("__scratch/*"))


@pytest.mark.skipif(not os.environ.get("OMNIGRAPH_SPARK_PIPELINES"), reason="make spark-pipelines: it has many jobs")
def test_records_that_mean_the_same_become_one_node(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1, name="Ann"), row(2, 2, name="Ann"), row(3, 3, name="Bo")])
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw))
    crm.resolve(
        "same",
        input="customers",
        id="email",
        blocking=["name"],
        compare=[("name", "exact", 1.0)],
        threshold=0.9,
    )
    crm.node("Person", input="same", key="canonical_id", dedupe="email")
    told = run(crm, graph, spark=spark)
    assert (counts(told)["Person"][:4], sorted(people(graph))) == ([3, 2, 0, 1], ["P1@X", "P3@X"])
