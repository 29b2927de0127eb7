"""Whatever branches write, merge, undo and delete: states, logs and authors are those of a page of dictionaries."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import BranchInUseError, CommitMissingError, MergeConflictsError, RevertRefusedError
from omnigraph.history.feed.blame import blame
from omnigraph.history.merge import merge_branch, revert_commit
from omnigraph.runtime import Runtime
from omnigraph.txn.refs import LogFilter
from omnigraph.values import MAIN, BranchName, CommitId, Ulid
from tests.merge_graph import put
from tests.prop.model_lineage import LineageModel
from tests.session_graph import create_graph, open_session, read_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
PERSON = "node:Person"
SCHEMA = "node Person { name: String @key  a: I32?  b: I32?  c: I32? }"
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)
BRANCHES = st.sampled_from([MAIN, MAIN, "one", "two", "three", "four"])
IDS = st.sampled_from(["x", "y", "z"])
CHANGES = st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=2)
CHANGES_OF_SCHEMAS = st.sampled_from(["add", "add", "rename", "widen", "lose"])
MODES = st.sampled_from([None, "ours", "theirs", "properties", "properties"])
STEP = st.one_of(
    st.tuples(st.just("write"), BRANCHES, IDS, CHANGES),
    st.tuples(st.just("write"), BRANCHES, IDS, CHANGES),
    st.tuples(st.just("write"), BRANCHES, IDS, CHANGES),
    st.tuples(st.just("remove"), BRANCHES, IDS),
    st.tuples(st.just("fork"), BRANCHES, BRANCHES),
    st.tuples(st.just("fork"), BRANCHES, BRANCHES),
    st.tuples(st.just("merge"), BRANCHES, BRANCHES, MODES),
    st.tuples(st.just("merge"), BRANCHES, BRANCHES, MODES),
    st.tuples(st.just("merge"), BRANCHES, BRANCHES, MODES),
    st.tuples(st.just("undo"), BRANCHES, st.integers(0, 4), st.sampled_from([None, "ours", "theirs"])),
    st.tuples(st.just("drop"), BRANCHES),
    st.tuples(st.just("drop"), BRANCHES),
    st.tuples(st.just("schema"), BRANCHES, CHANGES_OF_SCHEMAS, st.integers(0, 3), st.sampled_from("abcdef")),
    st.tuples(st.just("schema"), BRANCHES, CHANGES_OF_SCHEMAS, st.integers(0, 3), st.sampled_from("abcdef")),
)


class Twin:
    """A graph, and the model that it has to agree with."""

    def __init__(self, root):
        self.session = open_session(root)
        self.store = self.session.store
        self.model = LineageModel(str(self.store.snapshot(BranchName(MAIN)).state.head.commit), ("name", *"abc"))

    def run(self, kind, *what):
        getattr(self, f"do_{kind}")(*what)

    def do_write(self, branch, entity_id, changes):
        branch = self._known(branch)
        rows, names = self.model.rows(branch), self._others(branch)
        # A letter stands for the property of that name, or for some other one where there is none.
        changes = {
            letter if letter in names else names[place % len(names)]: value
            for place, (letter, value) in enumerate(changes.items())
            if names
        }
        row = {"name": entity_id} | dict.fromkeys(names) | rows.get(entity_id, {}) | changes
        self._learn(branch, put(self.session, PERSON, {entity_id: row}, branch).commit, rows | {entity_id: row})

    def do_remove(self, branch, entity_id):
        branch = self._known(branch)
        rows = {other: row for other, row in self.model.rows(branch).items() if other != entity_id}
        self._learn(branch, put(self.session, PERSON, {entity_id: None}, branch).commit, rows)

    def do_schema(self, branch, kind, place, letter):
        """Change the schema of a branch: a property comes, goes, is called otherwise, or gets a wider type."""
        branch = self._known(branch)
        names, properties = self._others(branch), dict(self.model.properties(branch))
        if (kind == "add") == (letter in properties) and kind in ("add", "rename"):
            return
        if kind != "add" and not names:
            return
        old = None if kind == "add" else names[place % len(names)]
        hint = {}
        if kind == "add":
            properties[letter] = self.model.fresh()
        elif kind == "lose":
            del properties[old]
        elif kind == "widen":
            properties[old] = replace(properties[old], is_wide=True)
        elif letter not in properties:
            properties[letter] = properties.pop(old)
            hint = {letter: f'@rename_from("{old}")'}
        else:
            return
        lines = [
            f"{name}: {'I64' if found.is_wide else 'I32'}? {hint.get(name, '')}"
            for name, found in properties.items()
            if name != "name"
        ]
        text = f"node Person {{ name: String @key  {' '.join(lines)} }}"
        rows = self.model.commits[self.model.heads[branch]].rows_as(properties)
        self._learn(branch, self.session.apply_schema(text, branch=branch).commit, rows, properties=properties)

    def _others(self, branch):
        return sorted(set(self.model.properties(branch)) - {"name"})

    def do_fork(self, source, name):
        source = self._known(source)
        if name not in self.model.heads:
            self.store.create_branch(BranchName(name), source=BranchName(source))
            self.model.heads[name] = self.model.heads[source]

    def do_merge(self, source, target, resolve):
        source, target = self._known(source), self._known(target)
        if source == target:
            return
        heads = self.model.heads[source], self.model.heads[target]
        try:
            done = merge_branch(self.session, source, target, resolve=resolve)
        except MergeConflictsError:
            bases = self.model.best_bases(*heads)
            assert not all(self.model.merged_rows(base, *heads, resolve)[2] for base in bases)
            return
        assert done.base in self.model.best_bases(*heads)
        if done.commit is None:
            assert heads[0] in self.model.ancestors(heads[1])
            return
        rows, properties, is_decided = self.model.merged_rows(done.base, *heads, resolve)
        assert is_decided
        self._learn(target, done.commit, rows, merged=heads[0], properties=properties)

    def do_undo(self, branch, steps, resolve):
        branch = self._known(branch)
        line = self.model.line(branch)
        if steps + 1 >= len(line):
            return
        head, undone, before = line[0], line[steps], line[steps + 1]
        try:
            done = revert_commit(self.session, undone, branch, resolve=resolve)
        except (MergeConflictsError, RevertRefusedError):
            return
        rows, properties, _ = self.model.merged_rows(undone, before, head, resolve)
        self._learn(branch, done.commit, rows, properties=properties)

    def do_drop(self, name):
        if name == MAIN or name not in self.model.heads:
            return
        try:
            self.store.delete_branch(BranchName(name))
        except BranchInUseError:
            return
        del self.model.heads[name]

    def _known(self, branch):
        return branch if branch in self.model.heads else MAIN

    def _learn(self, branch, commit, rows, merged=None, properties=None):
        if commit is not None:
            self.model.commit(branch, str(commit.id), rows, merged, properties)
        assert str(self.store.snapshot(BranchName(branch)).state.head.commit) == self.model.heads[branch]

    def check(self, session, *, is_whole):
        """Compare everything; when not ``is_whole`` states may be gone, and then authors are unknown."""
        for branch in self.model.heads:
            self._check_log(session, branch)
            for entity_id, row in self.model.rows(branch).items():
                self._check_authors(session, branch, entity_id, row, is_whole=is_whole)
        if is_whole:
            self._check_states(session)

    def _check_log(self, session, branch):
        refs, name = session.store.refs, BranchName(branch)
        listed = [str(commit.id) for commit in refs.log(name, LogFilter(), 1000, None).commits]
        assert listed == self.model.line(branch)
        full, after = [], None
        while True:
            page = refs.log(name, LogFilter(), 7, after, is_full=True)
            full += page.commits
            after = page.following
            if after is None:
                break
        ids = [str(commit.id) for commit in full]
        assert len(ids) == len(set(ids))
        assert set(ids) == self.model.ancestors(self.model.heads[branch])
        for place, commit in enumerate(full):
            parents = {commit.parent, commit.merged_parent} - {None}
            assert not parents & {other.id for other in full[:place]}, "a parent came before its child"

    def _check_authors(self, session, branch, entity_id, row, *, is_whole):
        found = blame(session.store, PERSON, entity_id, branch=branch, limit=1000)
        assert {one.name for one in found.properties} == set(row)
        assert is_whole == (found.known_since is None) or not is_whole
        for one in found.properties:
            author, merge = self.model.commits[self.model.heads[branch]].written[entity_id][one.name]
            if author is None:
                # The row is older than the property, or than its coming back: no commit set the value.
                assert row[one.name] is None
            elif is_whole or one.author is not None:
                assert (str(one.author.id), None if one.merge is None else str(one.merge.id)) == (author, merge)
        for event in found.events:
            assert [one.name for one in event.authors] == list(event.changed)

    def _check_states(self, session):
        reachable = set().union(*(self.model.ancestors(head) for head in self.model.heads.values()))
        for commit_id, commit in self.model.commits.items():
            wanted = CommitId(Ulid(commit_id))
            if commit_id not in reachable:
                with pytest.raises(CommitMissingError):
                    session.store.refs.show(wanted, BranchName(MAIN))
                continue
            assert session.store.refs.show(wanted, BranchName(MAIN)).id == wanted
            rows = session.store.snapshot_at(BranchName(MAIN), wanted).table(PERSON).read().to_pylist()
            assert {row.pop("id"): row for row in rows} == commit.rows
        for branch in self.model.heads:
            assert read_graph(session, branch)[PERSON] == self.model.rows(branch)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("lineage") / "graph"
    create_graph(root, SCHEMA, "")
    return root


@pytest.mark.timeout(3600 if LONG else 300)
@settings(
    max_examples=500 if LONG else 4,
    deadline=None,
    phases=list(Phase) if LONG else [Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@example(
    # A branch of a branch is merged through it, both go, and the name of one is used again.
    steps=[
        ("write", MAIN, "x", {"a": 1}),
        ("fork", MAIN, "one"),
        ("write", "one", "x", {"b": 2}),
        ("fork", "one", "two"),
        ("write", "two", "x", {"c": 3}),
        ("write", "one", "y", {"a": 1}),
        ("merge", "two", "one", "properties"),
        ("drop", "two"),
        ("fork", "one", "two"),
        ("write", "two", "y", {"b": 1}),
        ("drop", "two"),
        ("merge", "one", MAIN, None),
        ("drop", "one"),
        ("undo", MAIN, 0, None),
    ],
    keep=1,
)
@example(
    # A branch that merges main and is merged again and again, with a third one that both of them have.
    steps=[
        ("write", MAIN, "x", {"a": 1}),
        ("fork", MAIN, "one"),
        ("fork", MAIN, "two"),
        ("write", "two", "z", {"a": 1}),
        ("merge", "two", "one", None),
        ("write", "one", "x", {"b": 1}),
        ("write", MAIN, "x", {"c": 1}),
        ("merge", MAIN, "one", "properties"),
        ("merge", "one", MAIN, None),
        ("write", "two", "z", {"b": 2}),
        ("merge", "two", MAIN, None),
        ("drop", "two"),
        ("write", "one", "x", {"b": 3}),
        ("write", MAIN, "x", {"b": 2, "a": 0}),
        ("merge", MAIN, "one", "theirs"),
        ("write", "one", "z", {"c": 2}),
        ("merge", "one", MAIN, "ours"),
        ("drop", "one"),
    ],
    keep=3,
)
@example(
    # Both sides change the schema, meet, go on with it, and meet again in the other direction.
    steps=[
        ("write", MAIN, "x", {"a": 1, "b": 2}),
        ("fork", MAIN, "one"),
        ("schema", "one", "add", 0, "d"),
        ("schema", MAIN, "add", 0, "d"),
        ("schema", "one", "rename", 0, "e"),
        ("write", "one", "x", {"e": 3}),
        ("write", MAIN, "x", {"b": 4}),
        ("write", MAIN, "y", {"a": 2, "d": 1}),
        ("schema", MAIN, "widen", 1, "a"),
        ("merge", "one", MAIN, "properties"),
        ("write", "one", "z", {"d": 2}),
        ("schema", "one", "lose", 0, "a"),
        ("write", MAIN, "y", {"e": 5}),
        ("merge", MAIN, "one", None),
        ("merge", MAIN, "one", "theirs"),
        ("undo", MAIN, 0, None),
        ("merge", "one", MAIN, "ours"),
        ("drop", "one"),
    ],
    keep=2,
)
@given(steps=st.lists(STEP, min_size=8, max_size=26), keep=st.integers(1, 4))
def test_states_logs_and_authors_are_those_of_the_model(template, steps, keep):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "graph"
        shutil.copytree(template, root)
        twin = Twin(root)
        try:
            for step in steps:
                twin.run(*step)
            with open_session(root, mode="read_only") as other:
                twin.check(other, is_whole=True)
            Cleanup(twin.store, Retention(keep=keep), AT_ONCE, Runtime.system()).run()
            with open_session(root, mode="read_only") as other:
                twin.check(other, is_whole=False)
            twin.do_write(MAIN, "x", {"a": 9})
        finally:
            twin.session.close()
