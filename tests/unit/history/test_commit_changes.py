"""What one commit changed, in one order, page after page."""

import json
import re

import pytest
from tests.history_graph import FILE, KNOWS, PERSON, compact, create, index, open_store, write
from tests.session_graph import add_rows, commit_ids, create_graph, open_session

from omnigraph.errors import (
    ChangeCursorError,
    ChangeFeedGapError,
    ChangeLimitError,
    CommitHasNoParentError,
    CommitMissingError,
    UsageError,
    ValueFormatError,
)
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.values import MAIN, BranchName


@pytest.fixture
def store(tmp_path):
    with open_store(create(tmp_path / "graph")) as opened:
        yield opened


def person(age=1):
    return {"age": age, "weight": None, "tags": None, "born": None}


def edge(source="a", target="b"):
    return {"src": source, "dst": target, "since": None}


def filled(store):
    """A commit with every operation on nodes and edges; return its id."""
    write(store, {PERSON: {"a": person(), "b": person(), "c": person()}, KNOWS: {"k": edge(), "l": edge()}})
    changes = {
        PERSON: {"a": person(2), "b": None, "d": person()},
        KNOWS: {"k": edge("b", "a"), "l": None, "m": edge()},
        FILE: {"f": {"content": b"x", "size": 1}},
    }
    return str(write(store, changes, actor="ann").id)


def pages(store, commit, *, wanted=None, **limits):
    reader, token, found = ChangeReader(store), None, []
    while True:
        page = reader.commit_changes(
            commit, wanted=wanted or ChangeFilter(), page_token=token, limits=PageLimits(**limits)
        )
        found.append(page.to_json())
        token = page.next_page_token
        if token is None:
            return found


def joined(found):
    return [change for page in found for change in page["changes"]]


def test_the_cause_and_every_change_are_shown_with_exact_images(store):
    commit = filled(store)
    (page,) = pages(store, commit)
    cause = page["cause"]
    assert cause["graph_commit_id"] == commit
    assert (cause["authored_branch"], cause["actor_id"]) == ("main", "ann")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", cause["authored_at"])
    assert "merged_parent_commit_id" not in cause
    moved = next(change for change in page["changes"] if change["id"] == "k")
    assert moved["before"]["endpoints"] == {"from": "a", "to": "b"}
    assert moved["after"]["endpoints"] == {"from": "b", "to": "a"}
    assert "changed" not in moved
    gone = next(change for change in page["changes"] if change["id"] == "l")
    assert "after" not in gone
    new = next(change for change in page["changes"] if change["id"] == "f")
    assert new["after"] == {"properties": {"content": "base64:eA==", "size": 1}}
    assert "before" not in new


def test_the_order_can_be_reproduced_from_the_answer(store):
    found = joined(pages(store, filled(store)))
    ranks = {"insert": 0, "update": 1, "delete": 2}
    keys = [(c["kind"] == "edge", c["type"]["id"], c["id"], ranks[c["op"]]) for c in found]
    assert keys == sorted(keys)
    assert len(found) == 7


@pytest.mark.parametrize("limits", [{"changes": 1}, {"changes": 3}, {"size_bytes": 1}, {"size_bytes": 400}])
def test_pages_of_any_size_give_the_same_sequence(store, limits):
    commit = filled(store)
    found = pages(store, commit, **limits)
    assert joined(found) == joined(pages(store, commit))
    assert len(found) > 1
    assert all(page["changes"] for page in found)


def test_a_page_may_have_another_size_than_the_one_before(store):
    commit = filled(store)
    reader = ChangeReader(store)
    first = reader.commit_changes(commit, limits=PageLimits(changes=2))
    rest = reader.commit_changes(commit, page_token=first.next_page_token)
    assert joined([first.to_json(), rest.to_json()]) == joined(pages(store, commit))


@pytest.mark.parametrize(
    "words", [{"kinds": ["node"]}, {"type_names": ["Knows"]}, {"ops": ["delete", "insert"]}, {"type_names": ["Nobody"]}]
)
def test_filters_leave_out_and_never_reorder(store, words):
    commit = filled(store)
    wanted = ChangeFilter.of(**words)
    every = joined(pages(store, commit))
    chosen = [c for c in every if wanted.wants_type(c["kind"], c["type"]["name"]) and wanted.wants_op(c["op"])]
    assert joined(pages(store, commit, wanted=wanted, changes=2)) == chosen


@pytest.mark.parametrize("do", [lambda store: compact(store, PERSON), lambda store: index(store, PERSON)])
def test_a_commit_that_only_moves_bytes_shows_nothing(store, do):
    write(store, {PERSON: {"a": person()}})
    write(store, {PERSON: {"b": person()}})
    commit = do(store)
    assert joined(pages(store, str(commit.id))) == []
    same = write(store, {PERSON: {"a": person()}})
    assert joined(pages(store, str(same.id))) == []


def test_the_first_commit_and_unknown_ones_have_no_changes(store):
    genesis = str(store.snapshot(BranchName(MAIN)).state.head.commit)
    with pytest.raises(CommitHasNoParentError) as caught:
        pages(store, genesis)
    assert caught.value.details.reason == "parentless_commit"
    with pytest.raises(CommitMissingError):
        pages(store, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(ValueFormatError):
        pages(store, "no commit")


def test_a_token_serves_only_its_own_commit_and_filter(store):
    commit = filled(store)
    other = str(write(store, {PERSON: {"z": person()}}).id)
    reader = ChangeReader(store)
    token = reader.commit_changes(commit, limits=PageLimits(changes=1)).next_page_token
    for wrong in (
        lambda: reader.commit_changes(other, page_token=token),
        lambda: reader.commit_changes(commit, page_token=token, wanted=ChangeFilter.of(kinds=["node"])),
        lambda: reader.commit_changes(commit, page_token=reader.poll(start="now").cursor),
        lambda: reader.commit_changes(commit, page_token=commit),
    ):
        with pytest.raises(ChangeCursorError):
            wrong()


def test_limits_have_limits():
    assert PageLimits().changes == 1000
    for limits in ({"changes": 0}, {"size_bytes": -1}, {"commits": 0}):
        with pytest.raises(UsageError):
            PageLimits(**limits)
    for limits in ({"changes": 8193}, {"size_bytes": (32 << 20) + 1}, {"commits": 513}):
        with pytest.raises(ChangeLimitError):
            PageLimits(**limits)


def test_ids_longer_than_a_token_are_resumed_exactly(store):
    ids = [letter * 300 for letter in "aé€"] + ["a" * 299 + "b", "a" * 64, "a" * 65]
    commit = str(write(store, {PERSON: {chosen: person() for chosen in ids}}).id)
    found = joined(pages(store, commit, changes=1))
    assert [change["id"] for change in found] == sorted(ids)


def test_history_that_was_reclaimed_is_a_gap(store):
    commit = filled(store)
    write(store, {PERSON: {"z": person()}})
    pin = store.snapshot(BranchName(MAIN)).entry(PERSON).pin
    assert store.reclaim_older([pin]) > 0
    with pytest.raises(ChangeFeedGapError) as caught:
        pages(store, commit)
    assert caught.value.details.first_unreadable_commit_id == commit
    assert caught.value.details.cursor is None
    assert "nodes/" not in json.dumps(caught.value.to_json())


def test_a_commit_that_drops_a_type_deletes_its_rows(tmp_path):
    schema = "node A { name: String @key }\n"
    create_graph(tmp_path / "graph", schema)
    with open_session(tmp_path / "graph") as session:
        session.apply_schema(schema + "node B { name: String @key }")
        assert joined(pages(session.store, str(commit_ids(session)[0]))) == []
        add_rows(session, '{"type": "B", "data": {"name": "b"}}')
        session.apply_schema(schema)
        (deleted,) = joined(pages(session.store, str(commit_ids(session)[0])))
        assert (deleted["op"], deleted["type"]["name"], deleted["id"]) == ("delete", "B", "b")
        assert joined(pages(session.store, str(commit_ids(session)[0]), wanted=ChangeFilter.of(type_names=["A"]))) == []
