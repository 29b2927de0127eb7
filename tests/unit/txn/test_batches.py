"""A piece of a stream is published once, whoever wrote in between and however its writer ended."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from tests.txn_graph import PERSON, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import BatchRepeatedError
from omnigraph.runtime import Runtime
from omnigraph.txn.manifest.rows import MAX_APPS, BatchMark, ManifestChange, apply_change
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName


@pytest.fixture
def graph(tmp_path):
    with open_graph(init_graph(tmp_path / "g")) as opened:
        yield opened


def deliver(graph, number, ids, *, app="stream", begun=None, branch=MAIN):
    """Publish a piece of a stream, upon a state that may be older than the newest."""
    branch_writer = authority_of(graph, branch)
    txn = begun or branch_writer.begin(WriteKind.LOAD_APPEND)
    if ids:
        txn.insert(PERSON, node_rows(ids))
    txn.mark_batch(BatchMark(app=app, number=number))
    return branch_writer.commit(txn)


def tear():
    raise KeyboardInterrupt


def batches(graph):
    return dict(graph.snapshot(BranchName(MAIN)).state.batches)


def test_a_batch_that_comes_again_is_recognised_behind_other_writers(graph):
    done = deliver(graph, 0, ["a"])
    assert done.commit.batch == BatchMark(app="stream", number=0)
    assert done.commit.to_json()["batch"] == {"app": "stream", "number": 0}
    for number in range(40):
        insert(graph, PERSON, node_rows([f"other{number}"]))
    with pytest.raises(BatchRepeatedError) as raised:
        deliver(graph, 0, ["b"])
    assert raised.value.details.last == 0
    assert raised.value.effect.value == "published"
    deliver(graph, 1, ["c"])
    with pytest.raises(BatchRepeatedError):
        deliver(graph, 0, ["d"])
    ids = read_ids(graph, PERSON)
    assert {"a", "c"} <= set(ids)
    assert not {"b", "d"} & set(ids)


def test_the_second_of_two_deliveries_at_once_is_refused(graph):
    branch_writer = authority_of(graph)
    begun = [branch_writer.begin(WriteKind.LOAD_APPEND) for _ in range(2)]
    deliver(graph, 0, ["a"], begun=begun[0])
    with pytest.raises(BatchRepeatedError):
        deliver(graph, 0, ["b"], begun=begun[1])
    assert read_ids(graph, PERSON) == ["a"]


def test_a_batch_without_a_change_is_remembered_too(graph):
    deliver(graph, 0, [])
    with pytest.raises(BatchRepeatedError):
        deliver(graph, 0, ["late"])
    assert history(graph)[0].batch == BatchMark(app="stream", number=0)


@pytest.mark.parametrize("place", ["txn.claim.after_put", "txn.commit.after_tables", "txn.publish.after_cas"])
def test_a_batch_whose_writer_was_torn_away_is_in_the_graph_once(tmp_path, place):
    storage = init_graph(tmp_path / "g")
    runtime = Runtime.system({})
    with open_graph(storage, runtime=runtime) as graph:
        runtime.failpoints.enable(place, tear)
        with pytest.raises(KeyboardInterrupt):
            deliver(graph, 7, ["a"])
        runtime.failpoints.disable(place)
        with suppress(BatchRepeatedError):
            deliver(graph, 7, ["a"])
        assert read_ids(graph, PERSON) == ["a"]
        assert batches(graph) == {"stream": 7}


def test_streams_are_told_apart_and_a_branch_knows_those_of_where_it_came_from(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        deliver(graph, 3, ["a"], app="first")
        deliver(graph, 3, ["b"], app="second")
        graph.create_branch(BranchName("side"))
        with pytest.raises(BatchRepeatedError):
            deliver(graph, 3, ["c"], app="first", branch="side")
    with open_graph(storage) as again:
        assert batches(again) == {"first": 3, "second": 3}


def test_the_list_of_streams_has_a_bound(graph):
    state = graph.snapshot(BranchName(MAIN)).state
    deliver(graph, 0, ["a"], app="first")
    (commit,) = [found for found in history(graph) if found.batch is not None]
    for number in range(MAX_APPS + 3):
        mark = BatchMark(app=f"app{number}", number=number)
        state = apply_change(state, ManifestChange(commits=(msgspec.structs.replace(commit, batch=mark),)))
    assert len(state.batches) == MAX_APPS
    assert next(iter(state.batches)) == "app3"
