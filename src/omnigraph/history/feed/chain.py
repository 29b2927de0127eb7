"""Commits along the first-parent line of a branch, and the states before and after each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from omnigraph.errors import (
    BranchMissingError,
    ChangeFeedGapError,
    CommitMissingError,
    FeedGap,
    MissingThing,
    TableMissingError,
    VersionMissingError,
)
from omnigraph.history.feed.blocks import CommitBlock, Deltas, no_parent
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import BranchName, CommitId


@record
class Step:
    """A commit and its first parent."""

    parent: Commit
    commit: Commit


class Chain:
    """Reads commits and their states; the state between two commits in turn is opened once."""

    def __init__(self, store: GraphStore, deltas: Deltas, counters: Counters) -> None:
        self._store = store
        self._deltas = deltas
        self._counters = counters
        self._last: tuple[CommitId, Snapshot] | None = None

    def find(self, commit_id: CommitId) -> Step:
        """Return a commit of any live branch with its parent.

        Raises:
            CommitMissingError: there is none.
            CommitHasNoParentError: it is the first of the graph.
        """
        for branch in self._store.branch_names(self._counters):
            # Deleted since it was listed: then its own commits are unknown.
            with suppress(BranchMissingError):
                step = self._find_on(branch, commit_id)
                if step is not None:
                    return step
        details = MissingThing(what="commit", name=str(commit_id))
        raise CommitMissingError(f"commit '{commit_id}' not found", details=details)

    def _find_on(self, branch: BranchName, commit_id: CommitId) -> Step | None:
        line = self._store.past.line_of(self._store.snapshot(branch, self._counters), self._counters)
        position = line.position_of(commit_id)
        if position is None:
            return None
        if position == 0:
            raise no_parent(line.at(0))
        return Step(parent=line.at(position - 1), commit=line.at(position))

    def steps_after(self, head: Snapshot, last: CommitId | None, cut: CommitId, limit: int) -> Sequence[Step] | None:
        """Return the first commits behind ``last``, oldest first, none later than ``cut``.

        ``last`` None is the first commit of the graph. The answer is None when either is not on the line.
        """
        line = self._store.past.line_of(head, self._counters)
        start = 0 if last is None else line.position_of(last)
        stop = line.position_of(cut)
        if start is None or stop is None or start > stop:
            return None
        chosen = range(start, min(stop, start + limit))
        return [Step(parent=line.at(place), commit=line.at(place + 1)) for place in chosen]

    def state_of(self, commit: Commit) -> Snapshot:
        """Return the state that a commit made.

        Raises:
            VersionMissingError: it was reclaimed.
        """
        if self._last is None or self._last[0] != commit.id:
            self._last = (commit.id, self._store.snapshot_of(commit, self._counters))
        return self._last[1]

    def block(self, step: Step) -> CommitBlock:
        """Return what a commit changed.

        Raises:
            ChangeSchemaBoundaryError: it changed the schema of a type.
            VersionMissingError, TableMissingError: one of its two states was reclaimed.
        """
        before = self.state_of(step.parent)
        return CommitBlock(step.commit, before, self.state_of(step.commit), self._deltas, self._counters)


@contextmanager
def reporting_gaps(commit_id: CommitId, cursor: str | None) -> Iterator[None]:
    """Tell history that was reclaimed as what it is to a reader of changes."""
    try:
        yield
    except (VersionMissingError, TableMissingError) as error:
        details = FeedGap(cursor=cursor, first_unreadable_commit_id=str(commit_id))
        raise ChangeFeedGapError(
            f"the history that a commit needs was reclaimed commit={commit_id}", details=details
        ) from error
