"""Distances of vectors, and the nearest ones: single precision chooses candidates, double precision decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.search.ranks import Codes, IdsOf, rank_order

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

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


def squared_norms(vectors: pa.Array) -> pa.Array:
    """Return the squared length of each vector of one array in double precision; NaN where there is no vector."""
    matrix, is_valid = _matrix(vectors)
    norms = _row_squares(matrix, None, np.zeros(matrix.shape[1]))
    if is_valid is not None:
        norms[~is_valid] = np.nan
    return pa.array(norms)


def nearest(
    vectors: pa.ChunkedArray,
    query: Sequence[float],
    limit: int,
    ids_of: IdsOf,
    codes: Codes | None = None,
    norms: pa.ChunkedArray | None = None,
) -> tuple[Codes, Floats]:
    """Return the codes of the nearest vectors, nearest first, ties by entity id, and their distances.

    Args:
        vectors: a Float32 vector per code, or NULL, which never takes part.
        query: the vector to be near to.
        limit: how many at most.
        ids_of: gives the entity ids of codes; asked only about ties.
        codes: which rows take part, each once; all when not given.
        norms: :func:`squared_norms` of every array of ``vectors``; computed when not given.
    """
    limit = max(limit, 0)
    if codes is not None and len(codes) == len(vectors):
        codes = None
    if norms is None:
        norms = pa.chunked_array([squared_norms(chunk) for chunk in vectors.chunks], type=pa.float64())
    chosen = near_by_product(vectors, norms, query, limit, codes)
    candidates = chosen if codes is None else codes[chosen]
    if len(candidates) > _FEW * max(limit, _FEW):
        # Where lengths are large beside distances, the product cannot tell vectors apart that their difference can.
        rough = _squares(vectors, query, candidates, np.dtype(np.float32))
        candidates = candidates[_candidates(rough, limit, _relative_error(len(query)))]
    exact = distances(vectors, query, candidates)
    best = rank_order(exact, candidates, ids_of, limit=limit)
    return candidates[best], exact[best]


# So many candidates for each row that is wanted, and at least as many rows, are compared in double precision at once.
_FEW = 32
# Rows of which the smallest bound stands for all of them when the ceiling is looked for.
_GROUP_ROWS = 64
# Beyond this the bound on the error of a product of single precision does not hold.
_MOST_DIMENSIONS = 1 << 20
_SMALLEST_NORMAL = 2.0**-126
# The product of a whole matrix beats picking rows from it once this share of them is asked for.
_PICKED_SHARE = 4


def near_by_product(
    vectors: pa.ChunkedArray, norms: pa.ChunkedArray, query: Sequence[float], limit: int, codes: Codes | None
) -> Codes:
    """Return the positions whose vectors may be among the ``limit`` nearest, judged by one matrix product.

    The square of a distance is ``s = |x|² - 2 x·q + |q|²``. The product ``x·q`` of ``d`` numbers is computed in single
    precision, of unit roundoff ``u = 2⁻²⁴``, everything else in double. In whatever order terms are added, fused or
    not, and as long as nothing overflows, the product is wrong by at most ``g Σ|xⱼ qⱼ|`` with ``g = d u / (1 - d u)``,
    and by ``2⁻¹²⁶ (1 + |xⱼ| + |qⱼ|)`` for each term that underflows, should the processor flush such numbers to zero.
    ``Σ|xⱼ qⱼ| <= |x| |q| <= (|x|² + |q|²) / 2``, so twice the product is wrong by at most

        ``e = c (|x|² + |q|²) + t``   with  ``c = 2 (d + 16) u >= g + rounding in double``,  ``t = 8 d 2⁻¹²⁶``

    for ``d <= 2²⁰``: then ``g <= 1.07 d u``, and what is left of ``c`` is far more than the few roundings of ``2⁻⁵³``
    of the norms and the sum need, and than ``2⁻¹²⁶ d (|x| + |q|) <= 2⁻¹²⁶ d (1 + |x|² + |q|²)`` asks for.

    Of the ``limit`` smallest upper bounds ``s + e`` the largest is a ceiling: so many true squares are not above it.
    Whatever has a lower bound ``s - e`` above the ceiling is therefore farther than ``limit`` others. A product that
    overflowed is infinite or NaN; nothing is known of such a row, and it stays.
    """
    centre = np.asarray(query, dtype=np.float32)
    length = float(np.dot(centre.astype(np.float64), centre.astype(np.float64)))
    sizes, uppers = _norms_and_products(vectors, norms, centre, codes)
    if not limit:
        return np.zeros(0, dtype=np.int64)
    dimension = len(centre)
    if not np.isfinite(length) or dimension > _MOST_DIMENSIONS:
        return np.flatnonzero(~np.isnan(sizes))
    share = (dimension + 16) * 2.0**-23
    least = 8 * dimension * _SMALLEST_NORMAL
    with np.errstate(invalid="ignore", over="ignore"):
        # In place: from the product to |x|² (1 + c) - 2 x·q. The same for every row, |q|² (1 + c) + t, stays away.
        uppers *= -2.0
        uppers += sizes * (1 + share)
    is_odd = ~np.isfinite(uppers)
    unknown = np.zeros(0, dtype=np.int64)
    if is_odd.any():
        unknown = np.flatnonzero(is_odd & ~np.isnan(sizes))
        uppers[is_odd] = np.inf
    ceiling = _ceiling(uppers, limit)
    if not np.isfinite(ceiling):
        return np.flatnonzero(~np.isnan(sizes))
    # The lower bound of a row is 2 e below its upper one. First with the largest e, then each row with its own.
    within = np.flatnonzero(
        uppers <= ceiling + 2 * (share * (np.nanmax(sizes, where=~is_odd, initial=0) + length) + least)
    )
    if len(within) > limit:
        some = uppers[within]
        ceiling = float(np.partition(some, limit - 1)[limit - 1])
        within = within[some <= ceiling + 2 * (share * (sizes[within] + length) + least)]
    return within if not len(unknown) else np.union1d(within, unknown)


def _ceiling(uppers: Floats, limit: int) -> float:
    """Return a number that at least ``limit`` of the bounds do not exceed; infinity where there is none."""
    if limit > len(uppers):
        return np.inf
    groups = len(uppers) // _GROUP_ROWS
    if groups >= limit:
        # The smallest bounds of so many groups are bounds of as many rows.
        uppers = uppers[: groups * _GROUP_ROWS].reshape(groups, _GROUP_ROWS).min(axis=1)
    return float(np.partition(uppers, limit - 1)[limit - 1])


def _norms_and_products(
    vectors: pa.ChunkedArray, norms: pa.ChunkedArray, centre: Singles, codes: Codes | None
) -> tuple[Floats, Floats]:
    """Return the squared norms of the wanted rows, and the products of their vectors with one vector."""
    count = len(vectors) if codes is None else len(codes)
    sizes, products = np.empty(count), np.empty(count)
    with np.errstate(over="ignore", invalid="ignore"):
        for number, places, picks in _chunks(vectors, codes):
            matrix, _ = _matrix(vectors.chunk(number))
            known = norms.chunk(number).to_numpy()
            if picks is None:
                sizes[places], products[places] = known, matrix @ centre
            elif len(picks) * _PICKED_SHARE > len(matrix):
                sizes[places], products[places] = known[picks], (matrix @ centre)[picks]
            else:
                sizes[places], products[places] = known[picks], _picked_products(matrix, picks, centre)
    return sizes, products


def _picked_products(matrix: Singles, picks: Codes, centre: Singles) -> Singles:
    products = np.empty(len(picks), dtype=np.float32)
    height = max(1, _BLOCK_NUMBERS // matrix.shape[1])
    for start in range(0, len(picks), height):
        block = slice(start, start + height)
        np.dot(matrix[picks[block]], centre, out=products[block])
    return products


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
    for number, places, picks in _chunks(vectors, codes):
        matrix, is_valid = _matrix(vectors.chunk(number))
        found = _row_squares(matrix, picks, centre)
        if is_valid is not None:
            found[~(is_valid if picks is None else is_valid[picks])] = np.nan
        squares[places] = found
    return squares


def _chunks(vectors: pa.ChunkedArray, codes: Codes | None) -> Iterator[tuple[int, slice | Codes, Codes | None]]:
    """Yield each chunk that is asked for, where its results belong, and which of its rows are wanted (None for all)."""
    sizes = [len(vectors.chunk(number)) for number in range(vectors.num_chunks)]
    ends = np.cumsum(sizes, dtype=np.int64)
    if codes is None:
        for number, end in enumerate(ends.tolist()):
            yield number, slice(end - sizes[number], end), None
        return
    owners = np.searchsorted(ends, codes, side="right")
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(len(ends) + 1))
    for owner in np.unique(owners).tolist():
        places = order[bounds[owner] : bounds[owner + 1]]
        yield owner, places, codes[places] - (ends[owner] - sizes[owner])


def _matrix(chunk: pa.FixedSizeListArray) -> tuple[Singles, Mask | None]:
    """Return the numbers of a chunk, a row per vector and not copied, and which rows are vectors (None for all)."""
    width = chunk.type.list_size
    numbers = chunk.values.slice(chunk.offset * width, len(chunk) * width)
    start = numbers.offset
    matrix = np.frombuffer(numbers.buffers()[1] or b"", dtype=np.float32)[start : start + len(numbers)]
    is_valid: Mask | None = None
    if chunk.null_count:
        is_valid = np.asarray(chunk.is_valid())
    if numbers.null_count:
        is_whole = np.all(np.asarray(numbers.is_valid()).reshape(len(chunk), width), axis=1)
        is_valid = is_whole if is_valid is None else np.logical_and(is_valid, is_whole)
    return matrix.reshape(len(chunk), width), is_valid


def _row_squares(matrix: Singles, picks: Codes | None, centre: npt.NDArray[Any]) -> npt.NDArray[Any]:
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
