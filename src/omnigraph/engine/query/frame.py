"""Rows on their way through a read: for each variable the row ids of its entities, nothing else.

A row id is Lance's stable one: it names an entity within the table of its type, whether that table is asked through an
index or held in memory, so rows never need translating between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.records import record

RowIds = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_ID_BYTES = 8
# Stands where an optional block found nothing.
MISSING = -1
# A variable that ranges over several tables has the number of the table above the row id, which storage counts up.
_TAG_BITS = 48


def tagged(row_ids: RowIds, number: int) -> RowIds:
    """Return row ids of the table that has this number among those of a variable."""
    if number and len(row_ids) and int(row_ids.max()) >> _TAG_BITS:
        message = f"a row id takes more than {_TAG_BITS} bits"
        raise InternalError(message)
    return row_ids | (number << _TAG_BITS)


def untagged(row_ids: RowIds) -> tuple[Positions, RowIds]:
    """Return the number of each entity's table, and its row id there."""
    return row_ids >> _TAG_BITS, row_ids & ((1 << _TAG_BITS) - 1)


@record
class Frame:
    """Some rows.

    ``weights`` says how many equal rows each one stands for, when the others were never made. ``values`` are what
    travels with the rows beside their entities: what earlier stages, lists and blocks gave. An entity that is missing
    has the row id :data:`MISSING`.
    """

    length: int
    ids: Mapping[str, RowIds] = field(default_factory=dict)
    weights: npt.NDArray[np.int64] | None = None
    values: Mapping[str, pa.Array] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """What the frame takes in memory."""
        carried: int = sum(values.nbytes for values in self.values.values())
        return _ID_BYTES * self.length * (len(self.ids) + (self.weights is not None)) + carried

    def take(self, rows: Positions) -> Frame:
        """Return the rows at these positions, in their order, repeated where a position is."""
        return Frame(
            length=len(rows),
            ids={name: ids[rows] for name, ids in self.ids.items()},
            weights=None if self.weights is None else self.weights[rows],
            values={name: values.take(pa.array(rows)) for name, values in self.values.items()},
        )

    def keep(self, mask: Mask) -> Frame:
        """Return the rows that the mask marks."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Frame:
        """Return the rows from ``start`` up to ``stop``, without copying."""
        if start <= 0 and stop >= self.length:
            return self
        return Frame(
            length=max(0, min(stop, self.length) - start),
            ids={name: ids[start:stop] for name, ids in self.ids.items()},
            weights=None if self.weights is None else self.weights[start:stop],
            values={name: values.slice(start, stop - start) for name, values in self.values.items()},
        )

    def binding(self, ids: Mapping[str, RowIds]) -> Frame:
        """Return the frame with more variables."""
        return Frame(length=self.length, ids={**self.ids, **ids}, weights=self.weights, values=self.values)

    def carrying(self, values: Mapping[str, pa.Array]) -> Frame:
        """Return the frame with more values."""
        return Frame(length=self.length, ids=self.ids, weights=self.weights, values={**self.values, **values})

    def weighing(self, weights: npt.NDArray[np.int64]) -> Frame:
        """Return the frame with every row counted so many times as before times its weight; none stays for zero."""
        combined = weights if self.weights is None else self.weights * weights
        return Frame(length=self.length, ids=self.ids, weights=combined, values=self.values).keep(combined > 0)


UNIT = Frame(length=1)


def concatenate(frames: Sequence[Frame]) -> Frame:
    """Return the rows of all frames, which have the same variables; no frame gives no rows and no variables."""
    if len(frames) == 1:
        return frames[0]
    if not frames:
        return Frame(length=0)
    first = frames[0]
    return Frame(
        length=sum(frame.length for frame in frames),
        ids={name: np.concatenate([frame.ids[name] for frame in frames]) for name in first.ids},
        weights=None
        if first.weights is None
        else np.concatenate([frame.weights for frame in frames if frame.weights is not None]),
        values={name: pa.concat_arrays([frame.values[name] for frame in frames]) for name in first.values},
    )


def distinct(row_ids: RowIds) -> RowIds:
    """Return every row id once, ascending; sorting beats the hash table of numpy's own function by far."""
    if len(row_ids) < 2:
        return row_ids
    in_order = np.sort(row_ids)
    is_first = np.ones(len(in_order), dtype=np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    return in_order[is_first]
