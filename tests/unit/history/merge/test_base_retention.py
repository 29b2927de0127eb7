"""A merge after a cleanup gives the rows that it would have given before, or is refused."""

from __future__ import annotations

import pytest
from tests.merge_graph import Template, change, head_of
from tests.session_graph import open_session, read_graph

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import Effect, HistoryGoneError
from omnigraph.history.merge import merge_branch, preview_merge
from omnigraph.runtime import Runtime
from omnigraph.values import MAIN, BranchName

SCHEMA = "node Person { name: String @key  age: I32? }"
SEED = '{"type": "Person", "data": {"name": "seed", "age": 0}}'
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)
ENDED = "ended"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("bases"), SCHEMA, SEED, branches=())


@pytest.fixture
def session(template, monkeypatch):
    # As if ten minutes had passed: no version of a manifest is young.
    monkeypatch.setattr("omnigraph.engine.maintenance.cleanup._FENCE_S", 0)
    with template.open() as session:
        yield session


def clean(session, keep=1):
    return Cleanup(session.store, Retention(keep=keep), AT_ONCE, Runtime.system()).run()


def insert(session, name, branch=MAIN):
    change(session, f'insert Person {{ name: "{name}", age: 1 }}', branch)


def remove(session, name, branch=MAIN):
    change(session, f'delete Person where name = "{name}"', branch)


def names(session, branch=MAIN):
    return set(read_graph(session, branch)["node:Person"])


def bring_to_both(session, *others):
    """A branch that is merged into main and others, and then deleted; return the commit that all of them have."""
    for name in (*others, ENDED):
        session.create_branch(name)
    insert(session, "x", ENDED)
    for target in (MAIN, *others):
        merge_branch(session, ENDED, target)
    base = head_of(session, ENDED)
    session.delete_branch(ENDED)
    return base


def go_on(session, *branches):
    """Let every branch move far enough for a cleanup to take what it was at before."""
    for branch in branches:
        for number in range(3):
            insert(session, f"{branch}{number}", branch)


def clean_in_passing(session):
    """Clean up twice, each time in a process that has just come."""
    for _ in range(2):
        with open_session(session.store.storage.root) as other:
            clean(other)


def test_a_row_that_was_deleted_since_the_base_does_not_come_back(session):
    base = bring_to_both(session, "a")
    remove(session, "x")
    go_on(session, MAIN, "a")
    clean_in_passing(session)
    assert preview_merge(session, "a").base == base
    merge_branch(session, "a")
    assert "x" not in names(session)
    assert {"a0", "main0", "seed"} <= names(session)


def test_a_row_that_was_deleted_before_the_base_and_made_again_stays(session):
    for name in ("a", ENDED):
        session.create_branch(name)
    remove(session, "seed", ENDED)
    for target in (MAIN, "a"):
        merge_branch(session, ENDED, target)
    session.delete_branch(ENDED)
    change(session, 'insert Person { name: "seed", age: 0 }')
    go_on(session, MAIN, "a")
    clean_in_passing(session)
    merge_branch(session, "a")
    assert "seed" in names(session)


def test_only_states_that_a_merge_can_start_from_are_kept(session):
    base = bring_to_both(session, "a")
    go_on(session, MAIN, "a")
    kept = clean(session).protected
    ended = [why for name, _, why in kept if name == ENDED]
    assert ended == ["merge base"]
    session.store.snapshot_at(BranchName(MAIN), base).table("node:Person").read()
    merge_branch(session, "a")
    # From here on the head of the branch is behind both, and nothing starts from what was merged before.
    go_on(session, MAIN, "a")
    assert ENDED not in {name for name, _, _ in clean(session).protected}
    with pytest.raises(HistoryGoneError):
        session.store.snapshot_at(BranchName(MAIN), base)
    remove(session, "x", "a")
    merge_branch(session, "a")
    assert "x" not in names(session)


def test_a_branch_of_a_later_state_does_not_keep_what_was_merged_before_it(session):
    for number in range(4):
        session.create_branch(ENDED)
        insert(session, f"e{number}", ENDED)
        merge_branch(session, ENDED)
        session.delete_branch(ENDED)
    insert(session, "later")
    session.create_branch("a")
    go_on(session, MAIN, "a")
    assert {why for _, _, why in clean(session).protected} == {"fork"}


def test_crossing_merges_keep_every_base_and_merges_of_merges_lead_to_them(session):
    for name in ("a", "b", "c"):
        session.create_branch(name)
    bring_to_both(session, "d")
    # The branch that was merged comes to others by a second and a third merge only.
    merge_branch(session, "d", "a")
    merge_branch(session, "a", "b")
    merge_branch(session, MAIN, "c")
    merge_branch(session, "b", "c")
    for name in ("a", "d"):
        session.delete_branch(name)
    remove(session, "x", "b")
    go_on(session, MAIN, "b", "c")
    before = {pair: preview_merge(session, *pair).base for pair in (("b", MAIN), ("c", MAIN), ("b", "c"))}
    clean_in_passing(session)
    for pair, base in before.items():
        assert preview_merge(session, *pair).base == base
    merge_branch(session, "b")
    merge_branch(session, "c")
    assert "x" not in names(session)


def test_a_tag_and_a_kept_state_start_branches_that_merge_as_before(session):
    session.create_branch("a")
    insert(session, "x", "a")
    merge_branch(session, "a")
    session.create_tag("early")
    insert(session, "y", "a")
    merge_branch(session, "a")
    late = head_of(session)
    remove(session, "x", "a")
    merge_branch(session, "a")
    go_on(session, "a")
    clean(session, keep=3)
    for name, at in (("early", "tag:early"), ("late", str(late))):
        session.create_branch(name, at=at)
        merge_branch(session, "a", name)
        assert "x" not in names(session, name)
        assert {"a0", "a1", "a2", "y"} <= names(session, name)


@pytest.mark.parametrize("merge", [merge_branch, preview_merge])
def test_a_merge_whose_base_is_gone_is_refused_with_a_way_forward(session, merge):
    base = bring_to_both(session, "a")
    remove(session, "x")
    go_on(session, MAIN, "a")
    head, before = head_of(session), names(session)
    for path in session.store.storage.path("__manifest/tree").glob(f"{ENDED}*/_versions/*"):
        path.unlink()
    with open_session(session.store.storage.root) as other, pytest.raises(HistoryGoneError) as refused:
        merge(other, "a")
    assert refused.value.details.commit_id == base
    assert refused.value.effect is Effect.NONE
    assert "'a'" in refused.value.message
    assert "'main'" in refused.value.message
    assert "omnigraph diff" in refused.value.hint
    assert (head_of(session), names(session)) == (head, before)


def test_a_merge_whose_lineage_is_lost_is_refused(session):
    bring_to_both(session, "a")
    remove(session, "x")
    go_on(session, MAIN, "a")
    control = session.store.stores.control
    control.delete_keys(control.list_keys("__merges"))
    with open_session(session.store.storage.root) as other, pytest.raises(HistoryGoneError):
        merge_branch(other, "a")


def test_the_name_of_a_branch_that_is_gone_says_nothing_about_its_commits(session):
    session.create_branch("a")
    insert(session, "x", "a")
    session.create_branch("child", "a")
    insert(session, "y", "child")
    merge_branch(session, "child")
    session.delete_branch("child")
    remove(session, "x")
    # Another branch of that name has the commits by the merge, not because it came from there.
    session.create_branch("child")
    insert(session, "more", "a")
    merge_branch(session, "a", "child")
    assert names(session, "child") == {"seed", "y", "more"}
