"""The files of a deleted branch go in any order; whoever meets what is left of it hears that the branch is gone."""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest
from tests.crash.later import Torn, later_world, tear_at
from tests.txn_graph import PERSON, authority_of, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import BranchMissingError, StorageCorruptError
from omnigraph.runtime import Runtime
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.refs import LogFilter
from omnigraph.values import MAIN, BranchName

DRAFT = BranchName("draft")
# Enough for a part of its history to lie in files of its own.
LONG_HISTORY = 34
GOING = {
    "every version": lambda line: [line / "_versions"],
    # Numbers in the names of versions count down.
    "the newest version": lambda line: [min((line / "_versions").iterdir())],
    "the rows": lambda line: [line / "data"],
    "no part yet": lambda _: [],
    "all of it": lambda line: [line],
}
ASKING = {
    "its newest state": lambda graph: graph.snapshot(DRAFT),
    "its rows": lambda graph: read_ids(graph, PERSON, DRAFT),
    "its log": lambda graph: graph.refs.log(DRAFT, LogFilter(), 10, None),
    "an earlier state": lambda graph: graph.refs.resolve_ref(f"{DRAFT}~3", DRAFT),
    "a write": lambda graph: insert(graph, PERSON, node_rows(["late"]), branch=DRAFT),
}


@pytest.fixture
def storage(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        graph.create_branch(DRAFT)
        write(graph, range(5))
    return storage


def write(graph, numbers):
    for number in numbers:
        insert(graph, PERSON, node_rows([f"p{number}"]), branch=DRAFT)


def delete_partly(storage, going):
    """End the branch and remove its table and some files of its line, as a deletion does that is not through yet."""
    runtime = Runtime.system()
    tear_at(runtime, "txn.branch_delete.after_end")
    deleting = open_graph(storage, runtime=runtime)
    line = deleting.branch_incarnation(DRAFT).lance_branch
    with pytest.raises(Torn):
        deleting.delete_branch(DRAFT)
    forks = storage.path().glob(f"nodes/*/tree/{line}.*")
    for path in (*forks, *GOING[going](storage.path(f"__manifest/tree/{line}"))):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


# What somebody knows of a branch holds as long as its newest version can be seen.
KNOWN = [(going, True) for going in GOING if going not in {"the rows", "no part yet"}]


@pytest.mark.parametrize(("going", "is_known"), [*KNOWN, *((going, False) for going in GOING)])
def test_a_branch_that_goes_is_not_found_whatever_is_left_of_it(storage, going, is_known):
    with ExitStack() as stack:
        graphs = {asking: stack.enter_context(open_graph(storage)) for asking in ASKING}
        for graph in graphs.values():
            graph.snapshot(DRAFT if is_known else BranchName(MAIN))
        delete_partly(storage, going)
        for asking, graph in graphs.items():
            assert [status.name for status in graph.branches()] == [MAIN], asking
            assert graph.protected_versions() == (), asking
            with pytest.raises(BranchMissingError, match="branch 'draft' not found"):
                ASKING[asking](graph)
            # That is over, or finished, whoever repeats it.
            graph.delete_branch(DRAFT)


@pytest.mark.parametrize("going", GOING)
def test_whoever_holds_a_state_whose_branch_goes_is_told_so(storage, going):
    loses_rows = going in {"the rows", "all of it"}
    # For somebody who comes later, the deletion is dead, and need not be waited for.
    with open_graph(storage, runtime=later_world()) as graph:
        write(graph, range(5, LONG_HISTORY if loses_rows else 5))
        snapshot = graph.snapshot(DRAFT)
        table = snapshot.table(PERSON)
        history = graph.iter_commits(snapshot)
        branch_writer = authority_of(graph, DRAFT)
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["late"]))
        delete_partly(storage, going)
        with pytest.raises(BranchMissingError):
            branch_writer.commit(txn)
        with pytest.raises(BranchMissingError), snapshot.reading():
            table.read(columns=["id"])
        graph.tables.forget(snapshot.entry(PERSON).pin.location)
        with pytest.raises(BranchMissingError):
            snapshot.table(PERSON)
        if loses_rows:
            with pytest.raises(BranchMissingError):
                list(history)


def test_files_that_are_missing_from_a_branch_that_is_there_are_no_deletion(storage):
    """What has to be repaired is never told as something that somebody wanted."""
    with open_graph(storage) as graph:
        line = graph.branch_incarnation(DRAFT).lance_branch
    shutil.rmtree(storage.path(f"__manifest/tree/{line}/data"))
    with open_graph(storage, mode="read_only") as graph, pytest.raises(StorageCorruptError):
        graph.snapshot(DRAFT)
