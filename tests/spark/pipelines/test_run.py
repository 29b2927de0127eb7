"""Runs of pipelines on a real Spark: one commit each, with how far sources were read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omnigraph.errors import ExpectationFailedError
from omnigraph.history.merge import revert_commit
from omnigraph.operations.history import CreateBranchRequest, MergeRequest
from omnigraph.operations.local import LocalBackend
from omnigraph.pipelines import Pipeline, drop, fail
from omnigraph.pipelines.running import quarantined, read_quarantine, replay, run, status
from tests.load_graph import export, make_graph
from tests.spark.pipelines.crm import SCHEMA, people, pipeline, row, write_customers


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


@pytest.mark.core
def test_a_run_is_one_commit_and_the_next_one_reads_only_what_is_new(spark, graph, tmp_path):
    write_customers(tmp_path / "raw", "a.parquet", [row(n, n) for n in range(6)])
    crm = pipeline(tmp_path / "raw")
    before = graph.snapshot().state.version
    first = run(crm, graph, spark=spark)
    assert (first.outcome, graph.snapshot().state.version) == ("published", before + 1)
    assert {step.name: (step.rows_in, step.written) for step in first.steps if step.type_name} == {
        "team": (2, 2),
        "person": (6, 6),
        "works_in": (6, 6),
    }
    assert run(crm, graph, spark=spark).outcome == "nothing"
    write_customers(tmp_path / "raw", "b.parquet", [row(6, 30), row(1, 31, name="other"), row(2, 5, name="late")])
    again = run(crm, graph, spark=spark)
    assert {step.name: (step.rows_in, step.written) for step in again.steps if step.type_name} == {
        "team": (2, 0),
        "person": (2, 2),
        "works_in": (2, 1),
    }
    assert people(graph)["p1@x"]["name"] == "other"
    # What comes late with a value that was passed is not read: that is what the column promises.
    assert people(graph)["p2@x"]["name"] == "p 2"
    assert graph.snapshot().state.version == before + 2


def test_a_run_in_which_one_source_has_nothing_new_counts_what_is_there(spark, graph, tmp_path):
    """Adaptive execution takes what is empty out of its plans, and with it what counts rows of both sides of a join."""
    raw = tmp_path / "raw"
    raw.mkdir()
    crm = Pipeline("two")
    for name in ("customers", "guests"):
        write_customers(raw / name, "a.parquet", [row(n, n) for n in range(4)])
        crm.source(name, format="parquet", path=str(raw / name), incremental="files")
    crm.view("known", sql="SELECT DISTINCT email FROM guests")
    crm.view("both", sql="SELECT c.email, c.age FROM customers c JOIN known USING (email)")
    crm.node("Person", name="person", input="both", set={"slug": "lower(email)"}, dedupe="age")
    crm.node("Team", name="team", sql="SELECT DISTINCT team AS code FROM guests")
    told = {step.name: step for step in run(crm, graph, spark=spark).steps}
    assert {name: step.rows_out for name, step in told.items() if step.is_counted} == {
        "customers": 4,
        "guests": 4,
        "known": 4,
        "both": 4,
        "person": 4,
        "team": 2,
    }
    write_customers(raw / "customers", "b.parquet", [row(n, 30) for n in range(3)])
    second = run(crm, graph, spark=spark)
    told = {step.name: step for step in second.steps if step.is_counted}
    assert second.outcome == "published"
    # Nobody had to read the customers: what is told of them is right, or not told.
    assert told.pop("customers", None) is None or told["customers"].rows_out == 3
    assert {name: step.rows_out for name, step in told.items()} == dict.fromkeys(
        ("guests", "known", "both", "person", "team"), 0
    )


def test_rows_at_the_value_that_was_reached_are_not_read_again_nor_later(spark, graph, tmp_path):
    """Ties: what has the greatest value when a run looks is read, what gets the same value later is not."""
    write_customers(tmp_path / "raw", "a.parquet", [row(1, 5), row(2, 5)])
    crm = pipeline(tmp_path / "raw")
    assert run(crm, graph, spark=spark).progress["customers"]["type"] == "timestamp"
    write_customers(tmp_path / "raw", "b.parquet", [row(3, 5)])
    assert run(crm, graph, spark=spark).outcome == "nothing"
    told = run(crm, graph, spark=spark, since="2026-01-01 00:04:00")
    assert (told.outcome, sorted(people(graph))) == ("published", ["p1@x", "p2@x", "p3@x"])


def test_files_are_read_once_until_they_change_and_a_reverted_run_is_read_again(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1)])
    crm = pipeline(raw, incremental="files")
    run(crm, graph, spark=spark)
    write_customers(raw, "b.parquet", [row(2, 2)])
    second = run(crm, graph, spark=spark)
    assert [path.rpartition("/")[2] for path, _, _ in second.progress["customers"]["files"]] == ["b.parquet"]
    assert run(crm, graph, spark=spark).outcome == "nothing"
    revert_commit(graph, second.commit)
    assert sorted(people(graph)) == ["p1@x"]
    third = run(crm, graph, spark=spark)
    assert ([path.rpartition("/")[2] for path, _, _ in third.progress["customers"]["files"]]) == ["b.parquet"]
    assert sorted(people(graph)) == ["p1@x", "p2@x"]
    told = status(graph, "crm")
    assert [(one.run, one.is_undone) for one in told][:2] == [(third.run, False), (second.run, True)]
    write_customers(raw, "a.parquet", [row(1, 1, name="changed")])
    assert [step.written for step in run(crm, graph, spark=spark).steps if step.name == "person"] == [1]


def test_each_branch_has_its_own_progress_and_a_merge_brings_it(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1)])
    crm = pipeline(raw)
    backend = LocalBackend(graph, "read_write")
    backend.execute(CreateBranchRequest(name="review"))
    run(crm, graph, spark=spark, branch="review")
    assert run(crm, graph, spark=spark, branch="review").outcome == "nothing"
    backend.execute(MergeRequest(source="review"))
    assert run(crm, graph, spark=spark).outcome == "nothing"
    assert sorted(people(graph)) == ["p1@x"]


def test_rejected_rows_are_kept_with_their_reason_and_can_be_taken_after_a_repair(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2, age=-1), row(3, 3, team=None), row(4, 4, email=None)])
    told = run(pipeline(raw), graph, spark=spark)
    person, works = (step for step in told.steps if step.name in {"person", "works_in"})
    assert (person.rows_in, person.written, person.quarantined) == (4, 2, 2)
    assert (works.rows_in, works.written, works.quarantined) == (4, 1, 3)
    rows = read_quarantine(graph, "crm").to_pylist()
    found = sorted((one["step"], one["rule"], json.loads(one["row"])["name"]) for one in rows)
    assert found == [
        ("person", "adult", "p 2"),
        ("person", "decodes", "p 4"),
        ("works_in", "decodes", "p 3"),
        ("works_in", "decodes", "p 4"),
        ("works_in", "missing_end", "p 2"),
    ]
    adult = next(one for one in rows if one["rule"] == "adult")
    assert (adult["reason"], adult["source"], adult["file"].rpartition("/")[2], adult["row_number"]) == (
        "does not hold: age >= 0",
        "customers",
        "a.parquet",
        2,
    )
    assert told.quarantine.endswith(f"__quarantine/crm/run={told.run}")
    (kept,) = quarantined(graph, "crm")
    assert (kept.run, kept.rows) == (told.run, 5)
    mended = pipeline(raw)
    relaxed = replace(
        mended.declaration(), types=tuple(replace(step, expect=()) for step in mended.declaration().types)
    )
    again = replay(relaxed, graph, spark=spark)
    assert (again.outcome, again.replayed) == ("published", (told.run,))
    assert sorted(people(graph)) == ["p1@x", "p2@x", "p3@x"]
    # What is rejected again is in the quarantine of the run that tried.
    assert [(one.run, one.rows) for one in quarantined(graph, "crm")] == [(again.run, 3)]
    revert_commit(graph, again.commit)
    assert [one.run for one in quarantined(graph, "crm")] == [told.run]
    assert run(mended, graph, spark=spark).outcome == "nothing"


def test_an_expectation_that_fails_leaves_nothing_and_tells_the_rows(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(4)])
    heard = []
    for rule in (fail("small", "age < 3"), drop("few", "age < 3", max_ratio=0.1)):
        crm = Pipeline("crm")
        crm.source("customers", format="parquet", path=str(raw))
        crm.node("Person", name="person", input="customers", set={"slug": "lower(email)"}, expect=[rule])
        with pytest.raises(ExpectationFailedError) as raised:
            run(crm, graph, spark=spark, progress=heard.append)
        assert (raised.value.details.failed, raised.value.details.rows) == (1, 4)
        report = heard[-1].report
        assert (report.outcome, report.expectations[0].samples[0]["name"]) == ("expectation_failed", "p 3")
    assert (people(graph), status(graph, "crm"), list((tmp_path / "graph").glob("__quarantine/*"))) == ({}, (), [])


def test_changes_deletes_and_other_modes_are_one_commit_and_counts_add_up(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(4)])
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="files")
    crm.node("Team", name="team", mode="overwrite", sql="SELECT DISTINCT team AS code FROM customers")
    crm.node(
        "Person",
        name="person",
        input="customers",
        set={"slug": "lower(email)"},
        deletes="name = 'gone'",
        sequence="updated_at",
    )
    crm.edge(
        "WorksIn",
        name="works_in",
        input="customers",
        src="Person(lower(email))",
        dst="Team(team)",
        dedupe="updated_at DESC",
        missing_end="quarantine",
    )
    before = graph.snapshot().state.version
    run(crm, graph, spark=spark)
    changes = [
        row(1, 10),
        row(1, 12, name="newest"),
        row(1, 11, name="older"),
        row(2, 13, name="gone"),
        row(3, 14, team="t0"),
    ]
    write_customers(raw, "b.parquet", changes)
    told = run(crm, graph, spark=spark)
    counts = {step.name: step for step in told.steps}
    assert (counts["person"].written, counts["person"].superseded, counts["person"].deleted) == (1, 2, 1)
    assert (counts["person"].rows_in, counts["person"].unchanged) == (5, 1)
    assert people(graph)["p1@x"]["name"] == "newest"
    assert "p2@x" not in people(graph)
    assert graph.snapshot().state.version == before + 2
    # The edge of the person who is gone has no end, the older row of the other one does not count.
    assert (counts["works_in"].rows_in, counts["works_in"].superseded, counts["works_in"].quarantined) == (5, 2, 1)
    assert all(
        step.rows_in == step.written + step.unchanged + step.superseded + step.deleted + step.dropped + step.quarantined
        for step in told.steps
        if step.type_name
    )


def test_late_rows_of_a_later_run_lose_also_against_deletes_and_without_a_stored_sequence(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="files")
    crm.node("Team", name="team", sql="SELECT DISTINCT team AS code FROM customers")
    gone, order = "name = 'gone'", "updated_at"
    crm.node("Person", input="customers", set={"slug": "lower(email)"}, deletes=gone, sequence=order)
    crm.edge("WorksIn", input="customers", src="Person(lower(email))", dst="Team(team)", deletes=gone, sequence=order)
    files = [
        [row(1, 10), row(2, 10), row(3, 10)],
        [row(1, 20, name="gone"), row(2, 20, name="newer"), row(3, 20, name="gone")],
        [row(1, 15, name="late"), row(2, 15, name="late"), row(3, 30, name="back")],
        [row(3, 18, name="late", team="t0")],
    ]
    told = []
    for number, rows in enumerate(files):
        write_customers(raw, f"{number}.parquet", rows)
        done = run(crm, graph, spark=spark)
        assert all(
            step.rows_in
            == step.written + step.unchanged + step.superseded + step.deleted + step.dropped + step.quarantined
            for step in done.steps
            if step.type_name
        )
        told.append({step.name: (step.written, step.superseded, step.deleted) for step in done.steps})
    assert {slug: one["name"] for slug, one in people(graph).items()} == {"p2@x": "newer", "p3@x": "back"}
    assert [one["Person"] for one in told] == [(3, 0, 0), (1, 0, 2), (1, 2, 0), (0, 1, 0)]
    # The last row is another edge, older than the delete of its person.
    assert [one["WorksIn"] for one in told][2:] == [(1, 2, 0), (0, 1, 0)]
    edges = sorted(one["from"] for one in export(graph) if one.get("edge") == "WorksIn")
    assert edges == ["p2@x", "p3@x"]


def test_a_trial_publishes_nothing_and_counts_what_a_run_would_do(spark, graph, tmp_path):
    write_customers(tmp_path / "raw", "a.parquet", [row(n, n) for n in range(4)])
    crm = pipeline(tmp_path / "raw")
    before = graph.snapshot().state.version
    tried = run(crm, graph, spark=spark, dry_run=True)
    assert graph.snapshot().state.version == before
    done = run(crm, graph, spark=spark)
    assert [(one.name, one.rows_in, one.written) for one in tried.steps] == [
        (one.name, one.rows_in, one.written) for one in done.steps
    ]
    assert tried.changes == done.changes
    few = run(crm, graph, spark=spark, limit=1, full_refresh=True)
    assert [one.rows_in for one in few.steps if one.name == "person"] == [1]


def test_a_full_refresh_removes_what_the_source_does_not_have_any_more(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(3)])
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="updated_at")
    crm.node("Person", name="person", input="customers", set={"slug": "lower(email)"}, removes_missing=True)
    run(crm, graph, spark=spark)
    write_customers(raw, "a.parquet", [row(n, n) for n in range(2)])
    assert run(crm, graph, spark=spark).outcome == "nothing"
    told = run(crm, graph, spark=spark, full_refresh=True)
    (person,) = (step for step in told.steps if step.name == "person")
    assert (person.rows_in, person.unchanged, person.removed, sorted(people(graph))) == (2, 2, 1, ["p0@x", "p1@x"])


def test_a_full_refresh_does_not_remove_what_the_source_has_with_an_older_sequence(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="files")
    crm.node("Team", name="team", sql="SELECT DISTINCT team AS code FROM customers")
    order = {"sequence": "updated_at", "removes_missing": True}
    crm.node("Person", name="person", input="customers", set={"slug": "lower(email)"}, **order)
    crm.edge("WorksIn", name="in", input="customers", src="Person(lower(email))", dst="Team(team)", **order)
    write_customers(raw, "a.parquet", [row(1, 10, name="newer"), row(2, 10), row(3, 10)])
    run(crm, graph, spark=spark)
    write_customers(raw, "a.parquet", [row(1, 5, name="older"), row(2, 12)])
    told = {step.name: step for step in run(crm, graph, spark=spark, full_refresh=True).steps}
    assert {slug: one["name"] for slug, one in people(graph).items()} == {"p1@x": "newer", "p2@x": "p 2"}
    assert sorted(one["from"] for one in export(graph) if "edge" in one) == ["p1@x", "p2@x"]
    assert [(told[name].superseded, told[name].removed) for name in ("person", "in")] == [(1, 1), (1, 1)]


def test_missing_ends_become_nodes_that_a_later_run_fills(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2)])
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="files")
    crm.edge(
        "WorksIn", name="works_in", input="customers", src="Person(lower(email))", dst="Team(team)", missing_end="stub"
    )
    told = run(crm, graph, spark=spark)
    assert (told.steps[-1].stubs, told.steps[-1].written, people(graph)["p1@x"]["name"]) == (4, 2, None)
    assert told.previous_digest is None
    more = run(pipeline(raw, incremental="files"), graph, spark=spark, full_refresh=True)
    assert (people(graph)["p1@x"]["name"], more.previous_digest) == ("p 1", told.digest)
