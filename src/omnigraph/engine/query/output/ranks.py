"""Rows in order: values become numbers that sort as the language wants, with NULL below everything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.predicates import comparable

Ranks = npt.NDArray[np.int64]


def rank_values(values: pa.Array) -> Ranks:
    """Return numbers that order values ascending: equal for equal ones, and least for NULL."""
    plain = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else comparable(values)
    if pa.types.is_integer(plain.type) and plain.type.bit_width < 64:
        numbers: Ranks = pc.fill_null(plain.cast(pa.int64()), -(1 << 62)).to_numpy(zero_copy_only=False)
        return numbers
    ranked = pc.rank(plain, sort_keys=[("", "ascending", "at_start")], tiebreaker="dense")
    return np.asarray(ranked.to_numpy(zero_copy_only=False), dtype=np.int64)


def first_rows(keys: list[Ranks], limit: int | None) -> npt.NDArray[np.int64]:
    """Return the positions of rows in order of the keys, the first key first; at most ``limit`` of them."""
    if not keys:
        return np.zeros(0, dtype=np.int64)
    count = len(keys[0])
    if limit is None or limit >= count:
        return np.lexsort(keys[::-1])
    if limit == 0:
        return np.zeros(0, dtype=np.int64)
    # Whatever is not better than the last wanted first key cannot be among the first.
    bound = np.partition(keys[0], limit - 1)[limit - 1]
    candidates = np.flatnonzero(keys[0] <= bound)
    order = np.lexsort([key[candidates] for key in keys[::-1]])[:limit]
    return candidates[order]
