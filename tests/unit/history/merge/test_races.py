"""Merges and reverts while others write to, delete or make anew the branches they are about."""

from __future__ import annotations

import pytest
from tests.merge_graph import DRAFT, Template, change, head_of, history_of, put
from tests.session_graph import open_session, read_graph

from omnigraph.errors import ExpectedVersionMismatchError, MergeConflictsError, ReadSetChangedError, SchemaMovedError
from omnigraph.history.merge import merge_branch, revert_commit
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import on_nth
from omnigraph.values import MAIN, BranchName

PERSON, TEAM, KNOWS = "node:Person", "node:Team", "edge:Knows"
SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { name: String @key  size: I32? }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "a"}}
{"type": "Person", "data": {"name": "b"}}
{"type": "Team", "data": {"name": "red"}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}}
"""
CAPTURED, STAGED, CLAIMED = "history.merge.after_capture", "txn.stage.after_files", "txn.claim.after_put"
BEFORE_EFFECTS = (CAPTURED, STAGED)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("races"), SCHEMA, SEED)


@pytest.fixture
def meeting(template):
    """A session that stops at a point once, and another process's view of the same graph."""
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session:
        root = session.store.tables.datasets.storage.root
        with open_session(root) as other:

            def at(point, action):
                runtime.failpoints.enable(point, on_nth(1, lambda: action(other)))

            yield session, at


def _person(name, age=None):
    return {name: {"name": name, "age": age}}


@pytest.mark.parametrize("point", BEFORE_EFFECTS)
def test_a_write_to_a_table_of_the_merge_makes_it_a_conflict_without_effect(meeting, point):
    session, at = meeting
    put(session, PERSON, _person("c"), DRAFT)
    at(point, lambda other: put(other, PERSON, _person("d")))
    with pytest.raises(ExpectedVersionMismatchError) as refused:
        merge_branch(session, DRAFT)
    assert refused.value.details.table_key == PERSON
    assert set(read_graph(session)[PERSON]) == {"a", "b", "d"}
    assert merge_branch(session, DRAFT).commit is not None
    assert set(read_graph(session)[PERSON]) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("point", BEFORE_EFFECTS)
def test_a_write_to_a_table_that_the_validation_rests_on_is_a_conflict_too(meeting, point):
    session, at = meeting
    put(session, KNOWS, {"ba": {"src": "b", "dst": "a"}}, DRAFT)
    at(point, lambda other: change(other, 'delete Person where name = "a"'))
    with pytest.raises(ExpectedVersionMismatchError):
        merge_branch(session, DRAFT)
    with pytest.raises(MergeConflictsError) as refused:
        merge_branch(session, DRAFT)
    assert [conflict.kind for conflict in refused.value.details.items] == ["orphan_edge"]
    assert "a" not in read_graph(session)[PERSON]


@pytest.mark.parametrize("point", BEFORE_EFFECTS)
def test_a_merge_goes_on_upon_commits_that_touched_other_tables(meeting, point):
    session, at = meeting
    put(session, PERSON, _person("c"), DRAFT)
    captured = head_of(session, DRAFT)
    at(point, lambda other: put(other, TEAM, {"blue": {"name": "blue", "size": None}}))
    result = merge_branch(session, DRAFT)
    newest, before, *_ = history_of(session)
    assert result.commit == newest
    assert (newest.parent, newest.merged_parent, before.operation) == (before.id, captured, "mutate")
    rows = read_graph(session)
    assert ("c" in rows[PERSON], "blue" in rows[TEAM]) == (True, True)


def test_a_merge_goes_on_upon_another_merge_that_touched_other_tables(meeting):
    session, at = meeting
    session.store.create_branch(BranchName("second"))
    put(session, PERSON, _person("c"), DRAFT)
    put(session, TEAM, {"blue": {"name": "blue", "size": 1}}, "second")
    at(STAGED, lambda other: merge_branch(other, "second"))
    merge_branch(session, DRAFT)
    assert [commit.operation for commit in history_of(session)[:2]] == ["branch_merge"] * 2
    assert read_graph(session)[TEAM].keys() == {"red", "blue"}


def test_two_merges_of_one_branch_make_one_commit_that_counts(meeting):
    session, at = meeting
    put(session, PERSON, _person("c"), DRAFT)
    at(STAGED, lambda other: merge_branch(other, DRAFT))
    with pytest.raises(ExpectedVersionMismatchError):
        merge_branch(session, DRAFT)
    assert [commit.operation for commit in history_of(session)].count("branch_merge") == 1
    assert merge_branch(session, DRAFT).commit is None


@pytest.mark.parametrize("point", [*BEFORE_EFFECTS, CLAIMED])
def test_what_the_source_commits_later_is_not_merged(meeting, point):
    session, at = meeting
    put(session, PERSON, _person("c"), DRAFT)
    captured = head_of(session, DRAFT)
    at(point, lambda other: put(other, PERSON, _person("late"), DRAFT))
    result = merge_branch(session, DRAFT)
    assert result.commit.merged_parent == captured
    assert set(read_graph(session)[PERSON]) == {"a", "b", "c"}
    merge_branch(session, DRAFT)
    assert "late" in read_graph(session)[PERSON]


def _delete(other):
    other.store.delete_branch(BranchName(DRAFT))


def _make_anew(other):
    _delete(other)
    other.store.create_branch(BranchName(DRAFT))


@pytest.mark.parametrize("end", [_delete, _make_anew])
def test_a_source_that_is_gone_or_made_anew_is_not_the_one_that_was_captured(meeting, end):
    session, at = meeting
    put(session, TEAM, {"blue": {"name": "blue", "size": 1}}, DRAFT)
    before = history_of(session)
    at(CAPTURED, end)
    with pytest.raises(ReadSetChangedError) as refused:
        merge_branch(session, DRAFT)
    assert refused.value.details.member == f"branch_merge_source_incarnation:{DRAFT}"
    assert history_of(session) == before


def test_a_source_whose_ref_changed_between_planning_and_publishing_is_refused(meeting):
    session, at = meeting
    put(session, PERSON, _person("c"), DRAFT)
    put(session, PERSON, {"c": None}, DRAFT)
    before = history_of(session)

    def write_then_replace(other):
        # The rebase that follows looks at the source again.
        put(other, TEAM, {"blue": {"name": "blue", "size": 1}})
        _make_anew(other)

    at(STAGED, write_then_replace)
    with pytest.raises(ReadSetChangedError) as refused:
        merge_branch(session, DRAFT)
    assert refused.value.details.member == f"branch_merge_source_incarnation:{DRAFT}"
    assert history_of(session)[1:] == before


def test_a_schema_that_is_accepted_meanwhile_stops_the_merge(meeting):
    session, at = meeting
    put(session, PERSON, _person("c"), DRAFT)
    at(STAGED, lambda other: other.apply_schema(SCHEMA + "node City { name: String @key }"))
    with pytest.raises(SchemaMovedError):
        merge_branch(session, DRAFT)
    assert "c" not in read_graph(session)[PERSON]


@pytest.mark.parametrize("point", BEFORE_EFFECTS)
def test_a_write_to_a_table_of_a_revert_makes_it_a_conflict_without_effect(meeting, point):
    session, at = meeting
    commit = put(session, PERSON, _person("a", 1)).commit.id
    at(point, lambda other: put(other, PERSON, _person("d")))
    with pytest.raises(ExpectedVersionMismatchError):
        revert_commit(session, commit)
    assert read_graph(session)[PERSON]["a"]["age"] == 1
    revert_commit(session, commit)
    assert read_graph(session)[PERSON]["a"]["age"] is None


def test_merges_into_different_targets_do_not_disturb_each_other(meeting):
    session, at = meeting
    session.store.create_branch(BranchName("second"))
    put(session, PERSON, _person("c"), DRAFT)
    at(STAGED, lambda _: merge_branch(session, DRAFT, "second"))
    merge_branch(session, DRAFT)
    assert read_graph(session)[PERSON] == read_graph(session, "second")[PERSON] == read_graph(session, DRAFT)[PERSON]
    assert head_of(session, MAIN) != head_of(session, "second")


@pytest.mark.parametrize("end", [_delete, _make_anew])
@pytest.mark.parametrize("point", BEFORE_EFFECTS)
def test_a_target_that_is_gone_or_made_anew_gets_nothing(meeting, point, end):
    session, at = meeting
    put(session, PERSON, _person("c"))
    at(point, end)
    with pytest.raises(ReadSetChangedError) as refused:
        merge_branch(session, MAIN, DRAFT)
    assert refused.value.details.member == f"branch_merge_target:{DRAFT}"
    if DRAFT in session.store.branch_names():
        assert history_of(session, DRAFT) == history_of(session, MAIN)
