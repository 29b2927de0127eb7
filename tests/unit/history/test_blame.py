"""Who changed what of one entity."""

import pytest
from tests.history_graph import KNOWS, PERSON, compact, create, index, open_store, write
from tests.session_graph import add_rows, create_graph, open_session

from omnigraph.errors import CommitMissingError, TypeMissingError
from omnigraph.history.feed.blame import blame
from omnigraph.runtime import counting
from omnigraph.values import BranchName


@pytest.fixture
def store(tmp_path):
    with open_store(create(tmp_path / "graph")) as opened:
        yield opened


def person(age=1, **values):
    return {"age": age, "weight": None, "tags": None, "born": None, **values}


def events(history):
    return [(event.op, event.changed, event.cause.commit.actor) for event in history.events]


def test_events_come_newest_first_with_who_changed_what(store):
    write(store, {PERSON: {"a": person()}}, actor="ann")
    write(store, {PERSON: {"a": person(2, tags=["x"])}}, actor="bob")
    write(store, {PERSON: {"b": person()}}, actor="cid")
    write(store, {PERSON: {"a": None}}, actor="dan")
    last = write(store, {PERSON: {"a": person(2)}}, actor="eve")
    found = blame(store, PERSON, "a")
    assert events(found) == [
        ("insert", ("age",), "eve"),
        ("delete", ("age", "tags"), "dan"),
        ("update", ("age", "tags"), "bob"),
        ("insert", ("age",), "ann"),
    ]
    assert found.is_complete
    shown = found.to_json()
    assert (shown["kind"], shown["type_name"], shown["id"]) == ("node", "Person", "a")
    assert shown["events"][0]["cause"]["graph_commit_id"] == str(last.id)
    assert shown["events"][2]["before"]["properties"]["age"] == 1


def test_a_limit_leaves_out_the_oldest_and_says_so(store):
    for age in range(5):
        write(store, {PERSON: {"a": person(age)}})
    found = blame(store, PERSON, "a", limit=2)
    assert [event.after.properties["age"] for event in found.events] == [4, 3]
    assert not found.is_complete
    assert blame(store, PERSON, "a", limit=5).is_complete


def test_compaction_indexes_and_equal_rewrites_are_no_events(store):
    write(store, {PERSON: {"a": person(), "b": person()}})
    write(store, {PERSON: {"a": person()}})
    write(store, {PERSON: {"c": person()}})
    compact(store, PERSON)
    index(store, PERSON)
    write(store, {PERSON: {"b": None}})
    assert [event.op for event in blame(store, PERSON, "a").events] == ["insert"]


def test_a_moved_edge_shows_its_ends(store):
    write(store, {KNOWS: {"k": {"src": "a", "dst": "b", "since": None}}})
    write(store, {KNOWS: {"k": {"src": "a", "dst": "c", "since": None}}})
    first, second = blame(store, KNOWS, "k").events
    assert first.changed == ("to",)
    assert second.changed == ("from", "to")


def test_history_can_be_asked_from_an_earlier_commit_and_on_a_branch(store):
    first = write(store, {PERSON: {"a": person(1)}})
    store.create_branch(BranchName("side"))
    write(store, {PERSON: {"a": person(2)}})
    write(store, {PERSON: {"a": person(3)}}, branch="side")
    assert [event.after.properties["age"] for event in blame(store, PERSON, "a").events] == [2, 1]
    assert [event.after.properties["age"] for event in blame(store, PERSON, "a", branch="side").events] == [3, 1]
    assert [event.after.properties["age"] for event in blame(store, PERSON, "a", at=str(first.id)).events] == [1]


def test_what_never_was_has_no_events_and_unknown_names_are_refused(store):
    write(store, {PERSON: {"a": person()}})
    assert blame(store, PERSON, "nobody").events == ()
    with pytest.raises(TypeMissingError):
        blame(store, "node:Nobody", "a")
    with pytest.raises(CommitMissingError):
        blame(store, PERSON, "a", at="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_history_goes_through_renames_and_other_columns(tmp_path):
    create_graph(tmp_path / "graph", "node A { name: String @key  age: I32? }")
    with open_session(tmp_path / "graph") as session:
        add_rows(session, '{"type": "A", "data": {"name": "x", "age": 1}}')
        session.apply_schema('node B @rename_from("A") { name: String @key  age: I32?  city: String? }')
        session.mutate('query q() { update B set { city: "Rom" } where name = "x" }')
        found = blame(session.store, "node:B", "x")
        assert [(event.op, event.changed) for event in found.events] == [
            ("update", ("city",)),
            ("insert", ("name", "age")),
        ]


def test_a_property_keeps_its_author_through_changes_of_the_schema(tmp_path):
    create_graph(tmp_path / "graph", "node A { name: String @key  age: I32?  note: String? }")
    with open_session(tmp_path / "graph") as session:
        add_rows(session, '{"type": "A", "data": {"name": "x", "age": 1, "note": "n"}}')
        wrote = session.log().commits[0].id
        session.apply_schema('node A { name: String @key  years: I64? @rename_from("age")  city: String? }')
        session.mutate('query q() { update A set { city: "Rom" } where name = "x" }')
        found = blame(session.store, "node:A", "x")
        assert [(event.op, event.changed) for event in found.events] == [
            ("update", ("city",)),
            ("insert", ("name", "age", "note")),
        ]
        # As it was before, in the columns of afterwards.
        assert found.events[0].before.properties == {"name": "x", "years": 1, "city": None}
        assert {one.name: one.author.id == wrote for one in found.properties} == {
            "name": True,
            "years": True,
            "city": False,
        }


def test_long_stretches_without_a_change_are_leapt_over(store):
    write(store, {PERSON: {chosen: person() for chosen in "abc"}})
    for age in range(70):
        write(store, {PERSON: {"b": person(age)}})
    with counting() as with_leaps:
        assert len(blame(store, PERSON, "a").events) == 1
    assert with_leaps.cost().total_calls < 70


def test_a_state_on_the_way_that_goes_while_it_is_read_ends_what_is_known(store):
    commits = [write(store, {PERSON: {"a": person(age)}}) for age in range(3)]
    compact(store, PERSON)
    with open_store(store.storage) as reader:
        # Tables that are open when somebody else reclaims them: only reading them can tell.
        opened = [reader.snapshot_of(commit).table(PERSON) for commit in commits]
        store.reclaim_older([store.snapshot(BranchName("main")).entry(PERSON).pin])
        assert [table.row_count for table in opened] == [1, 1, 1]
        found = blame(reader, PERSON, "a")
        assert (found.events, found.is_complete) == ((), False)
        assert found.known_since.id == reader.snapshot(BranchName("main")).state.head.commit
        assert [one.author for one in found.properties] == [None] * 4
        assert "are unknown: cleanup has removed the states" in str(found)
