"""For every history the chosen merge base is a best common ancestor, however little of the history is read."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.history.merge.ancestry import SupportsLines, best_common_ancestor
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
