"""Rankings: by distance, by words, and by the fusion of two of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from omnigraph.engine.query.search.analysis import analyse
from omnigraph.lang.gq import ast
from tests.query_oracle.expressions import Scope, check
from tests.query_oracle.faults import Fault
from tests.query_oracle.values import Entity, Row, round_to_f32

Ranking = ast.Nearest | ast.Bm25 | ast.Rrf
RANKINGS = ast.Nearest | ast.Bm25 | ast.Rrf

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    """A row with the distance or score it was placed by."""

    row: Row
    value: float


def rank(
    rows: list[Row], ranking: Ranking, scope: Scope, tie: Callable[[Row], Any], limit: int | None
) -> list[RankedRow]:
    """Return the rows that take part, best first.

    Args:
        rows: the rows of the complete match.
        ranking: the first order key.
        scope: what the variables are bound to.
        tie: what settles what the ranking leaves open.
        limit: how many entities a fusion looks at; None for all.
    """
    variable = _variable(ranking)
    present = list(dict.fromkeys(row[variable] for row in rows if row[variable] is not None))
    if isinstance(ranking, ast.Rrf):
        scores = _fuse(present, ranking, scope, limit)
    else:
        scores = dict(_arm(present, ranking, scope))
    place = {chosen: index for index, chosen in enumerate(scores)}
    ranked = [row for row in rows if row[variable] in place]
    ranked.sort(key=lambda row: (place[row[variable]], tie(row)))
    return [RankedRow(row=row, value=scores[row[variable]]) for row in ranked]


def _fuse(present: list[Entity], ranking: ast.Rrf, scope: Scope, limit: int | None) -> dict[Entity, float]:
    k = None if ranking.k is None else check(ranking.k, scope).value({})
    k = 60 if k is None else k
    if k <= 0:
        raise Fault("amount", f"k = {k}")
    scores: dict[Entity, Fraction] = {}
    for arm in (ranking.first, ranking.second):
        found = [chosen for chosen, _ in _arm(present, arm, scope)]
        for position, chosen in enumerate(found[:limit] if isinstance(arm, ast.Nearest) else found, start=1):
            scores[chosen] = scores.get(chosen, Fraction(0)) + Fraction(1, k + position)
    # Insertion order is that of the first arm, then that of the second; sorting keeps it among equals.
    best = sorted(scores, key=lambda chosen: -scores[chosen])[:limit]
    return {chosen: float(scores[chosen]) for chosen in best}


def _arm(present: list[Entity], ranking: ast.Nearest | ast.Bm25, scope: Scope) -> list[tuple[Entity, float]]:
    """Return the entities that have a rank, best first, ties by id, and the distance or score of each."""
    query = check(ranking.query, scope).value({})
    if query is None:
        raise Fault("ranking", "a ranking by NULL")
    if isinstance(ranking, ast.Bm25):
        return _by_words(present, ranking, query, scope)
    point = [round_to_f32(item) for item in query]
    target, variable = check(ranking.target, scope), _variable(ranking)
    vectors = {chosen: target.value({variable: chosen}) for chosen in present}
    away = {chosen: _square(vector, point) for chosen, vector in vectors.items() if vector is not None}
    ordered = sorted(away, key=lambda chosen: (away[chosen], chosen[1], chosen[0]))
    return [(chosen, math.sqrt(away[chosen])) for chosen in ordered]


def _by_words(present: list[Entity], ranking: ast.Bm25, query: str, scope: Scope) -> list[tuple[Entity, float]]:
    target, variable = check(ranking.target, scope), _variable(ranking)
    scores: dict[Entity, float] = {}
    for type_name in {chosen[0] for chosen in present}:
        # Words are weighed by all texts of the type, whatever the match leaves of them.
        texts = {
            (type_name, chosen): Counter(analyse(text))
            for chosen in scope.request.graph.nodes[type_name]
            if (text := target.value({variable: (type_name, chosen)})) is not None
        }
        for chosen in present:
            if chosen in texts and (score := _score(texts, chosen, query)) > 0:
                scores[chosen] = score
    ordered = sorted(scores, key=lambda chosen: (-scores[chosen], chosen[1], chosen[0]))
    return [(chosen, scores[chosen]) for chosen in ordered]


def _score(texts: dict[Entity, Counter[str]], chosen: Entity, query: str) -> float:
    words, total = texts[chosen], 0.0
    mean = sum(found.total() for found in texts.values()) / len(texts)
    for term in sorted(set(analyse(query))):
        if words[term]:
            holding = sum(1 for found in texts.values() if found[term])
            rarity = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            damping = _K1 * (1 - _B + _B * words.total() / mean)
            total += rarity * (words[term] * (_K1 + 1) / (words[term] + damping))
    return total


def _square(vector: list[float], query: list[float]) -> Fraction:
    pairs = zip(vector, query, strict=True)
    return sum(((Fraction(one) - Fraction(other)) ** 2 for one, other in pairs), Fraction(0))


def _variable(ranking: Any) -> str:
    if isinstance(ranking, ast.Rrf):
        return _variable(ranking.first)
    return ranking.target.variable.name
