"""Merge bases: the commit that two histories share and that is closest to both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import CommitId

Graph = Mapping[CommitId, Commit]


def best_common_ancestor(commits: Graph, source: CommitId, target: CommitId) -> Commit | None:
    """Return the best commit that is reachable from both, over first and merged parents.

    A common commit that is an ancestor of another common one is never the best: what lies between them belongs to
    both sides. Crossing merges may leave several; of these the nearest counts, and of equally near ones the later in
    the order of listings.

    Args:
        commits: what is known; parents that are missing in it end the search there.
        source: where one side stands.
        target: where the other side stands.
    """
    from_source, from_target = _distances(commits, source), _distances(commits, target)
    common = from_source.keys() & from_target.keys()
    if not common:
        return None
    dominated = {parent for commit_id in common for parent in _parents(commits[commit_id]) if parent in common}
    # Every ancestor of a common commit is common too, so a dominated one is the parent of some common commit.
    best = common - dominated
    return min(
        (commits[commit_id] for commit_id in best),
        key=lambda commit: (from_source[commit.id] + from_target[commit.id], *_latest_first(commit)),
    )


@dataclass(slots=True, kw_only=True)
class SupportsLines:
    """Histories of branches, read newest first and only as far as a merge base needs them.

    Each line follows first parents, so two lines that meet are one from there on, and everything behind the meeting
    point is behind it on both: only what is newer can hold a better base.

    Args:
        others: the lines of further branches, asked for when a merged commit is on neither side.
    """

    others: Callable[[], Iterable[Iterator[Commit]]]
    known: dict[CommitId, Commit] = field(default_factory=dict)

    def base_of(self, source: Iterator[Commit], target: Iterator[Commit]) -> Commit | None:
        """Return the best common ancestor of the newest commits of two lines; None when they share nothing."""
        ours, theirs = _Line(target), _Line(source)
        if ours.newest is None or theirs.newest is None:
            return None
        _draw_until_met(ours, theirs)
        self._learn(ours, theirs)
        self._follow_merges(ours)
        self._learn(ours, theirs)
        return best_common_ancestor(self.known, theirs.newest, ours.newest)

    def _learn(self, *lines: _Line) -> None:
        for line in lines:
            self.known.update(line.drawn)

    def _follow_merges(self, ours: _Line) -> None:
        """Bring in the lines of other live branches that were merged into what is known."""
        rest: list[_Line] | None = None
        while unknown := self._unknown_merges(ours):
            if rest is None:
                rest = [_Line(line) for line in self.others()]
            found = next((line for line in rest for commit_id in unknown if line.reaches(commit_id, ours)), None)
            if found is None:
                return
            rest.remove(found)
            self._learn(found, ours)

    def _unknown_merges(self, ours: _Line) -> list[CommitId]:
        merged = {commit.merged_parent for commit in self.known.values()} - {None}
        return sorted(
            commit_id
            for commit_id in merged
            if commit_id is not None and commit_id not in self.known and commit_id not in ours.drawn
        )


class _Line:
    """One branch's history as far as it was drawn."""

    def __init__(self, commits: Iterator[Commit]) -> None:
        self._rest = commits
        self.drawn: dict[CommitId, Commit] = {}
        self.newest: CommitId | None = None
        first = self.draw()
        if first is not None:
            self.newest = first.id

    def draw(self) -> Commit | None:
        """Return the next older commit, None at the end."""
        commit = next(self._rest, None)
        if commit is not None:
            self.drawn[commit.id] = commit
        return commit

    def reaches(self, commit_id: CommitId, other: _Line) -> bool:
        """Whether the commit is on this line before it meets the other one; draws both that far."""
        _draw_until_met(self, other)
        return commit_id in self.drawn


def _draw_until_met(one: _Line, other: _Line) -> None:
    """Draw from both lines in turn until one of them has come to a commit of the other."""
    if not one.drawn.keys().isdisjoint(other.drawn):
        return
    while True:
        first, second = one.draw(), other.draw()
        if first is not None and first.id in other.drawn:
            return
        if second is not None and second.id in one.drawn:
            return
        if first is None and second is None:
            return


def _distances(commits: Graph, start: CommitId) -> dict[CommitId, int]:
    """Return the commits reachable from ``start`` with the fewest steps to each."""
    found: dict[CommitId, int] = {}
    front = [start] if start in commits else []
    steps = 0
    while front:
        found.update(dict.fromkeys(front, steps))
        steps += 1
        parents = {parent for commit_id in front for parent in _parents(commits[commit_id])}
        front = [parent for parent in parents if parent in commits and parent not in found]
    return found


def _parents(commit: Commit) -> tuple[CommitId, ...]:
    return tuple(parent for parent in (commit.parent, commit.merged_parent) if parent is not None)


def _latest_first(commit: Commit) -> tuple[int, int, tuple[int, ...]]:
    return -commit.manifest_version, -commit.created_at_ms, tuple(-ord(letter) for letter in commit.id)
