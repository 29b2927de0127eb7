"""The commits along first parents from one commit back, on its own branch or on one that was merged.

A merged stretch of commits ends where the target had them: on the line of the target, or in what an earlier merge
brought. It continues there, so that the way back from a merged commit leads to the first commit of the graph, as the
branch saw it, whether or not that branch still exists.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.merged import MergedCommit, is_merge
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId


class FirstParents:
    """Commits by place, counted back from the newest, which is 0. Read only as far as places are asked for.

    Args:
        store: the open graph.
        stretch: the newest of the commits, those that a merge brought.
        source: where the stretch was merged: the commits of the target, and the place of the merge there.
        line: the history of a branch that the commits are on, instead of both.
        newest: the position of the newest commit in ``line``.
    """

    def __init__(
        self,
        store: GraphStore,
        *,
        stretch: tuple[MergedCommit, ...] = (),
        source: tuple[FirstParents, int] | None = None,
        line: CommitLine | None = None,
        newest: int = -1,
    ) -> None:
        self._store = store
        self._stretch = stretch
        self._source = source
        self._line = line
        self._newest = newest
        self._rest: tuple[FirstParents, int] | None = None
        self._is_rest_known = False
        self._merged: dict[int, FirstParents | None] = {}

    def has(self, place: int) -> bool:
        """Whether there is a commit at a place."""
        found = self._find(place)
        return found is not None and found[0]._holds(found[1])

    def commit(self, place: int) -> Commit:
        """Return the commit at a place, which must exist."""
        part, inside = self._part(place)
        return part._stretch[inside].commit if part._line is None else part._line.at(part._newest - inside)

    def snapshot(self, place: int) -> GraphSnapshot:
        """Return the state that the commit at a place made.

        Raises:
            HistoryGoneError: it was reclaimed.
            CommitMissingError, BranchMissingError: its branch is gone.
        """
        part, inside = self._part(place)
        if part._line is None:
            return self._store.refs.snapshot_of_merged(part._stretch[inside])
        return self._store.snapshot_of(part.commit(inside))

    def merged_at(self, place: int) -> FirstParents | None:
        """Return the way back from the second parent of the merge at a place; None when no record of it is left."""
        part, inside = self._part(place)
        if inside not in part._merged:
            brought = self._store.merges.read(part.commit(inside))
            part._merged[inside] = None if brought is None else part._follow(inside, tuple(brought))
        return part._merged[inside]

    def _follow(self, inside: int, stretch: tuple[MergedCommit, ...]) -> FirstParents | None:
        if stretch:
            return FirstParents(self._store, stretch=stretch, source=(self, inside))
        # The target had the merged commit already.
        merged = self.commit(inside).merged_parent
        found = None if merged is None else self._where(merged, inside + 1)
        if found is None:
            return None
        way = FirstParents(self._store)
        way._rest, way._is_rest_known = found, True
        return way

    def _holds(self, inside: int) -> bool:
        return inside < len(self._stretch) if self._line is None else 0 <= self._newest - inside

    def _part(self, place: int) -> tuple[FirstParents, int]:
        found = self._find(place)
        if found is None:
            raise IndexError(place)
        return found

    def _find(self, place: int) -> tuple[FirstParents, int] | None:
        """Return the part that holds a place, and where; None when the commits end before."""
        part, inside = self, place
        while part._line is None and inside >= len(part._stretch):
            rest = part._continued()
            if rest is None:
                return None
            inside += rest[1] - len(part._stretch)
            part = rest[0]
        return part, inside

    def _continued(self) -> tuple[FirstParents, int] | None:
        if not self._is_rest_known:
            parent = self._stretch[-1].commit.parent if self._stretch else None
            if parent is not None and self._source is not None:
                target, place = self._source
                self._rest = target._where(parent, place + 1)
            self._is_rest_known = True
        return self._rest

    def _where(self, wanted: CommitId, start: int) -> tuple[FirstParents, int] | None:
        """Return where a commit is that the commits from a place on lead to."""
        found = self._place_of(wanted, start)
        if found is not None:
            return self, found
        merges = [place for place, commit in self._back(start) if is_merge(commit)]
        # A branch that is merged again continues where it was merged before.
        merges.sort(key=lambda place: self.commit(place).merged_parent != wanted)
        waiting = [(self, place) for place in merges]
        while waiting:
            part, place = waiting.pop(0)
            way = part.merged_at(place)
            if way is None:
                continue
            for inside, one in enumerate(way._stretch):
                if one.commit.id == wanted:
                    return way, inside
                if is_merge(one.commit):
                    waiting.append((way, inside))
        return None

    def _place_of(self, wanted: CommitId, start: int) -> int | None:
        part, inside = self, start
        passed = 0
        while part._line is None:
            for number in range(inside, len(part._stretch)):
                if part._stretch[number].commit.id == wanted:
                    return start + passed + number - inside
            passed += max(0, len(part._stretch) - inside)
            rest = part._continued()
            if rest is None:
                return None
            part, inside = rest
        position = part._line.position_of(wanted)
        if position is None or part._newest - position < inside:
            return None
        return start + passed + part._newest - position - inside

    def _back(self, start: int) -> Iterator[tuple[int, Commit]]:
        place = start
        while self.has(place):
            yield place, self.commit(place)
            place += 1
