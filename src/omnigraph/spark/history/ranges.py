"""The rows that can differ between versions of tables, cut into ranges of ids by tasks.

First tasks look at some fragments each and tell how many rows differ there, how large they are, and which ids stand for
them. Then they write these rows to the scratch place, a file per range. A range is what one task compares.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial

import pyarrow as pa

from omnigraph.history.diff.parts import count_ranges, cut_rows, find_splits, row_bytes, sample_ids, sorted_by_id
from omnigraph.history.diff.selection import FragmentPair, Selection, differing_fragments, select_pairs
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.history.states import Compared, Versions
from omnigraph.spark.runner import Runner
from omnigraph.store.scratch import ScratchPlace
from omnigraph.values import check_whole

_MIB = 1 << 20
_SAMPLES = 512
FragmentIds = tuple[int | None, int | None]


@record
class SparkHistorySettings:
    """What the tasks of a merge or a difference may use, and how large their pieces are.

    Args:
        memory_bytes: how much of the rows that differ a task holds at once.
        whole_rows: a table in which at most so many rows can differ is compared by one task.
        read_rows: how many rows of fragments one task cuts into ranges.
        write_rows: how many rows one task writes to a table.
        fragment_rows: rows per fragment at most.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    memory_bytes: int = 256 * _MIB
    whole_rows: int = 200_000
    read_rows: int = 1 << 20
    write_rows: int = 1 << 19
    fragment_rows: int = 1 << 20

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "read_rows", "write_rows", "fragment_rows"):
            check_whole(name, getattr(self, name), least=1)
        check_whole("whole_rows", self.whole_rows)


@record
class Piece:
    """Some fragments of two versions of a table in which they can differ.

    Args:
        table: the table, as :class:`Compared` calls it.
        versions: which versions of it.
        fragments: the numbers of the fragments.
    """

    table: str
    versions: int
    fragments: tuple[FragmentIds, ...]


@record
class Surveyed:
    """What a piece holds: rows and their size on both sides, and ids that stand for all."""

    rows: int
    size_bytes: float
    ids: tuple[str, ...] = field(repr=False)


@record
class Cut:
    """Rows of one range in the scratch place; ``side`` counts the versions of a table as they are listed."""

    side: int
    place: int
    name: str
    rows: int


@record(eq=False)
class TableRanges:
    """How one table is divided: ids at which ranges begin, and the files of each range.

    ``cuts`` is None where the table is small, and one task looks at all of it.
    """

    splits: Sequence[str] = ()
    cuts: Mapping[int, tuple[Cut, ...]] | None = None

    @property
    def places(self) -> range:
        """The numbers of the ranges."""
        return range(len(self.splits) + 1)

    def place_of(self, entity_id: str) -> int:
        """Return the range that an id belongs to."""
        return bisect_right(self.splits, entity_id)


@record(eq=False)
class Ranging:
    """Divides tables; ``compared`` opens their versions wherever tasks run."""

    compared: Compared
    runner: Runner
    scratch: ScratchPlace
    settings: SparkHistorySettings

    def divide(self, tables: Mapping[str, Sequence[Versions]]) -> dict[str, TableRanges]:
        """Return how each table is divided. Rows of those that are not small are in the scratch place afterwards."""
        found = {key: TableRanges() for key in tables}
        pieces = [piece for key, versions in tables.items() for piece in self._pieces(key, versions)]
        if not pieces:
            return found
        surveyed = self.runner.run(partial(survey_piece, self.compared), pieces, "find the rows that differ")
        splits = {key: self._splits(key, pieces, surveyed) for key in {piece.table for piece in pieces}}
        order = CutOrder(compared=self.compared, scratch=self.scratch, splits=splits, settings=self.settings)
        cuts: dict[str, dict[int, list[Cut]]] = {}
        filled = [piece for piece, seen in zip(pieces, surveyed, strict=True) if seen.rows]
        for piece, some in zip(filled, self.runner.run(partial(cut_piece, order), filled, "sort rows"), strict=True):
            for cut in some:
                cuts.setdefault(piece.table, {}).setdefault(cut.place, []).append(cut)
        for key, chosen in splits.items():
            places = {place: tuple(some) for place, some in cuts.get(key, {}).items()}
            found[key] = TableRanges(splits=chosen, cuts=places)
        return found

    def _pieces(self, key: str, versions: Sequence[Versions]) -> Iterator[Piece]:
        pairs = [differing_fragments(*both) for both in versions]
        if sum(pair.row_count for some in pairs for pair in some) <= self.settings.whole_rows:
            return
        for number, some in enumerate(pairs):
            for group in _grouped(some, self.settings.read_rows):
                yield Piece(table=key, versions=number, fragments=group)

    def _splits(self, key: str, pieces: Sequence[Piece], surveyed: Sequence[Surveyed]) -> list[str]:
        mine = [(piece, seen) for piece, seen in zip(pieces, surveyed, strict=True) if piece.table == key]
        rows, size = sum(seen.rows for _, seen in mine), sum(seen.size_bytes for _, seen in mine)
        count = count_ranges(rows, size, self.settings.memory_bytes)
        samples = [pa.array(seen.ids, pa.string()) for piece, seen in mine if not piece.versions]
        return [] if count <= 1 else find_splits(samples, count)


def _grouped(pairs: Sequence[FragmentPair], most: int) -> Iterator[tuple[FragmentIds, ...]]:
    group: list[FragmentIds] = []
    rows = 0
    for pair in pairs:
        if group and rows + pair.row_count > most:
            yield tuple(group)
            group, rows = [], 0
        group.append(pair.ids)
        rows += pair.row_count
    if group:
        yield tuple(group)


@record
class CutOrder:
    """What all tasks that cut rows into ranges have in common."""

    compared: Compared
    scratch: ScratchPlace
    splits: Mapping[str, Sequence[str]]
    settings: SparkHistorySettings


def survey_piece(compared: Compared, piece: Piece) -> Surveyed:
    """Look at the rows of a piece that differ."""
    sides = _selected(compared, piece)
    filled = [side for side in sides if side is not None and side.row_count]
    return Surveyed(
        rows=sum(side.row_count for side in filled),
        size_bytes=sum(side.row_count * row_bytes(side) for side in filled),
        ids=tuple(sample_ids(filled, _SAMPLES).to_pylist()) if not piece.versions else (),
    )


def cut_piece(order: CutOrder, piece: Piece) -> list[Cut]:
    """Write the rows of a piece that differ, each to a file of its range."""
    # Another attempt at the same piece writes files of its own.
    attempt = Runtime.system().ids.ulid()
    cuts: list[Cut] = []
    for number, side in enumerate(_selected(order.compared, piece)):
        if side is None or not side.row_count:
            continue
        at = 2 * piece.versions + number

        def write(place: int, rows: pa.Table, at: int = at) -> None:
            name = f"cut/{attempt}-{len(cuts)}"
            order.scratch.put(name, rows)
            cuts.append(Cut(side=at, place=place, name=name, rows=rows.num_rows))

        cut_rows(side, side.table.schema, order.splits[piece.table], order.settings.memory_bytes, write)
    return cuts


def read_range(scratch: ScratchPlace, cuts: Sequence[Cut], versions: Sequence[Versions]) -> list[pa.Table]:
    """Return the rows of one range by id: of each version in the order in which they are listed."""
    tables = [table for both in versions for table in both]
    shown = next(table.schema for table in tables if table is not None)
    found = []
    for number, table in enumerate(tables):
        # A version that is missing has no rows, in the columns of any other.
        schema = shown if table is None else table.schema
        names = [cut.name for cut in cuts if cut.side == number]
        parts = [schema.empty_table()]
        parts += [pa.Table.from_batches(scratch.read_arrow(name), schema=schema) for name in names]
        found.append(sorted_by_id(pa.concat_tables(parts)))
    return found


def _selected(compared: Compared, piece: Piece) -> tuple[Selection | None, Selection | None]:
    before, after = compared.versions(piece.table)[piece.versions]
    old, new = (
        {} if table is None else {item.metadata.id: item for item in table.fragments} for table in (before, after)
    )
    pairs = [
        FragmentPair(before=None if one is None else old[one], after=None if other is None else new[other])
        for one, other in piece.fragments
    ]
    return select_pairs(before, after, pairs)
