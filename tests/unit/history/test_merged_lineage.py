"""Commits and authors of merged branches, with the branches gone, and what cleanup leaves of them."""

from __future__ import annotations

import pytest
from tests.commit_lines import History
from tests.merge_graph import DRAFT, Template, change, head_of, put
from tests.session_graph import open_session

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import BranchMissingError, HistoryGoneError, ManifestCorruptError, MergeConflictsError
from omnigraph.history.commit_graph import draw_commits
from omnigraph.history.feed.blame import blame
from omnigraph.history.merge import merge_branch
from omnigraph.runtime import Runtime
from omnigraph.txn.manifest.merged import merge_key
from omnigraph.values import MAIN, BranchName, CommitId

PERSON = "node:Person"
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)
ROOT = BranchName(MAIN)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("lineage"), branches=(DRAFT,))


@pytest.fixture
def session(template):
    with template.open() as session:
        yield session


def clean(session, **retention):
    return Cleanup(session.store, Retention(**retention), AT_ONCE, Runtime.system()).run()


def merge_and_delete(session, *texts, name=DRAFT):
    """Make the commits on a branch, merge it and delete it; return the ids of its commits."""
    ids = []
    for text in texts:
        change(session, text, name)
        ids.append(head_of(session, name))
    merge_branch(session, name, actor="mia")
    session.delete_branch(name)
    return ids


def authors(session, entity_id, **options):
    found = blame(session.store, PERSON, entity_id, **options)
    return {one.name: (one.author and one.author.id, one.merge and one.merge.id) for one in found.properties}


def age(value, name="Alice"):
    return 'update Person set { age: 0 } where name = "Alice"'.replace("0", str(value)).replace("Alice", name)


def test_a_branch_of_the_same_name_is_not_taken_for_the_one_that_was_merged(session):
    (first,) = merge_and_delete(session, age(31))
    merge = head_of(session)
    session.create_branch(DRAFT)
    put(session, PERSON, {"Alice": {"name": "Alice", "age": 99}}, DRAFT)
    assert authors(session, "Alice")["age"] == (first, merge)
    rows = session.store.snapshot_at(ROOT, first).table(PERSON).lookup(["Alice"], ["age"])
    assert rows["age"].to_pylist() == [31]
    session.delete_branch(DRAFT)
    with pytest.raises(BranchMissingError):
        session.store.snapshot(BranchName(DRAFT))


def test_a_process_that_has_a_merged_branch_open_finds_it_deleted(session, template):
    root = session.store.storage.root
    with open_session(root) as other:
        change(other, age(31), DRAFT)
        merge_and_delete(session, age(32))
        for use in (
            lambda: other.query("query q() { match { $p: Person } return { $p } }", branch=DRAFT),
            lambda: change(other, age(33), DRAFT),
            lambda: other.create_branch("child", DRAFT),
            lambda: merge_branch(other, DRAFT),
        ):
            with pytest.raises(BranchMissingError):
                use()


def test_the_merge_is_the_author_of_what_it_decided_itself_and_of_nothing_else(session):
    change(session, age(31), DRAFT)
    change(session, age(32))
    ours = head_of(session)
    with pytest.raises(MergeConflictsError):
        merge_branch(session, DRAFT)
    # What the merge was refused for left nothing behind that a later one could meet.
    assert session.store.stores.control.list_keys("__merges") == ()
    merge_branch(session, DRAFT, resolve="ours")
    assert authors(session, "Alice")["age"] == (ours, None)
    theirs = head_of(session, DRAFT)
    session.create_branch("second", DRAFT)
    change(session, age(40, "Bob"), "second")
    change(session, age(41, "Bob"))
    bobs = head_of(session, "second")
    merge_branch(session, "second", resolve="theirs")
    assert authors(session, "Bob")["age"] == (bobs, head_of(session))
    assert {commit.id for commit in session.log(full=True, limit=100).commits} >= {theirs, bobs}


def test_a_deletion_on_a_branch_names_who_deleted(session):
    (deletion,) = merge_and_delete(session, 'delete Person where name = "Dan"')
    found = blame(session.store, PERSON, "Dan")
    assert found.properties == ()
    assert found.events[0].op == "delete"
    assert {one.author.id for one in found.events[0].authors} == {deletion}


def test_states_of_a_merged_branch_stay_as_long_as_the_merge_and_its_own_rule_keep_them(session):
    older, newer = merge_and_delete(session, age(31), age(32))
    merge = head_of(session)
    assert (DRAFT, "merged") in {(name, why) for name, _, why in clean(session, keep=2).protected}
    # Of the branch two states stay, as of main.
    for commit in (older, newer):
        session.store.snapshot_at(ROOT, commit).table(PERSON).read()
    assert authors(session, "Alice")["age"] == (newer, merge)
    assert authors(session, "Alice")["name"] == (None, None)
    clean(session, keep=1)
    with pytest.raises(HistoryGoneError):
        session.store.snapshot_at(ROOT, older)
    session.store.snapshot_at(ROOT, newer)
    change(session, age(33))
    clean(session, keep=1)
    assert session.store.stores.control.list_keys("__manifest/tree") == ()
    assert session.store.stores.control.list_keys("__dependants") == ()
    with pytest.raises(HistoryGoneError):
        session.store.snapshot_at(ROOT, newer)
    # Commits stay listed, as those of main do.
    assert [commit.id for commit in session.log(full=True).commits][1:4] == [merge, newer, older]
    assert clean(session, keep=1).datasets == ()


def test_what_an_attempt_that_was_not_published_left_goes_and_records_that_are_named_stay(session):
    session.create_branch("inner", DRAFT)
    change(session, age(31), "inner")
    merge_branch(session, "inner", DRAFT)
    session.delete_branch("inner")
    merge_and_delete(session, age(5, "Bob"))
    control, merge = session.store.stores.control, session.log().commits[0]
    named = set(control.list_keys("__merges"))
    assert len(named) == 2
    control.put(merge_key(merge.id, merge.manifest_version + 1), b"{}")
    control.put(merge_key(CommitId(session.store.stores.runtime.ids.ulid()), 3), b"{}")
    change(session, age(6, "Bob"))
    clean(session, keep=1)
    assert set(control.list_keys("__merges")) == named


def test_a_damaged_record_is_an_error_where_it_is_read_and_nowhere_else(session):
    (brought,) = merge_and_delete(session, age(31))
    (key,) = session.store.stores.control.list_keys("__merges")
    session.store.stores.control.put(key, b"{}")
    with open_session(session.store.storage.root) as other:
        change(other, age(34))
        assert len(other.log().commits) == 4
        for ask in (lambda: other.log(full=True), lambda: other.get_commit(str(brought))):
            with pytest.raises(ManifestCorruptError, match="cannot read merge record"):
                ask()


def test_a_drawing_shows_forks_merges_and_crossing_lines():
    history = History()
    history.fork("one", "main")
    history.fork("two", "main")
    history.commit("one", "o1")
    history.commit("two", "t1")
    history.merge("main", "one", "m1")
    history.merge("main", "two", "m2")
    order = ["m2", "t1", "m1", "o1", "genesis"]
    names = {history.name(commit_id): commit for commit_id, commit in history.commits.items()}
    drawn = draw_commits([names[name] for name in order], lambda commit: history.name(commit.id))
    assert drawn == [
        "*  m2",
        "|\\",
        "| *  t1",
        "* |  m1",
        "|\\ \\",
        "| * |  o1",
        "|_|/",
        "|/",
        "*  genesis",
    ]
    # Lines to commits that are not shown end.
    assert draw_commits([names["m2"], names["t1"]], lambda commit: history.name(commit.id)) == ["*  m2", "*  t1"]
