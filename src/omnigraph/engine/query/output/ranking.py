"""Rankings: the rows of the complete match in the order of one variable's rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.frame import MISSING, Frame, Positions, RowIds, distinct, untagged
from omnigraph.engine.query.output.ordering import entity_ranks, rank_values
from omnigraph.engine.query.steps import QueryPlan, Scan
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

if TYPE_CHECKING:
    from omnigraph.engine.query.search.approximate import VectorSearch

Scores = npt.NDArray[np.float64]
# A text, the dimension of its vector, and the model that the schema names.
Embedded = tuple[str, int, str | None]

_DEFAULT_K = 60
# So small a share of all entities is looked for one by one.
_FEW_SHARE = 16


@record
class RankingInput:
    """What a ranking compares rows with: a vector or a text for each of its arms, and the constant of a fusion."""

    queries: tuple[Any, ...]
    k: int = _DEFAULT_K


def resolve_ranking(
    context: QueryContext, ranking: Ranking, vectors: dict[Embedded, tuple[float, ...]] | None = None
) -> RankingInput:
    """Return what a ranking compares with, before a row is read: what is wrong with it does not depend on rows.

    Texts for the same kind of vector are embedded once; ``vectors`` holds those of other rankings of the read.

    Raises:
        QueryRuntimeError: a query is NULL.
        QueryParameterError: the constant of a fusion is not positive.
        OmnigraphError: whatever :meth:`omnigraph.engine.embedding.Embedder.embed_query` raises.
    """
    vectors = {} if vectors is None else vectors
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
    places, scores = places_of(context, ranking, given, frame.ids[ranking.variable], limit)
    rows = np.arange(frame.length) if keeps_all else np.flatnonzero(places >= 0)
    kept = frame.take(rows)
    keys = [np.where(places[rows] < 0, frame.length, places[rows])]
    if isinstance(read.ties, EntityTies):
        keys += [entity_ranks(context, kept, name, KEY) for name in read.ties.variables if name != ranking.variable]
    chosen = np.lexsort(keys[::-1])[:limit]
    return kept.take(chosen), scores[rows[chosen]]


def ranked_table(
    context: QueryContext, read: ReadPlan, ranking: Ranking, given: RankingInput, step: Scan
) -> tuple[Frame, Scores]:
    """Return what :func:`ranked` does for a read that matches each entity of a type once, without making its rows."""
    entities = _WholeType(context.entities(f"node:{step.type_name}"))
    codes, scores = context.trace.measure(
        step,
        lambda: _ranked_entities(context, ranking, given, entities, entities.codes, read.limit),
        lambda _: len(entities.codes),
    )
    row_ids = entities.parts[0].all_ids[codes]
    return Frame(length=len(codes), ids={step.variable: row_ids}), scores


def places_of(
    context: QueryContext, ranking: Ranking, given: RankingInput, row_ids: RowIds, limit: int | None
) -> tuple[Positions, Scores]:
    """Return the place of every row's entity, from 0, and its distance or score; -1 and NaN where it has none.

    ``limit`` says how many entities matter; a fusion looks at no more of each distance.
    """
    places, scores = np.full(len(row_ids), -1, dtype=np.int64), np.full(len(row_ids), np.nan)
    rows = np.flatnonzero(row_ids != MISSING)
    if not len(rows):
        return places, scores
    ranked = _RankedVariable(context, ranking.variable, row_ids[rows])
    order, values = _ranked_entities(context, ranking, given, ranked, ranked.distinct, limit)
    # A slot for every entity that rows hold, not for every one that there is.
    place, value = np.full(len(ranked.distinct), -1, dtype=np.int64), np.full(len(ranked.distinct), np.nan)
    best = ranked.slots(order)
    place[best], value[best] = np.arange(len(order)), values
    held = ranked.slots(ranked.codes)
    places[rows], scores[rows] = place[held], value[held]
    return places, scores


class _Ranked(Protocol):
    """Entities that a ranking may put in order."""

    def by_part(self, codes: Positions) -> Iterator[tuple[Entities, int, Positions]]:
        """Yield each type with the number that its counting starts at, and its share of ascending codes."""

    def id_ranks(self, codes: Positions) -> Positions:
        """Return numbers that sort as the ids of entities do, and equal ids by the order of their types."""


class _WholeType:
    """All entities of one type, by their codes."""

    def __init__(self, entities: Entities) -> None:
        self.parts = (entities,)
        self.codes: Positions = np.arange(entities.image.row_count)

    def by_part(self, codes: Positions) -> Iterator[tuple[Entities, int, Positions]]:
        """Yield the type with all of the codes."""
        yield self.parts[0], 0, codes

    def id_ranks(self, codes: Positions) -> Positions:
        """Return numbers that sort as the ids of entities do."""
        return self.parts[0].image.id_ranks(codes)


class _RankedVariable:
    """The entities that a variable may hold, of one type or several, counted through; and those that rows hold."""

    def __init__(self, context: QueryContext, variable: str, row_ids: RowIds) -> None:
        self.parts = [context.entities(key) for key in context.tables_of(variable)]
        self._starts = np.concatenate([[0], np.cumsum([part.image.row_count for part in self.parts])])
        numbers, plain = untagged(row_ids)
        self.codes = np.empty(len(row_ids), dtype=np.int64)
        for number, part in enumerate(self.parts):
            at = np.flatnonzero(numbers == number)
            self.codes[at] = part.codes(plain[at]) + self._starts[number]
        self.count = int(self._starts[-1])
        self.distinct = distinct(self.codes)

    def slots(self, codes: Positions) -> Positions:
        """Return where codes that rows hold stand among the distinct ones."""
        is_whole = len(self.distinct) == self.count
        return codes if is_whole else np.searchsorted(self.distinct, codes)

    def by_part(self, codes: Positions) -> Iterator[tuple[Entities, int, Positions]]:
        """Yield each type with the number that its counting starts at, and its share of ascending codes."""
        bounds = np.searchsorted(codes, self._starts)
        for number, part in enumerate(self.parts):
            start = int(self._starts[number])
            yield part, start, codes[bounds[number] : bounds[number + 1]] - start

    def id_ranks(self, codes: Positions) -> Positions:
        """Return numbers that sort as the ids of entities do, and equal ids by the order of their types."""
        if len(self.parts) == 1:
            return self.parts[0].id_ranks(codes)
        owners = np.searchsorted(self._starts, codes, side="right") - 1
        ids = np.empty(len(codes), dtype=object)
        for number, part in enumerate(self.parts):
            at = np.flatnonzero(owners == number)
            taken = part.image.column(KEY).take(pa.array(codes[at] - self._starts[number]))
            ids[at] = taken.to_numpy(zero_copy_only=False)
        order = np.lexsort((owners, rank_values(pa.array(ids, pa.string()))))
        ranks = np.empty(len(codes), dtype=np.int64)
        ranks[order] = np.arange(len(codes))
        return ranks


def _ranked_entities(
    context: QueryContext,
    ranking: Ranking,
    given: RankingInput,
    entities: _Ranked,
    codes: Positions,
    limit: int | None,
) -> tuple[Positions, Scores]:
    """Return the entities that have a rank, best first, and their values; every entity has rows, so few may do."""
    match ranking:
        case NearestRanking():
            most = len(codes) if limit is None else limit
            found = [
                (start + one, away)
                for part, start, inner in entities.by_part(codes)
                for one, away in [_nearest(context, ranking, given, most, part, inner)]
            ]
            return _best(found, entities, limit=most, is_descending=False)
        case Bm25Ranking():
            found = [
                (start + one, score)
                for part, start, inner in entities.by_part(codes)
                for one, score in [_scored(context, ranking.field.property, given, part, inner, limit)]
            ]
            return _best(found, entities, limit=limit, is_descending=True)
        case RrfRanking():
            most = len(codes) if limit is None else limit
            first, second = (
                # Of words every match counts, of distances only the best.
                _ranked_entities(
                    context,
                    arm,
                    RankingInput(queries=(query,)),
                    entities,
                    codes,
                    limit if isinstance(arm, NearestRanking) else None,
                )[0]
                for arm, query in zip((ranking.first, ranking.second), given.queries, strict=True)
            )
            from omnigraph.engine.query.search import fuse  # noqa: PLC0415 - loaded for the reads that rank

            return fuse(first, second, given.k, most)
        case _:
            assert_never(ranking)


def _nearest(
    context: QueryContext,
    ranking: NearestRanking,
    given: RankingInput,
    most: int,
    entities: Entities,
    codes: Positions,
) -> tuple[Positions, Scores]:
    from omnigraph.engine.query.search.approximate import ApproximateSearch  # noqa: PLC0415 - loaded for the reads that rank

    query = given.queries[0]
    search = ApproximateSearch(entities, ranking.field.property, context.options)
    if not search.is_wanted or not len(codes) or most <= 0:
        return _nearest_exactly(ranking.field.property, query, most, entities, codes)
    note = search.describe(str(ranking), counts_partitions=context.trace.is_explained)
    found = search.nearest(query, most, codes)
    if isinstance(found, str):
        context.trace.searches.append(replace(note, exact_because=found))
        if search.fetches(codes):
            return search.few(query, most, codes)
        return _nearest_exactly(ranking.field.property, query, most, entities, codes)
    if context.trace.is_explained:
        exact, _ = _nearest_exactly(ranking.field.property, query, most, entities, codes)
        note = replace(note, recall=len(np.intersect1d(found[0], exact)) / max(len(exact), 1))
    context.trace.searches.append(note)
    return found


def planned_searches(context: QueryContext, plan: QueryPlan) -> Iterator[VectorSearch]:
    """Yield how a read would search the vectors that the schema lets it search approximately."""
    from omnigraph.engine.query.search.approximate import ApproximateSearch  # noqa: PLC0415 - see above

    ranks = [(plan.read.ranking, plan.variables)]
    for stages in plan.stages:
        ranks += [(stage.output.rank.ranking, stage.variables) for stage in stages if stage.output.rank is not None]
    for ranking, variables in ranks:
        arms = (ranking.first, ranking.second) if isinstance(ranking, RrfRanking) else (ranking,)
        for arm in arms:
            if not isinstance(arm, NearestRanking):
                continue
            for table_key in context.within(variables).tables_of(arm.variable):
                search = ApproximateSearch(context.entities(table_key), arm.field.property, context.options)
                if search.is_wanted:
                    yield search.describe(str(arm), counts_partitions=True)


def _nearest_exactly(
    name: str, query: Sequence[float], most: int, entities: Entities, codes: Positions
) -> tuple[Positions, Scores]:
    from omnigraph.engine.query.search import nearest, squared_norms  # noqa: PLC0415 - see above

    image = entities.image
    norms = image.derived(name, "squared norms", squared_norms)
    return nearest(image.column(name), query, most, entities.id_ranks, codes, norms)


def _scored(
    context: QueryContext, name: str, given: RankingInput, entities: Entities, codes: Positions, limit: int | None
) -> tuple[Positions, Scores]:
    if len(codes) == entities.image.row_count:
        return context.text_scores(entities, name, given.queries[0], limit=limit)
    matched, scores = context.text_scores(entities, name, given.queries[0], among=codes)
    if len(codes) * _FEW_SHARE < entities.image.row_count:
        at = np.searchsorted(matched, codes)
        at[at == len(matched)] = 0
        kept = at[matched[at] == codes] if len(matched) else at[:0]
        return matched[kept], scores[kept]
    inside = np.zeros(entities.image.row_count, dtype=np.bool_)
    inside[codes] = True
    is_kept = inside[matched]
    return matched[is_kept], scores[is_kept]


def _best(
    found: list[tuple[Positions, Scores]], entities: _Ranked, *, limit: int | None, is_descending: bool
) -> tuple[Positions, Scores]:
    """Return the best entities of all types, best first, and their values."""
    codes, values = (np.concatenate(column) for column in zip(*found, strict=True))
    from omnigraph.engine.query.search import rank_order  # noqa: PLC0415 - see above

    order = rank_order(values, codes, entities.id_ranks, limit=limit, is_descending=is_descending)
    return codes[order], values[order]


def _resolve(
    context: QueryContext,
    arm: NearestRanking | Bm25Ranking,
    vectors: dict[Embedded, tuple[float, ...]],
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
