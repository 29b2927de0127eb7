"""Deleting a branch takes exactly what is its own, and never what somebody needs."""

import pytest
from tests.auditor import audit
from tests.crash.later import Torn, later_world, tear_at
from tests.txn_graph import KNOWS, PERSON, TEAM, authority_of, edge_rows, init_graph, insert, node_rows, open_graph
from tests.txn_graph import read_ids as ids_of

from omnigraph.errors import (
    BranchClosingError,
    BranchInUseError,
    BranchMissingError,
    CommitMissingError,
    PreconditionFailedError,
    ReadOnlyError,
    UsageError,
)
from omnigraph.runtime import Runtime
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName, TagName

DRAFT = BranchName("draft")
POINTS = ("txn.branch_delete.after_claim", "txn.branch_delete.before_end")
LATE_POINTS = ("txn.branch_delete.after_end", "txn.branch_delete.after_reclaim")


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


@pytest.fixture
def graph(storage):
    with open_graph(storage) as opened:
        yield opened


def names(graph):
    return graph.branch_names()


def leftovers(graph):
    """Everything on storage that belongs to some branch other than main, apart from what remembers its name."""
    control = graph._stores.control
    folders = ("__recovery", "__branches", "__dependants", "__manifest/tree", "__manifest/_refs")
    keys = [key for folder in folders for key in control.list_keys(folder)]
    keys += [key for key in control.list_keys("nodes") if "/tree/" in key or "/_refs/" in key]
    return [key for key in keys if not key.endswith(".gone")]


def written_branch(graph, name=DRAFT, source=None):
    graph.create_branch(name, source=source)
    insert(graph, PERSON, node_rows([f"on-{name}"]), branch=name)
    return name


def test_a_deleted_branch_is_gone_with_everything_that_was_its_own(storage, graph):
    insert(graph, PERSON, node_rows(["a"]))
    written_branch(graph)
    graph.delete_branch(DRAFT)
    assert names(graph) == [MAIN]
    with pytest.raises(BranchMissingError):
        ids_of(graph, PERSON, DRAFT)
    assert leftovers(graph) == []
    assert ids_of(graph, PERSON) == ["a"]
    assert audit(storage.root) == []


def test_a_branch_is_deleted_only_at_the_commit_that_was_seen(storage, graph):
    seen = graph.create_branch(DRAFT).forked_at
    # Another process commits between the decision and the deletion.
    with open_graph(storage) as other:
        insert(other, PERSON, node_rows(["late"]), branch=DRAFT)
    with pytest.raises(PreconditionFailedError):
        graph.delete_branch(DRAFT, expected_head=seen)
    assert ids_of(graph, PERSON, DRAFT) == ["late"]
    assert [key for key in graph._stores.control.list_keys("__recovery") if key.endswith(".json")] == []
    insert(graph, PERSON, node_rows(["later"]), branch=DRAFT)
    graph.delete_branch(DRAFT, expected_head=graph.snapshot(DRAFT).state.head.commit)
    assert names(graph) == [MAIN]


def test_a_name_can_be_used_again_at_once_and_shows_nothing_of_its_earlier_life(storage, graph):
    written_branch(graph)
    graph.delete_branch(DRAFT)
    insert(graph, PERSON, node_rows(["later"]))
    graph.create_branch(DRAFT)
    assert ids_of(graph, PERSON, DRAFT) == ["later"]
    insert(graph, PERSON, node_rows(["again"]), branch=DRAFT)
    graph.delete_branch(DRAFT)
    graph.create_branch(BranchName("draft/part"))
    assert names(graph) == [MAIN, "draft/part"]
    assert audit(storage.root) == []


def test_main_cannot_be_deleted(graph):
    with pytest.raises(UsageError, match="cannot delete branch 'main'"):
        graph.delete_branch(BranchName(MAIN))


def test_deleting_a_branch_again_is_harmless_until_the_name_is_taken_again(graph):
    graph.create_branch(DRAFT)
    for _ in range(3):
        graph.delete_branch(DRAFT)
    assert names(graph) == [MAIN]
    graph.create_branch(DRAFT)
    assert names(graph) == [MAIN, DRAFT]


def test_a_branch_that_does_not_exist_is_not_found(graph):
    with pytest.raises(BranchMissingError, match="branch 'draft' not found"):
        graph.delete_branch(DRAFT)


def test_a_graph_that_is_open_for_reading_deletes_nothing(storage, graph):
    graph.create_branch(DRAFT)
    with open_graph(storage, mode="read_only") as reader, pytest.raises(ReadOnlyError):
        reader.delete_branch(DRAFT)


def test_a_branch_that_others_came_from_goes_after_them(storage, graph):
    written_branch(graph)
    written_branch(graph, BranchName("child"), source=DRAFT)
    with pytest.raises(BranchInUseError, match="descendant branch 'child' still depends on it") as caught:
        graph.delete_branch(DRAFT)
    assert caught.value.details.name == "child"
    assert ids_of(graph, PERSON, "child") == ["on-child", "on-draft"]
    graph.delete_branch(BranchName("child"))
    graph.delete_branch(DRAFT)
    assert leftovers(graph) == []
    assert audit(storage.root) == []


def test_a_branch_whose_commit_is_tagged_goes_after_the_tag(graph):
    written_branch(graph)
    graph.create_tag(TagName("kept"), "draft")
    with pytest.raises(BranchInUseError, match="tag 'kept' still depends on it"):
        graph.delete_branch(DRAFT)
    graph.delete_tag(TagName("kept"))
    graph.delete_branch(DRAFT)
    assert leftovers(graph) == []


def test_the_commits_of_a_deleted_branch_are_unknown(graph):
    graph.create_branch(DRAFT)
    own = insert(graph, PERSON, node_rows(["x"]), branch=DRAFT).commit
    assert graph.refs.show(own.id, BranchName(MAIN)) == own
    graph.delete_branch(DRAFT)
    with pytest.raises(CommitMissingError):
        graph.refs.show(own.id, BranchName(MAIN))


def test_several_forked_tables_go_with_their_branch(graph):
    graph.create_branch(DRAFT)
    insert(graph, PERSON, node_rows(["p"]), branch=DRAFT)
    insert(graph, TEAM, node_rows(["t"]), branch=DRAFT)
    insert(graph, KNOWS, edge_rows([("e", "p", "p")]), branch=DRAFT)
    graph.delete_branch(DRAFT)
    assert leftovers(graph) == []
    assert [key for key in graph._stores.control.list_keys("edges") if "/tree/" in key] == []


def test_another_open_graph_learns_that_a_branch_is_gone_and_finds_the_next_of_its_name(storage, graph):
    written_branch(graph)
    with open_graph(storage) as other:
        assert ids_of(other, PERSON, DRAFT) == ["on-draft"]
        graph.delete_branch(DRAFT)
        with pytest.raises(BranchMissingError):
            ids_of(other, PERSON, DRAFT)
        graph.create_branch(DRAFT)
        assert ids_of(other, PERSON, DRAFT) == []
        insert(other, PERSON, node_rows(["there"]), branch=DRAFT)
    assert ids_of(graph, PERSON, DRAFT) == ["there"]
    assert audit(storage.root) == []


def test_a_write_that_was_prepared_before_the_deletion_is_refused_and_leaves_nothing(storage, graph):
    written_branch(graph)
    with open_graph(storage) as other:
        branch_writer = authority_of(other, DRAFT)
        insert(other, PERSON, node_rows(["earlier"]), branch=DRAFT)
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["late"]))
        graph.delete_branch(DRAFT)
        with pytest.raises(BranchMissingError):
            branch_writer.commit(txn)
    assert names(graph) == [MAIN]
    assert graph._stores.control.list_keys("__recovery") == ()
    assert audit(storage.root) == []


def test_a_prepared_write_does_not_reach_the_next_branch_of_the_same_name(storage, graph):
    written_branch(graph)
    with open_graph(storage) as other:
        txn = authority_of(other, DRAFT).begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["late"]))
        graph.delete_branch(DRAFT)
        graph.create_branch(DRAFT)
        with pytest.raises(BranchMissingError):
            authority_of(other, DRAFT).commit(txn)
    assert ids_of(graph, PERSON, DRAFT) == []
    assert audit(storage.root) == []


@pytest.mark.parametrize("point", [*POINTS, *LATE_POINTS])
def test_a_deletion_that_died_is_finished_by_the_next_open(storage, point):
    with open_graph(storage) as graph:
        written_branch(graph)
    with open_graph(storage, runtime=tear_at(Runtime.system({}), point)) as graph, pytest.raises(Torn):
        graph.delete_branch(DRAFT)
    with open_graph(storage, mode="read_only") as reader:
        assert (DRAFT in names(reader)) == (point in POINTS)
    with open_graph(storage, runtime=later_world()) as graph:
        assert names(graph) == [MAIN]
        assert leftovers(graph) == []
        written_branch(graph)
    assert audit(storage.root) == []


def test_a_writer_that_waits_for_a_dead_deletion_finishes_it(storage):
    with open_graph(storage) as graph:
        written_branch(graph)
        runtime = tear_at(Runtime.system({}), "txn.branch_delete.after_claim")
        with open_graph(storage, runtime=runtime) as dying, pytest.raises(Torn):
            dying.delete_branch(DRAFT)
        with open_graph(storage, runtime=later_world(), mode="read_only") as late:
            late._mode = "read_write"
            with pytest.raises(BranchMissingError):
                insert(late, PERSON, node_rows(["x"]), branch=DRAFT)
        assert names(graph) == [MAIN]
    assert audit(storage.root) == []


def test_a_dead_deletion_of_a_branch_that_is_needed_is_given_up(storage):
    with open_graph(storage) as graph:
        written_branch(graph)
        graph.create_branch(BranchName("child"), source=DRAFT)
    runtime = tear_at(Runtime.system({}), "txn.branch_delete.after_claim")
    with open_graph(storage, runtime=runtime) as graph, pytest.raises(Torn):
        graph.delete_branch(DRAFT)
    with open_graph(storage, runtime=later_world()) as graph:
        assert names(graph) == [MAIN, "child", DRAFT]
        insert(graph, PERSON, node_rows(["x"]), branch=DRAFT)
    assert audit(storage.root) == []


def test_what_a_dead_writer_left_on_a_deleted_branch_is_discarded_and_recorded_once(storage):
    with open_graph(storage) as graph:
        written_branch(graph)
        with open_graph(storage, runtime=tear_at(Runtime.system({}), "txn.claim.after_put")) as dying:
            base = authority_of(dying, DRAFT)
            txn = base.begin(WriteKind.INSERT)
            txn.insert(PERSON, node_rows(["lost"]))
            # Its claim is on a version that others publish before it is looked at.
            insert(graph, PERSON, node_rows(["other"]), branch=DRAFT)
            with pytest.raises(Torn):
                base._run([txn])
        graph.delete_branch(DRAFT)
    for _ in range(2):
        with open_graph(storage, runtime=later_world()) as graph:
            assert graph._stores.control.list_keys("__recovery") == ()
    assert audit(storage.root) == []


def test_nothing_is_forked_or_tagged_from_a_branch_that_is_being_deleted(storage):
    with open_graph(storage) as graph:
        written_branch(graph)
        runtime = tear_at(Runtime.system({}), "txn.branch_delete.before_end")
        with open_graph(storage, runtime=runtime) as dying, pytest.raises(Torn):
            dying.delete_branch(DRAFT)
        with pytest.raises(BranchClosingError):
            graph.create_branch(BranchName("child"), source=DRAFT)
        with pytest.raises(BranchClosingError):
            graph.create_tag(TagName("kept"), "draft")
        assert names(graph) == [MAIN, DRAFT]
        assert graph.tags.list() == ()
    with open_graph(storage, runtime=later_world()) as graph:
        assert names(graph) == [MAIN]
        assert leftovers(graph) == []


def test_a_slow_deletion_never_hits_the_next_branch_of_the_name(storage):
    with open_graph(storage) as graph:
        written_branch(graph)
        slow = graph._branches.ref(DRAFT)
        graph.delete_branch(DRAFT)
        graph.create_branch(DRAFT)
        graph._refs.end(slow)
        graph._refs.sweep(slow)
        assert names(graph) == [MAIN, DRAFT]
        assert ids_of(graph, PERSON, DRAFT) == []


def test_a_branch_whose_creator_died_while_its_source_was_deleted_is_none(storage):
    child = BranchName("child")
    with open_graph(storage) as graph:
        written_branch(graph)
        runtime = Runtime.system({})
        with open_graph(storage, runtime=tear_at(Runtime.system({}), "txn.branch.after_ref")) as dying:
            # The deletion has looked before the creator writes, and ends the source when the creator is dead.
            def create_and_die():
                with pytest.raises(Torn):
                    dying.create_branch(child, source=DRAFT)

            runtime.failpoints.enable("txn.branch_delete.before_end", create_and_die)
            with open_graph(storage, runtime=runtime) as deleter:
                deleter.delete_branch(DRAFT)
        with pytest.raises(BranchMissingError):
            ids_of(graph, PERSON, child)
        assert [status.name for status in graph.branches()] == [MAIN]
        with pytest.raises(BranchMissingError):
            graph.delete_branch(child)
        graph.create_branch(child)
        assert ids_of(graph, PERSON, child) == []
    assert audit(storage.root) == []
