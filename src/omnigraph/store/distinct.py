"""Whether the values of a column are all different, asked in the cheapest way that can tell."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# A column that is not in order shows it early.
_SAMPLE = 1024
# What one Arrow array of texts can hold for sure.
_ONE_ARRAY_BYTES = 1 << 30


def are_all_different(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether no value stands twice; nulls do not count.

    >>> are_all_different(pa.array(["b", "a", None, None])), are_all_different(pa.array(["a", "b", "a"]))
    (True, False)
    """
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
