"""A text that cannot be stored is refused at the door; a write that cannot be finished disables nothing."""

from pathlib import Path

import pytest
from tests.auditor import audit
from tests.crash.later import Torn, tear_at
from tests.txn_graph import PERSON, SCHEMA, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import ValueFormatError
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.file import ManifestFile
from omnigraph.txn.manifest.rows import BatchMark
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import BranchName, TagName

HALF = "half of a pair \ud800"


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


@pytest.fixture
def graph(storage):
    with open_graph(storage) as opened:
        yield opened


@pytest.mark.parametrize("bad", [HALF, 5, b"bytes"])
def test_an_actor_or_message_that_cannot_be_stored_is_refused_before_anything_happens(storage, graph, bad):
    insert(graph, PERSON, node_rows(["a"]))
    calls = [
        lambda: authority_of(graph).begin(WriteKind.INSERT, actor=bad),
        lambda: authority_of(graph).begin(WriteKind.INSERT, message=bad),
        lambda: graph.create_branch(BranchName("side"), actor=bad),
        lambda: graph.create_tag(TagName("v1"), actor=bad),
        lambda: graph.create_tag(TagName("v1"), message=bad),
        lambda: GraphStore.init(Storage.open(Path(storage.root) / "other"), schema=SCHEMA, actor=bad),
    ]
    for call in calls:
        with pytest.raises(ValueFormatError) as raised:
            call()
        assert raised.value.effect.value == "none"
        str(raised.value).encode()
    graph.create_branch(BranchName("side"))
    with pytest.raises(ValueFormatError):
        graph.delete_branch(BranchName("side"), actor=bad)
    assert graph.branch_names() == ["main", "side"]
    insert(graph, PERSON, node_rows(["b"]))
    assert len(history(graph)) == 3
    assert not (Path(storage.root) / "other").exists()


def test_so_is_the_name_of_a_stream(graph):
    txn = authority_of(graph).begin(WriteKind.INSERT)
    with pytest.raises(ValueFormatError):
        txn.mark_batch(BatchMark(app=HALF, number=1))


@pytest.fixture
def poisoned(monkeypatch):
    """No manifest can hold a commit with the message "poison": staging one fails as a library would."""
    real = ManifestFile.stage

    def stage(self, base, change):
        if any(commit.message == "poison" for commit in change.commits):
            raise ValueError("no manifest can hold this")
        return real(self, base, change)

    monkeypatch.setattr(ManifestFile, "stage", stage)


def test_a_write_that_no_manifest_can_hold_is_undone_at_once_and_stops_no_other(storage, graph, poisoned):
    with pytest.raises(ValueError, match="no manifest"):
        insert(graph, PERSON, node_rows(["bad"]), message="poison")
    with open_graph(storage) as other:
        insert(other, PERSON, node_rows(["good"]))
    insert(graph, PERSON, node_rows(["better"]))
    assert read_ids(graph, PERSON) == ["better", "good"]
    graph.close()
    assert audit(storage.root, present={PERSON: ["better", "good"]}) == []


def test_such_a_write_whose_writer_died_is_undone_by_the_next_one(storage, poisoned):
    runtime = Runtime.system({})
    tear_at(runtime, "txn.commit.after_tables")
    dead = open_graph(storage, runtime=runtime)
    with pytest.raises(Torn):
        insert(dead, PERSON, node_rows(["bad"]), message="poison")
    with open_graph(storage, settings=TxnSettings(durability="relaxed", grace_s=0.0)) as graph:
        insert(graph, PERSON, node_rows(["good"]))
        assert read_ids(graph, PERSON) == ["good"]
    runtime.failpoints.disable("txn.commit.after_tables")
    dead.close()
    assert audit(storage.root, present={PERSON: ["good"]}) == []
