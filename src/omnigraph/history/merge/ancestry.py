"""Merge bases, and what a merge brings: commits that two histories share, and those that only one of them has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import takewhile

from omnigraph.records import record
from omnigraph.txn.manifest.merged import is_merge
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


@record(frozen=False)
class SupportsLines:
    """Histories of branches, read newest first and only as far as a merge needs them.

    Each line follows first parents, so two lines that meet are one from there on, and everything behind the meeting
    point is behind it on both: only what is newer can hold a better base.

    Args:
        brought: the commits that merges brought, without those that merges among these brought.
        is_apart: whether the commits of a line, given newest first, are surely in no other history but by merges whose
            second parent is among the known commits.
    """

    brought: Callable[[Sequence[Commit]], Iterable[Commit]]
    is_apart: Callable[[Sequence[Commit], Graph], bool] = lambda _line, _known: False
    known: dict[CommitId, Commit] = field(default_factory=dict)
    _source: _Line | None = None
    _target: _Line | None = None

    def base_of(self, source: Iterator[Commit], target: Iterator[Commit]) -> Commit | None:
        """Return the best common ancestor of the newest commits of two lines; None when they share nothing."""
        ours, theirs = _Line(target), _Line(source)
        self._source, self._target = theirs, ours
        if ours.newest is None or theirs.newest is None:
            return None
        _draw_until_met(ours, theirs)
        self.known.update(ours.drawn)
        self.known.update(theirs.drawn)
        self._follow_merges(ours, theirs)
        return best_common_ancestor(self.known, theirs.newest, ours.newest)

    def new_commits(self) -> tuple[list[Commit], set[CommitId]]:
        """Return what the target gets from the source: a stretch of first parents, newest first, and where to stop.

        The second part are commits that merges in that stretch lead to and that the target has.
        """
        source, target = self._source, self._target
        if source is None or target is None or source.newest is None or target.newest is None:
            return [], set()
        had = _distances(self.known, target.newest).keys()
        stretch: list[Commit] = []
        at: CommitId | None = source.newest
        while at is not None and at not in had and at in self.known:
            stretch.append(self.known[at])
            at = self.known[at].parent
        stops: set[CommitId] = set()
        passed = {commit.id for commit in stretch}
        waiting = [commit.merged_parent for commit in stretch]
        while waiting:
            at = waiting.pop()
            while at is not None and at in self.known and at not in passed:
                if at in had:
                    stops.add(at)
                    break
                passed.add(at)
                waiting.append(self.known[at].merged_parent)
                at = self.known[at].parent
        return stretch, stops

    def _follow_merges(self, ours: _Line, theirs: _Line) -> None:
        """Bring in what merges brought to either line, unless the lines have nothing in common through them."""
        own, other = _until_met(ours, theirs), _until_met(theirs, ours)
        from_ours, from_theirs = self._unknown(own), self._unknown(other)
        waiting = [*from_ours, *from_theirs]
        if not waiting or (
            (not from_theirs and self.is_apart(other, self.known)) or (not from_ours and self.is_apart(own, self.known))
        ):
            return
        seen: set[CommitId] = set()
        while waiting:
            seen.update(merge.id for merge in waiting)
            commits = list(self.brought(waiting))
            self.known.update((commit.id, commit) for commit in commits)
            waiting = [merge for merge in self._unknown(commits) if merge.id not in seen]

    def _unknown(self, commits: Collection[Commit]) -> list[Commit]:
        """Return the merges among commits whose second parent is not known."""
        return [commit for commit in commits if is_merge(commit) and commit.merged_parent not in self.known]


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


def _until_met(line: _Line, other: _Line) -> list[Commit]:
    """Return the commits of a line that are newer than the point where it met the other one."""
    return list(takewhile(lambda commit: commit.id not in other.drawn, line.drawn.values()))


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
