"""What tasks do with records: prepare their values once, and compare the pairs of each block.

A pair that shares several blocks is compared in the first of them alone, which each row tells: it carries the blocks
of its record that come before its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.records import record
from omnigraph.spark.resolution.model import Comparison, Resolution
from omnigraph.spark.resolution.similarity import VALUES, Floats, Lists, Rows, measure, prepare, spans

# Rows of whole blocks that are compared together, and how many pairs are measured at once.
_PIECE_ROWS = 1 << 15
_PAIRS = 1 << 17

KEY, BLOCKS, BLOCK, EARLIER = "key", "blocks", "block", "earlier"
LEFT, RIGHT, SCORE, COMPARED = "left", "right", "score", "compared"


def value_column(number: int) -> str:
    """Return what the values of a comparison are called while they are compared."""
    return f"v{number}"


def score_column(number: int) -> str:
    """Return what the similarity of a comparison is called."""
    return f"s{number}"


def _value_fields(comparisons: tuple[Comparison, ...]) -> list[pa.Field]:
    return [pa.field(value_column(at), VALUES[one.method]) for at, one in enumerate(comparisons)]


@record
class PrepareTask:
    """Folds texts and splits them into words, once for each record."""

    comparisons: tuple[Comparison, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        blocks = pa.list_(pa.string())
        return pa.schema([(KEY, pa.string()), (BLOCKS, blocks), *_value_fields(self.comparisons)])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records, ready to be compared."""
        for batch in batches:
            values = [prepare(one, batch[value_column(at)]) for at, one in enumerate(self.comparisons)]
            columns = [batch[KEY], batch[BLOCKS], *values]
            fields = zip(columns, self.schema, strict=True)
            yield pa.record_batch([column.cast(field.type) for column, field in fields], schema=self.schema)


@record
class CompareTask:
    """Compares the records of each block, which come one after the other, ordered by key.

    Yields the pairs that reach the floor, the smaller key on the left, and for each piece of work a row without a pair
    that tells how many were compared.
    """

    resolution: Resolution

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        scores = [(score_column(at), pa.float64()) for at in range(len(self.resolution.comparisons))]
        pair = [(LEFT, pa.string()), (RIGHT, pa.string()), (SCORE, pa.float64())]
        return pa.schema([*pair, *scores, (COMPARED, pa.int64())])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of the blocks of one part."""
        for piece in _pieces(batches):
            yield from self._compare(piece)

    def _compare(self, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        keys = piece[KEY]
        earlier = Lists.of(piece[EARLIER])
        measures = [measure(one, keys, piece[value_column(at)]) for at, one in enumerate(self.resolution.comparisons)]
        compared = 0
        for left, right in _pairs(piece[BLOCK].to_numpy()):
            has_earlier = (earlier.sizes[left] > 0) & (earlier.sizes[right] > 0)
            both = np.flatnonzero(has_earlier)
            is_new = np.ones(len(left), np.bool_)
            is_new[both] = earlier.common(left[both], right[both]) == 0
            left, right = left[is_new], right[is_new]  # noqa: PLW2901 - the rest is of no interest
            compared += len(left)
            scores = [one(left, right) for one in measures]
            total = mean_score(self.resolution.comparisons, scores)
            shown = np.flatnonzero(total >= self.resolution.floor)
            if len(shown):
                yield self._rows(keys, left[shown], right[shown], total[shown], [one[shown] for one in scores])
        yield self._count(compared)

    def _rows(self, keys: pa.Array, left: Rows, right: Rows, total: Floats, scores: list[Floats]) -> pa.RecordBatch:
        similarities = [pa.array(one, from_pandas=True) for one in scores]
        none = pa.nulls(len(left), pa.int64())
        columns = [keys.take(pa.array(left)), keys.take(pa.array(right)), pa.array(total), *similarities, none]
        return pa.record_batch(columns, schema=self.schema)

    def _count(self, compared: int) -> pa.RecordBatch:
        columns = [pa.nulls(1, field.type) for field in self.schema]
        columns[-1] = pa.array([compared], pa.int64())
        return pa.record_batch(columns, schema=self.schema)


def mean_score(comparisons: tuple[Comparison, ...], scores: list[Floats]) -> Floats:
    """Return the mean of similarities by weight, NaN where everything is missing."""
    total, weights = np.zeros(len(scores[0])), np.zeros(len(scores[0]))
    for one, found in zip(comparisons, scores, strict=True):
        is_missing = np.isnan(found)
        stand_in = 0.0 if one.missing is None else one.missing
        weight = np.where(is_missing & (one.missing is None), 0.0, one.weight)
        total += weight * np.where(is_missing, stand_in, found)
        weights += weight
    return total / np.where(weights > 0, weights, np.nan)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces of whole blocks."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) < _PIECE_ROWS:
            continue
        rows = pa.concat_batches(waiting)
        blocks = rows[BLOCK].to_numpy()
        end = int(np.searchsorted(blocks, blocks[-1]))
        if end:
            yield rows.slice(0, end)
        waiting = [rows.slice(end)]
    if waiting:
        yield pa.concat_batches(waiting)


def _pairs(blocks: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of rows that have equal blocks, of which blocks are in order."""
    rows = np.arange(len(blocks))
    partners = np.searchsorted(blocks, blocks, side="right") - rows - 1
    before = np.concatenate([[0], np.cumsum(partners)])
    start = 0
    while start < len(rows):
        end = max(start + 1, int(np.searchsorted(before, before[start] + _PAIRS, side="right")) - 1)
        counts = partners[start:end]
        left = np.repeat(rows[start:end], counts)
        if len(left):
            yield left, left + 1 + spans(counts)
        start = end
