"""How runs become visible: at once, after checks on a branch, or as a proposal; and two of them at once."""

from __future__ import annotations

import threading

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import CheckFailedError, ProposalChecksError
from omnigraph.history.origins import plain_path
from omnigraph.operations.history import BlameRequest, CreateBranchRequest, ListBranchesRequest, LogRequest
from omnigraph.operations.proposals import (
    CheckProposalRequest,
    GetProposalRequest,
    ListProposalsRequest,
    MergeProposalRequest,
    OpenProposalRequest,
)
from omnigraph.operations.writes import MutateRequest
from omnigraph.pipelines import Pipeline, quarantine
from omnigraph.pipelines.running import run, status
from omnigraph.pipelines.running.leftovers import NOTES_FOLDER, RunNote
from omnigraph.runtime import Runtime, start_thread
from omnigraph.store.tables.portable import stores_of
from omnigraph.txn.claims.identity import WriterIdentity
from tests.load_graph import make_graph
from tests.spark.pipelines.crm import SCHEMA, people, pipeline, row, write_customers

AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)
NO_OLD = "query q() { match { $p: Person  $p.age > 50 } return { $p.slug } }"


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def branches(graph):
    return [one.name for one in graph.backend.execute(ListBranchesRequest())]


@pytest.mark.core
def test_checks_and_what_follows_are_part_of_the_one_commit_that_main_sees(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(n, n) for n in range(3)])
    for publish in ("direct", "audit"):
        crm = pipeline(raw, publish=publish)
        crm.check("nobody is old", query=NO_OLD)
        crm.after("marked", mutation="query m() { update Person set { score: 1.0 } where age >= 0 }")
        head = graph.snapshot().state.head.commit
        told = run(crm, graph, spark=spark, full_refresh=publish == "audit")
        if publish == "direct":
            assert told.outcome == "published"
            (commit,) = [one for one in graph.backend.execute(LogRequest()).commits if one.id == told.commit]
            assert (commit.parent, commit.run.run, told.checks[0].rows) == (head, told.run, 0)
            assert {one["score"] for one in people(graph).values()} == {1.0}
        assert branches(graph) == ["main"]
    assert [one.run for one in status(graph, "crm")][-1:] != []


def test_a_check_that_fails_publishes_nothing_and_an_audit_leaves_its_branch(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(60, 1)])
    before = graph.snapshot().state.version
    for publish, left in (("direct", 0), ("audit", 1)):
        crm = pipeline(raw, publish=publish)
        crm.check("nobody is old", query=NO_OLD)
        with pytest.raises(CheckFailedError) as raised:
            run(crm, graph, spark=spark)
        assert (raised.value.details.rows, len(branches(graph)) - 1) == (1, left)
        assert (raised.value.details.branch is not None) == bool(left)
    assert (graph.snapshot().state.version, people(graph)) == (before, {})


def test_a_run_that_is_proposed_counts_when_it_is_merged(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1)])
    crm = pipeline(raw, publish="propose")
    told = run(crm, graph, spark=spark)
    assert (told.outcome, people(graph)) == ("proposed", {})
    (proposal,) = graph.backend.execute(ListProposalsRequest()).proposals
    assert proposal.number == told.proposal
    graph.backend.execute(MergeProposalRequest(number=told.proposal))
    assert sorted(people(graph)) == ["p1@x"]
    assert run(crm, graph, spark=spark).outcome == "nothing"


def test_a_proposal_has_the_checks_of_its_run_and_how_they_fared(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1)])
    crm = pipeline(raw, publish="propose")
    crm.check("nobody is old", query=NO_OLD)
    # Queries of two checks may have one name, and those of a function are asked for when they are needed.
    crm.check("nobody is 2 old!")(lambda: NO_OLD.replace("50", "70"))
    told = run(crm, graph, spark=spark)
    proposal = graph.backend.execute(GetProposalRequest(number=told.proposal))
    assert "check nobody is old: passed\ncheck nobody is 2 old!: passed" in proposal.description
    assert "source customers" not in proposal.description
    checked = graph.backend.execute(CheckProposalRequest(number=told.proposal))
    assert [(one.name, one.status.value) for one in checked.checks] == [
        ("check_nobody_is_old", "passed"),
        ("check_nobody_is_2_old", "passed"),
    ]
    # What came to the target meanwhile is checked with it.
    write_customers(tmp_path / "other", "a.parquet", [row(60, 1)])
    run(pipeline(tmp_path / "other"), graph, spark=spark)
    with pytest.raises(ProposalChecksError):
        graph.backend.execute(MergeProposalRequest(number=told.proposal))


def left_branch(graph, crm, spark):
    """Run a pipeline whose check fails, and return the branch that it leaves for people."""
    with pytest.raises(CheckFailedError) as raised:
        run(crm, graph, spark=spark)
    return raised.value.details.branch


def put_note(graph, branch, writer, at_ms=0):
    """Note that a run works on a branch, as one does that is killed before it can take the note back."""
    _, pipeline_name, run_name = branch.split("/")
    note = RunNote(pipeline=pipeline_name, run=run_name, branch=branch, target="main", writer=writer, at_ms=at_ms)
    note.put(graph)
    return note


def notes(graph):
    return stores_of(graph.store.storage).control.list_keys(NOTES_FOLDER)


def test_branches_of_dead_runs_go_and_those_of_people_and_of_live_runs_stay(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(60, 1), row(61, 2, age=-1)])
    crm = pipeline(raw, publish="audit")
    crm.check("nobody is old", query=NO_OLD)
    kept, dead, silent, alive, unknown, touched, proposed = (left_branch(graph, crm, spark) for _ in range(7))
    assert notes(graph) == ()
    here = WriterIdentity.of_this_process()
    # Of another container of this machine nothing is known; one of an earlier start of it is gone.
    _, boot, _ = here.host.rsplit("/", 2)
    gone, elsewhere = replace(here, started="never"), replace(here, host=f"another/{boot}/container")
    now = graph.runtime.clock.now_ms()
    put_note(graph, dead, replace(here, host="another/start/container"))
    for branch in (touched, proposed):
        put_note(graph, branch, gone)
    put_note(graph, silent, elsewhere)
    put_note(graph, alive, here)
    put_note(graph, unknown, elsewhere, now)
    put_note(graph, "pipelines/crm/never-made", gone)
    graph.backend.execute(MutateRequest(text='query m() { insert Team { code: "mine" } }', branch=touched))
    graph.backend.execute(OpenProposalRequest(source=proposed, title="look"))
    # A pipeline of another name has nothing to do with them.
    assert run(pipeline(tmp_path / "raw", name="other"), graph, spark=spark).outcome == "published"
    assert len(branches(graph)) == 8
    assert run(crm, graph, spark=spark, dry_run=True).outcome == "nothing"
    assert len(branches(graph)) == 8
    last = left_branch(graph, crm, spark)
    assert sorted(branches(graph)) == sorted(["main", kept, alive, unknown, touched, proposed, last])
    assert [key.rpartition("/")[2] for key in notes(graph)] == sorted(
        f"{branch.rpartition('/')[2]}.json" for branch in (alive, unknown)
    )
    folder = tmp_path / "graph" / "__quarantine" / "crm"
    assert not (folder / f"run={dead.rpartition('/')[2]}").exists()
    assert (folder / f"run={kept.rpartition('/')[2]}").exists()


def test_two_runs_at_once_on_two_branches_do_not_meet(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2)])
    graph.backend.execute(CreateBranchRequest(name="review"))
    crm = pipeline(raw, publish="audit")
    failpoints, met = graph.runtime.failpoints, []

    def beside():
        failpoints.disable("spark.steps.before_publish")
        thread = start_thread("other run", lambda: met.append(run(crm, graph, spark=spark, branch="review")))
        thread.join()

    failpoints.enable("spark.steps.before_publish", beside)
    told = run(crm, graph, spark=spark)
    assert (told.outcome, met[0].outcome) == ("published", "published")
    assert [one.run for one in status(graph, "crm")] == [told.run]
    assert [one.run for one in status(graph, "crm", "review")] == [met[0].run]
    assert (branches(graph), notes(graph)) == (["main", "review"], ())
    for branch in ("main", "review"):
        assert run(crm, graph, spark=spark, branch=branch).outcome == "nothing"


def test_of_two_runs_at_once_on_a_branch_the_second_goes_on_behind_the_first(spark, graph, tmp_path):
    """Nothing is lost and nothing doubled: what the first has read the second does not read again."""
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2)])
    crm = pipeline(raw)
    failpoints, met = graph.runtime.failpoints, []

    def other():
        if not met:
            met.append("other")
            met.append(run(crm, graph, spark=spark))

    def beside():
        failpoints.disable("spark.steps.before_publish")
        thread = start_thread("other run", other)
        thread.join()

    failpoints.enable("spark.steps.before_publish", beside)
    told = run(crm, graph, spark=spark)
    assert met[1].outcome == "published"
    assert told.outcome == "nothing"
    assert [one.run for one in status(graph, "crm")] == [met[1].run]
    assert sorted(people(graph)) == ["p1@x", "p2@x"]
    assert threading.active_count() >= 1


@pytest.mark.parametrize("incremental", ["files", "updated_at"])
def test_blame_names_the_pipeline_its_run_and_the_file(spark, graph, tmp_path, incremental):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1)])
    told = run(pipeline(raw, incremental=incremental), graph, spark=spark)
    blamed = graph.backend.execute(BlameRequest(type_name="Person", entity_id="p1@x"))
    line = next(line for line in blamed.lines() if line.startswith("name:"))
    assert f"pipeline=crm run={told.run} file={raw / 'a.parquet'}" in line
    assert blamed.to_json()["properties"][0]["author"]["run"]["run"] == told.run
    assert (told.origins, origins(tmp_path)) == (0, [])


def blame_line(graph, entity_id, type_name="Person"):
    """Return who wrote the first property of an entity that is not its key."""
    found = graph.backend.execute(BlameRequest(type_name=type_name, entity_id=entity_id))
    return next(str(one) for one in found.properties if one.name not in {"slug", "from", "to"}), found


def origins(tmp_path):
    return [*(tmp_path / "graph").glob("__origins/crm/*")]


def test_of_several_files_blame_names_that_of_the_entity(spark, graph, tmp_path):
    raw = tmp_path / "raw is here"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2)])
    write_customers(raw, "b.parquet", [row(3, 3), row(4, 4, age=-1)])
    crm = pipeline(raw, publish="audit")
    first = run(crm, graph, spark=spark)
    # One row of b.parquet is in quarantine, and its edge has no end.
    assert (first.outcome, len(origins(tmp_path))) == ("published", 1)
    assert first.origins == 7
    for key, file in (("p1@x", "a.parquet"), ("p3@x", "b.parquet")):
        line, found = blame_line(graph, key)
        assert f"run={first.run} file={raw / file}" in line
        assert found.to_json()["properties"][0]["files"] == [str(raw / file)]
        assert f"file={raw / file}" in str(found.events[0])
    edges = [
        one for file in origins(tmp_path)[0].glob("edge-WorksIn/*.parquet") for one in pq.read_table(file).to_pylist()
    ]
    files = {one["id"]: plain_path(one["file"]) for one in edges}
    told = {one: graph.backend.execute(BlameRequest(type_name="WorksIn", entity_id=one)).events for one in files}
    named = [event.files == (files[one],) for one, events in told.items() for event in events]
    assert (len(files), named) == (4, [True, True, True])
    # What is behind a shuffle has no file.
    assert "file=" not in str(graph.backend.execute(BlameRequest(type_name="Team", entity_id="t1")).properties[0])
    Cleanup(graph.store, Retention(keep=1), AT_ONCE, Runtime.system()).run()
    assert len(origins(tmp_path)) == 1
    # One file is told by the commit, and runs that publish nothing keep nothing.
    write_customers(raw, "c.parquet", [row(3, 30, name="new")])
    assert run(crm, graph, spark=spark, dry_run=True).origins == 0
    bad = pipeline(raw, publish="direct")
    bad.check("nobody", query="query q() { match { $p: Person } return { $p.slug } }")
    with pytest.raises(CheckFailedError):
        run(bad, graph, spark=spark)
    assert len(origins(tmp_path)) == 1
    again = run(pipeline(raw, origins="none"), graph, spark=spark)
    assert (again.outcome, again.origins, len(origins(tmp_path))) == ("published", 0, 1)


def test_of_the_rows_of_a_change_log_every_file_is_named(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1), row(2, 2)])
    write_customers(raw, "b.parquet", [row(1, 3, name="newer")])
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=str(raw), incremental="files")
    crm.node("Person", input="customers", set={"slug": "lower(email)"}, sequence="updated_at")
    told = run(crm, graph, spark=spark)
    assert told.origins == 3
    assert f"file={raw / 'a.parquet'},{raw / 'b.parquet'}" in blame_line(graph, "p1@x")[0]
    assert blame_line(graph, "p2@x")[1].properties[1].files == (str(raw / "a.parquet"),)


def test_rows_of_two_sources_can_be_joined_and_judged(spark, graph, tmp_path):
    """Spark refuses to name the file of a row that two files made."""
    for name in ("left", "right"):
        write_customers(tmp_path / name, "a.parquet", [row(1, 1), row(2, 2, age=-1)])
    crm = Pipeline("crm")
    crm.source("one", format="parquet", path=str(tmp_path / "left"))
    crm.source("two", format="parquet", path=str(tmp_path / "right"))
    rule = quarantine("adult", "age >= 0")
    statement = "SELECT lower(one.email) AS slug, two.age FROM one JOIN two ON one.email = two.email"
    crm.node("Person", sql=statement, expect=[rule])
    told = run(crm, graph, spark=spark)
    assert (told.steps[-1].written, told.steps[-1].quarantined, told.origins) == (1, 1, 0)
    assert [step.rows_out for step in told.steps[:2]] == [2, 2]
