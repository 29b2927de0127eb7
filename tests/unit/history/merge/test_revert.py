"""Undoing one commit by another, whatever came after it."""

from __future__ import annotations

import pytest
from tests.merge_graph import DRAFT, Template, head_of, history_of, kinds_of, put
from tests.session_graph import read_graph

from omnigraph.errors import (
    CommitMissingError,
    HistoryGoneError,
    MergeConflictsError,
    PreconditionFailedError,
    RevertRefusedError,
    ValueFormatError,
)
from omnigraph.history.merge import merge_branch, revert_commit
from omnigraph.values import MAIN, BranchName

PERSON, KNOWS = "node:Person", "edge:Knows"
SCHEMA = """
node Person { name: String @key  nick: String? }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "a"}}
{"type": "Person", "data": {"name": "b"}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}}
"""


def person(name, nick=None):
    return {"name": name, "nick": nick}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("revert"), SCHEMA, SEED)


@pytest.fixture
def session(template):
    with template.open() as opened:
        yield opened


def _put(session, rows, branch=MAIN, table_key=PERSON):
    return put(session, table_key, rows, branch).commit.id


def test_the_newest_commit_is_undone_completely(session):
    _put(session, {"d": person("d", "old")})
    before = read_graph(session)
    commit = _put(session, {"a": person("a", "x"), "d": None, "c": person("c")})
    result = revert_commit(session, commit, actor="ann")
    assert read_graph(session) == before
    newest = history_of(session)[0]
    assert newest == result.commit
    assert (newest.operation, newest.actor, newest.message) == ("revert", "ann", f"revert {commit}")
    assert newest.merged_parent is None
    assert result.to_json()["reverted_commit_id"] == commit
    counts = result.tables[0]
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 1, 1)


def test_an_older_commit_is_undone_and_what_came_after_it_stays(session):
    commit = _put(session, {"a": person("a", "x")})
    _put(session, {"c": person("c")})
    revert_commit(session, commit)
    rows = read_graph(session)[PERSON]
    assert (rows["a"]["nick"], "c" in rows) == (None, True)


def test_rows_that_were_changed_again_are_conflicts_and_nothing_is_written(session):
    commit = _put(session, {"a": person("a", "x"), "c": person("c"), "b": person("b", "x")})
    _put(session, {"a": person("a", "y"), "c": None})
    before, head = read_graph(session), head_of(session)
    with pytest.raises(MergeConflictsError) as refused:
        revert_commit(session, commit)
    # The row that is gone already is as the revert would have it.
    assert kinds_of(refused.value.details.items) == [("divergent_update", PERSON, "a")]
    assert refused.value.message.startswith("revert conflicts: ")
    (conflict,) = refused.value.details.items
    nicks = [image["properties"]["nick"] for image in (conflict.base, conflict.source, conflict.target)]
    assert nicks == ["x", None, "y"]
    assert (read_graph(session), head_of(session)) == (before, head)
    revert_commit(session, commit, resolve="theirs")
    assert [read_graph(session)[PERSON][name]["nick"] for name in "ab"] == [None, None]


def test_a_revert_that_keeps_the_later_rows_undoes_the_others(session):
    commit = _put(session, {"a": person("a", "x"), "b": person("b", "x")})
    _put(session, {"a": person("a", "y")})
    revert_commit(session, commit, resolve="ours")
    assert [read_graph(session)[PERSON][name]["nick"] for name in "ab"] == ["y", None]


def test_undoing_an_insert_that_an_edge_came_to_rely_on_is_refused(session):
    commit = _put(session, {"c": person("c")})
    _put(session, {"ac": {"src": "a", "dst": "c"}}, table_key=KNOWS)
    with pytest.raises(MergeConflictsError) as refused:
        revert_commit(session, commit)
    assert kinds_of(refused.value.details.items) == [("orphan_edge", KNOWS, "ac")]


def test_a_revert_can_be_undone_like_any_commit(session):
    commit = _put(session, {"a": person("a", "x")})
    undone = revert_commit(session, commit).commit.id
    revert_commit(session, undone)
    assert read_graph(session)[PERSON]["a"]["nick"] == "x"


def test_a_merge_is_undone_to_what_the_target_had(session):
    _put(session, {"c": person("c")}, DRAFT)
    _put(session, {"d": person("d")})
    before = read_graph(session)
    merged = merge_branch(session, DRAFT).commit.id
    revert_commit(session, merged)
    assert read_graph(session) == before


def test_a_commit_that_the_branch_inherited_is_undone_on_the_branch_alone(session):
    commit = _put(session, {"a": person("a", "x")})
    session.store.create_branch(BranchName("later"))
    revert_commit(session, commit, "later")
    assert read_graph(session, "later")[PERSON]["a"]["nick"] is None
    assert read_graph(session)[PERSON]["a"]["nick"] == "x"


def test_a_commit_whose_changes_are_gone_already_makes_no_commit(session):
    commit = _put(session, {"a": person("a", "x")})
    _put(session, {"a": person("a")})
    head = head_of(session)
    assert revert_commit(session, commit).commit is None
    assert head_of(session) == head


def test_the_first_commit_and_unknown_ones_are_refused(session):
    with pytest.raises(RevertRefusedError):
        revert_commit(session, history_of(session)[-1].id)
    elsewhere = _put(session, {"c": person("c")}, DRAFT)
    with pytest.raises(CommitMissingError):
        revert_commit(session, elsewhere)
    with pytest.raises(ValueFormatError):
        revert_commit(session, "not a commit")


def test_a_revert_may_demand_the_head_it_was_decided_on(session):
    commit = _put(session, {"a": person("a", "x")})
    _put(session, {"c": person("c")})
    with pytest.raises(PreconditionFailedError):
        revert_commit(session, commit, expected_head=commit)


def test_a_commit_whose_tables_were_reclaimed_cannot_be_undone(session):
    commit = _put(session, {"a": person("a", "x")})
    _put(session, {"b": person("b", "x")})
    session.store.reclaim_older([session.snapshot().entry(PERSON).pin])
    with pytest.raises(HistoryGoneError):
        revert_commit(session, commit)


def test_an_accepted_schema_is_not_undone_by_rows(session):
    session.apply_schema(SCHEMA + "node City { name: String @key }")
    with pytest.raises(MergeConflictsError) as refused:
        revert_commit(session, head_of(session))
    assert [conflict.kind for conflict in refused.value.details.items] == ["schema_divergence"]
