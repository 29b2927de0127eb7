"""Laws of merging whole branches: against the model, twice, in either order, in both directions."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import MergeConflictsError
from omnigraph.history.merge import MergeOutcome, merge_branch, preview_merge
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
