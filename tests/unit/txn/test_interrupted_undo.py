"""Undoing can be interrupted too: what an undo was built on is not what the graph published."""

import pytest
from tests.auditor import audit
from tests.txn_graph import (
    PERSON,
    RELAXED,
    TEAM,
    authority_of,
    history,
    init_graph,
    insert,
    node_rows,
    open_graph,
    read_ids,
)

from omnigraph.errors import FailpointError
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import fail, on_nth
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings

IMPATIENT = TxnSettings(durability="relaxed", grace_s=0.0)


class PowerLossError(BaseException):
    """Ends the writer without any of its own clean-up, as far as one process can."""


def test_an_undo_that_died_half_way_is_undone_to_what_was_published(tmp_path):
    """A fenced writer lands both tables late and dies while it undoes them; its rows must never become visible."""
    storage = init_graph(tmp_path / "g")
    runtime = Runtime.system({})

    def fence():
        open_graph(storage, settings=IMPATIENT).close()

    def die():
        raise PowerLossError

    graph = open_graph(storage, runtime=runtime)
    insert(graph, PERSON, node_rows(["p0"]))
    insert(graph, TEAM, node_rows(["t0"]))
    runtime.failpoints.enable("txn.claim.after_put", on_nth(1, fence))
    # Two commits of the write itself, then the second of its undo.
    runtime.failpoints.enable("txn.commit.before_table", on_nth(4, die))
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.INSERT)
    txn.insert(PERSON, node_rows(["late"]))
    txn.insert(TEAM, node_rows(["late"]))
    with pytest.raises(PowerLossError):
        branch_writer.commit(txn)
    graph.close()
    with open_graph(storage, settings=IMPATIENT) as after:
        assert (read_ids(after, PERSON), read_ids(after, TEAM)) == (["p0"], ["t0"])
        assert txn.commit_id not in {commit.id for commit in history(after)}
        insert(after, PERSON, node_rows(["p1"]))
        insert(after, TEAM, node_rows(["t1"]))
    assert audit(storage.root, present={PERSON: ["p0", "p1"], TEAM: ["t0", "t1"]}) == []


def test_a_takeover_that_outlived_its_claim_is_removed(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        services = authority_of(graph).services
        key = "__recovery/main~main/2.takeover-1.json"
        services.stores.control.put(key, b'{"writer": {}, "at_ms": 0}')
    with open_graph(storage, settings=RELAXED) as graph:
        assert authority_of(graph).services.stores.control.list_keys("__recovery") == ()


def test_a_window_that_fails_is_undone_and_says_so(tmp_path):
    storage = init_graph(tmp_path / "g")
    runtime = Runtime.system({})
    with open_graph(storage, runtime=runtime) as graph:
        runtime.failpoints.enable("txn.commit.before_table", on_nth(2, fail("txn.commit.before_table")))
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["x"]))
        txn.insert(TEAM, node_rows(["x"]))
        with pytest.raises(FailpointError) as caught:
            branch_writer.commit(txn)
        assert caught.value.effect.value == "none"
        assert (read_ids(graph, PERSON), read_ids(graph, TEAM)) == ([], [])
        insert(graph, PERSON, node_rows(["y"]))
    assert audit(storage.root, present={PERSON: ["y"], TEAM: []}) == []
