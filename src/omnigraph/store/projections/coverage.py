"""What a projection covers of a table, and what that means at another version of it.

Files never change, so a row of a file that both versions list is the same row with the same values. Only two things
differ between versions: which fragments they list, and which rows their deletion files hide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from lance.fragment import FragmentMetadata

from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.projections.format import CoveredFragment, CoveredTable
from omnigraph.store.tables.pinned import ROW_ADDRESS, PinnedTable
from omnigraph.store.tables.pins import FragmentRef, data_paths
from omnigraph.store.tables.row_versions import read_deletions

Offsets = npt.NDArray[np.uint32]

_NONE: Offsets = np.zeros(0, dtype=np.uint32)
_CACHE_BYTES = 16 << 20
# Deleted rows by fragment: a deletion file never changes.
_deleted: LRUCache[tuple[str, str | None, tuple[str, ...], tuple[int, int]], Offsets] = LRUCache(
    max_size=_CACHE_BYTES, size_of=lambda offsets: 64 + offsets.nbytes
)


@record
class Piece:
    """A fragment that a projection covers and a version lists.

    Args:
        start: the place of its first row in the projection.
        count: how many places it has there.
        index: which of the version's fragments it is.
        gone: the offsets of rows that were there for the projection and are deleted at the version, ascending.
        back: the offsets of rows that were deleted for the projection and are there at the version, ascending.
        deleted: the offsets of all rows that are deleted at the version, ascending.
    """

    start: int
    count: int
    index: int
    gone: Offsets
    back: Offsets
    deleted: Offsets


@record
class Match:
    """A projection's rows at a version of its table.

    Args:
        pieces: what both have, in the order of the version's fragments.
        lost: places, from and up to, of fragments that the version does not list.
        uncovered: which of the version's fragments the projection knows nothing about.
    """

    pieces: tuple[Piece, ...]
    lost: tuple[tuple[int, int], ...]
    uncovered: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the version has the rows of the projection and no others."""
        is_same = not any(len(piece.gone) or len(piece.back) for piece in self.pieces)
        return is_same and not self.lost and not self.uncovered

    @property
    def gone_places(self) -> npt.NDArray[np.int64]:
        """The places, ascending, of rows that were there for the projection and are not at the version."""
        parts = [np.arange(start, stop, dtype=np.int64) for start, stop in self.lost]
        parts += [piece.start + piece.gone.astype(np.int64) for piece in self.pieces if len(piece.gone)]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))


def cover(table: PinnedTable, columns: Sequence[str], indexes: Sequence[int] | None = None) -> CoveredTable:
    """Return what a projection covers that is made from these columns of every row of a table, or of some fragments."""
    numbers = _numbers(table, columns)
    chosen = table.fragments if indexes is None else [table.fragments[index] for index in indexes]
    return CoveredTable(
        location=table.pin.location,
        fragments=tuple(
            CoveredFragment(
                files=_files(fragment.metadata, numbers),
                row_count=fragment.metadata.physical_rows,
                deletion=_deletion(fragment.metadata),
                deleted=deleted_rows(table, fragment).tobytes(),
            )
            for fragment in chosen
        ),
    )


def match(covered: CoveredTable, table: PinnedTable, columns: Sequence[str], *, takes_back: bool = False) -> Match:
    """Compare what a projection covers with a version of its table; reads deletion files that are not known yet.

    Args:
        covered: what the projection covers.
        table: the version.
        columns: the columns that the projection is made from.
        takes_back: list the rows that come back to life at an older version; otherwise the whole fragment of such a
            row counts as one that the projection knows nothing about.
    """
    numbers = _numbers(table, columns)
    starts = np.cumsum([0, *(fragment.row_count for fragment in covered.fragments)]).tolist()
    known = {fragment.files: at for at, fragment in enumerate(covered.fragments)}
    pieces, uncovered, seen = list[Piece](), list[int](), set[int]()
    for index, fragment in enumerate(table.fragments):
        at = known.get(_files(fragment.metadata, numbers))
        changed = None if at is None else _changed(covered.fragments[at], table, fragment)
        if at is None or changed is None or at in seen or (len(changed[1]) and not takes_back):
            uncovered.append(index)
        else:
            seen.add(at)
            count, (gone, back, deleted) = covered.fragments[at].row_count, changed
            pieces.append(Piece(start=starts[at], count=count, index=index, gone=gone, back=back, deleted=deleted))
    lost = tuple((starts[at], starts[at + 1]) for at in range(len(covered.fragments)) if at not in seen)
    return Match(pieces=tuple(pieces), lost=lost, uncovered=tuple(uncovered))


def deleted_rows(table: PinnedTable, fragment: FragmentRef) -> Offsets:
    """Return the offsets of a fragment's deleted rows, ascending; a deletion file is read once."""
    deletion = _deletion(fragment.metadata)
    if deletion is None:
        return _NONE
    key = (table.pin.location, table.pin.branch, fragment.files, deletion)
    found = _deleted.get(key)
    if found is None:
        found = read_deletions(table, fragment.metadata)
        if found is None:
            found = _scanned(table, fragment)
        _deleted.put(key, found)
    return found


def _scanned(table: PinnedTable, fragment: FragmentRef) -> Offsets:
    is_deleted = np.ones(fragment.metadata.physical_rows, dtype=np.bool_)
    rows = table.read([ROW_ADDRESS], fragment_ids=[fragment.metadata.id])
    # The low half of a row address is the row's place in its fragment.
    is_deleted[rows.column(ROW_ADDRESS).to_numpy().astype(np.uint32)] = False
    return np.flatnonzero(is_deleted).astype(np.uint32)


def _changed(
    known: CoveredFragment, table: PinnedTable, fragment: FragmentRef
) -> tuple[Offsets, Offsets, Offsets] | None:
    """Return which rows were deleted since, which were not yet, and all that are; None when it is another fragment."""
    if known.row_count != fragment.metadata.physical_rows:
        return None
    before = np.frombuffer(known.deleted, dtype=np.uint32)
    if known.deletion == _deletion(fragment.metadata):
        return _NONE, _NONE, before
    now = deleted_rows(table, fragment)
    return np.setdiff1d(now, before, assume_unique=True), np.setdiff1d(before, now, assume_unique=True), now


def _numbers(table: PinnedTable, columns: Sequence[str]) -> frozenset[int]:
    return frozenset(number for number, name in table.fields if name in columns)


def _files(metadata: FragmentMetadata, numbers: frozenset[int]) -> tuple[str, ...]:
    holding = tuple(file._path for file in metadata.files if numbers.intersection(file.fields))  # noqa: SLF001 - the plain field
    # A column that was added later is in no file of older fragments, which still have to be told apart.
    return holding or data_paths(metadata)


def _deletion(metadata: FragmentMetadata) -> tuple[int, int] | None:
    deletion = metadata.deletion_file
    return None if deletion is None else (deletion.read_version, deletion.id)
