"""A branch shares everything until it is written to, and nothing afterwards."""

import pytest
from tests.txn_graph import KNOWS, PERSON, TEAM, edge_rows, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import BranchExistsError, BranchInUseError, BranchMissingError, FailpointError, UsageError
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import fail
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName, TagName


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


@pytest.fixture
def graph(storage):
    with open_graph(storage) as opened:
        yield opened


def _pin(graph, table_key, branch):
    return graph.snapshot(BranchName(branch)).entry(table_key).pin


def test_a_branch_starts_where_its_source_is_and_then_goes_its_own_way(graph):
    insert(graph, PERSON, node_rows(["a"]))
    graph.create_branch(BranchName("feature"))
    assert read_ids(graph, PERSON, "feature") == ["a"]
    insert(graph, PERSON, node_rows(["on-branch"]), branch="feature")
    insert(graph, PERSON, node_rows(["on-main"]))
    assert read_ids(graph, PERSON, "feature") == ["a", "on-branch"]
    assert read_ids(graph, PERSON) == ["a", "on-main"]


def test_only_tables_that_are_written_fork(graph):
    insert(graph, PERSON, node_rows(["a"]))
    graph.create_branch(BranchName("feature"))
    insert(graph, PERSON, node_rows(["b"]), branch="feature")
    assert _pin(graph, TEAM, "feature") == _pin(graph, TEAM, "main")
    fork = _pin(graph, PERSON, "feature")
    assert fork.branch is not None
    insert(graph, PERSON, node_rows(["c"]), branch="feature")
    later = _pin(graph, PERSON, "feature")
    assert (later.branch, later.version) == (fork.branch, fork.version + 1)


def test_the_history_of_a_branch_goes_on_into_its_source(graph):
    first = insert(graph, PERSON, node_rows(["a"])).commit
    graph.create_branch(BranchName("feature"))
    own = insert(graph, PERSON, node_rows(["b"]), branch="feature").commit
    insert(graph, PERSON, node_rows(["c"]))
    assert [commit.id for commit in history(graph, "feature")][:2] == [own.id, first.id]
    assert own.parent == first.id
    assert own.branch == "feature"


def test_branches_of_branches_fork_again(graph):
    insert(graph, PERSON, node_rows(["a"]))
    graph.create_branch(BranchName("one"))
    insert(graph, PERSON, node_rows(["b"]), branch="one")
    graph.create_branch(BranchName("two"), source=BranchName("one"))
    insert(graph, PERSON, node_rows(["c"]), branch="two")
    insert(graph, PERSON, node_rows(["d"]), branch="one")
    assert read_ids(graph, PERSON, "two") == ["a", "b", "c"]
    assert read_ids(graph, PERSON, "one") == ["a", "b", "d"]
    assert read_ids(graph, PERSON) == ["a"]
    assert graph.branch_names() == ["main", "one", "two"]


def test_several_tables_fork_in_one_commit_and_another_process_sees_it(storage, graph):
    graph.create_branch(BranchName("team/x"))
    insert(graph, PERSON, node_rows(["a", "b"]), branch="team/x")
    insert(graph, KNOWS, edge_rows([("e", "a", "b")]), branch="team/x")
    with open_graph(storage, mode="read_only") as other:
        assert read_ids(other, PERSON, "team/x") == ["a", "b"]
        assert read_ids(other, KNOWS, "team/x") == ["e"]
        assert read_ids(other, PERSON) == []


@pytest.mark.parametrize("name", ["feature", "feature/x"])
def test_a_name_that_is_taken_or_overlaps_is_refused(graph, name):
    graph.create_branch(BranchName("feature"))
    with pytest.raises(BranchExistsError):
        graph.create_branch(BranchName(name))


def test_a_branch_that_does_not_exist_is_reported_with_those_that_do(graph):
    graph.create_branch(BranchName("feature"))
    with pytest.raises(BranchMissingError) as caught:
        read_ids(graph, PERSON, "featur")
    assert caught.value.details.near == ("main", "feature")


def test_a_creator_that_died_before_the_ref_leaves_the_name_free(storage):
    runtime = Runtime.system({})
    runtime.failpoints.enable("txn.branch.after_line", fail("txn.branch.after_line"))
    with open_graph(storage, runtime=runtime) as graph:
        with pytest.raises(FailpointError):
            graph.create_branch(BranchName("feature"))
        assert graph.branch_names() == ["main"]
        runtime.failpoints.disable("txn.branch.after_line")
        graph.create_branch(BranchName("feature"))
        insert(graph, PERSON, node_rows(["a"]), branch="feature")
        assert read_ids(graph, PERSON, "feature") == ["a"]


def test_everything_works_with_full_durability(tmp_path):
    settings = TxnSettings(durability="full")
    storage = init_graph(tmp_path / "g", settings=settings)
    with open_graph(storage, settings=settings) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        graph.create_branch(BranchName("feature"))
        insert(graph, PERSON, node_rows(["b"]), branch="feature")
        assert read_ids(graph, PERSON, "feature") == ["a", "b"]


@pytest.mark.parametrize("name", ["Main", "MAIN"])
def test_main_cannot_be_created_in_any_letter_case(graph, name):
    with pytest.raises(UsageError, match="branch 'main' exists already"):
        graph.create_branch(BranchName(name))
    assert graph.branch_names() == ["main"]


LONG_NAMES = {
    "the longest of plain letters": "a" * 200,
    "the first that did not fit": "a" * 176,
    "letters of two bytes": "ä" * 100,
    "letters of three bytes": "日" * 66,
    "many segments": "a/" * 99 + "bb",
    "dots and dashes": "a-b._" * 40,
}


@pytest.mark.parametrize("name", LONG_NAMES.values(), ids=LONG_NAMES)
def test_a_name_of_the_documented_length_works_on_a_local_disk(tmp_path, name):
    branch, tag, child = BranchName.parse(name), TagName.parse(name), BranchName("z" * 200)
    assert len(name.encode()) <= 200
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        graph.create_branch(branch)
        insert(graph, PERSON, node_rows(["p"]), branch=branch)
        graph.create_branch(child, source=branch)
        insert(graph, PERSON, node_rows(["q"]), branch=child)
        graph.create_tag(tag, branch)
    with open_graph(storage) as graph:
        assert {status.name for status in graph.branches()} == {MAIN, branch, child}
        assert (read_ids(graph, PERSON, branch), read_ids(graph, PERSON, child)) == (["p"], ["p", "q"])
        assert [found.name for found in graph.tags.list()] == [tag]
        with pytest.raises(BranchInUseError):
            graph.delete_branch(branch)
        graph.delete_branch(child)
        graph.delete_tag(tag)
        graph.delete_branch(branch)
        assert graph.branch_names() == [MAIN]
        graph.create_branch(branch)
        assert read_ids(graph, PERSON, branch) == []


def test_names_that_fit_are_stored_as_they_always_were(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        for name in ("draft", "a" * 175, "team/ä"):
            ref = graph.create_branch(BranchName(name))
            assert ref.line.lance_branch == f"{name}.{ref.line.incarnation}"
