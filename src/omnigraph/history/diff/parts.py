"""Differences that do not fit in memory: the rows that can differ, laid down in files by ranges of their ids.

Ranges ascend and so do the ids inside of each, so that what is worked out range by range comes in the order of ids, as
it does in one piece. Memory holds the rows of one range, and of none more than was asked for.
"""

from __future__ import annotations

import math
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.scratch import ScratchFolder, sweep_scratch
from omnigraph.errors import BadValue, FileAccessError
from omnigraph.history.diff.rows import READ_WHOLE, TableDelta, selected_delta
from omnigraph.history.diff.selection import Selection
from omnigraph.store.memory import give_back_memory
from omnigraph.store.tables.pinned import KEY

# What a difference may hold in memory; more of it lies in temporary files.
DEFAULT_MEMORY_BYTES = 512 << 20
# Sorting, comparing and merging rows makes copies of them, of which so many were counted at a time.
COPIES = 12
_MOST_PARTS = 2048
_SAMPLED_IDS, _SAMPLED_ROWS = 65_536, 256
_BUFFERED = 4
_PACKING = pa.ipc.IpcWriteOptions(compression="lz4")


def whole_delta(lost: Selection | None, gained: Selection | None, memory_bytes: int) -> TableDelta | None:
    """Return how two selections of a table differ, None if that does not fit the memory."""
    sides = [side for side in (lost, gained) if side is not None]
    # Few rows are read at once rather than asked for their size.
    if max(side.row_count for side in sides) > READ_WHOLE and count_parts(sides, memory_bytes) > 1:
        return None

    def check(held: int) -> None:
        if held * COPIES > memory_bytes:
            raise _TooMuchError

    try:
        return selected_delta(lost, gained, check)
    except _TooMuchError:
        return None


class _TooMuchError(Exception):
    """More is held than fits; never leaves this module."""


def count_parts(selections: Sequence[Selection | None], memory_bytes: int) -> int:
    """Return in how many ranges of ids rows have to be worked on, so that each fits the memory; 1 if all of them do.

    How large a row is, is told by the first ones.
    """
    rows = max((side.row_count for side in selections if side is not None), default=0)
    if rows <= 1:
        return 1
    size = sum(side.row_count * row_bytes(side) for side in selections if side is not None and side.row_count)
    return count_ranges(rows, size, memory_bytes)


def count_ranges(rows: int, size_bytes: float, memory_bytes: int) -> int:
    """Return in how many ranges rows of this size have to be worked on, so that each fits the memory."""
    return min(max(math.ceil(size_bytes * COPIES / max(memory_bytes, 1)), 1), max(rows, 1), _MOST_PARTS)


def iter_parts(
    differing: Sequence[Selection | None], beside: Sequence[Selection | None], count: int, memory_bytes: int
) -> Iterator[tuple[pa.Table, ...]]:
    """Yield the rows of every selection range by range, ascending by id in each.

    Args:
        differing: selections whose ids decide where ranges begin.
        beside: further selections of rows in the same columns, which are cut at the same places.
        count: how many ranges there are at most.
        memory_bytes: how much may wait in memory to be written.

    Raises:
        FileAccessError: the temporary files have no room.
    """
    laid = LaidParts(differing, beside, count, memory_bytes)
    try:
        for place in range(laid.count):
            give_back_memory()
            yield laid.take(place)
    finally:
        laid.close()


class LaidParts:
    """The rows of selections in temporary files, by ranges of ids; takes and raises what :func:`iter_parts` does.

    The files go when it is closed, or when nothing holds it any more.
    """

    def __init__(
        self, differing: Sequence[Selection | None], beside: Sequence[Selection | None], count: int, memory_bytes: int
    ) -> None:
        selections = [*differing, *beside]
        # A side that is missing has no rows, in the columns of any other.
        shown = next(side.table.schema for side in selections if side is not None)
        schemas = [shown if side is None else side.table.schema for side in selections]
        self._splits = [] if count <= 1 else find_splits([sample_ids(differing)], count)
        sweep_scratch()
        folder = ScratchFolder.make("merge")
        self._closing = weakref.finalize(self, folder.close)
        self._laid = [_RangeFiles(folder.path / f"{number}", schema) for number, schema in enumerate(schemas)]
        try:
            for files, side in zip(self._laid, selections, strict=True):
                if side is not None:
                    cut_rows(side, files.schema, self._splits, memory_bytes, files.append)
        except BaseException:
            self.close()
            raise

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self._splits) + 1

    def place_of(self, entity_id: str) -> int:
        """Return the range that an id belongs to."""
        return bisect_right(self._splits, entity_id)

    def read(self, place: int) -> tuple[pa.Table, ...]:
        """Return the rows of a range, ascending by id in each selection."""
        return tuple(files.read(place) for files in self._laid)

    def take(self, place: int) -> tuple[pa.Table, ...]:
        """Return the rows of a range, and let its files go."""
        found = self.read(place)
        for files in self._laid:
            files.remove(place)
        return found

    def close(self) -> None:
        """Remove the files."""
        self._closing()


def cut_rows(
    side: Selection, schema: pa.Schema, splits: Sequence[str], memory_bytes: int, write: Callable[[int, pa.Table], None]
) -> None:
    """Hand over the rows of a selection by range, some at a time.

    Args:
        side: the rows.
        schema: the columns that they are wanted in.
        splits: the ids at which ranges begin, but for the first.
        memory_bytes: how much may wait in memory to be handed over.
        write: takes the number of a range and some of its rows.
    """
    rows = _RangedRows(schema, splits, memory_bytes // _BUFFERED, write)
    for batch in side.stream(side.table.schema.names):
        rows.add(batch)
    rows.flush()


class _RangedRows:
    """Rows by range, which wait until there are enough of them to be written."""

    def __init__(
        self, schema: pa.Schema, splits: Sequence[str], memory_bytes: int, write: Callable[[int, pa.Table], None]
    ) -> None:
        self._schema = schema
        self._splits = splits
        self._memory_bytes = memory_bytes
        self._write = write
        self._waiting: dict[int, list[pa.Table]] = {}
        self._held = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        rows = pa.Table.from_batches([batch]).select(self._schema.names).cast(self._schema)
        rows = sorted_by_id(rows).combine_chunks()
        ids = rows.column(KEY)
        start = 0
        for place in range(len(self._splits) + 1):
            end = rows.num_rows
            if place < len(self._splits):
                end = bisect_left(range(rows.num_rows), self._splits[place], lo=start, key=lambda at: ids[at].as_py())
            if end > start:
                self._waiting.setdefault(place, []).append(rows.slice(start, end - start))
            if end == rows.num_rows:
                break
            start = end
        self._held += rows.nbytes
        if self._held > self._memory_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        for place, pieces in self._waiting.items():
            self._write(place, pa.concat_tables(pieces).combine_chunks())
        self._waiting.clear()
        self._held = 0


class _RangeFiles:
    """Rows of one selection by range; a range is a file to which rows are appended."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self.schema = schema

    def append(self, place: int, rows: pa.Table) -> None:
        """Add rows of a range.

        Raises:
            FileAccessError: there is no room for them.
        """
        try:
            with pa.OSFile(str(self._file(place)), "ab") as file, self._writer(file) as stream:
                stream.write_table(rows)
        except OSError as problem:
            where = str(self._path.parent)
            details = BadValue(what="folder", value=where, expected="space for temporary files")
            reason = (problem.strerror or str(problem)).lower()
            raise FileAccessError(f"cannot write temporary files to '{where}': {reason}", details=details) from problem

    def read(self, place: int) -> pa.Table:
        """Return the rows of a range by id."""
        path = self._file(place)
        parts = [self.schema.empty_table()]
        if path.exists():
            with pa.OSFile(str(path), "rb") as file:
                while file.tell() < file.size():
                    parts.append(pa.ipc.open_stream(file).read_all())
        return sorted_by_id(pa.concat_tables(parts))

    def remove(self, place: int) -> None:
        """Let the file of a range go."""
        self._file(place).unlink(missing_ok=True)

    def _file(self, place: int) -> Path:
        return self._path.with_name(f"{self._path.name}-{place}.arrow")

    def _writer(self, file: pa.OSFile) -> pa.RecordBatchStreamWriter:
        return pa.ipc.new_stream(file, self.schema, options=_PACKING)


def row_bytes(side: Selection) -> float:
    """Return about how large a row of a selection is, as the first ones tell."""
    first = next(iter(side.stream(side.table.schema.names, batch_rows=_SAMPLED_ROWS)), None)
    if first is None or not first.num_rows:
        return 0.0
    # A slice of a larger batch may bring all of it along.
    return float(pa.Table.from_batches([first]).nbytes / first.num_rows)


def sample_ids(selections: Sequence[Selection | None], most: int = _SAMPLED_IDS) -> pa.Array:
    """Return about ``most`` ids that stand for all that are selected, evenly chosen."""
    total = sum(side.row_count for side in selections if side is not None)
    step = max(total // most, 1)
    samples = [pa.array([], pa.string())]
    passed = 0
    for side in selections:
        for batch in () if side is None else side.stream((KEY,)):
            places = np.arange(-passed % step, batch.num_rows, step)
            samples.append(batch.column(0).take(pa.array(places)))
            passed += batch.num_rows
    return pa.concat_arrays(samples)


def find_splits(samples: Sequence[pa.Array], count: int) -> list[str]:
    """Return the ids at which ranges of about as many rows begin, but for the first."""
    known = pc.unique(pa.concat_arrays([pa.array([], pa.string()), *samples]))
    ordered = known.take(pc.sort_indices(known))
    places = np.unique(np.linspace(0, len(ordered), count + 1).astype(np.int64))[1:-1]
    found: list[str] = ordered.take(pa.array(places)).to_pylist()
    return found


def sorted_by_id(rows: pa.Table) -> pa.Table:
    """Return rows by id."""
    return rows.take(pc.sort_indices(rows.column(KEY))) if rows.num_rows > 1 else rows
