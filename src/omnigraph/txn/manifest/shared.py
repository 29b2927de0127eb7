"""Commits that were published together: which of the rows that their version changed belongs to which of them.

One version holds the work of all of them, so comparing states does not tell them apart. The commits do: all but one
name the rows that they wrote, and the rest belongs to the one that names none, which is the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.records import record
from omnigraph.txn.manifest.rows import Commit, WrittenIds

if TYPE_CHECKING:
    from omnigraph.txn.manifest.lineage import CommitLine

# The ids of the rows that a write wrote or removed, by table.
Written = Mapping[str, pa.Array]

# How many ids the commits of a version may name: every publish repeats them until they are folded.
MOST_NAMED = 1000
_NO_IDS = pa.array([], pa.string())


@record(eq=False)
class OwnRows:
    """The rows of one commit among those that its version changed: the named ones, or all but these."""

    named: Mapping[str, pa.Array]
    is_rest: bool

    def mask(self, table_key: str, ids: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Return which of the changed rows of a table belong to the commit."""
        found = pc.is_in(ids, value_set=self.named.get(table_key, _NO_IDS))
        return pc.invert(found) if self.is_rest else found


@record
class SharedVersion:
    """The commits that one version made visible, oldest first."""

    commits: tuple[Commit, ...]

    @classmethod
    def of_line(cls, line: CommitLine, position: int) -> tuple[SharedVersion, int]:
        """Return the version of the commit at a position of a history, and the position of its first commit."""
        first = last = position
        while first > 0 and _share(line.at(first - 1), line.at(position)):
            first -= 1
        while last + 1 < len(line) and _share(line.at(last + 1), line.at(position)):
            last += 1
        return cls(commits=tuple(line.at(number) for number in range(first, last + 1))), first

    @classmethod
    def of_neighbours(cls, newest_first: Sequence[Commit], place: int) -> SharedVersion:
        """Return the version of a commit among commits that follow each other."""
        first = last = place
        while first + 1 < len(newest_first) and _share(newest_first[first + 1], newest_first[place]):
            first += 1
        while last > 0 and _share(newest_first[last - 1], newest_first[place]):
            last -= 1
        return cls(commits=tuple(reversed(newest_first[last : first + 1])))

    @property
    def is_told(self) -> bool:
        """Whether it is known whose the rows are: always for a single commit; early versions did not write it down."""
        return sum(commit.wrote is None for commit in self.commits) <= 1

    def rows_of(self, commit: Commit) -> OwnRows | None:
        """Return which rows of the version belong to a commit; None when all of them do, or it is not recorded."""
        if len(self.commits) == 1 or not self.is_told:
            return None
        if commit.wrote is not None:
            return OwnRows(named=_by_table([commit]), is_rest=False)
        return OwnRows(named=_by_table(one for one in self.commits if one is not commit), is_rest=True)

    def author(self, table_key: str, entity_id: str) -> Commit | None:
        """Return the commit that wrote a row which the version changed; None when it is not recorded."""
        if not self.is_told:
            return None
        rest = next((commit for commit in self.commits if commit.wrote is None), None)
        for commit in self.commits:
            for written in commit.wrote or ():
                if written.table_key == table_key and entity_id in written.ids:
                    return commit
        return rest


def name_rows(written: Sequence[Written]) -> list[tuple[WrittenIds, ...] | None]:
    """Return what each of several commits of one version says of its rows, given in their order.

    What several of them wrote is the last one's, as its row is the one that is there.
    """
    largest = max(range(len(written)), key=lambda number: sum(map(len, written[number].values())))
    named: list[tuple[WrittenIds, ...] | None] = [None] * len(written)
    later: dict[str, list[pa.Array]] = {}
    for number in range(len(written) - 1, -1, -1):
        own = written[number]
        if number != largest:
            kept = {key: _without(ids, later.get(key, [])) for key, ids in sorted(own.items())}
            named[number] = tuple(
                WrittenIds(table_key=key, ids=tuple(ids.to_pylist())) for key, ids in kept.items() if len(ids)
            )
        for key, ids in own.items():
            later.setdefault(key, []).append(ids)
    return named


def can_name(sizes: Sequence[int]) -> bool:
    """Whether commits that wrote so many rows may share a version."""
    return sum(sizes) - max(sizes, default=0) <= MOST_NAMED


def _share(one: Commit, other: Commit) -> bool:
    return (one.branch, one.manifest_version) == (other.branch, other.manifest_version)


def _by_table(commits: Iterable[Commit]) -> dict[str, pa.Array]:
    found: dict[str, list[str]] = {}
    for commit in commits:
        for written in commit.wrote or ():
            found.setdefault(written.table_key, []).extend(written.ids)
    return {key: pa.array(ids, pa.string()) for key, ids in found.items()}


def _without(ids: pa.Array, others: Sequence[pa.Array]) -> pa.Array:
    if not others:
        return ids
    return ids.filter(pc.invert(pc.is_in(ids, value_set=pa.concat_arrays(others))))
