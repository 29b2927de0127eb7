"""Whatever happened before it, a cleanup takes away exactly what nothing needs, and no writer is fooled by it."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import BranchInUseError, Effect, ExpectedVersionMismatchError, HistoryGoneError, OmnigraphError
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName, CommitId, TagName
from tests.auditor import audit
from tests.history_graph import (
    FILE,
    KNOWS,
    PERSON,
    SCHEMAS,
    SETTINGS,
    compact,
    create,
    index,
    open_store,
    read_rows,
    replace_all,
    rows_of,
    write,
)

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
# The stalled one says for an hour that it is alive, and the others do not believe it for long.
STALLED = replace(SETTINGS, grace_s=3600.0)
IMPATIENT = replace(SETTINGS, grace_s=0.02)
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)
POINTS = (
    "txn.stage.after_table",
    "txn.stage.after_files",
    "txn.claim.before_put",
    "txn.claim.after_put",
    "txn.commit.before_table",
    "txn.commit.after_tables",
    "txn.publish.before_cas",
    "txn.publish.after_cas",
)
ROW = {
    PERSON: {"age": 1, "weight": 0.5, "tags": ["a"], "born": None},
    FILE: {"content": b"x" * 200, "size": 1},
    KNOWS: {"src": "a", "dst": "b", "since": 1},
}
BRANCHES = st.sampled_from([MAIN, MAIN, "one", "two"])
TABLES = st.sampled_from(list(SCHEMAS))
IDS = st.sampled_from(["a", "b", "c"])
STEP = st.one_of(
    st.tuples(st.just("write"), BRANCHES, TABLES, IDS),
    st.tuples(st.just("write"), BRANCHES, TABLES, IDS),
    st.tuples(st.just("delete"), BRANCHES, TABLES, IDS),
    st.tuples(st.just("replace"), BRANCHES, TABLES, IDS),
    st.tuples(st.just("compact"), BRANCHES, TABLES),
    st.tuples(st.just("index"), BRANCHES, TABLES),
    st.tuples(st.just("branch"), BRANCHES, BRANCHES),
    st.tuples(st.just("merge"), BRANCHES, BRANCHES),
    st.tuples(st.just("unbranch"), BRANCHES),
    st.tuples(st.just("tag"), BRANCHES, IDS),
    st.tuples(st.just("untag"), IDS),
    st.tuples(st.just("clean"), st.integers(0, 3)),
    st.tuples(st.just("stall"), BRANCHES, TABLES, st.sampled_from(POINTS)),
    st.tuples(
        st.just("wake"),
    ),
)


class Stalled:
    """A writer of its own process, as far as the others can tell, that stops at a failpoint."""

    def __init__(self, storage, branch, table_key, point):
        self.branch, self.table_key = branch, table_key
        self.commit = self.error = None
        self._arrived, self._go = threading.Event(), threading.Event()
        self._world = Runtime.system()
        self._world.failpoints.enable(point, self._stop)
        self._store = open_store(storage, settings=STALLED, runtime=self._world)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._arrived.wait(300)

    def _stop(self):
        if not self._go.is_set():
            self._arrived.set()
            self._go.wait(300)

    def _run(self):
        try:
            self.commit = write(self._store, {self.table_key: {"late": ROW[self.table_key]}}, branch=self.branch)
        except OmnigraphError as error:
            self.error = error
        finally:
            self._arrived.set()

    def wake(self):
        self._go.set()
        self._thread.join(300)
        assert not self._thread.is_alive()
        self._store.close()


class Model:
    """The graph, and what it must hold."""

    def __init__(self, storage):
        self.storage = storage
        self.store = open_store(storage, settings=IMPATIENT)
        start = str(self.store.snapshot(BranchName(MAIN)).state.head.commit)
        self.heads = {MAIN: {key: {} for key in SCHEMAS}}
        self.states = {start: self.heads[MAIN]}
        self.line = {MAIN: [start]}
        self.tags = {}
        self.gone = set()
        self.stalled = None

    def close(self):
        self.wake()
        self.store.close()

    def run(self, kind, *what):
        self._learn()
        getattr(self, kind)(*what)
        self._learn()

    def write(self, branch, table_key, chosen):
        commit = write(self.store, {table_key: {chosen: ROW[table_key]}}, branch=self._known(branch))
        self._learn(commit, lambda state: state[table_key].update({chosen: ROW[table_key]}))

    def delete(self, branch, table_key, chosen):
        commit = write(self.store, {table_key: {chosen: None}}, branch=self._known(branch))
        self._learn(commit, lambda state: state[table_key].pop(chosen, None))

    def replace(self, branch, table_key, chosen):
        rows = {chosen: ROW[table_key], "only": ROW[table_key]}
        commit = self._attempt(lambda: replace_all(self.store, table_key, rows, branch=self._known(branch)))
        self._learn(commit, lambda state: state.update({table_key: dict(rows)}))

    def compact(self, branch, table_key):
        done = self._attempt(lambda: compact(self.store, table_key, branch=self._known(branch)))
        self._learn(done, lambda _: None)

    def index(self, branch, table_key):
        done = self._attempt(lambda: index(self.store, table_key, branch=self._known(branch)))
        self._learn(done, lambda _: None)

    def branch(self, source, name):
        source = self._known(source)
        if name not in self.heads:
            self.store.create_branch(BranchName(name), source=BranchName(source))
            self.heads[name] = self.heads[source]
            self.line[name] = list(self.line[source])

    def unbranch(self, name):
        if name == MAIN or name not in self.heads or (self.stalled and self.stalled.branch == name):
            return
        try:
            self.store.delete_branch(BranchName(name))
        except BranchInUseError:
            return
        del self.heads[name], self.line[name]

    def merge(self, source, target):
        """Join two histories; what a merge makes of the rows is not what is looked at here."""
        source, target = self._known(source), self._known(target)
        if source == target:
            return
        branch_writer = self.store.branch_writer(BranchName(target))
        txn = branch_writer.begin(WriteKind.BRANCH_MERGE, merged_parent=CommitId(self.line[source][-1]))
        txn.upsert(PERSON, rows_of(PERSON, {"merged": ROW[PERSON]}))
        commit = branch_writer.commit(txn).commit
        self._learn(commit, lambda state: state[PERSON].update({"merged": ROW[PERSON]}))

    def tag(self, branch, name):
        branch = self._known(branch)
        if name not in self.tags:
            self.store.create_tag(TagName(name), branch)
            self.tags[name] = self.line[branch][-1]

    def untag(self, name):
        if self.tags.pop(name, None) is not None:
            self.store.delete_tag(TagName(name))

    def stall(self, branch, table_key, point):
        if self.stalled is None:
            self.stalled = Stalled(self.storage, self._known(branch), table_key, point)

    def wake(self):
        late, self.stalled = self.stalled, None
        if late is None:
            return
        late.wake()
        if late.commit is None:
            assert late.error is not None
            assert late.error.effect is Effect.NONE, late.error
        self._learn()
        is_there = late.commit is not None and str(late.commit.id) in self.line[late.branch]
        assert is_there == (late.commit is not None)

    def clean(self, keep):
        done = Cleanup(self.store, Retention(keep=keep), AT_ONCE, Runtime.system()).run()
        assert [item.error for item in done.datasets if item.error] == []
        self._learn()
        again = Cleanup(self.store, Retention(keep=keep), AT_ONCE, Runtime.system()).preview()
        assert again.datasets == () or self.stalled is not None
        with open_store(self.storage, mode="read_only") as other:
            self.check(other, keep)

    def check(self, other, keep):
        for branch, rows in self.heads.items():
            assert read_rows(other.snapshot(BranchName(branch))) == rows, branch
        for name, commit in self.tags.items():
            state = other.refs.resolve_ref(f"tag:{name}", BranchName(MAIN))
            assert read_rows(state.snapshot) == self.states[commit]
        for branch, line in self.line.items():
            for place, commit in enumerate(reversed(line)):
                try:
                    snapshot = other.snapshot_at(BranchName(branch), CommitId(commit))
                    found = read_rows(snapshot)
                except HistoryGoneError:
                    # An inherited state is kept by the branch that it landed on.
                    is_over = place >= max(keep, 1) or self._landed_elsewhere(other, branch, commit)
                    assert is_over or commit in self.gone
                    self.gone.add(commit)
                else:
                    assert commit not in self.gone
                    assert found == self.states[commit]

    def _landed_elsewhere(self, other, branch, commit):
        return other.refs.show(CommitId(commit), BranchName(branch)).branch != branch

    def _attempt(self, change):
        """Do what is built upon a table as it stands: whoever ends the stalled writer's work moves its table."""
        try:
            return change()
        except ExpectedVersionMismatchError:
            assert self.stalled is not None
            self._learn()
            return change()

    def _known(self, branch):
        return branch if branch in self.heads else MAIN

    def _learn(self, own=None, apply=None):
        """Take in what was committed, by the stalled writer and by recoveries too; those change no row."""
        for branch in self.heads:
            newest = self.store.snapshot(BranchName(branch))
            known, fresh = set(self.line[branch]), []
            for commit in self.store.iter_commits(newest):
                if str(commit.id) in known:
                    break
                fresh.append(commit)
            for commit in reversed(fresh):
                after = copy.deepcopy(self.heads[branch])
                if own is not None and commit.id == own.id:
                    apply(after)
                elif commit.operation != "recovery":
                    assert commit.operation == "load_merge"
                    after[commit.touched[0]]["late"] = ROW[commit.touched[0]]
                self.heads[branch] = self.states[str(commit.id)] = after
                self.line[branch].append(str(commit.id))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("cleanup") / "graph"
    create(root)
    return root


@pytest.mark.timeout(3600 if LONG else 600)
@settings(
    max_examples=400 if LONG else 6,
    deadline=None,
    phases=list(Phase) if LONG else [Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@example(
    steps=[
        ("write", MAIN, PERSON, "b"),
        ("stall", MAIN, PERSON, "txn.commit.after_tables"),
        ("replace", MAIN, FILE, "b"),
        ("replace", MAIN, PERSON, "c"),
    ],
    keep=2,
)
@example(
    steps=[
        ("write", MAIN, PERSON, "b"),
        ("stall", MAIN, PERSON, "txn.commit.after_tables"),
        ("replace", MAIN, PERSON, "c"),
    ],
    keep=2,
)
@given(steps=st.lists(STEP, min_size=6, max_size=18), keep=st.integers(0, 2))
def test_a_cleanup_keeps_what_is_needed_and_a_stalled_writer_publishes_rightly_or_not_at_all(template, steps, keep):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "graph"
        shutil.copytree(template, root)
        model = Model(Storage.open(str(root)))
        try:
            for step in steps:
                model.run(*step)
            model.clean(keep)
            model.wake()
            model.clean(keep)
            # Whatever went, the graph goes on.
            model.write(MAIN, PERSON, "a")
            model.clean(1)
        finally:
            model.close()
        assert audit(str(root), edges={}) == []
