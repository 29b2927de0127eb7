"""The rows of small fragments that no index covers, kept in memory.

Fragments are immutable: what a data file and its deletion file say never changes, so an entry is right for ever and
only leaves to make room. A writer puts in what it writes, so its own tail costs no call to check.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata

from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.tables.pins import data_paths

_CAPACITY_BYTES = 64 << 20
# More small ones than that are no tail: they are what a long run of commits has left behind.
_MOST_BLOCKS = 512
# Objects, buffers and their rounding, by measurement.
_BLOCK_BYTES = 4 << 10
_COLUMN_BYTES = 1 << 10
# Rows of a larger fragment are not kept, only its keys; beyond the second bound not even those.
WHOLE_ROWS_BYTES = 4 << 20
KEYS_ROWS = 200_000


@record(kw_only=False)
class BlockKey:
    """Names the live rows of a fragment under one schema."""

    files: tuple[str, ...]
    deletions: tuple[int, int] | None
    fields: tuple[tuple[int, str], ...]

    def __hash__(self) -> int:
        # Fragments are told apart by their files; fields are many, and hardly ever differ.
        return hash((self.files, self.deletions))

    @classmethod
    def of(cls, metadata: FragmentMetadata, fields: tuple[tuple[int, str], ...]) -> BlockKey:
        """Return the key of a fragment."""
        deletion = metadata.deletion_file
        return cls(
            files=data_paths(metadata),
            deletions=None if deletion is None else (deletion.read_version, deletion.id),
            fields=fields,
        )


@record
class Block:
    """The live rows of one fragment: their ids, where they stand in it, and the rows themselves when small enough."""

    ids: pa.Array
    offsets: npt.NDArray[np.uint32]
    rows: pa.Table | None

    @property
    def size_bytes(self) -> int:
        """What the block takes in memory: its values, and what holds them, which is most of a block of one row."""
        rows_bytes = 0 if self.rows is None else self.rows.nbytes + _COLUMN_BYTES * self.rows.num_columns
        return int(_BLOCK_BYTES + self.ids.nbytes + self.offsets.nbytes + rows_bytes)

    def without(self, deleted: npt.NDArray[np.uint32]) -> Block:
        """Return the block after the rows at these offsets are gone."""
        keep = np.flatnonzero(_are_kept(self.offsets, deleted))
        return Block(
            ids=self.ids.take(pa.array(keep)),
            offsets=self.offsets[keep],
            rows=None if self.rows is None else self.rows.take(pa.array(keep)),
        )


def _are_kept(offsets: npt.NDArray[np.uint32], deleted: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Say of each offset, which are in order, whether it is not among the deleted ones."""
    kept = np.ones(len(offsets), dtype=np.bool_)
    at = offsets.searchsorted(deleted)
    inside = at < len(offsets)
    at = at[inside]
    kept[at[offsets[at] == deleted[inside]]] = False
    return kept


def block_of_rows(rows: pa.Table) -> Block | None:
    """Return the block of a fragment that was just written with ``rows``; None when it is too big to keep."""
    if rows.num_rows > KEYS_ROWS:
        return None
    ids = rows["id"].combine_chunks()
    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], ids.type)
    return Block(
        ids=ids,
        offsets=np.arange(rows.num_rows, dtype=np.uint32),
        rows=rows.combine_chunks() if rows.nbytes <= WHOLE_ROWS_BYTES else None,
    )


class TailCache:
    """Blocks by key, least recently used out first."""

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        self._blocks: LRUCache[BlockKey, Block] = LRUCache(
            _MOST_BLOCKS, max_size=capacity_bytes, size_of=attrgetter("size_bytes")
        )

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def size_bytes(self) -> int:
        """What all blocks take in memory."""
        return self._blocks.size

    def get(self, key: BlockKey) -> Block | None:
        """Return the block, or None when it is not in memory."""
        return self._blocks.get(key)

    def put(self, key: BlockKey, block: Block) -> None:
        """Keep a block; older ones leave when there is no room."""
        self._blocks.put(key, block)


# A column that is not in order shows it early.
_SAMPLE = 1024
# What one Arrow array of texts can hold for sure.
_ONE_ARRAY_BYTES = 1 << 30


def are_all_different(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether no value stands twice; nulls do not count.

    >>> are_all_different(pa.array(["b", "a", None, None])), are_all_different(pa.array(["a", "b", "a"]))
    (True, False)
    """
    if len(column) < 2:
        return True
    if _can_ascend(column) and _ascends(column.slice(0, _SAMPLE)) and _ascends(column):
        return True
    if column.nbytes > _ONE_ARRAY_BYTES:
        return bool(pc.count_distinct(column, mode="only_valid").as_py() == len(column) - column.null_count)
    # Takes half as long as counting them, but puts them side by side.
    found = pc.unique(column)
    return bool(len(found) - found.null_count == len(column) - column.null_count)


def _can_ascend(column: pa.Array | pa.ChunkedArray) -> bool:
    return not column.null_count and bool(pa.types.is_string(column.type) or pa.types.is_integer(column.type))


def _ascends(column: pa.Array | pa.ChunkedArray) -> bool:
    # Ids that are made up for a load are in order, and comparing neighbours is a hundred times cheaper than hashing.
    after = column.slice(1)
    return bool(pc.all(pc.less(column.slice(0, len(after)), after), min_count=0).as_py())
