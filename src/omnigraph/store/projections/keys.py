"""The keys of a table: from an id to the row that has it, without reading the column of ids.

The projection has the hash of every id, packed, and the place of its row, sorted by hash. It is made of all rows that
the files of a version hold, deleted ones too, so that it fits every version that lists these files, whatever was
deleted before and after. A row that is found is therefore only a candidate: it counts when it is still there and has
the id.

Fragments that are newer than every projection have segments of their own in memory; a version has as many as it needs
to cover its fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.records import record
from omnigraph.store.handles import SCAN_STAGES, metered
from omnigraph.store.projections.files import Projection
from omnigraph.store.projections.format import CoveredFragment, CoveredTable
from omnigraph.store.projections.hashes import REVISION, Hashes, hash_texts
from omnigraph.store.projections.kinds import KEYS
from omnigraph.store.projections.packing import NAMES, PackedHashes
from omnigraph.store.projections.segments import KeySegment, Places, plain_hashes, segment_of
from omnigraph.store.tables.pinned import KEY, PinnedTable
from omnigraph.store.tables.pins import FragmentRef

Check = Callable[[int], None]
# The ids of the rows of a fragment, and the rows' offsets in it.
FragmentIds = tuple[pa.Array | pa.ChunkedArray, npt.NDArray[np.uint32]]

_PLACES, _HASH, _FORM = "places", "hash", "form"
# Files of another form are as if they were not there.
_PACKED = 2
# What a row takes while its segment is made: its hash, its place in order, its hash in order, and its place as stored.
BYTES_PER_ROW = 32
# More rows than that with one hash are somebody's mischief; their ids are looked for in another way.
_MOST_ALIKE = 64
# So many projections are put together for a version; a further one hardly ever covers more.
_MOST_PROJECTIONS = 4
_READ_AHEAD = 64 << 20
_MOST_ROWS = 64_000_000


@record
class Candidates:
    """Rows that may have one of the ids that were asked for, in the order of the table.

    Args:
        wanted: which of the ids, by position.
        fragments: which of the version's fragments, by position.
        offsets: which row of the fragment.
        crowded: ids that so many rows may have that they have to be looked for in another way, by position.
    """

    wanted: Places
    fragments: Places
    offsets: npt.NDArray[np.uint32]
    crowded: Places


@record
class KeySources:
    """What an index was put together from: projections by name, and segments in memory."""

    projections: tuple[str, ...]
    memory: tuple[KeySegment, ...]

    def are(self, other: KeySources) -> bool:
        """Whether these are the same."""
        return self.projections == other.projections and self.memory is other.memory


class KeyIndex:
    """What is known of the ids of one version of a table. It never changes.

    Args:
        table: the table at that version.
        segments: where to look; a fragment that several have is looked for in the first of them.
        sources: what it was put together from.
    """

    def __init__(self, table: PinnedTable, segments: Iterable[KeySegment], sources: KeySources) -> None:
        numbers = id_fields(table)
        self.table_fragments = table.fragments
        self.sources = sources
        missing = {at: id_files(item, numbers) for at, item in enumerate(table.fragments)}
        self.parts: list[tuple[KeySegment, Places, Places]] = []
        for segment in segments:
            if not missing:
                break
            found = {
                at: number
                for at, files in missing.items()
                for number in segment.numbers.get(files, ())
                if _has_all_rows(segment.fragments[number], table.fragments[at])
            }
            if found:
                indexes = np.full(len(segment.fragments), -1, dtype=np.int64)
                indexes[list(found.values())] = list(found)
                self.parts.append((segment, segment.starts, indexes))
                missing = {at: files for at, files in missing.items() if at not in found}
        # Fragments of which nothing is known, by position.
        self.missing: tuple[int, ...] = tuple(missing)

    def with_segment(self, table: PinnedTable, segment: KeySegment) -> KeyIndex:
        """Return an index that looks in one more segment, which has fragments that are missing here."""
        made = copy(self)
        numbers = id_fields(table)
        indexes = np.full(len(segment.fragments), -1, dtype=np.int64)
        for at in self.missing:
            for number in segment.numbers.get(id_files(table.fragments[at], numbers), ()):
                indexes[number] = at
        made.parts = [*self.parts, (segment, segment.starts, indexes)]
        known = set(indexes.tolist())
        made.missing = tuple(at for at in self.missing if at not in known)
        return made

    @property
    def segments(self) -> list[KeySegment]:
        """Where it looks."""
        return [segment for segment, _, _ in self.parts]

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, together with its segments."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any fragment."""
        return not self.parts

    def find(self, hashes: Hashes) -> Candidates:
        """Return the rows whose ids have one of these hashes, of fragments that are not missing."""
        found = [self._find_in(*part, hashes) for part in self.parts]
        wanted, fragments, offsets = (
            (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else _NOTHING
        )
        crowded = np.zeros(0, dtype=np.int64)
        if len(wanted) > _MOST_ALIKE:
            counts = np.bincount(wanted, minlength=len(hashes))
            crowded = np.flatnonzero(counts > _MOST_ALIKE)
            if len(crowded):
                kept = counts[wanted] <= _MOST_ALIKE
                wanted, fragments, offsets = wanted[kept], fragments[kept], offsets[kept]
        if len(wanted) > 1:
            order = np.lexsort((offsets, fragments))
            wanted, fragments, offsets = wanted[order], fragments[order], offsets[order]
        return Candidates(wanted=wanted, fragments=fragments, offsets=offsets.astype(np.uint32), crowded=crowded)

    def find_one(self, wanted: int) -> list[tuple[int, int]] | None:
        """Return fragments, by position, and offsets of the rows whose ids have a hash; None when they are too many.

        It finds what :meth:`find` does, without the arrays that many hashes are worth.
        """
        found = []
        for segment, starts, indexes in self.parts:
            for at in range(*segment.run_of(wanted)):
                place = int(segment.places[at])
                owner = int(starts.searchsorted(place, side="right")) - 1
                if indexes[owner] >= 0:
                    found.append((int(indexes[owner]), place - int(starts[owner])))
                    if len(found) > _MOST_ALIKE:
                        return None
        return found

    def _find_in(
        self, segment: KeySegment, starts: Places, indexes: Places, hashes: Hashes
    ) -> tuple[Places, Places, Places]:
        low, counts = segment.runs_of(hashes)
        total = int(counts.sum())
        if not total:
            return _NOTHING
        wanted = np.repeat(np.arange(len(hashes)), counts)
        # Each hash has a run of rows; their positions count up from where the run begins.
        at = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + low[wanted]
        places = segment.places[at].astype(np.int64)
        owners = np.searchsorted(starts, places, side="right") - 1
        fragments = indexes[owners]
        kept = fragments >= 0
        return wanted[kept], fragments[kept], (places - starts[owners])[kept]


_NONE = np.zeros(0, dtype=np.int64)
_NOTHING = (_NONE, _NONE, _NONE)


def key_index(table: PinnedTable, *, fetch: bool = False) -> KeyIndex:
    """Return what is known of the ids of a table, put together from projections and from memory.

    Args:
        table: the table at a version.
        fetch: bring projections of an object store to this machine, and look again for new ones; otherwise only those
            are used that are here. Those of a local disk always are.
    """
    indexes = table.datasets.keys.indexes
    known = indexes.get(table.pin)
    if known is not None and known.table_fragments is not table.fragments:
        known = None
    if known is not None and not known.missing:
        return known
    location = table.pin.location
    store = table.datasets.projections
    if fetch or table.datasets.storage.is_local:
        found = store.find(location, KEYS, refresh=fetch)
    else:
        found = store.loaded(location, KEYS)
    sources = KeySources(
        projections=tuple(projection.key for projection in found), memory=table.datasets.keys.segments(location)
    )
    if known is not None and known.sources.are(sources):
        return known
    made = KeyIndex(table, [*_projected(table, found), *sources.memory], sources)
    indexes.put(table.pin, made)
    return made


def _projected(table: PinnedTable, found: Sequence[Projection]) -> list[KeySegment]:
    numbers = id_fields(table)
    by_files = {id_files(item, numbers): item for item in table.fragments}
    segments: list[KeySegment] = []
    for projection in found:
        if not is_usable(projection.facts) or len(segments) == _MOST_PROJECTIONS:
            continue
        fragments = projection.tables[0].fragments
        fitting = {known.files for known in fragments if _fits(known, by_files)}
        arrays = projection.load() if fitting else None
        if arrays is None or not {*NAMES, _PLACES} <= arrays.keys():
            continue
        is_mapped = projection.private_bytes == 0
        segments.append(
            KeySegment(
                fragments=fragments,
                hashes=PackedHashes.unpack(arrays),
                places=arrays[_PLACES],
                is_mapped=is_mapped,
            )
        )
        # The next one is worth its memory only for what this one has not.
        by_files = {files: item for files, item in by_files.items() if files not in fitting}
        if not by_files:
            break
    return segments


def _fits(known: CoveredFragment, by_files: dict[tuple[str, ...], FragmentRef]) -> bool:
    fragment = by_files.get(known.files)
    return fragment is not None and _has_all_rows(known, fragment)


def extend(table: PinnedTable, index: KeyIndex, ids: Mapping[int, FragmentIds]) -> KeyIndex:
    """Return an index that knows more fragments, and keep what it knows for other versions.

    Args:
        table: the table at a version.
        index: what is known of it.
        ids: the ids of all rows of fragments that are missing, by position, with the offsets of the rows.
    """
    numbers = id_fields(table)
    fragments, hashes, places, start = [], [], [], 0
    for at, (texts, offsets) in ids.items():
        metadata = table.fragments[at].metadata
        deletion = metadata.deletion_file if len(texts) < metadata.physical_rows else None
        fragments.append(
            CoveredFragment(
                files=id_files(table.fragments[at], numbers),
                row_count=metadata.physical_rows,
                deletion=None if deletion is None else (deletion.read_version, deletion.id),
            )
        )
        hashes.append(hash_texts(texts))
        places.append(start + offsets.astype(np.int64))
        start += metadata.physical_rows
    segment = segment_of(fragments, np.concatenate(hashes), np.concatenate(places))
    memory = table.datasets.keys
    memory.add(table.pin.location, segment, {id_files(item, numbers) for item in table.fragments})
    made = index.with_segment(table, segment)
    memory.indexes.put(table.pin, made)
    return made


def learn_written(table: PinnedTable, written: FragmentRef, ids: pa.Array) -> None:
    """Keep the keys of a fragment that was just written beside a version, so that the next one need not look for them.

    A fragment that no version ever lists is never asked for.
    """
    numbers = id_fields(table)
    fragment = CoveredFragment(files=id_files(written, numbers), row_count=len(ids))
    live = {id_files(item, numbers) for item in table.fragments}
    table.datasets.keys.add(table.pin.location, segment_of([fragment], hash_texts(ids)), {fragment.files, *live})


def is_usable(facts: Mapping[str, Any]) -> bool:
    """Whether a stored projection has the hashes that this version of the program looks for."""
    return facts.get(_HASH) == REVISION and facts.get(_FORM) == _PACKED


def is_found_by_keys(table: PinnedTable) -> bool:
    """Whether ids are found by keys at all times, so that nothing is gained by an index on them.

    Files of an object store may not be on this machine, and a write does not wait for them. Keys of very many rows take
    more memory to make than maintenance should.
    """
    return table.datasets.storage.is_local and table.row_count <= _MOST_ROWS


def needs_keys(table: PinnedTable) -> bool:
    """Whether the table has fragments that no stored projection covers."""
    found = table.datasets.projections.find(table.pin.location, KEYS, refresh=True)
    sources = KeySources(projections=tuple(projection.key for projection in found), memory=())
    return bool(KeyIndex(table, _projected(table, found), sources).missing)


def build_keys(table: PinnedTable, check: Check | None = None, ids: pa.ChunkedArray | None = None) -> Projection | None:
    """Make the projection of a table's keys and store it; None when it cannot be stored.

    Args:
        table: the table at a version.
        check: called with the bytes that the work is about to take; raises to stop it.
        ids: the ids of all rows in the order of the table, when they are in memory; else they are read.
    """
    numbers = id_fields(table)
    # Deleted rows are in it too, so that it is as if nothing had been deleted yet.
    fragments = tuple(
        CoveredFragment(files=id_files(item, numbers), row_count=item.metadata.physical_rows)
        for item in table.fragments
    )
    count = sum(fragment.row_count for fragment in fragments)
    if check is not None:
        check(BYTES_PER_ROW * count)
    hashes = np.empty(count, dtype=np.uint64)
    at = 0
    for texts in _all_ids(table) if ids is None or len(ids) != count else ids.chunks:
        if at + len(texts) > count:
            return None
        hashes[at : at + len(texts)] = hash_texts(texts)
        at += len(texts)
        if check is not None:
            check(0)
    if at != count:
        return None
    segment = segment_of(fragments, hashes)
    return table.datasets.projections.save(
        KEYS,
        "",
        [CoveredTable(location=table.pin.location, fragments=fragments)],
        {**PackedHashes.of(plain_hashes(segment)).pack(), _PLACES: segment.places},
        {_HASH: REVISION, _FORM: _PACKED, "rows": count},
    )


def _all_ids(table: PinnedTable) -> Iterator[pa.Array]:
    with table.reading(), metered(table.handle, at_most=SCAN_STAGES, side_by_side=len(table.fragments)):
        reader = table.handle.scanner(
            columns=[KEY], with_row_id=True, include_deleted_rows=True, io_buffer_size=_READ_AHEAD
        ).to_reader()
        for batch in reader:
            yield batch.column(KEY)


def id_fields(table: PinnedTable) -> frozenset[int]:
    """Return the number of the column of ids."""
    return frozenset(number for number, name in table.fields if name == KEY)


def id_files(fragment: FragmentRef, numbers: frozenset[int]) -> tuple[str, ...]:
    """Return the data files of a fragment that hold its ids."""
    if len(fragment.files) == 1:
        return fragment.files
    return tuple(file._path for file in fragment.metadata.files if numbers.intersection(file.fields))  # noqa: SLF001 - the plain field


def _has_all_rows(known: CoveredFragment, fragment: FragmentRef) -> bool:
    """Whether what is known of a fragment has all rows that a version has of it, without reading a deletion file."""
    metadata = fragment.metadata
    if known.row_count != metadata.physical_rows:
        return False
    deletion = metadata.deletion_file
    return known.deletion is None or (deletion is not None and known.deletion == (deletion.read_version, deletion.id))
