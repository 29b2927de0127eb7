"""Diff, feed and merge on an S3 endpoint answer what they answer on a disk."""

from tests.session import Session
from tests.session_graph import RELAXED

from omnigraph.engine.open_graph import init_graph
from omnigraph.history.diff.compare import diff_between
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.merge import MergeOutcome, merge_branch, revert_commit
from omnigraph.store.location import Storage
from omnigraph.values import BranchName

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"


def _tell_a_story(storage):
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as session:
        session.mutate('query q() { insert Person { name: "ann", age: 1 } insert Person { name: "bob" } }')
        begun = session.snapshot().state.head.commit
        session.store.create_branch(BranchName("draft"))
        session.mutate('query q() { insert Knows { from: "ann", to: "bob" } }', branch="draft")
        session.mutate('query q() { update Person set { age: 2 } where name = "bob" }')
        session.mutate('query q() { delete Person where name = "ann" }', branch="draft")
        merged = merge_branch(session, "draft")
        assert merged.outcome is MergeOutcome.MERGED
        undone = revert_commit(session, str(merged.commit.id))
        reader = ChangeReader(session.store)
        page = reader.poll(start=f"after:{begun}")
        changes = diff_between(session.store, str(begun), str(undone.commit.id)).to_json()["changes"]
        told = [[(change.op, change.id) for change in block.changes] for block in page.blocks]
        return [{key: change[key] for key in ("kind", "id", "op", "after")} for change in changes], told


def test_a_history_reads_the_same_on_both_stores(tmp_path, s3_endpoint):
    on_disk = _tell_a_story(Storage.open(str(tmp_path / "graph")))
    on_s3 = _tell_a_story(Storage.open(s3_endpoint.fresh_prefix(), options=s3_endpoint.storage_options))
    assert on_s3 == on_disk
    changes, told = on_disk
    assert [(change["id"], change["op"]) for change in changes] == [("bob", "update")]
    assert told[-1] == [("insert", "ann")]
