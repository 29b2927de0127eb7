"""A branch that another process deletes in the middle of an operation that is not about it is simply not there."""

from __future__ import annotations

import pytest
from tests.crash.later import Torn, tear_at
from tests.marks import first
from tests.merge_graph import DRAFT, Template, change, head_of, put
from tests.session_graph import open_session, read_graph

from omnigraph.errors import CommitMissingError, HistoryGoneError, MergeConflictsError
from omnigraph.history.diff.compare import diff_between
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.merge import merge_branch, preview_merge
from omnigraph.runtime import Runtime
from omnigraph.values import MAIN, BranchName, CommitId, Ulid

PERSON, SIDE = "node:Person", "aside"
# Enough for a part of its history to lie in files of its own.
LONG_HISTORY = 34
NOBODY = CommitId(Ulid("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
SCHEMA = "node Person { name: String @key  age: I32? }"
SEED = '{"type": "Person", "data": {"name": "a"}}\n{"type": "Person", "data": {"name": "b"}}'


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    template = Template(tmp_path_factory.mktemp("aside"), SCHEMA, SEED, branches=(DRAFT, SIDE))
    with open_session(template.original) as session:
        for number in range(LONG_HISTORY):
            put(session, PERSON, _person(f"s{number}"), SIDE)
        # Both sides have merged commits of the third one, so that a merge base is looked for there.
        merge_branch(session, SIDE, DRAFT)
        put(session, PERSON, _person("d"), DRAFT)
        put(session, PERSON, _person("m"))
        merge_branch(session, SIDE, MAIN)
    return template


@pytest.fixture
def session(template):
    with template.open() as session:
        yield session


def _person(name, age=None):
    return {name: {"name": name, "age": age}}


def _delete(session):
    """Delete the third branch as another process does."""
    with open_session(session.store.storage.root) as other:
        other.store.delete_branch(BranchName(SIDE))


def _delete_rows_first(session):
    """Delete the third branch as another process does that has just removed the first of its files."""
    runtime = Runtime.system()
    tear_at(runtime, "txn.branch_delete.after_end")
    with open_session(session.store.storage.root, runtime=runtime) as other:
        line = other.store.branch_incarnation(BranchName(SIDE)).lance_branch
        with pytest.raises(Torn):
            other.store.delete_branch(BranchName(SIDE))
    for path in session.store.storage.path(f"__manifest/tree/{line}/data").iterdir():
        path.unlink()


DELETIONS = {"at once": _delete, "its rows first": _delete_rows_first}


def _after_listing(session, action):
    """Let ``action`` happen once, when branches were listed and none of them was looked at."""
    refs, done = session.store.open_branches.refs, []
    listing = refs.names

    def names():
        found = listing()
        if not done:
            done.append(True)
            action(session)
        return found

    refs.names = names


def _after_opening(session, action):
    """Let ``action`` happen once, when the third branch was opened and its history was not read."""
    lines, done = session.store.open_branches, []
    opening = lines.snapshot

    def snapshot(branch):
        found = opening(branch)
        if branch == SIDE and not done:
            done.append(True)
            action(session)
        return found

    lines.snapshot = snapshot


MOMENTS = {"listed": _after_listing, "opened": _after_opening}


def _merge(session):
    assert merge_branch(session, DRAFT).commit is not None
    assert {"m", "d", "s0"} <= set(read_graph(session)[PERSON])


def _find_nothing(ask):
    def check(session):
        with pytest.raises(CommitMissingError):
            ask(session)

    return check


ASKING = {
    "a merge": _merge,
    "a preview of a merge": lambda session: preview_merge(session, DRAFT),
    "a listing": lambda session: session.list_branches(),
    "a commit": _find_nothing(lambda session: session.get_commit(str(NOBODY))),
    "a commit's changes": _find_nothing(lambda session: ChangeReader(session.store).commit_changes(str(NOBODY))),
    "a diff": _find_nothing(lambda session: diff_between(session.store, str(NOBODY), MAIN)),
    "a cleanup that looks": lambda session: session.cleanup(keep=1),
    "a cleanup": lambda session: session.cleanup(keep=1, confirm=True),
    "a status": lambda session: session.status(),
    "protected versions": lambda session: session.store.protected_versions(),
    "reclaimed versions": lambda session: session.store.reclaim_older([]),
    "a tag of an earlier state": lambda session: session.create_tag("t", "main~1"),
}


@pytest.mark.parametrize("deletion", first(1, DELETIONS))
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("asking", ASKING)
def test_an_operation_goes_on_without_a_branch_that_goes_meanwhile(session, asking, moment, deletion):
    MOMENTS[moment](session, DELETIONS[deletion])
    ASKING[asking](session)


def test_a_merge_starts_from_a_base_whose_branch_goes_meanwhile(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session:
        before = preview_merge(session, DRAFT)
        assert before.base == head_of(session, SIDE)
        change(session, 'delete Person where name = "s0"')
        runtime.failpoints.enable("history.merge.after_capture", lambda: _delete(session))
        # A branch that was merged keeps its states when it is deleted.
        assert merge_branch(session, DRAFT).base == before.base
        rows = set(read_graph(session)[PERSON])
        assert {"m", "d", "s1"} <= rows
        assert "s0" not in rows


def test_a_merge_whose_base_is_lost_meanwhile_is_refused_and_changes_nothing(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session:
        before = preview_merge(session, DRAFT)
        change(session, 'delete Person where name = "s0"')
        rows = read_graph(session)
        runtime.failpoints.enable("history.merge.after_capture", lambda: _delete_rows_first(session))
        with pytest.raises(HistoryGoneError) as refused:
            merge_branch(session, DRAFT)
        assert refused.value.details.commit_id == before.base
        assert read_graph(session) == rows


def test_conflicts_are_told_without_the_base_when_its_branch_goes(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session:
        put(session, PERSON, _person("s0", 1), DRAFT)
        change(session, 'update Person set { age: 2 } where name = "s0"')
        runtime.failpoints.enable("history.merge.after_capture", lambda: _delete(session))
        with pytest.raises(MergeConflictsError) as refused:
            merge_branch(session, DRAFT)
        assert [conflict.entity_id for conflict in refused.value.details.items] == ["s0"]
