"""Rankings by distance: ``nearest``, and the fusion of two of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from omnigraph.lang.gq import ast
from tests.query_oracle.expressions import Scope, check
from tests.query_oracle.values import Row, round_to_f32

Ranking = ast.Nearest | ast.Bm25 | ast.Rrf


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    """A row with the distance or score it was placed by."""

    row: Row
    value: float


def rank(rows: list[Row], ranking: Ranking, scope: Scope, tie: Callable[[Row], Any], limit: int) -> list[RankedRow]:
    """Return the rows that take part, best first.

    Args:
        rows: the rows of the complete match.
        ranking: the first order key.
        scope: what the variables are bound to.
        tie: what settles what the ranking leaves open.
        limit: the limit of the query, which a fusion looks at.
    """
    variable = _variable(ranking)
    if isinstance(ranking, ast.Rrf):
        scores = _fuse(rows, ranking, scope, limit)
    else:
        scores = {chosen: _root(square) for square, chosen in _nearest(rows, ranking, scope)}
    place = {chosen: index for index, chosen in enumerate(scores)}
    ranked = [row for row in rows if row[variable][1] in place]
    ranked.sort(key=lambda row: (place[row[variable][1]], tie(row)))
    return [RankedRow(row=row, value=scores[row[variable][1]]) for row in ranked]


def _fuse(rows: list[Row], ranking: ast.Rrf, scope: Scope, limit: int) -> dict[str, float]:
    k = None if ranking.k is None else check(ranking.k, scope).value({})
    k = 60 if k is None else k
    arms = [[chosen for _, chosen in _nearest(rows, arm, scope)[:limit]] for arm in (ranking.first, ranking.second)]
    scores: dict[str, Fraction] = {}
    for arm in arms:
        for position, chosen in enumerate(arm, start=1):
            scores[chosen] = scores.get(chosen, Fraction(0)) + Fraction(1, k + position)
    # Insertion order is that of the first arm, then that of the second; sorting keeps it among equals.
    best = sorted(scores, key=lambda chosen: -scores[chosen])[:limit]
    return {chosen: float(scores[chosen]) for chosen in best}


def _nearest(rows: list[Row], ranking: ast.Nearest | ast.Bm25, scope: Scope) -> list[tuple[Fraction, str]]:
    if isinstance(ranking, ast.Bm25):
        msg = "the oracle does not search text"
        raise NotImplementedError(msg)
    query = [round_to_f32(item) for item in check(ranking.query, scope).value({})]
    found: dict[str, Fraction] = {}
    target = check(ranking.target, scope)
    for row in rows:
        vector = target.value(row)
        if vector is not None:
            found[row[_variable(ranking)][1]] = _square(vector, query)
    return sorted((square, chosen) for chosen, square in found.items())


def _square(vector: list[float], query: list[float]) -> Fraction:
    pairs = zip(vector, query, strict=True)
    return sum(((Fraction(one) - Fraction(other)) ** 2 for one, other in pairs), Fraction(0))


def _root(square: Fraction) -> float:
    return math.sqrt(square)


def _variable(ranking: Any) -> str:
    if isinstance(ranking, ast.Rrf):
        return _variable(ranking.first)
    return ranking.target.variable.name
