"""The states that a merge can start from: the one rule by which cleanup keeps them.

A merge starts from a best common ancestor of two states: a commit that both have in their histories, and that is in
the history of no other such commit. The two states are the heads of branches. So cleanup looks at every state that is
the head of a branch, and at every state that a branch can be created from: tags, and what cleanup keeps of each
branch. These are the *starts*. Of all pairs of them the best common ancestors stay, on branches that were deleted too.

Later merges and branches need no others. A merged head has the history of both heads, so what it has in common with a
third state is what one of the two has in common with it, and the best of that is a best common ancestor of two starts.

A commit is a best common ancestor of two starts if both have it and no child of it is in both histories. If a child is
in the histories of all starts that have the commit, there is no such pair; else the commit stays. That needs no pairs:
one pass from the starts to the oldest commits finds, for each commit, which starts have it.

What merges of deleted branches brought is read from their records, and only behind merges that not every start has:
behind a commit that all of them have lies no best common ancestor that it is not better than.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from omnigraph.records import record
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.manifest.merged import MergedCommit
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import CommitId


@record
class Made:
    """A commit as cleanup needs it: where its state is, when it was published, and its parents.

    ``merge`` is the commit itself if it has a second parent.
    """

    id: CommitId
    line: BranchIncarnation
    version: int
    published_at_ms: int
    parent: CommitId | None
    merge: Commit | None = None

    @classmethod
    def of(cls, commit: Commit, line: BranchIncarnation) -> Made:
        """Return what cleanup has to know of a commit that landed on ``line``."""
        return cls(
            id=commit.id,
            line=line,
            version=commit.manifest_version,
            published_at_ms=commit.published_at_ms,
            parent=commit.parent,
            merge=None if commit.merged_parent is None else commit,
        )

    @property
    def parents(self) -> tuple[CommitId, ...]:
        """The commits that it was made on."""
        merged = None if self.merge is None else self.merge.merged_parent
        return tuple(parent for parent in (self.parent, merged) if parent is not None)


class MergeBases:
    """Finds the best common ancestors of any two starts.

    Args:
        commits: the commits of the live branches.
        read: returns the commits that merges brought.
    """

    def __init__(self, commits: Iterable[Made], read: Callable[[Sequence[Commit]], Iterable[MergedCommit]]) -> None:
        self._commits = {made.id: made for made in commits}
        self._read = read
        # Which starts have a commit in their histories: a bit for each.
        self._having: dict[CommitId, int] = {}
        # Newest first, so that most commits are looked at once; any order gives the same.
        self._waiting: list[tuple[int, CommitId]] = []

    def find(self, starts: Iterable[CommitId]) -> tuple[Made, ...]:
        """Return the commits that a merge of two of the states could start from."""
        each = dict.fromkeys(starts)
        for number, start in enumerate(each):
            self._give(start, 1 << number)
        everyone = (1 << len(each)) - 1
        read: set[CommitId] = set()
        while True:
            self._pass_on()
            unread = [merge for merge in self._unknown_merges(everyone) if merge.id not in read]
            if not unread:
                break
            read.update(merge.id for merge in unread)
            for one in self._read(unread):
                self._learn(Made.of(one.commit, one.line))
        having = self._having
        worse = {parent for made in self._reached() for parent in made.parents if having.get(parent) == having[made.id]}
        return tuple(made for made in self._reached() if made.id not in worse and having[made.id].bit_count() > 1)

    def _reached(self) -> Iterable[Made]:
        return (self._commits[commit_id] for commit_id in self._having if commit_id in self._commits)

    def _give(self, commit_id: CommitId, starts: int) -> None:
        before = self._having.get(commit_id, 0)
        if before | starts != before:
            # One number for all commits that the same starts have: a long history takes no more for it.
            self._having[commit_id] = before | starts if before else starts
            self._wait(commit_id)

    def _wait(self, commit_id: CommitId) -> None:
        made = self._commits.get(commit_id)
        if made is not None:
            heapq.heappush(self._waiting, (-made.published_at_ms, commit_id))

    def _pass_on(self) -> None:
        while self._waiting:
            _, commit_id = heapq.heappop(self._waiting)
            for parent in self._commits[commit_id].parents:
                self._give(parent, self._having[commit_id])

    def _learn(self, made: Made) -> None:
        if made.id not in self._commits:
            self._commits[made.id] = made
            if made.id in self._having:
                self._wait(made.id)

    def _unknown_merges(self, everyone: int) -> Iterable[Commit]:
        """Yield merges whose second parent is on no live branch and was not read."""
        return [
            made.merge
            for made in self._reached()
            if made.merge is not None
            and made.merge.merged_parent not in self._commits
            and self._having[made.id] != everyone
        ]
