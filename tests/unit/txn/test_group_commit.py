"""Waiting writes share a publish, and each of them keeps its own commit or its own error."""

import itertools
import threading

import pytest
from tests.txn_graph import KNOWS, PERSON, authority_of, edge_rows, history, init_graph, node_rows, open_graph, read_ids

from omnigraph.errors import KeyExistsError
from omnigraph.runtime import Runtime, start_thread
from omnigraph.txn.publish.kinds import WriteKind


@pytest.fixture
def grouped(tmp_path):
    """A graph whose first publish waits, so that everything begun meanwhile forms one group behind it."""
    storage = init_graph(tmp_path / "g")
    runtime = Runtime.system({})
    reached, may_go_on = threading.Event(), threading.Event()

    def hold():
        reached.set()
        assert may_go_on.wait(300)

    runtime.failpoints.enable("txn.publish.before_cas", hold)
    with open_graph(storage, runtime=runtime, group_commit=True) as graph:
        yield graph, reached, may_go_on
        may_go_on.set()


def _commit_all(grouped, prepare):
    """Commit one write that blocks the branch, queue the others behind it, let go, return their outcomes in order."""
    graph, reached, may_go_on = grouped
    branch_writer = authority_of(graph)
    outcomes = {}

    def run(name, txn):
        try:
            outcomes[name] = branch_writer.commit(txn)
        except KeyExistsError as error:
            outcomes[name] = error

    first = branch_writer.begin(WriteKind.INSERT)
    first.insert(PERSON, node_rows(["first"]))
    threads = [start_thread("first", lambda: run("first", first))]
    assert reached.wait(300)
    for name, fill in prepare.items():
        txn = branch_writer.begin(WriteKind.INSERT, actor=name)
        fill(txn)
        threads.append(start_thread(name, lambda name=name, txn=txn: run(name, txn)))
        while branch_writer._queue.waiting < len(threads) - 1:
            assert threads[-1].is_alive()
    may_go_on.set()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    return outcomes


def test_a_group_is_one_version_with_a_commit_for_each(grouped):
    names = [f"w{number}" for number in range(6)]
    outcomes = _commit_all(
        grouped, {name: (lambda txn, name=name: txn.insert(PERSON, node_rows([name]))) for name in names}
    )
    graph = grouped[0]
    assert read_ids(graph, PERSON) == ["first", *names]
    assert {outcomes[name].manifest_version for name in names} == {3}
    line = history(graph)
    assert [commit.actor for commit in reversed(line)][2:] == names
    assert all(newer.parent == older.id for newer, older in itertools.pairwise(line))
    assert [outcomes[name].commit.id for name in names] == [commit.id for commit in reversed(line)][2:]


def test_a_member_that_takes_an_id_of_an_earlier_one_fails_alone(grouped):
    outcomes = _commit_all(
        grouped,
        {
            "a": lambda txn: txn.insert(PERSON, node_rows(["x"])),
            "b": lambda txn: txn.insert(PERSON, node_rows(["x", "y"])),
            "c": lambda txn: txn.insert(PERSON, node_rows(["z"])),
        },
    )
    graph = grouped[0]
    assert isinstance(outcomes["b"], KeyExistsError)
    assert read_ids(graph, PERSON) == ["first", "x", "z"]
    assert [commit.actor for commit in history(graph)][:2] == ["c", "a"]


def test_a_check_sees_what_earlier_members_bring(grouped):
    seen = {}

    def edge(txn):
        txn.insert(KNOWS, edge_rows([("e", "x", "first")]), has_fresh_ids=True)
        txn.add_check(lambda view: seen.update(ends=view.existing_ids(PERSON, ["x", "first", "nobody"])))

    _commit_all(grouped, {"node": lambda txn: txn.insert(PERSON, node_rows(["x"])), "edge": edge})
    assert seen["ends"] == {"x", "first"}
    assert read_ids(grouped[0], KNOWS) == ["e"]


def test_thirty_two_threads_lose_nothing(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage, group_commit=True) as graph:
        branch_writer = authority_of(graph)

        def work(number):
            for turn in range(3):
                txn = branch_writer.begin(WriteKind.INSERT)
                txn.insert(PERSON, node_rows([f"{number:02}-{turn}"]))
                branch_writer.commit(txn)

        threads = [start_thread(f"w{number}", lambda number=number: work(number)) for number in range(32)]
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive()
        assert len(read_ids(graph, PERSON)) == 96
        line = history(graph)
        assert len(line) == 97
        assert len({commit.id for commit in line}) == 97
        assert branch_writer.snapshot().state.version <= 97
