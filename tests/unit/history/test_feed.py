"""The feed of a branch: where it starts, what it delivers, and how it goes on."""

import gc
import tempfile

import pytest
from tests.history_graph import FILE, KNOWS, PERSON, compact, create, open_store, rows_of, write
from tests.session_graph import add_rows, commit_ids, create_graph, open_session

from omnigraph.errors import (
    BranchMissingError,
    ChangeCursorError,
    ChangeFeedGapError,
    CommitMissingError,
    UsageError,
)
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.feed import deltas
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.history.merge import merge_branch
from omnigraph.store.location import Storage
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName


@pytest.fixture
def root(tmp_path):
    create(tmp_path / "graph")
    return tmp_path / "graph"


@pytest.fixture
def store(root):
    with open_store(Storage.open(str(root))) as opened:
        yield opened


def person(age=1):
    return {"age": age, "weight": None, "tags": None, "born": None}


def add(store, *ids, branch=MAIN):
    return str(write(store, {PERSON: {chosen: person() for chosen in ids}}, branch=branch).id)


def commits(page):
    return [str(block.cause.commit.id) for block in page.blocks]


def ids(page):
    return [[change.id for change in block.changes] for block in page.blocks]


def test_a_feed_that_starts_now_delivers_what_is_committed_later(store):
    add(store, "a")
    reader = ChangeReader(store)
    first = reader.poll(start="now")
    assert first.blocks == ()
    assert first.is_caught_up
    assert first.to_json().keys() == {"blocks", "cursor", "caught_up"}
    assert reader.poll(start="now").cursor == first.cursor
    second = add(store, "b")
    following = reader.poll(cursor=first.cursor)
    assert (commits(following), ids(following)) == ([second], [["b"]])
    assert following.is_caught_up
    assert reader.poll(cursor=following.cursor).blocks == ()


def test_a_feed_starts_at_the_beginning_or_behind_a_commit(store):
    made = [add(store, chosen) for chosen in "abc"]
    reader = ChangeReader(store)
    assert commits(reader.poll(start="beginning")) == made
    assert commits(reader.poll(start=f"after:{made[0]}")) == made[1:]
    assert commits(reader.poll(start=f"after:{made[-1]}")) == []


def test_a_graph_without_a_change_has_an_empty_feed(store):
    page = ChangeReader(store).poll(start="beginning")
    assert page.blocks == ()
    assert page.is_caught_up


@pytest.mark.parametrize("start", ["", "later", "AFTER:x", "after", "beginning "])
def test_a_start_that_is_none_is_refused(store, start):
    with pytest.raises(UsageError):
        ChangeReader(store).poll(start=start)


def test_only_one_place_to_start_at_may_be_given(store):
    cursor = ChangeReader(store).poll(start="now").cursor
    with pytest.raises(UsageError):
        ChangeReader(store).poll(start="now", cursor=cursor)
    with pytest.raises(UsageError):
        ChangeReader(store).poll(page_token=cursor, cursor=cursor)
    with pytest.raises(UsageError):
        ChangeReader(store).poll(MAIN)


@pytest.mark.parametrize("start", ["after:x", "after:", "after:01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_a_commit_that_is_not_on_the_line_is_refused(store, start):
    add(store, "a")
    with pytest.raises(ChangeCursorError, match=r"^change cursor rejected: "):
        ChangeReader(store).poll(start=start)


def test_a_branch_shows_inherited_history_and_not_what_others_did_since(store):
    first = add(store, "a")
    store.create_branch(BranchName("side"))
    on_main = add(store, "b")
    on_side = add(store, "c", branch="side")
    reader = ChangeReader(store)
    assert commits(reader.poll("side", start="beginning")) == [first, on_side]
    assert commits(reader.poll(start="beginning")) == [first, on_main]
    with pytest.raises(ChangeCursorError):
        reader.poll("side", start=f"after:{on_main}")
    with pytest.raises(BranchMissingError):
        reader.poll("nowhere", start="now")


def test_a_cursor_serves_only_its_own_branch_and_filter(store, tmp_path):
    add(store, "a")
    store.create_branch(BranchName("side"))
    reader = ChangeReader(store)
    cursor = reader.poll(start="now").cursor
    with open_store(create(tmp_path / "other")) as other:
        for wrong in (
            lambda: reader.poll("side", cursor=cursor),
            lambda: reader.poll(cursor=cursor, wanted=ChangeFilter.of(kinds=["node"])),
            lambda: reader.poll(page_token=cursor),
            lambda: ChangeReader(other).poll(cursor=cursor),
            lambda: reader.poll(cursor="nonsense"),
        ):
            with pytest.raises(ChangeCursorError, match=r"^change cursor rejected: "):
                wrong()
    every = ChangeFilter.of(kinds=["node", "edge"])
    assert reader.poll(cursor=cursor, wanted=every).is_caught_up


def test_a_branch_that_was_made_again_does_not_know_its_old_cursors(store):
    add(store, "a")
    reader = ChangeReader(store)
    store.create_branch(BranchName("side"))
    own = add(store, "b", "c", branch="side")
    cursor = reader.poll("side", start="now").cursor
    token = reader.poll("side", start="beginning", limits=PageLimits(changes=2)).next_page_token
    store.delete_branch(BranchName("side"))
    with pytest.raises(BranchMissingError):
        reader.poll("side", cursor=cursor)
    store.create_branch(BranchName("side"))
    add(store, "d", branch="side")
    for wrong in ({"cursor": cursor}, {"page_token": token}, {"start": f"after:{own}"}):
        with pytest.raises(ChangeCursorError):
            reader.poll("side", **wrong)
    with pytest.raises(CommitMissingError):
        reader.commit_changes(own)


def test_a_merge_shows_its_difference_to_the_line_it_landed_on(tmp_path):
    create_graph(tmp_path / "graph", "node A { name: String @key }")
    with open_session(tmp_path / "graph") as session:
        session.store.create_branch(BranchName("side"))
        for name, branch in (("x", "side"), ("y", "side"), ("z", "main")):
            session.mutate(f'query q() {{ insert A {{ name: "{name}" }} }}', branch=branch)
        merge_branch(session, "side")
        page = ChangeReader(session.store).poll(start="beginning")
        assert ids(page) == [["z"], ["x", "y"]]
        cause = page.blocks[-1].to_json()["cause"]
        assert cause["merged_parent_commit_id"] == str(commit_ids(session, "side")[0])


def test_a_page_that_ends_inside_a_commit_has_a_token_and_no_cursor(store):
    first = add(store, "a", "b", "c")
    reader = ChangeReader(store)
    page = reader.poll(start="beginning", limits=PageLimits(changes=2))
    assert page.to_json().keys() == {"blocks", "next_page_token"}
    late = add(store, "d")
    rest = reader.poll(page_token=page.next_page_token)
    assert (commits(rest), ids(rest)) == ([first], [["c"]])
    assert not rest.is_caught_up
    assert commits(reader.poll(cursor=rest.cursor)) == [late]


def test_a_full_page_that_ends_behind_a_commit_has_a_cursor(store):
    made = [add(store, "a", "b"), add(store, "c")]
    reader = ChangeReader(store)
    page = reader.poll(start="beginning", limits=PageLimits(changes=2))
    assert commits(page) == made[:1]
    assert not page.is_caught_up
    assert commits(reader.poll(cursor=page.cursor)) == made[1:]


def test_commits_without_a_wanted_change_are_shown_and_counted(store):
    made = [add(store, chosen) for chosen in "abcd"]
    moved = str(compact(store, PERSON).id)
    made += [moved, str(write(store, {FILE: {"f": {"content": None, "size": 1}}}).id)]
    wanted = ChangeFilter.of(type_names=["File"])
    reader = ChangeReader(store)
    page = reader.poll(start="beginning", wanted=wanted, limits=PageLimits(commits=5))
    assert (commits(page), ids(page)) == (made[:5], [[]] * 5)
    assert not page.is_caught_up
    rest = reader.poll(cursor=page.cursor, wanted=wanted)
    assert ids(rest) == [["f"]]
    assert rest.is_caught_up


def test_another_handle_goes_on_where_one_stopped_and_sees_what_others_wrote(store, root):
    reader = ChangeReader(store)
    cursor = reader.poll(start="now").cursor
    with open_store(Storage.open(str(root))) as other:
        made = add(other, "a")
        assert commits(ChangeReader(other).poll(cursor=cursor)) == [made]
    assert commits(reader.poll(cursor=cursor)) == [made]
    with open_store(Storage.open(str(root)), mode="read_only") as watching:
        assert commits(ChangeReader(watching).poll(cursor=cursor)) == [made]


def test_repeating_a_cursor_repeats_complete_commits(store):
    reader = ChangeReader(store)
    cursor = reader.poll(start="now").cursor
    add(store, "a")
    add(store, "b")
    assert reader.poll(cursor=cursor).to_json() == reader.poll(cursor=cursor).to_json()


def test_a_gap_is_reported_by_the_poll_that_begins_with_it(store):
    reader = ChangeReader(store)
    cursor = reader.poll(start="now").cursor
    made = [str(write(store, {FILE: {"f": {"content": b"x", "size": 1}}}).id), add(store, "a"), add(store, "b")]
    add(store, "c")
    pin = store.snapshot(BranchName(MAIN)).entry(PERSON).pin
    assert store.reclaim_older([pin]) > 0
    page = ChangeReader(store).poll(cursor=cursor)
    assert commits(page) == made[:1]
    assert not page.is_caught_up
    with pytest.raises(ChangeFeedGapError) as caught:
        ChangeReader(store).poll(cursor=page.cursor)
    assert caught.value.details.cursor == page.cursor
    assert caught.value.details.first_unreadable_commit_id == made[1]


def test_a_feed_goes_on_behind_a_schema_change_with_the_rows_of_the_newer_schema(tmp_path):
    schema = "node A { name: String @key }"
    create_graph(tmp_path / "graph", schema)
    with open_session(tmp_path / "graph") as session:
        add_rows(session, '{"type": "A", "data": {"name": "a"}}')
        session.apply_schema(schema.replace("}", "age: I32? }"))
        boundary = str(commit_ids(session)[0])
        add_rows(session, '{"type": "A", "data": {"name": "b", "age": 1}}')
        reader = ChangeReader(session.store)
        page = reader.poll(start="beginning")
        assert (ids(page), page.is_caught_up) == ([["a"]], False)
        following = reader.poll(cursor=page.cursor)
        assert (commits(following)[0], ids(following)) == (boundary, [[], ["b"]])
        assert page.blocks[0].changes[0].after.properties == {"name": "a"}
        assert following.blocks[1].changes[0].after.properties == {"name": "b", "age": 1}


def test_a_rename_is_an_empty_commit_and_keeps_the_identity_of_the_type(tmp_path):
    schema = "node A { name: String @key }"
    create_graph(tmp_path / "graph", schema)
    with open_session(tmp_path / "graph") as session:
        add_rows(session, '{"type": "A", "data": {"name": "a"}}')
        session.apply_schema('node B @rename_from("A") { name: String @key }')
        add_rows(session, '{"type": "B", "data": {"name": "b"}}')
        reader = ChangeReader(session.store)
        page = reader.poll(start="beginning")
        following = reader.poll(cursor=page.cursor)
        assert (ids(page), ids(following)) == ([["a"]], [[], ["b"]])
        first, _, last = *page.blocks, *following.blocks
        assert (first.changes[0].type.name, last.changes[0].type.name) == ("A", "B")
        assert first.changes[0].type.id == last.changes[0].type.id


def test_commits_that_were_published_together_are_each_delivered_once(root):
    with open_store(Storage.open(str(root)), group_commit=True) as store:
        branch_writer = store.branch_writer(BranchName(MAIN))
        txns = []
        for chosen in "abc":
            txn = branch_writer.begin(WriteKind.INSERT, actor=chosen)
            txn.insert(PERSON, rows_of(PERSON, {chosen: person()}))
            txns.append(txn)
        branch_writer._run(txns)
        page = ChangeReader(store).poll(start="beginning")
        assert commits(page) == [str(txn.commit_id) for txn in txns]
        assert ids(page) == [["a"], ["b"], ["c"]]


LONG_ID = "long-" + "x" * 700


def test_a_commit_that_does_not_fit_in_memory_is_delivered_from_files_page_by_page(store, monkeypatch, tmp_path):
    names = [f"{start}{number}" for start in ("a", "é", "Z", LONG_ID) for number in range(6)]
    add(store, *names[::2])
    changes = {PERSON: {name: None if name in names[::6] else person(7) for name in names}}
    write(store, {**changes, KNOWS: {name: {"src": "a", "dst": "b", "since": 1} for name in names}})
    limits = PageLimits(changes=3)

    def pages(reader):
        found, page = [], reader.feed(MAIN, "beginning", limits=limits)
        while True:
            found.append([[change.to_json() for change in block.changes] for block in page.blocks])
            if page.is_caught_up:
                return found
            page = reader.feed(MAIN, page.token, limits=limits)

    expected = pages(ChangeReader(store))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(deltas, "READ_WHOLE", 0)
    reader = ChangeReader(store, deltas.Deltas(memory_bytes=1))
    assert pages(reader) == expected
    assert len(list(tmp_path.glob("omnigraph-tmp-*"))) > 1
    assert reader.feed(MAIN, "beginning").blocks
    del reader
    gc.collect()
    assert list(tmp_path.glob("omnigraph-tmp-*")) == []
