"""Rankings: the rows of the complete match in the order of one variable's rank."""

from __future__ import annotations

from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.frame import Frame, Positions
from omnigraph.engine.query.output.ordering import entity_ranks
from omnigraph.engine.query.search import fuse, nearest, rank_order
from omnigraph.errors import BadValue, ParameterProblem, QueryParameterError, QueryRuntimeError
from omnigraph.ir.model import (
    Bm25Ranking,
    Constant,
    EntityTies,
    NearestRanking,
    ParameterRef,
    Ranking,
    ReadPlan,
    RrfRanking,
)
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY

Scores = npt.NDArray[np.float64]

_DEFAULT_K = 60


@record
class RankingInput:
    """What a ranking compares rows with: a vector or a text for each of its arms, and the constant of a fusion."""

    queries: tuple[Any, ...]
    k: int = _DEFAULT_K


def resolve_ranking(context: QueryContext, ranking: Ranking) -> RankingInput:
    """Return what a ranking compares with, before a row is read: what is wrong with it does not depend on rows.

    Texts for the same kind of vector are embedded once.

    Raises:
        QueryRuntimeError: a query is NULL.
        QueryParameterError: the constant of a fusion is not positive.
        OmnigraphError: whatever :meth:`omnigraph.engine.embedding.Embedder.embed_query` raises.
    """
    vectors: dict[tuple[str, int, str | None], tuple[float, ...]] = {}
    if isinstance(ranking, RrfRanking):
        k = _fusion_k(context, ranking)
        arms = (ranking.first, ranking.second)
        return RankingInput(queries=tuple(_resolve(context, arm, vectors) for arm in arms), k=k)
    return RankingInput(queries=(_resolve(context, ranking, vectors),))


def ranked(
    context: QueryContext, read: ReadPlan, ranking: Ranking, given: RankingInput, frame: Frame
) -> tuple[Frame, Scores]:
    """Return the rows in rank order, cut at the limit, and the distance or score of each.

    Rows whose entity has no rank take no part. In a read with aggregates they stay, behind all others, because there a
    ranking only decides which group comes first.
    """
    keeps_all = read.groups is not None
    limit = None if keeps_all else read.limit
    if not frame.length:
        return frame, np.zeros(0)
    entities = context.entities_of(ranking.variable)
    codes = entities.codes(frame.ids[ranking.variable])
    order, scores = _ranked_entities(context, ranking, given, entities, entities.distinct_codes(codes), limit)
    place = np.full(entities.image.row_count, len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    value = np.full(entities.image.row_count, np.nan)
    value[order] = scores
    rows = np.arange(frame.length) if keeps_all else np.flatnonzero(place[codes] < len(order))
    kept = frame.take(rows)
    keys = [place[codes[rows]]]
    if isinstance(read.ties, EntityTies):
        keys += [entity_ranks(context, kept, name, KEY) for name in read.ties.variables if name != ranking.variable]
    chosen = np.lexsort(keys[::-1])[:limit]
    return kept.take(chosen), value[codes[rows[chosen]]]


def _ranked_entities(
    context: QueryContext,
    ranking: Ranking,
    given: RankingInput,
    entities: Entities,
    codes: Positions,
    limit: int | None,
) -> tuple[Positions, Scores]:
    """Return the entities that have a rank, best first, and their values; every entity has rows, so few may do."""
    match ranking:
        case NearestRanking():
            column = entities.image.column(ranking.field.property)
            most = len(codes) if limit is None else limit
            return nearest(column, given.queries[0], most, entities.image.id_ranks, codes)
        case Bm25Ranking():
            index = context.memory.texts.get(entities.image, ranking.field.property, context.limits.check)
            matched, scores = index.scores(given.queries[0])
            if len(codes) < entities.image.row_count:
                inside = np.zeros(entities.image.row_count, dtype=np.bool_)
                inside[codes] = True
                kept = inside[matched]
                matched, scores = matched[kept], scores[kept]
            order = rank_order(scores, matched, entities.image.id_ranks, limit=limit, is_descending=True)
            return matched[order], scores[order]
        case RrfRanking():
            most = len(codes) if limit is None else limit
            arms = [
                _ranked_entities(context, arm, RankingInput(queries=(query,)), entities, codes, limit)[0]
                for arm, query in zip((ranking.first, ranking.second), given.queries, strict=True)
            ]
            first, second = (
                arm[:most] if isinstance(of, NearestRanking) else arm
                for arm, of in zip(arms, (ranking.first, ranking.second), strict=True)
            )
            return fuse(first, second, given.k, most)
        case _:
            assert_never(ranking)


def _resolve(
    context: QueryContext,
    arm: NearestRanking | Bm25Ranking,
    vectors: dict[tuple[str, int, str | None], tuple[float, ...]],
) -> Any:
    """Return what one arm compares with; ``vectors`` holds the texts that were embedded for others."""
    if isinstance(arm, Bm25Ranking):
        return str(_required(context, arm.query, "bm25"))
    value = _required(context, arm.query, "nearest")
    if not arm.needs_embedding:
        return tuple(value)
    text, dimension = str(value), arm.field.type.dimension or 0
    key = (text, dimension, arm.model)
    if key not in vectors:
        limit_ms = context.limits.remaining_ms
        vectors[key] = tuple(context.embed(text, dimension, arm.model, str(arm.field), limit_ms))
    return vectors[key]


def _required(context: QueryContext, query: Constant | ParameterRef, function: str) -> Any:
    value = context.given(query)
    if value is None:
        details = BadValue(what=f"query of {function}", value="null", expected="a value")
        raise QueryRuntimeError(f"{function} cannot rank by NULL: {query}", details=details)
    return value


def _fusion_k(context: QueryContext, ranking: RrfRanking) -> int:
    given = context.given(ranking.k)
    k = _DEFAULT_K if given is None else int(given)
    if k <= 0:
        name = ranking.k.name if isinstance(ranking.k, ParameterRef) else "k"
        details = ParameterProblem(name=name, expected="a positive integer", found=str(k))
        raise QueryParameterError(f"rrf takes a positive k, not {name}={k}", details=details)
    return k
