"""Merge bases of histories that cross, fork and forget."""

from __future__ import annotations

from tests.commit_lines import History

from omnigraph.history.merge.ancestry import SupportsLines, best_common_ancestor


def _base(history, source, target):
    found = best_common_ancestor(history.commits, history.heads[source], history.heads[target])
    return None if found is None else history.name(found.id)


def _lazy_base(history, source, target):
    lines = SupportsLines(brought=history.brought)
    found = lines.base_of(history.line(source), history.line(target))
    return None if found is None else history.name(found.id)


def test_the_base_of_a_fork_is_where_it_began():
    history = History()
    history.commit("main", "a")
    history.fork("draft", "main")
    history.commit("draft", "d1")
    history.commit("main", "m1")
    assert _base(history, "draft", "main") == "a"
    assert _lazy_base(history, "draft", "main") == "a"


def test_after_a_merge_the_base_is_the_merged_commit():
    history = History()
    history.fork("draft", "main")
    history.commit("draft", "d1")
    history.merge("main", "draft", "m1")
    history.commit("draft", "d2")
    history.commit("main", "m2")
    assert _base(history, "draft", "main") == _lazy_base(history, "draft", "main") == "d1"


def test_a_stale_common_commit_never_beats_a_newer_one_although_it_is_as_near():
    history = History()
    history.fork("draft", "main")
    history.commit("draft", "d1")
    history.commit("main", "m1")
    history.merge("draft", "main", "d2")
    history.merge("main", "draft", "m2")
    history.commit("main", "m3")
    assert _base(history, "draft", "main") == _lazy_base(history, "draft", "main") == "d2"


def test_of_crossing_merges_the_nearest_counts_and_then_the_later():
    history = History()
    history.fork("draft", "main")
    history.commit("draft", "d1")
    history.commit("main", "m1")
    # Both sides merge what the other had before its own merge: neither commit is an ancestor of the other.
    seen = dict(history.heads)
    history.merge("draft", "main", "d2", at=seen["main"])
    history.merge("main", "draft", "m2", at=seen["draft"])
    bases = {_base(history, "draft", "main"), _base(history, "main", "draft")}
    assert bases == {_lazy_base(history, "draft", "main")}
    assert bases <= {"d1", "m1"}


def test_a_commit_of_a_third_branch_that_both_merged_is_their_base():
    history = History()
    for name in ("draft", "third"):
        history.fork(name, "main")
    history.commit("third", "t1")
    history.merge("draft", "third", "d1")
    history.merge("main", "third", "m1")
    assert _base(history, "draft", "main") == _lazy_base(history, "draft", "main") == "t1"


def test_a_third_branch_that_is_gone_is_still_the_base():
    history = History()
    for name in ("draft", "third"):
        history.fork(name, "main")
    history.commit("third", "t1")
    history.merge("draft", "third", "d1")
    history.merge("main", "third", "m1")
    history.forget("third")
    assert _lazy_base(history, "draft", "main") == "t1"


def test_what_merges_brought_is_not_read_when_a_line_is_known_to_be_in_no_other_history():
    history = History()
    history.fork("draft", "main")
    for number in range(5):
        history.fork("feature", "main")
        history.commit("feature", f"f{number}")
        history.merge("main", "feature", f"m{number}")
    history.commit("draft", "d1")
    read = []

    def brought(merges):
        read.extend(merges)
        return history.brought(merges)

    lines = SupportsLines(brought=brought, is_apart=lambda line, _: line[0].branch == "draft")
    assert history.name(lines.base_of(history.line("draft"), history.line("main")).id) == "genesis"
    assert read == []
    assert [history.name(commit.id) for commit in lines.new_commits()[0]] == ["d1"]
    assert len(SupportsLines(brought=brought).base_of(history.line("main"), history.line("draft")).id)
    assert len(read) == 5


def test_histories_without_a_common_commit_have_no_base():
    one, other = History(), History(prefix="other")
    lines = SupportsLines(brought=lambda _: ())
    assert lines.base_of(one.line("main"), other.line("main")) is None
    assert lines.base_of(iter(()), one.line("main")) is None


def test_a_long_shared_past_is_not_read():
    history = History()
    for number in range(200):
        history.commit("main", f"m{number}")
    history.fork("draft", "main")
    history.commit("draft", "d1")
    drawn = []

    def watched(name):
        for commit in history.line(name):
            drawn.append(commit.id)
            yield commit

    found = SupportsLines(brought=lambda _: ()).base_of(watched("draft"), watched("main"))
    assert history.name(found.id) == "m199"
    assert len(drawn) <= 4
