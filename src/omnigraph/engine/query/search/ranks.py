"""Orders of entities by rank, and the fusion of two of them."""

from __future__ import annotations

from collections.abc import Callable

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
