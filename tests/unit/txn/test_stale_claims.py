"""Claims that outlived their version: ending them costs the same however long ago it was, and disturbs nobody."""

import json
from pathlib import Path

import pytest
from tests.auditor import audit
from tests.txn_graph import PERSON, TEAM, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.runtime import Runtime, counting
from omnigraph.runtime.failpoints import on_nth
from omnigraph.txn.stored_json import encode_json, seal


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


def _leave_claim(storage, graph_world, graph):
    """Commit a row and return a function that brings its claim back, as that of a process that died long ago."""
    folder = Path(storage.root, "__recovery", "main~main")
    kept = {}

    def keep():
        (path,) = folder.glob("*.json")
        kept[path] = json.loads(path.read_text(encoding="utf-8"))

    graph_world.failpoints.enable("txn.claim.after_put", on_nth(1, keep))
    insert(graph, PERSON, node_rows(["claimed"]))
    graph_world.failpoints.disable("txn.claim.after_put")
    ((path, plan),) = kept.items()
    plan["writer"]["started"] = "another process"
    del plan["checksum"]

    def bring_back():
        path.write_bytes(seal(encode_json(plan)))

    return bring_back


@pytest.mark.parametrize("table_key", [PERSON, TEAM])
def test_ending_a_stale_claim_costs_the_same_whatever_was_published_since(storage, table_key):
    runtime = Runtime.system({})
    costs = []
    with open_graph(storage, runtime=runtime) as graph:
        bring_back = _leave_claim(storage, runtime, graph)
        for commits in (2, 20):
            for number in range(commits):
                insert(graph, table_key, node_rows([f"{commits}-{number}"]))
            bring_back()
            with counting() as counters:
                graph.refresh()
            costs.append(counters.cost().total_calls)
    # Opening a version for the first time may cost a call more or less; twenty of them would show.
    assert costs[1] <= costs[0] + 4
    assert audit(storage.root) == []


def test_the_window_of_a_live_writer_is_not_taken_for_drift(storage):
    """Somebody ends a stale claim while another writer has landed the same table and not published it yet."""
    runtime = Runtime.system({})
    with open_graph(storage, runtime=runtime) as graph:
        bring_back = _leave_claim(storage, runtime, graph)
        insert(graph, TEAM, node_rows(["between"]))

        def recover_meanwhile():
            bring_back()
            with open_graph(storage) as other:
                assert read_ids(other, PERSON) == ["claimed"]

        runtime.failpoints.enable("txn.commit.after_tables", on_nth(1, recover_meanwhile))
        insert(graph, PERSON, node_rows(["live"]))
        assert read_ids(graph, PERSON) == ["claimed", "live"]
        assert [commit.operation for commit in history(graph)] == ["insert", "insert", "insert", "init"]
    assert audit(storage.root, present={PERSON: ["claimed", "live"]}) == []
