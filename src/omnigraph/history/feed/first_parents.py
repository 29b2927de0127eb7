"""The commits along first parents from one commit back, on its own branch or on one that was merged.

A merged stretch of commits ends where the target had them: on the line of the target, or in what an earlier merge
brought. It continues there, so that the way back from a merged commit leads to the first commit of the graph, as the
branch saw it, whether or not that branch still exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.merged import MergedCommit, is_merge
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.manifest.shared import SharedVersion
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId


class FirstParents:
    """Commits by place, counted back from the newest, which is 0. Read only as far as places are asked for."""

    def __init__(self, store: GraphStore, part: _Part) -> None:
        self._store = store
        self._part = part

    @classmethod
    def of_line(cls, store: GraphStore, line: CommitLine, newest: int) -> FirstParents:
        """Return the way back from the commit at a position of a branch's history."""
        return cls(store, _LinePart(store, line, newest))

    def has(self, place: int) -> bool:
        """Whether there is a commit at a place."""
        found = self._part.find(place)
        return found is not None and found[0].holds(found[1])

    def commit(self, place: int) -> Commit:
        """Return the commit at a place, which must exist."""
        part, inside = self._at(place)
        return part.commit(inside)

    def version(self, place: int) -> SharedVersion:
        """Return the commits that were published together with the one at a place, and that one."""
        part, inside = self._at(place)
        return part.version(inside)

    def snapshot(self, place: int) -> GraphSnapshot:
        """Return the state that the commit at a place made.

        Raises:
            HistoryGoneError: it was reclaimed.
            CommitMissingError, BranchMissingError: its branch is gone.
        """
        part, inside = self._at(place)
        return part.snapshot(inside)

    def merged_at(self, place: int) -> FirstParents | None:
        """Return the way back from the second parent of the merge at a place; None when no record of it is left."""
        part, inside = self._at(place)
        merged = part.merged_at(inside)
        return None if merged is None else FirstParents(self._store, merged)

    def _at(self, place: int) -> tuple[_Part, int]:
        found = self._part.find(place)
        if found is None:
            raise IndexError(place)
        return found


_Where = tuple["_Part", int]


class _Part:
    """Some of the commits, and where they continue. Places inside a part count from its newest commit."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._merged: dict[int, _Part | None] = {}

    @property
    def length(self) -> int | None:
        """How many commits it has before it continues elsewhere; None when it never does."""
        raise NotImplementedError

    def commit(self, inside: int) -> Commit:
        """Return a commit of this part."""
        raise NotImplementedError

    def version(self, inside: int) -> SharedVersion:
        """Return the commits that share a version with a commit of this part."""
        raise NotImplementedError

    def snapshot(self, inside: int) -> GraphSnapshot:
        """Return the state of a commit of this part."""
        raise NotImplementedError

    def holds(self, inside: int) -> bool:
        """Whether this part has a commit there."""
        raise NotImplementedError

    def inside_of(self, wanted: CommitId, start: int) -> int | None:
        """Return where a commit is in this part, at ``start`` or behind it."""
        raise NotImplementedError

    def continued(self) -> _Where | None:
        """Return where the commits behind this part are."""
        return None

    def find(self, place: int) -> _Where | None:
        """Return the part that a place is in, and where; None when the commits end before."""
        part, inside = self, place
        while part.length is not None and inside >= part.length:
            rest = part.continued()
            if rest is None:
                return None
            inside += rest[1] - part.length
            part = rest[0]
        return part, inside

    def merged_at(self, inside: int) -> _Part | None:
        """Return what the merge at a place of this part brought, continued to the first commit."""
        if inside not in self._merged:
            merge = self.commit(inside)
            brought = self._store.merges.read(merge)
            found: _Part | None = None
            if brought is not None and len(brought):
                found = _MergedPart(self._store, tuple(brought), (self, inside))
            elif brought is not None and merge.merged_parent is not None:
                # The target had the merged commit already.
                rest = self.where(merge.merged_parent, inside + 1)
                found = None if rest is None else _MergedPart(self._store, (), (self, inside), rest)
            self._merged[inside] = found
        return self._merged[inside]

    def where(self, wanted: CommitId, start: int) -> _Where | None:
        """Return where a commit is that the commits from a place on lead to."""
        on_line = self._on_line(wanted, start)
        if on_line is not None:
            return on_line
        # A branch that is merged again continues where it was merged before.
        waiting = sorted(self._merges(start), key=lambda found: found[0].commit(found[1]).merged_parent != wanted)
        while waiting:
            part, inside = waiting.pop(0)
            merged = part.merged_at(inside)
            if merged is None or not merged.length:
                continue
            found = merged.inside_of(wanted, 0)
            if found is not None:
                return merged, found
            waiting += [(merged, number) for number in range(merged.length) if is_merge(merged.commit(number))]
        return None

    def _on_line(self, wanted: CommitId, start: int) -> _Where | None:
        at: _Where | None = self.find(start)
        while at is not None:
            part, inside = at
            found = part.inside_of(wanted, inside)
            if found is not None:
                return part, found
            at = part.continued()
        return None

    def _merges(self, start: int) -> Iterator[_Where]:
        place = start
        while (found := self.find(place)) is not None and found[0].holds(found[1]):
            if is_merge(found[0].commit(found[1])):
                yield found
            place += 1


class _LinePart(_Part):
    """The history of a branch, from a position back to the first commit of the graph."""

    def __init__(self, store: GraphStore, line: CommitLine, newest: int) -> None:
        super().__init__(store)
        self._line = line
        self._newest = newest

    @property
    def length(self) -> None:
        return None

    def commit(self, inside: int) -> Commit:
        return self._line.at(self._newest - inside)

    def version(self, inside: int) -> SharedVersion:
        return SharedVersion.of_line(self._line, self._newest - inside)[0]

    def snapshot(self, inside: int) -> GraphSnapshot:
        return self._store.snapshot_of(self.commit(inside))

    def holds(self, inside: int) -> bool:
        return inside <= self._newest

    def inside_of(self, wanted: CommitId, start: int) -> int | None:
        position = self._line.position_of(wanted)
        return None if position is None or self._newest - position < start else self._newest - position


class _MergedPart(_Part):
    """The commits that a merge brought; ``merge`` is where that is, ``rest`` where they continue if that is known."""

    def __init__(
        self, store: GraphStore, commits: Sequence[MergedCommit], merge: _Where, rest: _Where | None = None
    ) -> None:
        super().__init__(store)
        self._commits = commits
        self._merge = merge
        self._rest = rest
        self._is_rest_known = rest is not None

    @property
    def length(self) -> int:
        return len(self._commits)

    def commit(self, inside: int) -> Commit:
        return self._commits[inside].commit

    def version(self, inside: int) -> SharedVersion:
        return SharedVersion.of_neighbours([one.commit for one in self._commits], inside)

    def snapshot(self, inside: int) -> GraphSnapshot:
        return self._store.refs.snapshot_of_merged(self._commits[inside])

    def holds(self, inside: int) -> bool:
        return inside < len(self._commits)

    def inside_of(self, wanted: CommitId, start: int) -> int | None:
        return next((at for at in range(start, self.length) if self._commits[at].commit.id == wanted), None)

    def continued(self) -> _Where | None:
        if not self._is_rest_known:
            parent = self._commits[-1].commit.parent
            target, inside = self._merge
            self._rest = None if parent is None else target.where(parent, inside + 1)
            self._is_rest_known = True
        return self._rest
