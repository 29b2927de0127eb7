"""How runs become visible: at once, after checks on a branch, or as a proposal; and two of them at once."""

from __future__ import annotations

import threading

import pytest

from omnigraph.errors import CheckFailedError
from omnigraph.operations.history import BlameRequest, ListBranchesRequest, LogRequest
from omnigraph.operations.proposals import ListProposalsRequest, MergeProposalRequest
from omnigraph.pipelines.running import run, status
from omnigraph.runtime import start_thread
from tests.load_graph import make_graph
from tests.spark.pipelines.crm import SCHEMA, people, pipeline, row, write_customers

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


def test_blame_names_the_pipeline_its_run_and_the_file(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write_customers(raw, "a.parquet", [row(1, 1)])
    told = run(pipeline(raw, incremental="files"), graph, spark=spark)
    blamed = graph.backend.execute(BlameRequest(type_name="Person", entity_id="p1@x"))
    line = next(line for line in blamed.lines() if line.startswith("name:"))
    assert f"pipeline=crm run={told.run} file={raw / 'a.parquet'}" in line
    assert blamed.to_json()["properties"][0]["author"]["run"]["run"] == told.run
