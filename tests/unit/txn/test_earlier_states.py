"""Reading the state that an earlier commit made visible."""

from __future__ import annotations

import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.errors import CommitMissingError
from omnigraph.values import MAIN, BranchName, CommitId, Ulid

SCHEMA = "node Person { name: String @key  age: I32? }"
ADD = "query add($n: String) { insert Person { name: $n } }"
NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    with open_session(tmp_path / "graph") as opened:
        yield opened


def add(session, name, branch=MAIN):
    return str(session.mutate(ADD, {"n": name}, branch=branch).commit.id)


def names(session, **where):
    return [row["p.name"] for row in session.query(NAMES, **where).rows()]


def test_every_commit_can_be_read_again(session):
    commits = [add(session, name) for name in "abc"]
    assert [names(session, at=commit) for commit in commits] == [["a"], ["a", "b"], ["a", "b", "c"]]


def test_the_result_names_the_commit_that_was_read(session):
    first, _ = add(session, "a"), add(session, "b")
    assert session.query(NAMES, at=first).commit_id == first


def test_a_commit_of_another_branch_is_found(session):
    add(session, "a")
    session.store.create_branch(BranchName("review"))
    on_branch = add(session, "b", branch="review")
    add(session, "c")
    assert names(session, at=on_branch) == ["a", "b"]


def test_an_inherited_commit_is_read_from_the_branch_it_landed_on(session):
    first = add(session, "a")
    add(session, "b")
    session.store.create_branch(BranchName("review"))
    add(session, "c", branch="review")
    assert names(session, branch="review", at=first) == ["a"]


def test_an_unknown_commit_is_refused(session):
    add(session, "a")
    with pytest.raises(CommitMissingError, match="not found"):
        session.store.snapshot_at(BranchName(MAIN), CommitId(Ulid.parse("01ARZ3NDEKTSV4RRFFQ69G5FAV")))
