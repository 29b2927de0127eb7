"""Which runs of a pipeline count after branches, merges and reverts."""

from __future__ import annotations

import pytest
from tests.merge_graph import DRAFT, Template, change, head_of

from omnigraph.engine.mutate.values import rows_of
from omnigraph.history.merge import merge_branch, revert_commit
from omnigraph.history.runs import pipeline_runs, runs_that_count
from omnigraph.txn.manifest.rows import RunMark
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("runs"), branches=(DRAFT,))


@pytest.fixture
def session(template):
    with template.open() as session:
        yield session


def run(session, number, branch=MAIN, pipeline="crm"):
    """Publish a person as a run that has read as far as ``number``; return the commit."""
    writer = session.store.branch_writer(BranchName(branch))
    txn = writer.begin(WriteKind.LOAD_MERGE, actor="loader")
    owner = session.catalog(branch).nodes["Person"]
    name = f"{pipeline}{number}"
    txn.upsert("node:Person", rows_of(owner, [{"id": name, "name": name, "age": number}]))
    txn.run = RunMark(pipeline=pipeline, run=str(number), digest="d", progress={"people": number})
    return writer.commit(txn).commit.id


def counted(session, branch=MAIN, pipeline="crm"):
    found = runs_that_count(session.store, session.snapshot(branch), pipeline)
    return [one.mark.progress["people"] for one in found]


def test_commit_tells_the_run_that_made_it(session):
    made = run(session, 1)
    commit = session.store.refs.show(made, BranchName(MAIN))
    assert commit.to_json()["run"] == {"pipeline": "crm", "run": "1", "digest": "d", "progress": {"people": 1}}


def test_commit_of_a_revert_tells_what_it_undid(session):
    made = run(session, 1)
    undone = revert_commit(session, str(made))
    assert undone.commit.to_json()["reverted_commit_id"] == made


def test_runs_are_those_of_one_pipeline_newest_first(session):
    for number, pipeline in ((1, "crm"), (7, "shop"), (2, "crm")):
        run(session, number, pipeline=pipeline)
    change(session, 'insert Person { name: "Zed" }')
    assert counted(session) == [2, 1]
    found = pipeline_runs(session.store, session.snapshot())
    assert [(one.mark.pipeline, one.mark.run) for one in found] == [("crm", "2"), ("shop", "7"), ("crm", "1")]


def test_branch_has_the_progress_of_the_state_it_began_with(session):
    run(session, 1)
    session.store.create_branch(BranchName("later"))
    run(session, 2)
    run(session, 5, "later")
    assert (counted(session), counted(session, "later")) == ([2, 1], [5, 1])


def test_merge_brings_the_progress_of_the_branch_also_when_that_is_deleted(session):
    run(session, 1)
    session.store.create_branch(BranchName("later"))
    run(session, 2, "later")
    run(session, 3, "later")
    assert counted(session) == [1]
    merge_branch(session, "later")
    session.delete_branch("later")
    assert counted(session) == [3, 2, 1]


def test_run_that_was_reverted_does_not_count_nor_does_what_followed_it(session):
    run(session, 1)
    made = run(session, 2)
    run(session, 3)
    revert_commit(session, str(made))
    assert counted(session) == [1]
    undone = {one.mark.run: one.is_undone for one in pipeline_runs(session.store, session.snapshot(), "crm")}
    assert undone == {"3": False, "2": True, "1": False}


def test_run_after_a_revert_counts_with_what_was_before_it(session):
    run(session, 1)
    revert_commit(session, str(run(session, 2)))
    run(session, 3)
    assert counted(session) == [3, 1]


def test_revert_of_a_revert_brings_the_progress_back(session):
    run(session, 1)
    undone = revert_commit(session, str(run(session, 2)))
    revert_commit(session, str(undone.commit.id))
    assert counted(session) == [2, 1]


def test_revert_of_a_merge_takes_back_what_it_brought(session):
    run(session, 1)
    session.store.create_branch(BranchName("later"))
    run(session, 2, "later")
    change(session, 'insert Person { name: "Zed" }')
    merge_branch(session, "later")
    assert counted(session) == [2, 1]
    revert_commit(session, str(head_of(session)))
    assert counted(session) == [1]
