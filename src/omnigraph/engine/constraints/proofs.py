"""Cheap proofs that a set rule finds nothing, so that a clean change pays for no relational engine.

A proof may fail where the text would find nothing; it never succeeds where the text would find something.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.predicates import comparable
from omnigraph.store.distinct import are_all_different

# Codes of several columns are multiplied into one number while they fit it.
_MOST_CODES = 1 << 62


def are_distinct(columns: Sequence[pa.ChunkedArray]) -> bool:
    """Whether no two rows hold the same tuple; rows with a null in any column do not count.

    >>> are_distinct([pa.chunked_array([["a", "a", None, None]]), pa.chunked_array([[1, 2, 3, 3]])])
    True
    """
    if len(columns[0]) < 2:
        return True
    plain = [pa.chunked_array([comparable(chunk) for chunk in column.chunks]) for column in columns]
    if len(plain) == 1:
        return are_all_different(plain[0])
    valid = np.ones(len(plain[0]), dtype=bool)
    for column in plain:
        if column.null_count:
            valid &= pc.is_valid(column).to_numpy()
    codes, size = np.zeros(int(valid.sum()), dtype=np.int64), 1
    for column in plain:
        own, count = _codes(column)
        if size * count > _MOST_CODES:
            known, codes = np.unique(codes, return_inverse=True)
            size = len(known)
        codes, size = codes * count + own[valid], size * count
    ordered = np.sort(codes)
    return not bool((ordered[1:] == ordered[:-1]).any())


def counts_are_within(
    counts: pa.StructArray, stored: pa.ChunkedArray, touched: pa.Array, gone: pa.Array, bounds: tuple[int, int]
) -> bool:
    """Whether every touched source that stays has a number of edges within ``bounds``.

    Args:
        counts: how many edges of each source are written.
        stored: the source of each stored edge that stays as it is; only touched ones.
        touched: the sources in question, among them all that are written.
        gone: sources that do not stay.
        bounds: the least and the greatest number.
    """
    minimum, maximum = bounds
    sources, numbers = counts.field("values"), counts.field("counts")
    if len(stored):
        more = pc.value_counts(stored)
        both = pa.table(
            {
                "source": pa.chunked_array([sources, more.field("values")], pa.string()),
                "edges": pa.chunked_array([numbers, more.field("counts")]),
            }
        )
        summed = both.group_by("source").aggregate([("edges", "sum")])
        sources, numbers = summed.column("source"), summed.column("edges_sum")
    expected = len(touched)
    if len(gone):
        stays = pc.invert(pc.is_in(sources, value_set=gone))
        numbers = numbers.filter(stays)
        expected = pc.sum(pc.invert(pc.is_in(touched, value_set=gone))).as_py() or 0
    if len(numbers) and pc.max(numbers).as_py() > maximum:
        return False
    return not minimum or (len(numbers) == expected and (not expected or pc.min(numbers).as_py() >= minimum))


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    encoded = pc.dictionary_encode(column).combine_chunks()
    numbers = pc.fill_null(encoded.indices, 0).to_numpy()
    return numbers.astype(np.int64), max(len(encoded.dictionary), 1)
