"""The commits that a merge brought into a branch, kept for as long as the merge is part of a history.

A branch can be deleted and its line of the manifest with it, so a merge writes what it brings into an object of its
own, named by the merge commit and its version, before it is published. Neither a publish nor an open ever reads one, so
both cost the same however many branches were merged. An attempt that is not published leaves an object that no commit
names; cleanup removes it. The next attempt makes another version, so a late removal never hits what is named.

A record holds one stretch of first parents. Merges inside that stretch have records of their own, so nothing is
written twice; ``had`` says where reading them has to stop because the target had the rest before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from omnigraph.errors import ManifestCorruptError
from omnigraph.records import record
from omnigraph.runtime import LRUCache, side_by_side
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.services import GraphStores
from omnigraph.txn.stored_json import SealedCodec
from omnigraph.values import BranchName, CommitId
from omnigraph.values.damage import WAY_OUT, DamagedRecord

MERGES_PREFIX = "__merges"
_CACHED_COMMITS = 50_000
_NONE: frozenset[CommitId] = frozenset()


class MergedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commits that landed one after another on the same line, newest first."""

    branch: BranchName
    incarnation: str
    lance_branch: str | None = msgspec.field(name="line")
    commits: tuple[Commit, ...]

    @property
    def line(self) -> BranchIncarnation:
        """The branch that they landed on, as storage knows it."""
        return BranchIncarnation(name=self.branch, incarnation=self.incarnation, lance_branch=self.lance_branch)


class MergeRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one merge brought.

    ``runs`` are the commits from the merged one back along first parents, as far as the target had them not. ``had``
    are commits that merges among them lead to and that the target had already.
    """

    format: Literal[1] = 1
    runs: tuple[MergedRun, ...]
    had: tuple[CommitId, ...] = ()

    def __iter__(self) -> Iterator[MergedCommit]:
        return (MergedCommit(commit=commit, line=run.line) for run in self.runs for commit in run.commits)

    def __len__(self) -> int:
        return sum(len(run.commits) for run in self.runs)


@record
class MergedCommit:
    """A commit that came with a merge, and the line that it landed on."""

    commit: Commit
    line: BranchIncarnation


RECORD = SealedCodec(
    MergeRecord,
    subject="merge record",
    expected="the commits that a merge brought",
    error=ManifestCorruptError,
    needs_seal=lambda _: True,
    hint=WAY_OUT,
)


def merge_key(commit_id: CommitId, version: int) -> str:
    """Return where the record of a merge is that the manifest version ``version`` makes visible."""
    return f"{MERGES_PREFIX}/{commit_id}.{version}.json"


class MergeRecords:
    """The merge records of one graph. They never change, so each is read once while there is room for it."""

    def __init__(self, stores: GraphStores) -> None:
        self._control = stores.control
        self._pool = stores.pool
        self._is_durable = stores.settings.is_durable
        self._known: LRUCache[CommitId, MergeRecord] = LRUCache(
            max_size=_CACHED_COMMITS, size_of=lambda one: 1 + len(one)
        )

    def add(self, merge: CommitId, version: int, brought: MergeRecord) -> None:
        """Write what a merge is about to bring with a version; writing it again is harmless."""
        self._control.put(merge_key(merge, version), RECORD.encode(brought), sync=self._is_durable)

    def read(self, merge: Commit) -> MergeRecord | None:
        """Return what a merge brought, or None when there is no record of it.

        Raises:
            ManifestCorruptError: the record is damaged.
        """
        known = self._known.get(merge.id)
        if known is None:
            key = merge_key(merge.id, merge.manifest_version)
            data = self._control.get(key)
            if data is None:
                return None
            known = RECORD.decode(data, key)
            self._known.put(merge.id, known)
        return known

    def damaged(self) -> Iterator[tuple[DamagedRecord, bytes]]:
        """Yield the records that cannot be understood, and their bytes."""
        keys = [key for key in self._control.list_keys(MERGES_PREFIX) if key.endswith(".json")]
        for key, data in zip(keys, side_by_side(self._pool, self._control.get, keys), strict=True):
            try:
                RECORD.decode(data or b"", key)
            except ManifestCorruptError as error:
                name = key.rpartition("/")[2].partition(".")[0]
                yield DamagedRecord.of("merge", name, key, error), data or b""

    def drop(self, file: str) -> None:
        """Remove a record that cannot be understood: from then on it is not recorded what that merge brought."""
        self._control.delete(file)

    def read_many(self, merges: Sequence[Commit]) -> Mapping[CommitId, MergeRecord]:
        """Return the records of several merges, read side by side; those without one are left out."""
        found = side_by_side(self._pool, self.read, merges)
        return {merge.id: one for merge, one in zip(merges, found, strict=True) if one is not None}

    def brought_by(self, merge: Commit, had: frozenset[CommitId] = _NONE) -> Iterator[MergedCommit]:
        """Yield every commit that a merge brought, also through merges among them: children before their parents.

        Reads only as far as the caller goes. Commits in ``had``, and what is behind them, are left out.
        """
        waiting = [self._walk(merge, had)]
        while waiting:
            found = next(waiting[-1], None)
            if found is None:
                waiting.pop()
                continue
            one, known = found
            yield one
            if is_merge(one.commit):
                waiting.append(self._walk(one.commit, known))

    def find(self, merges: Iterable[Commit], wanted: CommitId) -> MergedCommit | None:
        """Return a commit that one of the merges brought, or None.

        A commit is merged after it was made, so the merges that follow it are read first, the nearest before others.
        """
        made_ms = wanted.timestamp_ms
        near = sorted(merges, key=lambda one: (one.created_at_ms < made_ms, abs(one.created_at_ms - made_ms)))
        return next((one for one in self.iter_all(near) if one.commit.id == wanted), None)

    def iter_all(self, merges: Iterable[Commit]) -> Iterator[MergedCommit]:
        """Yield what merges brought, and merges among that, in no particular order; each record is read once."""
        waiting = list(merges)
        seen = {merge.id for merge in waiting}
        while waiting:
            batch, waiting = waiting[:_BATCH], waiting[_BATCH:]
            for brought in self.read_many(batch).values():
                for one in brought:
                    yield one
                    if is_merge(one.commit) and one.commit.id not in seen:
                        seen.add(one.commit.id)
                        waiting.append(one.commit)

    def _walk(self, merge: Commit, had: frozenset[CommitId]) -> Iterator[tuple[MergedCommit, frozenset[CommitId]]]:
        if merge.merged_parent in had:
            return
        brought = self.read(merge)
        if brought is None:
            return
        known = had.union(brought.had) if brought.had else had
        for one in brought:
            # What is behind a commit that the target had is behind it on the way of first parents too.
            if one.commit.id in had:
                return
            yield one, known


_BATCH = 16


def is_merge(commit: Commit) -> bool:
    """Whether a commit has a second parent."""
    return commit.merged_parent is not None


def record_of(commits: Iterable[MergedCommit], had: Iterable[CommitId]) -> MergeRecord:
    """Return the record of commits, newest first, that a merge brings."""
    runs: list[tuple[BranchIncarnation, list[Commit]]] = []
    for one in commits:
        if not runs or runs[-1][0] != one.line:
            runs.append((one.line, []))
        runs[-1][1].append(one.commit)
    return MergeRecord(
        runs=tuple(
            MergedRun(
                branch=line.name, incarnation=line.incarnation, lance_branch=line.lance_branch, commits=tuple(found)
            )
            for line, found in runs
        ),
        had=tuple(sorted(had)),
    )
