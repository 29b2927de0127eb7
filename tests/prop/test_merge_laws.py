"""Laws of merging whole branches: against the model, twice, in either order, in both directions."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import BranchInUseError, HistoryGoneError, MergeConflictsError
from omnigraph.history.merge import MergeOutcome, merge_branch, preview_merge
from omnigraph.runtime import Runtime
from omnigraph.values import BranchName
from tests.merge_graph import head_of, history_of, put
from tests.prop.model_merge import merge_values
from tests.session_graph import create_graph, open_session, read_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
ITEM = "node:Item"
BRANCHES = ("main", "one", "two")
_IDS = ("a", "b", "c", "d")
_rows = st.dictionaries(st.sampled_from(_IDS), st.sampled_from([None, 1, 2, 3]), min_size=1, max_size=3)
_pairs = st.sampled_from(list(permutations(BRANCHES, 2)))
_steps = st.lists(
    st.one_of(st.tuples(st.just("put"), st.sampled_from(BRANCHES), _rows), st.tuples(st.just("merge"), _pairs)),
    min_size=3,
    max_size=9,
)
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)
_others = st.sampled_from(BRANCHES[1:])
_cleaned_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(BRANCHES), _rows),
        st.tuples(st.just("merge"), _pairs),
        st.tuples(st.just("merge"), _pairs),
        st.tuples(st.just("unbranch"), _others),
        st.tuples(st.just("branch"), _others, st.sampled_from(BRANCHES), st.integers(0, 3)),
        st.tuples(st.just("tag"), st.sampled_from(BRANCHES)),
        st.tuples(st.just("clean"), st.integers(0, 2)),
    ),
    min_size=6,
    max_size=14,
)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    root = tmp_path_factory.mktemp("laws") / "graph"
    create_graph(root, "node Item { size: I32? }")
    with open_session(root) as session:
        put(session, ITEM, {"a": {"size": 1}, "b": {"size": 1}})
        for name in BRANCHES[1:]:
            session.store.create_branch(BranchName(name))
    return root


class Twin:
    """The same branches as dictionaries: rows by commit, and every commit with its parents."""

    def __init__(self, session):
        self.session = session
        self.rows = {head_of(session): sizes(session, "main")}
        self.parents = {head_of(session): ()}

    def learn(self, branch):
        """Remember the newest commit of a branch."""
        newest = history_of(self.session, branch)[0]
        self.parents[newest.id] = tuple(parent for parent in (newest.parent, newest.merged_parent) if parent)
        self.rows[newest.id] = sizes(self.session, branch)

    def ancestors(self, commit):
        """A commit and everything behind it."""
        return {commit}.union(*(self.ancestors(parent) for parent in self.parents[commit]))

    def best_bases(self, one, other):
        """The common ancestors that no other common ancestor has behind it."""
        common = self.ancestors(one) & self.ancestors(other)
        return {base for base in common if not any(base in self.ancestors(more) - {more} for more in common)}


def sizes(session, branch):
    """The rows of a branch, a number for each."""
    return {entity_id: row["size"] for entity_id, row in read_graph(session, branch)[ITEM].items()}


def _put(session, branch, values):
    rows = {entity_id: None if size is None else {"size": size} for entity_id, size in values.items()}
    put(session, ITEM, rows, branch)


def _merge(twin, source, target):
    session = twin.session
    heads = head_of(session, source), head_of(session, target)
    ours, theirs = sizes(session, target), sizes(session, source)
    there, back = preview_merge(session, source, target), preview_merge(session, target, source)
    assert there.base in twin.best_bases(*heads)
    base = twin.rows[there.base]
    merged, conflicts = merge_values(base, theirs, ours)
    assert {item.entity_id: item.kind for item in there.conflicts} == conflicts
    assert {item.entity_id for item in back.conflicts} == set(conflicts)
    if conflicts:
        with pytest.raises(MergeConflictsError):
            merge_branch(session, source, target)
        assert (sizes(session, target), head_of(session, target)) == (ours, heads[1])
        return
    result = merge_branch(session, source, target)
    found = sizes(session, target)
    assert found == merged
    untouched = {key for key in _IDS if base.get(key) == ours.get(key) == theirs.get(key)}
    assert all(found.get(key) == base.get(key) for key in untouched)
    assert (result.outcome, result.commit is None) == (there.outcome, heads[0] == there.base)
    if result.commit is not None:
        twin.learn(target)
    again = merge_branch(session, source, target)
    assert (again.outcome, again.commit) == (MergeOutcome.ALREADY_UP_TO_DATE, None)
    assert head_of(session, source) == heads[0]


@given(steps=_steps)
@settings(max_examples=100 if LONG else 12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_writes_and_merges_equals_the_model(original, steps):
    with tempfile.TemporaryDirectory() as folder:
        root = shutil.copytree(original, Path(folder) / "graph")
        with open_session(root) as session:
            twin = Twin(session)
            for step in steps:
                if step[0] == "put":
                    _put(session, step[1], step[2])
                    twin.learn(step[1])
                else:
                    _merge(twin, *step[1])


@given(first=_rows, second=_rows)
@settings(max_examples=40 if LONG else 6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_disjoint_merges_does_not_matter(original, first, second):
    second = {entity_id: size for entity_id, size in second.items() if entity_id not in first}
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for number, order in enumerate(permutations(BRANCHES[1:])):
            root = shutil.copytree(original, Path(folder) / str(number))
            with open_session(root) as session:
                _put(session, "one", first)
                _put(session, "two", second or {"z": 9})
                for name in order:
                    merge_branch(session, name)
                found.append(sizes(session, "main"))
        assert found[0] == found[1]


class Pair:
    """A graph that is cleaned up, and one that is not, with the same branches and rows."""

    def __init__(self, cleaned, whole):
        self.graphs = cleaned, whole
        self.branches = set(BRANCHES)
        self.tags = 0

    def run(self, kind, *what):
        """Do the same in both, and expect the same."""
        if kind == "clean":
            Cleanup(self.graphs[0].store, Retention(keep=what[0]), AT_ONCE, Runtime.system()).run()
        elif kind == "branch" and what[0] not in self.branches:
            self._start(*what)
        elif kind == "unbranch" and what[0] in self.branches:
            done = [self._deleted(graph, what[0]) for graph in self.graphs]
            assert done[0] == done[1]
            self.branches -= {what[0]} if done[0] else set()
        elif kind == "tag" and what[0] in self.branches:
            self.tag(what[0])
        elif kind == "put" and what[0] in self.branches:
            for graph in self.graphs:
                _put(graph, what[0], what[1])
        elif kind == "merge" and self.branches.issuperset(what[0]):
            outcomes = [self._merged(graph, *what[0]) for graph in self.graphs]
            assert outcomes[0] == outcomes[1]
        for name in self.branches:
            assert sizes(self.graphs[0], name) == sizes(self.graphs[1], name)

    def tag(self, branch):
        """Give the head of a branch a name in both."""
        self.tags += 1
        for graph in self.graphs:
            graph.create_tag(f"t{self.tags}", branch)

    def _start(self, name, source, back):
        """Begin a branch, unless the cleanup took where it would begin."""
        if source not in self.branches or back >= len(history_of(self.graphs[0], source)):
            return
        try:
            for graph in self.graphs:
                graph.create_branch(name, at=f"{source}~{back}")
        except HistoryGoneError:
            return
        self.branches.add(name)

    def _deleted(self, graph, name):
        try:
            graph.delete_branch(name)
        except BranchInUseError:
            return False
        return True

    def _merged(self, graph, source, target):
        try:
            return merge_branch(graph, source, target).outcome
        except MergeConflictsError as error:
            return {item.entity_id: item.kind for item in error.details.items}


_BROUGHT = [("put", "one", {"d": 1}), ("merge", ("one", "main")), ("merge", ("one", "two")), ("unbranch", "one")]
_MOVED = [("put", "main", {"b": 2}), ("put", "two", {"c": 2}), ("clean", 0)]


@example(steps=[*_BROUGHT, ("put", "main", {"d": None}), *_MOVED, ("merge", ("two", "main"))])
@example(steps=[*_BROUGHT, ("put", "two", {"d": None}), *_MOVED, ("merge", ("main", "two"))])
@given(steps=_cleaned_steps)
@settings(max_examples=150 if LONG else 10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_merge_gives_the_same_rows_with_and_without_a_cleanup_before_it(original, monkeypatch, steps):
    # As if ten minutes had passed: no version of a manifest is young.
    monkeypatch.setattr("omnigraph.engine.maintenance.cleanup._FENCE_S", 0)
    with tempfile.TemporaryDirectory() as folder:
        roots = [shutil.copytree(original, Path(folder) / name) for name in ("cleaned", "whole")]
        with open_session(roots[0]) as cleaned, open_session(roots[1]) as whole:
            pair = Pair(cleaned, whole)
            for step in steps:
                pair.run(*step)
