"""The commits of a branch as a sequence: oldest first, read in pieces, each piece at most once.

A line of history only ever grows at its newer end, so the position of a commit, counted from the first one, never
changes, however its rows are folded together later. Positions make any part of history reachable at the same cost.

A publish keeps the newest commits inside the state fragment it writes anyway. When ``RECENT_LIMIT`` of them have
gathered they are flushed into a fragment of their own, and whenever ``FAN_IN`` neighbouring fragments have reached
the same size class they are merged. One publish does at most one of the two, so its extra cost has a bound, and the
number of fragments grows with the logarithm of history: calls and bytes of a publish do not feel how old a graph is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.datasets import DatasetStore
from omnigraph.txn.manifest.codec import decode_commits
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import CommitId

if TYPE_CHECKING:
    from omnigraph.txn.manifest.file import LoadedManifest


_PIECE_ROWS = 256
_PIECES = 64
_LINEAGE = 2
# What the stored form of a commit with a key contains; a message may contain it too.
_KEYED = '"key":'


class CommitCache:
    """Decoded pieces of lineage fragments. Files never change, so branches and versions share what they hold."""

    def __init__(self) -> None:
        self._pieces: LRUCache[tuple[tuple[str, ...], int], tuple[Commit, ...]] = LRUCache(_PIECES)

    def get(self, files: tuple[str, ...], start: int) -> tuple[Commit, ...] | None:
        """Return a piece that was read before, or None."""
        return self._pieces.get((files, start))

    def put(self, files: tuple[str, ...], start: int, commits: tuple[Commit, ...]) -> None:
        """Keep a piece."""
        self._pieces.put((files, start), commits)


class CommitLine:
    """The history of a branch as one version of its manifest has it."""

    def __init__(self, datasets: DatasetStore, loaded: LoadedManifest, cache: CommitCache) -> None:
        self._datasets = datasets
        self._loaded = loaded
        self._cache = cache
        self._recent = loaded.state.recent
        # Where each lineage fragment begins, and where the recent commits do.
        self._starts = [0, *accumulate(fragment.row_count for fragment in loaded.lineage)]

    def __len__(self) -> int:
        return self._starts[-1] + len(self._recent)

    def at(self, position: int) -> Commit:
        """Return the commit at a position, which must exist."""
        if position >= self._starts[-1]:
            return self._recent[position - self._starts[-1]]
        fragment = bisect_right(self._starts, position) - 1
        inside = position - self._starts[fragment]
        start = inside - inside % _PIECE_ROWS
        return self._piece(fragment, start)[inside - start]

    def back(self, before: int | None = None) -> Iterator[tuple[int, Commit]]:
        """Yield positions and commits newest first, those below ``before``; reads only as far as the caller goes."""
        for position in range((len(self) if before is None else before) - 1, -1, -1):
            yield position, self.at(position)

    def keyed_after(self, position: int, moment_ms: int) -> Iterator[tuple[int, Commit]]:
        """Yield the commits from ``position`` on whose requests had a key, newest first, with their positions.

        Ends with the first commit that was published before a moment. A fragment is read at once, of its commits only
        those are decoded that may have a key.
        """
        for number in range(len(self._recent) - 1, -1, -1):
            at, commit = self._starts[-1] + number, self._recent[number]
            if at < position or commit.published_at_ms < moment_ms:
                return
            if commit.request is not None and commit.request.key is not None:
                yield at, commit
        for fragment in range(len(self._starts) - 2, -1, -1):
            start = self._starts[fragment]
            if self._starts[fragment + 1] <= position:
                return
            found, oldest_ms = self._keyed_in(fragment)
            for inside, commit in found:
                if start + inside >= position and commit.published_at_ms >= moment_ms:
                    yield start + inside, commit
            if oldest_ms < moment_ms:
                return

    def position_of(self, commit_id: CommitId) -> int | None:
        """Return where a commit stands, or None when this history has no such commit."""
        for number, commit in enumerate(self._recent):
            if commit.id == commit_id:
                return self._starts[-1] + number
        for fragment in range(len(self._starts) - 2, -1, -1):
            ids = self._ids(fragment)
            if commit_id in ids:
                return self._starts[fragment] + ids.index(commit_id)
        return None

    def newest_until(self, moment_ms: int) -> int | None:
        """Return the position of the last commit that was published by a moment, or None when there was none."""
        # Publishing times never go back along a line.
        return self._last(lambda commit: commit.published_at_ms <= moment_ms)

    def made_by(self, version: int) -> Commit | None:
        """Return the last commit that a version of the manifest made visible, or None when it made none."""
        position = self._last(lambda commit: commit.manifest_version <= version)
        found = None if position is None else self.at(position)
        return found if found is not None and found.manifest_version == version else None

    def _last(self, is_before: Callable[[Commit], bool]) -> int | None:
        """Return the position of the last commit of which something is true that is true of all before it."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if is_before(self.at(middle)):
                low = middle + 1
            else:
                high = middle
        return low - 1 if low else None

    def _ids(self, fragment: int) -> list[str]:
        known = self._cache.get(self._loaded.lineage[fragment].files, 0)
        if known is not None and len(known) == self._loaded.lineage[fragment].row_count:
            return [str(commit.id) for commit in known]
        with self._loaded.life.reading():
            rows = self._datasets.read(self._loaded.dataset, [_LINEAGE + fragment], ["object_id"])
        return [str(value) for value in rows["object_id"].to_pylist()]

    def _keyed_in(self, fragment: int) -> tuple[list[tuple[int, Commit]], int]:
        """Return the commits of a fragment that have a key, newest first, and when its first was published."""
        ref = self._loaded.lineage[fragment]
        known = self._cache.get(ref.files, 0)
        if known is not None and len(known) == ref.row_count:
            found = list(enumerate(known))
        else:
            with self._loaded.life.reading():
                rows = self._datasets.read(self._loaded.dataset, [_LINEAGE + fragment], ["metadata"])
            places = np.flatnonzero(pc.match_substring(rows["metadata"], _KEYED).to_numpy())
            places = np.union1d(places, [0])
            found = list(zip(places.tolist(), decode_commits(rows.take(places)), strict=True))
        keyed = [(at, one) for at, one in reversed(found) if one.request is not None and one.request.key is not None]
        return keyed, found[0][1].published_at_ms

    def _piece(self, fragment: int, start: int) -> tuple[Commit, ...]:
        ref = self._loaded.lineage[fragment]
        known = self._cache.get(ref.files, start)
        if known is None:
            count = min(_PIECE_ROWS, ref.row_count - start)
            with self._loaded.life.reading():
                rows = self._datasets.read_rows(self._loaded.dataset, _LINEAGE + fragment, start, count, ["metadata"])
            known = decode_commits(rows)
            self._cache.put(ref.files, start, known)
        return known


RECENT_LIMIT = 32
FAN_IN = 4


@record
class Flush:
    """Move every recent commit but those of this publish into a new, newest lineage fragment."""


@record
class Merge:
    """Replace the lineage fragments ``[start, stop)`` by one that holds their commits in the same order."""

    start: int
    stop: int


def plan_fold(recent_count: int, fragment_rows: Sequence[int]) -> Flush | Merge | None:
    """Decide what the next publish folds.

    Args:
        recent_count: commits in the state fragment before the publish.
        fragment_rows: rows of each lineage fragment, oldest first.

    >>> plan_fold(32, [])
    Flush()
    >>> plan_fold(3, [128, 32, 32, 32, 32])
    Merge(start=1, stop=5)
    """
    if recent_count >= RECENT_LIMIT:
        return Flush()
    run_start = 0
    for position in range(1, len(fragment_rows) + 1):
        at_end = position == len(fragment_rows)
        if at_end or _size_class(fragment_rows[position]) != _size_class(fragment_rows[run_start]):
            if position - run_start >= FAN_IN:
                return Merge(start=run_start, stop=run_start + FAN_IN)
            run_start = position
    return None


def _size_class(rows: int) -> int:
    level, capacity = 0, RECENT_LIMIT
    # A flush may carry more than the limit when one publish brought many commits; it still counts as the class
    # below the next capacity, so that neighbours of like size meet.
    while rows >= capacity * FAN_IN:
        level, capacity = level + 1, capacity * FAN_IN
    return level
