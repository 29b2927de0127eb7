"""Orders of entities by rank, and the fusion of two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]
# Entity ids of codes in the order asked, or numbers that sort as those ids do.
IdsOf = Callable[[Codes], pa.Array | pa.ChunkedArray | Codes]


def rank_order(
    values: npt.NDArray[np.float64],
    codes: Codes,
    ids_of: IdsOf,
    *,
    limit: int | None = None,
    is_descending: bool = False,
) -> Codes:
    """Return the positions of values in rank order, ties by entity id ascending; NaN takes no part.

    Args:
        values: distances or scores.
        codes: the entity of each value, each once.
        ids_of: gives the entity ids of codes; asked only about ties.
        limit: how many at most.
        is_descending: whether the largest value is the best.
    """
    places = np.flatnonzero(~np.isnan(values))
    keys = -values[places] if is_descending else values[places]
    if limit is not None and limit <= 0:
        return places[:0]
    if limit is not None and limit < len(places):
        bound = np.partition(keys, limit - 1)[limit - 1]
        chosen = np.flatnonzero(keys <= bound)
        places, keys = places[chosen], keys[chosen]
    order = np.argsort(keys, kind="stable")
    places, keys = places[order], keys[order]
    return _break_ties(places, keys, codes, ids_of)[:limit]


def fuse(first: Codes, second: Codes, k: int, limit: int) -> tuple[Codes, npt.NDArray[np.float64]]:
    """Return the best entities of two rankings by reciprocal rank fusion, best first, and their scores.

    An entity scores 1 / (k + rank) in each ranking that lists it, ranks counted from 1. Equal scores keep the order of
    the first ranking, then that of the second. The score is the true sum rounded once, so sums that are equal are equal
    numbers.

    Args:
        first: codes in rank order, each once.
        second: the same for the other ranking; a ``nearest`` one holds its best ``limit`` entities.
        k: a positive number.
        limit: how many at most.
    """
    limit = max(limit, 0)
    firsts, seconds = _contenders(first, second, limit), _contenders(second, first, limit)
    codes, which = np.unique(np.concatenate([first[firsts], second[seconds]]), return_inverse=True)
    ranks = np.full((2, len(codes)), np.inf)
    ranks[0, which[: len(firsts)]] = firsts + 1
    ranks[1, which[len(firsts) :]] = seconds + 1
    scores = _fused(ranks + float(k))
    order = np.lexsort((ranks[1], ranks[0], -scores))[:limit]
    return codes[order], scores[order]


def _contenders(ranking: Codes, other: Codes, limit: int) -> Codes:
    """Return the positions that can matter: behind the best ``limit``, only what the other ranking lists too."""
    can_win = np.isin(ranking, other)
    can_win[:limit] = True
    return np.flatnonzero(can_win)


def _break_ties(places: Codes, keys: npt.NDArray[np.float64], codes: Codes, ids_of: IdsOf) -> Codes:
    """Put positions with equal keys, which stand side by side, in order of their ids."""
    is_repeated = keys[1:] == keys[:-1]
    if not is_repeated.any():
        return places
    is_tied = np.zeros(len(places), dtype=np.bool_)
    is_tied[1:] |= is_repeated
    is_tied[:-1] |= is_repeated
    tied = np.flatnonzero(is_tied)
    group = np.cumsum(np.concatenate([[True], ~is_repeated]))[tied]
    table = pa.table({"group": group, "id": ids_of(codes[places[tied]])})
    order = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("id", "ascending")]).to_numpy()
    sorted_places = places.copy()
    sorted_places[tied] = places[tied][order]
    return sorted_places


def _fused(below: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return 1/x + 1/y for the two rows of ``below``, infinity standing for an absent term."""
    smaller, larger = below.min(axis=0), below.max(axis=0)
    is_single = np.isinf(larger)
    # One division of whole numbers that a double holds exactly: no intermediate rounding.
    other = np.where(is_single, 1.0, larger)
    return np.asarray(np.where(is_single, 1 / smaller, (smaller + other) / (smaller * other)))


Floats = npt.NDArray[np.float64]

# Numbers worked on together, so that intermediate results stay in a processor's cache.
_BLOCK_NUMBERS = 1 << 15
_FLOAT32_ROUNDING = float(np.finfo(np.float32).eps)
# Squares below this lose digits in single precision.
_FLOAT32_TINY = 1e-30


def distances(vectors: pa.ChunkedArray, query: Sequence[float], codes: Codes | None = None) -> Floats:
    """Return the L2 distance of the vectors at ``codes``, of all when not given; NaN where there is no vector.

    Vectors are Float32, and so is the query once given; the distance is computed in double precision.
    """
    squares: Floats = _squares(vectors, query, codes, np.dtype(np.float64))
    return np.sqrt(squares)


def nearest(
    vectors: pa.ChunkedArray, query: Sequence[float], limit: int, ids_of: IdsOf, codes: Codes | None = None
) -> tuple[Codes, Floats]:
    """Return the codes of the nearest vectors, nearest first, ties by entity id, and their distances.

    Args:
        vectors: a Float32 vector per code, or NULL, which never takes part.
        query: the vector to be near to.
        limit: how many at most.
        ids_of: gives the entity ids of codes; asked only about ties.
        codes: which rows take part, each once; all when not given.
    """
    limit = max(limit, 0)
    rough = _squares(vectors, query, codes, np.dtype(np.float32))
    chosen = _candidates(rough, limit, _relative_error(len(query)))
    candidates = chosen if codes is None else codes[chosen]
    exact = distances(vectors, query, candidates)
    best = rank_order(exact, candidates, ids_of, limit=limit)
    return candidates[best], exact[best]


def _relative_error(dimension: int) -> float:
    """Return a bound on how wrong a sum of squares of this many differences can be in single precision."""
    return (dimension + 4) * _FLOAT32_ROUNDING


def _candidates(rough: npt.NDArray[Any], limit: int, error: float) -> Codes:
    """Return the positions whose true value may be among the ``limit`` smallest."""
    places = np.flatnonzero(~np.isnan(rough))
    if len(places) <= limit:
        return places
    if not limit:
        return places[:0]
    values = rough[places].astype(np.float64)
    bound = float(np.partition(values, limit - 1)[limit - 1])
    # Both the bound and what is compared with it may be off, in opposite directions.
    ceiling = (bound + _FLOAT32_TINY) * (1 + error) / max(1 - error, _FLOAT32_ROUNDING) + _FLOAT32_TINY
    return places[values <= ceiling]


def _squares(
    vectors: pa.ChunkedArray, query: Sequence[float], codes: Codes | None, precision: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return squared distances, computed in the given precision."""
    centre = np.asarray(query, dtype=np.float32).astype(precision)
    squares = np.full(len(vectors) if codes is None else len(codes), np.nan, dtype=precision)
    for chunk, places, picks in _chunks(vectors, codes):
        matrix, is_valid = _matrix(chunk)
        found = _row_squares(matrix, picks, centre)
        if is_valid is not None:
            found[~(is_valid if picks is None else is_valid[picks])] = np.nan
        squares[places] = found
    return squares


def _chunks(
    vectors: pa.ChunkedArray, codes: Codes | None
) -> Iterator[tuple[pa.FixedSizeListArray, slice | Codes, Codes | None]]:
    """Yield each chunk that is asked for, where its results belong, and which of its rows are wanted (None for all)."""
    ends = np.cumsum([len(chunk) for chunk in vectors.chunks], dtype=np.int64)
    if codes is None:
        for chunk, end in zip(vectors.chunks, ends, strict=True):
            yield chunk, slice(end - len(chunk), end), None
        return
    owners = np.searchsorted(ends, codes, side="right")
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(len(ends) + 1))
    for owner in np.unique(owners):
        chunk = vectors.chunk(int(owner))
        places = order[bounds[owner] : bounds[owner + 1]]
        yield chunk, places, codes[places] - (ends[owner] - len(chunk))


def _matrix(chunk: pa.FixedSizeListArray) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_] | None]:
    """Return the numbers of a chunk, a row per vector and not copied, and which rows are vectors (None for all)."""
    width = chunk.type.list_size
    numbers = chunk.values.slice(chunk.offset * width, len(chunk) * width)
    start = numbers.offset
    matrix = np.frombuffer(numbers.buffers()[1] or b"", dtype=np.float32)[start : start + len(numbers)]
    is_valid: npt.NDArray[np.bool_] | None = None
    if chunk.null_count:
        is_valid = np.asarray(chunk.is_valid())
    if numbers.null_count:
        is_whole = np.all(np.asarray(numbers.is_valid()).reshape(len(chunk), width), axis=1)
        is_valid = is_whole if is_valid is None else np.logical_and(is_valid, is_whole)
    return matrix.reshape(len(chunk), width), is_valid


def _row_squares(matrix: npt.NDArray[np.float32], picks: Codes | None, centre: npt.NDArray[Any]) -> npt.NDArray[Any]:
    count = len(matrix) if picks is None else len(picks)
    squares = np.empty(count, dtype=centre.dtype)
    height = max(1, _BLOCK_NUMBERS // matrix.shape[1])
    # Numbers that are too large become infinite, which is as far away as they should be.
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, count, height):
            block = slice(start, start + height)
            away = (matrix[block] if picks is None else matrix[picks[block]]) - centre
            np.einsum("ij,ij->i", away, away, out=squares[block])
    return squares
