"""For every history the chosen merge base is a best common ancestor, however little of the history is read."""

from __future__ import annotations

import os
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.maintenance.bases import Made, MergeBases
from omnigraph.history.merge.ancestry import SupportsLines, best_common_ancestor
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.manifest.merged import MergedCommit
from tests.commit_lines import History

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

_BRANCHES = ("main", "one", "two", "three")


@st.composite
def histories(draw):
    """Branches that commit, fork, and merge heads or older commits of each other."""
    history = History()
    for number in range(draw(st.integers(0, 22))):
        live = sorted(history.heads)
        branch = draw(st.sampled_from(live))
        action = draw(st.sampled_from(["commit", "fork", "merge", "merge_older"]))
        missing = [name for name in _BRANCHES if name not in history.heads]
        if action == "fork" and missing:
            history.fork(draw(st.sampled_from(missing)), branch)
        elif action.startswith("merge") and len(live) > 1:
            other = draw(st.sampled_from([name for name in live if name != branch]))
            line = [commit.id for commit in history.line(other)]
            at = line[draw(st.integers(0, len(line) - 1))] if action == "merge_older" else line[0]
            history.merge(branch, other, f"c{number}", at=at)
        else:
            history.commit(branch, f"c{number}")
    return history


def _best(history, source, target):
    """The common ancestors that are no proper ancestor of another one."""
    common = history.ancestors(source) & history.ancestors(target)
    return {one for one in common if not any(one != other and one in history.ancestors(other) for other in common)}


@given(histories(), st.data())
@settings(max_examples=150 if LONG else 40, deadline=None)
def test_the_base_is_a_best_common_ancestor(history, data):
    names = sorted(history.heads)
    source, target = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    heads = history.heads[source], history.heads[target]
    found = best_common_ancestor(history.commits, *heads)
    assert found.id in _best(history, *heads)
    assert found == best_common_ancestor(history.commits, heads[1], heads[0])


@given(histories(), st.data())
@settings(max_examples=150 if LONG else 40, deadline=None)
def test_reading_only_what_is_needed_gives_the_same_base(history, data):
    names = sorted(history.heads)
    source, target = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    lines = SupportsLines(brought=history.brought)
    found = lines.base_of(history.line(source), history.line(target))
    assert found == best_common_ancestor(history.commits, history.heads[source], history.heads[target])
    fresh = history.ancestors(history.heads[source]) - history.ancestors(history.heads[target])
    stretch, stops = lines.new_commits()
    assert [commit.id for commit in stretch] == [commit.id for commit in history.line(source) if commit.id in fresh]
    assert _expanded(history, stretch, stops) == fresh


def _kept(history, starts):
    """The commits that cleanup keeps for merges of these states, from live branches and from what merges brought."""
    lines = {name: BranchIncarnation(name=name, incarnation=name, lance_branch=name) for name in _BRANCHES}
    live = {commit.id: commit for name in history.heads for commit in history.line(name)}
    read = []

    def brought(merges):
        read.extend(merges)
        return [MergedCommit(commit=one, line=lines[one.branch]) for one in history.brought(merges)]

    bases = MergeBases((Made.of(commit, lines[commit.branch]) for commit in live.values()), brought)
    found = {made.id for made in bases.find(starts)}
    shared = set.intersection(*(history.ancestors(start) for start in starts))
    assert not {merge.id for merge in read} & {one for one in shared if one in live}
    return found | set(starts)


@given(histories(), st.data())
@settings(max_examples=300 if LONG else 60, deadline=None)
def test_cleanup_keeps_every_base_of_any_two_states_now_and_after_any_merges(history, data):
    for name in data.draw(st.sets(st.sampled_from(_BRANCHES[1:]))):
        # Its commits stay where merges brought them.
        history.heads.pop(name, None)
    older = [commit.id for name in sorted(history.heads) for commit in history.line(name)]
    starts = [*history.heads.values(), *data.draw(st.lists(st.sampled_from(older), max_size=3))]
    kept = _kept(history, starts)
    for pair in combinations(dict.fromkeys(starts), 2):
        assert _best(history, *pair) <= kept
    before = set(history.commits)
    for number, start in enumerate(starts):
        history.heads.setdefault(f"late{number}", start)
    for number in range(data.draw(st.integers(0, 6))):
        source, target = (
            data.draw(st.permutations(sorted(history.heads)))[:2] if len(history.heads) > 1 else (None, None)
        )
        if source is not None:
            history.merge(target, source, f"later{number}")
    for pair in combinations(dict.fromkeys(history.heads.values()), 2):
        assert _best(history, *pair) & before <= kept


def _expanded(history, stretch, stops):
    """What a record of these commits leads to, read as histories with merges are."""
    found = set()
    for commit in stretch:
        if commit.id in stops:
            break
        assert commit.id not in found, "listed twice"
        found.add(commit.id)
        if commit.merged_parent is not None and commit.merged_parent not in stops:
            inside, had = history.records[commit.id]
            inner = _expanded(history, inside, stops | had)
            assert not inner & found, "listed twice"
            found |= inner
    return found
