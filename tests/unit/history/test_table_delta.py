"""The difference between two versions of a table, and how little of them is read for it."""

import pytest
from tests.history_graph import FILE, KNOWS, PERSON, compact, create, index, open_store, replace_all, write

from omnigraph.errors import InternalError
from omnigraph.history.diff import rows as changed_rows
from omnigraph.history.diff import rows as rows_module
from omnigraph.history.diff import rows as stored
from omnigraph.history.diff import selection
from omnigraph.history.diff.compare import diff_between
from omnigraph.history.diff.rows import table_delta
from omnigraph.history.diff.selection import select_differing
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, BranchName


@pytest.fixture
def root(tmp_path):
    create(tmp_path / "graph")
    return tmp_path / "graph"


@pytest.fixture
def store(root):
    with open_store(Storage.open(str(root))) as opened:
        yield opened


def person(age=1, **values):
    return {"age": age, "weight": 1.0, "tags": ["a"], "born": None, **values}


def table(store, key=PERSON, branch=MAIN):
    return store.snapshot(BranchName(branch)).table(key)


def delta(before, after):
    found = table_delta(before, after)
    assert found.before.column("id").to_pylist() == found.after.column("id").to_pylist()
    return tuple(found_rows.column("id").to_pylist() for found_rows in (found.inserted, found.after, found.deleted))


def test_rows_that_came_went_and_changed_are_told_apart_and_sorted_by_id(store):
    write(store, {PERSON: {"d": person(), "b": person(), "a": person(), "c": person()}})
    before = table(store)
    write(store, {PERSON: {"f": person(), "e": person(), "c": person(2), "a": person(2), "b": None}})
    after = table(store)
    assert delta(before, after) == (["e", "f"], ["a", "c"], ["b"])
    assert delta(after, before) == (["b"], ["a", "c"], ["e", "f"])
    found = table_delta(before, after)
    assert found.before.column("age").to_pylist() == [1, 1]
    assert found.after.column("age").to_pylist() == [2, 2]
    assert found.row_count == 5
    assert found.inserted.schema.names == before.schema.names


def test_a_rewrite_with_equal_values_compaction_and_indexes_are_no_change(store):
    write(store, {PERSON: {"a": person(), "b": person()}})
    before = table(store)
    write(store, {PERSON: {"a": person()}})
    write(store, {PERSON: {"c": person()}})
    write(store, {PERSON: {"c": None}})
    rewritten = table(store)
    assert rewritten.pin != before.pin
    assert delta(before, rewritten) == ([], [], [])
    compact(store, PERSON)
    index(store, PERSON)
    assert delta(before, table(store)) == ([], [], [])
    replace_all(store, PERSON, {"b": person(), "a": person()})
    assert delta(before, table(store)) == ([], [], [])


def test_blobs_are_compared_by_their_bytes(store):
    write(store, {FILE: {"a": {"content": b"one", "size": 3}, "b": {"content": b"", "size": 0}}})
    before = table(store, FILE)
    write(store, {FILE: {"a": {"content": b"two", "size": 3}, "b": {"content": b"", "size": 0}}})
    found = table_delta(before, table(store, FILE))
    assert found.before.column("content").to_pylist() == [b"one"]
    assert found.after.column("content").to_pylist() == [b"two"]
    compact(store, FILE)
    assert delta(before, table(store, FILE)) == ([], ["a"], [])
    write(store, {FILE: {"b": None}})
    assert delta(before, table(store, FILE)) == ([], ["a"], ["b"])


def test_branches_share_what_neither_of_them_changed(store):
    write(store, {PERSON: {chosen: person() for chosen in "abcd"}})
    store.create_branch(BranchName("side"))
    write(store, {PERSON: {"a": person(2)}}, branch="side")
    write(store, {PERSON: {"b": None}})
    assert delta(table(store), table(store, branch="side")) == (["b"], ["a"], [])
    lost, gained = select_differing(table(store), table(store, branch="side"))
    assert (lost.row_count, gained.row_count) == (1, 2)


def test_a_missing_side_makes_every_row_a_change(store):
    write(store, {KNOWS: {"k": {"src": "a", "dst": "b", "since": 1}}})
    assert delta(None, table(store, KNOWS)) == (["k"], [], [])
    assert delta(table(store, KNOWS), None) == ([], [], ["k"])
    with pytest.raises(InternalError):
        table_delta(None, None)


def test_tables_with_other_columns_are_refused(store):
    with pytest.raises(InternalError, match="different columns"):
        table_delta(table(store, PERSON), table(store, FILE))


@pytest.mark.parametrize("key", [PERSON, FILE])
def test_many_rows_are_compared_column_by_column_with_the_same_answer(store, monkeypatch, key):
    values = {PERSON: person, FILE: lambda n: {"content": str(n).encode(), "size": None}}[key]
    write(store, {key: {f"r{number}": values(number) for number in range(20)}})
    before = table(store, key)
    write(store, {key: {"r3": values(33), "r5": None, "new": values(1), "r7": values(7)}})
    compact(store, key)
    whole = delta(before, table(store, key))
    monkeypatch.setattr(rows_module, "READ_WHOLE", 1)
    assert delta(before, table(store, key)) == whole == (["new"], ["r3"], ["r5"])
    assert delta(table(store, key), before) == (["r5"], ["r3"], ["new"])


def test_many_rows_stay_in_storage_until_they_are_shown(store, monkeypatch):
    monkeypatch.setattr(changed_rows, "READ_WHOLE", 1)
    monkeypatch.setattr(stored, "_SLICE_ROWS", 3)
    monkeypatch.setattr(stored, "_BLOB_ROWS", 2)
    first = write(store, {PERSON: {f"r{number}": person(number) for number in range(9)}})
    last = write(
        store,
        {
            PERSON: {"r8": person(80), "r1": person(10), "r4": None, "new": person(), "a": person()},
            FILE: {f"f{number}": {"content": str(number).encode(), "size": None} for number in range(5)},
        },
    )
    compact(store, PERSON)
    for before, after in ((first, last), (last, first)):
        forth = diff_between(store, str(before.id), str(after.id))
        found = [change.to_json() for change in forth]
        with monkeypatch.context() as usual:
            usual.setattr(changed_rows, "READ_WHOLE", 1000)
            again = diff_between(store, str(before.id), str(after.id))
            assert [change.to_json() for change in again] == found
            assert again.stats() == forth.stats()
        assert len(found) == 10


def test_the_caller_hears_how_much_is_held_and_may_stop_it(store):
    class TooMuchError(Exception):
        pass

    def refuse(size_bytes):
        if size_bytes > 10:
            raise TooMuchError

    write(store, {PERSON: {"a": person()}})
    with pytest.raises(TooMuchError):
        table_delta(None, table(store), refuse)
    told = []
    table_delta(None, table(store), told.append)
    assert max(told) > 10


@pytest.mark.parametrize("deleted", [2, 700])
@pytest.mark.parametrize("way", ["memory", "deletion file", "scan"])
def test_deletions_are_found_the_same_way_wherever_they_are_read(root, monkeypatch, way, deleted):
    storage = Storage.open(str(root))
    with open_store(storage) as store:
        first = write(store, {PERSON: {f"r{number:04d}": person() for number in range(1000)}})
        write(store, {PERSON: {f"r{number:04d}": None for number in range(0, 20, 10)}})
        store.create_branch(BranchName("side"))
        gone = {f"r{number:04d}": None for number in range(100, 100 + deleted)}
        last = write(store, {PERSON: gone}, branch="side")
        if way == "memory":
            assert _deleted_between(store, first, last) == deleted + 2
            return
    if way == "scan":
        monkeypatch.setattr(selection, "read_deletions", lambda *_: None)
    with open_store(storage, mode="read_only") as store:
        assert _deleted_between(store, first, last) == deleted + 2


def _deleted_between(store, first, last):
    old, new = (store.snapshot_of(commit).table(PERSON) for commit in (first, last))
    head = store.snapshot(BranchName(MAIN)).table(PERSON)
    forth, back = delta(old, new), delta(new, old)
    assert forth[:2] == back[1:] == ([], [])
    assert forth[2] == back[0]
    assert len(delta(head, new)[2]) == len(forth[2]) - 2
    return len(forth[2])
