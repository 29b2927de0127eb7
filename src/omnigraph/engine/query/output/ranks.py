"""Rows in order: values become numbers that sort as the language wants, with NULL below everything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.predicates import comparable
from omnigraph.engine.query.frame import Positions
from omnigraph.engine.query.output.partitions import PIECE_ROWS

Ranks = npt.NDArray[np.int64]

_LIMIT = 1 << 62
# Rows are sorted into twice as many ranges and one, which a byte can number; so many samples stand for a cut.
_CUTS = 127
_SAMPLE = 16


def rank_values(values: pa.Array) -> Ranks:
    """Return numbers that order values ascending: equal for equal ones, and least for NULL."""
    plain = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else comparable(values)
    if pa.types.is_integer(plain.type) and _is_moderate(plain):
        numbers: Ranks = pc.fill_null(plain.cast(pa.int64()), -_LIMIT).to_numpy(zero_copy_only=False)
        return numbers
    ranked = pc.rank(plain, sort_keys=[("", "ascending", "at_start")], tiebreaker="dense")
    return np.asarray(ranked.to_numpy(zero_copy_only=False), dtype=np.int64)


def _is_moderate(values: pa.Array) -> bool:
    """Whether integers leave room for a number below all of them, and for their negatives."""
    if values.type.bit_width < 64:
        return True
    bounds = pc.min_max(values)
    return not bounds["min"].is_valid or (bounds["min"].as_py() > -_LIMIT and bounds["max"].as_py() < _LIMIT)


def first_rows(keys: Sequence[Ranks], limit: int | None) -> Positions:
    """Return the positions of rows in order of the keys, the first key first; at most ``limit`` of them."""
    if not keys:
        return np.zeros(0, dtype=np.int64)
    count = len(keys[0])
    if limit is None or limit >= count:
        return _in_order(keys, np.arange(count))
    if limit == 0:
        return np.zeros(0, dtype=np.int64)
    # Whatever is not better than the last wanted first key cannot be among the first.
    bound = np.partition(keys[0], limit - 1)[limit - 1]
    return _in_order(keys, np.flatnonzero(keys[0] <= bound))[:limit]


def _in_order(keys: Sequence[Ranks], rows: Positions) -> Positions:
    """Sort rows by the keys, equal ones staying as they are; no call takes so long that a read cannot be stopped."""
    if not keys:
        return rows
    if len(rows) <= PIECE_ROWS:
        return rows[np.lexsort([key[rows] for key in reversed(keys)])]
    sample = np.sort(keys[0][rows[:: -(-len(rows) // (_CUTS * _SAMPLE))]])
    cuts = np.unique(sample[_SAMPLE // 2 :: _SAMPLE])
    ranges: list[list[Positions]] = [[] for _ in range(2 * len(cuts) + 1)]
    for start in range(0, len(rows), PIECE_ROWS):
        piece = rows[start : start + PIECE_ROWS]
        values = keys[0][piece]
        # Even numbers lie between two cuts, odd ones are a cut and need only the other keys.
        places = (np.searchsorted(cuts, values, "left") + np.searchsorted(cuts, values, "right")).astype(np.uint8)
        bounds = np.cumsum(np.bincount(places, minlength=len(ranges)))[:-1]
        for found, part in zip(ranges, np.split(piece[np.argsort(places, kind="stable")], bounds), strict=True):
            found.append(part)
    return np.concatenate([_in_order(keys[number % 2 :], np.concatenate(found)) for number, found in enumerate(ranges)])
