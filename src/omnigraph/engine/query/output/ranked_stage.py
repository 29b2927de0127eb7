"""The rows of a stage in the order of one variable's rank, each with its place and its score."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.engine.query.context import FrameRows, QueryContext
from omnigraph.engine.query.frame import Frame, Positions
from omnigraph.engine.query.output.ordering import collect
from omnigraph.engine.query.output.ranking import RankingInput, places_of
from omnigraph.engine.query.output.relational import NUMBER, RelationalKernel, RowStream, SortKey, encoded
from omnigraph.engine.query.values import compute
from omnigraph.ir.model import RANK, SCORE, RankPlan, RrfRanking

# What ranking takes for each row: its place, its score, where it stands, and a number to order it by.
_ROW_BYTES = 32


class RankedStage:
    """Gives the rows of one stage their places and scores.

    Args:
        context: the run, as the stage sees it.
        kernel: settles ties.
        rank: what ranks the rows.
        given: what they are compared with.
        limit: how many rows matter, if the limit of the stage counts these rows; those that it skips included.
        skips: whether some of them are skipped. A fusion looks at no more entities of each distance than the limit,
            unless rows are skipped: pages would not fit together.
    """

    def __init__(
        self,
        context: QueryContext,
        kernel: RelationalKernel,
        rank: RankPlan,
        given: RankingInput,
        *,
        limit: int | None,
        skips: bool,
    ) -> None:
        self._context = context
        self._kernel = kernel
        self._rank = rank
        self._given = given
        self._limit = limit
        self._most = None if skips and isinstance(rank.ranking, RrfRanking) else limit

    def run(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield the rows that have a place, best first."""
        limits = self._context.limits
        rows = collect(self._context, frames)
        try:
            if rows.length:
                limits.check(_ROW_BYTES * rows.length)
                found = self._in_places(rows)
                limits.keep(found)
                limits.drop(rows)
                rows = found
                yield rows
        finally:
            limits.drop(rows)

    def _in_places(self, frame: Frame) -> Frame:
        rank, limit = self._rank, self._limit
        row_ids = frame.ids[rank.ranking.variable]
        places, scores = places_of(self._context, rank.ranking, self._given, row_ids, self._most)
        rows = np.arange(frame.length) if rank.keeps_unranked else np.flatnonzero(places >= 0)
        keys = np.where(places < 0, len(places), places)[rows]
        if limit is not None and limit < len(rows):
            # Rows of one entity share its place, so that more than so many may be left.
            bound = np.partition(keys, limit)[limit]
            chosen = np.flatnonzero(keys <= bound)
            rows, keys = rows[chosen], keys[chosen]
        order = np.argsort(keys, kind="stable")
        rows, keys = rows[order], keys[order]
        if len(keys) and (keys[1:] == keys[:-1]).any():
            rows = rows[self._settled(frame.take(rows), keys)]
        rows = rows[:limit]
        values = {
            RANK: pa.array(np.arange(len(rows)), pa.int64()),
            SCORE: pa.array(scores[rows], mask=np.isnan(scores[rows])),
        }
        return frame.take(rows).carrying(values)

    def _settled(self, frame: Frame, keys: Positions) -> Positions:
        """Return the rows in the order of their places, and those of one place in that of their ties."""
        rows = FrameRows(self._context, frame)
        columns = {"#key": pa.array(keys), NUMBER: pa.array(np.arange(frame.length))}
        columns |= {f"#tie{at}": encoded(compute(tie, rows)) for at, tie in enumerate(self._rank.ties)}
        batch = pa.RecordBatch.from_pydict(columns)
        self._context.limits.check(batch.nbytes)
        order = [SortKey(column=name) for name in columns if name != NUMBER] + [SortKey(column=NUMBER)]
        found = self._kernel.arrange(
            RowStream(batch.schema, [batch]), [NUMBER], is_distinct=False, order=order, per=(), offset=0, limit=None
        )
        positions: Positions = found.column(NUMBER).to_numpy()
        return positions
