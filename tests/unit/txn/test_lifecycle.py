"""Creating, opening and closing: one graph per place, whoever races for it."""

import itertools
import shutil
import subprocess
import sys
import threading

import pytest
from tests.txn_graph import PERSON, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import FailpointError, GraphClosedError, GraphExistsError, GraphReplacedError, OmnigraphError
from omnigraph.runtime import Runtime, start_thread
from omnigraph.runtime.failpoints import fail
from omnigraph.store.location import Storage
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import BranchName


def test_of_two_initialisers_one_wins_and_the_graph_is_whole(tmp_path):
    program = (
        "import sys\n"
        "from omnigraph.errors import GraphExistsError\n"
        "from tests.txn_graph import init_graph\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "    init_graph(sys.argv[1])\n"
        "except GraphExistsError:\n"
        "    sys.exit(3)\n"
    )
    root = str(tmp_path / "g")
    racers = [
        subprocess.Popen([sys.executable, "-c", program, root], stdin=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.close()
    assert sorted(racer.wait(300) for racer in racers) == [0, 3]
    with open_graph(Storage.open(root)) as graph:
        assert len(history(graph)) == 1
        insert(graph, PERSON, node_rows(["a"]))
        assert read_ids(graph, PERSON) == ["a"]


def test_initialising_an_existing_graph_writes_nothing(tmp_path):
    storage = init_graph(tmp_path / "g")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "g").rglob("*")}
    with pytest.raises(GraphExistsError):
        init_graph(storage.root)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "g").rglob("*")} == files


def test_an_initialiser_that_loses_at_the_last_moment_leaves_the_winner_whole(tmp_path):
    runtime = Runtime.system({})
    runtime.failpoints.enable("txn.init.before_manifest", lambda: init_graph(tmp_path / "g"))
    with pytest.raises(GraphExistsError):
        init_graph(tmp_path / "g", runtime=runtime)
    with open_graph(Storage.open(str(tmp_path / "g"))) as graph:
        assert len(history(graph)) == 1
        insert(graph, PERSON, node_rows(["a"]))
        assert read_ids(graph, PERSON) == ["a"]


def test_an_initialiser_that_died_leaves_the_place_free(tmp_path):
    runtime = Runtime.system({})
    runtime.failpoints.enable("txn.init.before_manifest", fail("txn.init.before_manifest"))
    with pytest.raises(FailpointError):
        init_graph(tmp_path / "g", runtime=runtime)
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        assert read_ids(graph, PERSON) == []


def test_a_closed_graph_says_so_and_closing_twice_is_harmless(tmp_path):
    graph = open_graph(init_graph(tmp_path / "g"))
    graph.close()
    graph.close()
    with pytest.raises(GraphClosedError):
        graph.snapshot(BranchName("main"))


def test_closing_finishes_the_releases_of_acknowledged_writes(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
    assert not [path for path in (tmp_path / "g" / "__recovery").rglob("*") if path.is_file()]


def test_refresh_shows_what_another_handle_published(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as writer, open_graph(storage, mode="read_only") as reader:
        assert read_ids(reader, PERSON) == []
        insert(writer, PERSON, node_rows(["a"]))
        reader.refresh()
        assert read_ids(reader, PERSON) == ["a"]


def test_a_result_reports_what_it_cost(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        cost = insert(graph, PERSON, node_rows(["a"])).cost
    assert cost.total_calls > 0
    assert cost.bytes_written > 0
    assert 0 < cost.serial_stages <= cost.total_calls


def test_closing_while_threads_write_refuses_new_writes_and_finishes_those_under_way(tmp_path):
    storage = init_graph(tmp_path / "g")
    graph = open_graph(storage)
    acknowledged, refusals, started = [], [], threading.Barrier(5)

    def write(number):
        insert(graph, PERSON, node_rows([f"w{number}"]))
        started.wait(300)
        for turn in itertools.count():
            try:
                insert(graph, PERSON, node_rows([f"w{number}.{turn}"]))
            except BaseException as error:  # noqa: BLE001 - what it is, is the question
                refusals.append(type(error))
                return
            acknowledged.append(f"w{number}.{turn}")

    threads = [start_thread(f"w{number}", lambda number=number: write(number)) for number in range(4)]
    started.wait(300)
    while not acknowledged:
        assert all(thread.is_alive() for thread in threads)
    graph.close()
    assert not [path for path in (tmp_path / "g" / "__recovery").rglob("*") if path.is_file()]
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    # Nor does a thread leave a claim that it put when the graph was closed already.
    assert not [path for path in (tmp_path / "g" / "__recovery").rglob("*") if path.is_file()]
    assert refusals == [GraphClosedError] * 4
    with open_graph(storage) as again:
        assert set(acknowledged) <= set(read_ids(again, PERSON))
        insert(again, PERSON, node_rows(["next"]))


def test_closing_waits_for_a_branch_that_is_being_deleted(tmp_path):
    runtime, begun, may_end = Runtime.system({}), threading.Event(), threading.Event()
    graph = open_graph(init_graph(tmp_path / "g"), runtime=runtime)
    graph.create_branch(BranchName("side"))

    def hold():
        begun.set()
        assert may_end.wait(300)

    runtime.failpoints.enable("txn.branch_delete.after_claim", hold)
    deleter = start_thread("deleter", lambda: graph.delete_branch(BranchName("side")))
    assert begun.wait(300)
    closer = start_thread("closer", graph.close)
    while not graph._calls._is_closed:
        assert closer.is_alive()
    with pytest.raises(GraphClosedError):
        graph.create_branch(BranchName("other"))
    may_end.set()
    for thread in (deleter, closer):
        thread.join(300)
        assert not thread.is_alive()
    with open_graph(Storage.open(str(tmp_path / "g"))) as again:
        assert again.branch_names() == ["main"]


@pytest.mark.parametrize("versions", [1, 2, 3], ids=["fewer", "as many", "more"])
def test_a_handle_notices_that_another_graph_was_made_in_its_place(tmp_path, versions):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["old"]))
        txn = authority_of(graph).begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["late"]))
        shutil.rmtree(tmp_path / "g")
        init_graph(tmp_path / "g")
        with open_graph(storage) as other:
            for number in range(versions - 1):
                insert(other, PERSON, node_rows([f"new{number}"]))
            before = read_ids(other, PERSON)
        with pytest.raises(GraphReplacedError):
            read_ids(graph, PERSON)
        with pytest.raises(OmnigraphError):
            authority_of(graph).commit(txn)
        with pytest.raises(GraphReplacedError):
            insert(graph, PERSON, node_rows(["mixed"]))
    with open_graph(storage) as other:
        assert read_ids(other, PERSON) == before
        insert(other, PERSON, node_rows(["next"]))
        assert read_ids(other, PERSON) == sorted([*before, "next"])
