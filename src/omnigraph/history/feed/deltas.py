"""Differences of tables that pages of one commit or comparison share: in memory, or in files by ranges of ids."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.diff.compare import OpenPair, changed_ids
from omnigraph.history.diff.parts import COPIES, DEFAULT_MEMORY_BYTES, LaidParts, count_parts
from omnigraph.history.diff.rows import (
    READ_WHOLE,
    ChangedRows,
    expect_same_columns,
    find_changed_rows,
    rows_delta,
)
from omnigraph.history.diff.selection import select_differing
from omnigraph.runtime import LRUCache
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.table import Table

_KEPT_BYTES = 128 << 20


# A version of a table, and the columns that it is read in.
_Shown = tuple[TablePin, tuple[tuple[str, str], ...]]


class CommitDelta:
    """How one table changed, ascending by id from any place on.

    Args:
        rows: all that differs, or None if that is too much.
        laid: what differs in files by ranges of ids; then one range is in memory.
        range_bytes: what a range takes.
    """

    def __init__(self, rows: ChangedRows | None, laid: LaidParts | None = None, range_bytes: int = 0) -> None:
        self._rows = rows
        self._laid = laid
        self._range_bytes = range_bytes
        # Pages of one commit follow each other, and most of them stay in a range.
        self._last: tuple[int, ChangedRows] | None = None

    @classmethod
    def find(cls, opened: OpenPair, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> CommitDelta:
        """Work out how a table changed.

        Raises:
            FileAccessError: temporary files for a large difference have no room.
        """
        expect_same_columns(opened.before, opened.after)
        differing = select_differing(opened.before, opened.after)
        if max(0 if side is None else side.row_count for side in differing) > READ_WHOLE:
            count = count_parts(differing, memory_bytes)
            if count > 1:
                return cls(None, LaidParts(differing, (), count, memory_bytes), memory_bytes // COPIES)
        return cls(find_changed_rows(opened.before, opened.after))

    @property
    def size_bytes(self) -> int:
        """What is in memory of it."""
        return self._range_bytes if self._rows is None else self._rows.size_bytes

    def parts(self, after_id: str | None = None) -> Iterator[ChangedRows]:
        """Yield the difference, from the range on that an id belongs to."""
        if self._rows is not None:
            yield self._rows
        if self._laid is not None:
            first = 0 if after_id is None else self._laid.place_of(after_id)
            for place in range(first, self._laid.count):
                yield self._part(self._laid, place)

    def ids_near(self, prefix: str, wanted: ChangeFilter) -> list[str]:
        """Return the ids of changes that begin with a text."""
        found: list[str] = []
        for rows in self.parts(prefix):
            ids = changed_ids(rows, wanted)
            near: pa.ChunkedArray = ids.filter(pc.starts_with(ids, prefix))
            found += near.to_pylist()
            # Ids with this beginning stand together; one that is greater ends them.
            if len(ids) and not (greatest := pc.max(ids).as_py()).startswith(prefix) and greatest > prefix:
                break
        return found

    def _part(self, laid: LaidParts, place: int) -> ChangedRows:
        last = self._last
        if last is None or last[0] != place:
            was, will = laid.read(place)
            last = self._last = place, ChangedRows.held(rows_delta(was, will))
        return last[1]


class Deltas:
    """Differences of tables that were worked out lately: the pages of one large commit share them.

    Versions never change, so an entry is right for ever and only leaves to make room. Threads may share it.
    """

    def __init__(self, capacity_bytes: int = _KEPT_BYTES, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._known: LRUCache[tuple[_Shown | None, _Shown | None], CommitDelta] = LRUCache(
            max_size=capacity_bytes, size_of=attrgetter("size_bytes")
        )

    def of(self, opened: OpenPair) -> CommitDelta:
        """Return how a table changed."""
        key = _shown(opened.before), _shown(opened.after)
        delta = self._known.get(key)
        if delta is None:
            delta = CommitDelta.find(opened, self._memory_bytes)
            self._known.put(key, delta)
        return delta


def _shown(table: Table | None) -> _Shown | None:
    # One version may be read in the columns of several later schemas.
    return None if table is None else (table.pin, tuple((field.name, str(field.type)) for field in table.schema))
