"""A baseline and the feed behind it give the graph."""

import json

import pytest
from tests.history_graph import FILE, KNOWS, PERSON, create, open_store, write

from omnigraph.errors import BranchMissingError, ChangeValueError
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.feed.baseline import capture_baseline
from omnigraph.history.feed.reader import ChangeReader


@pytest.fixture
def store(tmp_path):
    with open_store(create(tmp_path / "graph")) as opened:
        yield opened


def person(age=1, **values):
    return {"age": age, "weight": 0.5, "tags": ["x", None], "born": None, **values}


def test_records_come_by_table_and_id_and_the_cursor_last(store):
    write(
        store,
        {
            PERSON: {"b": person(), "a": person(tags=[])},
            FILE: {"f": {"content": b"", "size": None}},
            KNOWS: {"k": {"src": "a", "dst": "b", "since": 7}},
        },
    )
    head = write(store, {PERSON: {"c": person()}})
    records = list(capture_baseline(store))
    assert records[:-1] == [
        {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k", "since": 7}},
        {"type": "File", "data": {"id": "f", "content": "base64:", "size": None}},
        {"type": "Person", "data": {"id": "a", "age": 1, "weight": 0.5, "tags": [], "born": None}},
        {"type": "Person", "data": {"id": "b", "age": 1, "weight": 0.5, "tags": ["x", None], "born": None}},
        {"type": "Person", "data": {"id": "c", "age": 1, "weight": 0.5, "tags": ["x", None], "born": None}},
    ]
    last = records[-1]["baseline"]
    assert last["snapshot_commit_id"] == str(head.id)
    json.dumps(records)
    reader = ChangeReader(store)
    assert last["resume_cursor"] == reader.poll(start=f"after:{head.id}").cursor


def test_commits_during_the_capture_are_the_first_of_the_feed(store):
    write(store, {PERSON: {"a": person(), "b": person()}})
    records = capture_baseline(store)
    found = [next(records)]
    late = write(store, {PERSON: {"a": person(2), "b": None, "c": person()}})
    found += list(records)
    state = {record["data"]["id"]: record["data"] for record in found[:-1]}
    assert [state[chosen]["age"] for chosen in "ab"] == [1, 1]
    page = ChangeReader(store).poll(cursor=found[-1]["baseline"]["resume_cursor"])
    (block,) = page.blocks
    assert block.cause.commit.id == late.id
    for change in block.changes:
        state.pop(change.id, None)
        if change.after is not None:
            state[change.id] = {"id": change.id, **change.after.properties}
    assert state == {record["data"]["id"]: record["data"] for record in list(capture_baseline(store))[:-1]}


def test_kinds_and_types_choose_records_and_operations_only_the_cursor(store):
    write(store, {PERSON: {"a": person()}, KNOWS: {"k": {"src": "a", "dst": "a", "since": None}}})
    wanted = ChangeFilter.of(kinds=["node"], type_names=["Person"], ops=["delete"])
    records = list(capture_baseline(store, wanted=wanted))
    assert [record.get("type") for record in records] == ["Person", None]
    cursor = records[-1]["baseline"]["resume_cursor"]
    write(store, {PERSON: {"a": None, "b": person()}})
    page = ChangeReader(store).poll(cursor=cursor, wanted=wanted)
    assert [[change.id for change in block.changes] for block in page.blocks] == [["a"]]


def test_a_failure_leaves_no_cursor(store):
    write(store, {PERSON: {"a": person(), "b": person(weight=float("nan"))}})
    found = []
    with pytest.raises(ChangeValueError):
        found.extend(capture_baseline(store))
    assert not any("baseline" in record for record in found)
    with pytest.raises(BranchMissingError):
        list(capture_baseline(store, "nowhere"))


def test_large_tables_come_in_the_order_of_their_ids(store, monkeypatch):
    monkeypatch.setattr("omnigraph.history.feed.baseline._CHUNK_ROWS", 7)
    ids = [f"p{number * 37 % 100:03d}" for number in range(100)]
    write(store, {PERSON: {chosen: person() for chosen in ids[:60]}})
    write(store, {PERSON: {chosen: person() for chosen in ids[60:]}})
    found = [record["data"]["id"] for record in list(capture_baseline(store))[:-1]]
    assert found == sorted(ids)
