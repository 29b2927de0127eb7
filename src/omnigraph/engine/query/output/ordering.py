"""Order and limit over rows of the match.

One call that groups millions of rows can neither be stopped nor told how much memory its hash table may take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import PropertyType
from omnigraph.engine.comparison import comparable, one_array
from omnigraph.engine.query.context import MatchedRows
from omnigraph.engine.query.frame import Frame, Positions, RowIds, concatenate
from omnigraph.engine.query.functions.kernels import PATH_TYPE
from omnigraph.engine.query.values import repeated
from omnigraph.errors import InternalError
from omnigraph.ir.model import (
    AggregateCall,
    Column,
    Constant,
    EntityRef,
    EntityTies,
    OrderKey,
    OutputRef,
    ParameterRef,
    RankingValue,
    ReadPlan,
    Scalarlike,
)
from omnigraph.ir.types import PATH
from omnigraph.store.tables.pinned import KEY


def scalar_column(context: MatchedRows, frame: Frame, expression: Scalarlike) -> pa.Array:
    """Return the value of an expression, one per row."""
    match expression:
        case Column():
            return context.take(expression.variable, frame.ids[expression.variable], expression.property)
        case EntityRef():
            return context.take(expression.variable, frame.ids[expression.variable], KEY)
        case ParameterRef() | Constant():
            return repeated(context.given(expression), expression.type, frame.length, context.limits.check_column)
        case _:
            message = f"a read without stages computes nothing: {expression}"
            raise InternalError(message)


def output_type(of: PropertyType) -> pa.DataType:
    """Return the Arrow type that values of a type have in results."""
    return PATH_TYPE if of is PATH else arrow_type(of)


# So many rows are grouped or sorted in one call, some hundredths of a second.
PIECE_ROWS = 1 << 18

_MOST_PARTS = 256
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
# Texts that differ mostly do so near their end.
_TEXT_BYTES = 8

Hashes = npt.NDArray[np.uint64]


def parts_by_key(rows: pa.Table, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield all rows in parts of about :data:`PIECE_ROWS`; no two parts have a key in common.

    Rows of one part keep their order. A table that is small enough is one part.
    """
    if rows.num_rows <= PIECE_ROWS:
        yield rows
        return
    part_count = min(_MOST_PARTS, 2 * -(-rows.num_rows // PIECE_ROWS))
    parts: list[list[pa.Table]] = [[] for _ in range(part_count)]
    for start in range(0, rows.num_rows, PIECE_ROWS):
        piece = rows.slice(start, PIECE_ROWS).combine_chunks()
        places = (_hash_rows(piece, keys) % np.uint64(part_count)).astype(np.uint8)
        taken = piece.take(pa.array(np.argsort(places, kind="stable")))
        bounds = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=part_count))]).tolist()
        for part, low, high in zip(parts, bounds, bounds[1:], strict=False):
            if high > low:
                part.append(taken.slice(low, high - low))
    for part in parts:
        if part:
            yield pa.concat_tables(part)


def _hash_rows(rows: pa.Table, keys: Sequence[str]) -> Hashes:
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    for key in keys:
        for_key = [_hash_values(chunk) for chunk in rows.column(key).chunks]
        total = _mixed(total + np.concatenate(for_key))
    return total


def _hash_values(values: pa.Array) -> Hashes:
    """Return numbers that are equal for equal values, and one number for NULL."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        hashes = _hash_texts(values)
    elif pa.types.is_decimal(values.type):
        halves = np.frombuffer(values.buffers()[1], dtype=np.uint64).reshape(-1, 2)
        hashes = halves[values.offset : values.offset + len(values)].sum(axis=1, dtype=np.uint64)
    else:
        plain = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values
        numbers = pc.fill_null(plain, 0).to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "f":
            numbers = np.where(np.isnan(numbers), np.nan, numbers).astype(np.float64).view(np.uint64)
        hashes = numbers.astype(np.uint64)
    if values.null_count:
        hashes[np.asarray(values.is_null())] = 0
    return _mixed(hashes)


def _hash_texts(values: pa.Array) -> Hashes:
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"\0", dtype=np.uint8)
    lengths, ends = np.diff(offsets), offsets[1:]
    hashes = lengths.astype(np.uint64)
    for back in range(1, _TEXT_BYTES + 1):
        is_there = lengths >= back
        letters = data[np.where(is_there, ends - back, 0)]
        hashes = (hashes << np.uint64(8)) ^ np.where(is_there, letters, 0).astype(np.uint64) ^ (hashes >> np.uint64(56))
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    spread = hashes * _MULTIPLIER
    return spread ^ (spread >> _HALF)


Ranks = npt.NDArray[np.int64]

_LIMIT = 1 << 62
# Rows are sorted into twice as many ranges and one, which a byte can number; so many samples stand for a cut.
_CUTS = 127
_SAMPLE = 16


def rank_values(values: pa.Array) -> Ranks:
    """Return numbers that order values ascending: equal for equal ones, and least for NULL."""
    plain = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else comparable(values)
    if pa.types.is_integer(plain.type) and _is_moderate(plain):
        numbers: Ranks = pc.fill_null(plain.cast(pa.int64()), -_LIMIT).to_numpy(zero_copy_only=False)
        return numbers
    ranked = pc.rank(plain, sort_keys=[("", "ascending", "at_start")], tiebreaker="dense")
    return np.asarray(ranked.to_numpy(zero_copy_only=False), dtype=np.int64)


def _is_moderate(values: pa.Array) -> bool:
    """Whether integers leave room for a number below all of them, and for their negatives."""
    if values.type.bit_width < 64:
        return True
    bounds = pc.min_max(values)
    return not bounds["min"].is_valid or (bounds["min"].as_py() > -_LIMIT and bounds["max"].as_py() < _LIMIT)


def first_rows(keys: Sequence[Ranks], limit: int | None) -> Positions:
    """Return the positions of rows in order of the keys, the first key first; at most ``limit`` of them."""
    if not keys:
        return np.zeros(0, dtype=np.int64)
    count = len(keys[0])
    if limit is None or limit >= count:
        return _ranks_in_order(keys, np.arange(count))
    if limit == 0:
        return np.zeros(0, dtype=np.int64)
    # Whatever is not better than the last wanted first key cannot be among the first.
    bound = np.partition(keys[0], limit - 1)[limit - 1]
    return _ranks_in_order(keys, np.flatnonzero(keys[0] <= bound))[:limit]


def _ranks_in_order(keys: Sequence[Ranks], rows: Positions) -> Positions:
    """Sort rows by the keys, equal ones staying as they are; no call takes so long that a read cannot be stopped."""
    if not keys:
        return rows
    if len(rows) <= PIECE_ROWS:
        return rows[np.lexsort([key[rows] for key in reversed(keys)])]
    sample = np.sort(keys[0][rows[:: -(-len(rows) // (_CUTS * _SAMPLE))]])
    cuts = np.unique(sample[_SAMPLE // 2 :: _SAMPLE])
    ranges: list[list[Positions]] = [[] for _ in range(2 * len(cuts) + 1)]
    for start in range(0, len(rows), PIECE_ROWS):
        piece = rows[start : start + PIECE_ROWS]
        values = keys[0][piece]
        # Even numbers lie between two cuts, odd ones are a cut and need only the other keys.
        places = (np.searchsorted(cuts, values, "left") + np.searchsorted(cuts, values, "right")).astype(np.uint8)
        bounds = np.cumsum(np.bincount(places, minlength=len(ranges)))[:-1]
        for found, part in zip(ranges, np.split(piece[np.argsort(places, kind="stable")], bounds), strict=True):
            found.append(part)
    return np.concatenate(
        [_ranks_in_order(keys[number % 2 :], np.concatenate(found)) for number, found in enumerate(ranges)]
    )


_RANK_BYTES = 8
# Finding out which of so few rows have an entity in common takes longer than ranking all of them.
_RANKED_ROWS = 4096
# With a limit, rows are cut down to it whenever so many have gathered.
_GATHERED_ROWS = 1 << 20


def collect(context: MatchedRows, frames: Iterator[Frame]) -> Frame:
    """Return all rows, within the memory that the read may hold; they count until they are dropped."""
    held = []
    for frame in frames:
        context.limits.keep(frame)
        held.append(frame)
    return _united(context, held)


def _united(context: MatchedRows, held: list[Frame]) -> Frame:
    """Return the rows of frames that are kept as one that is, in their place."""
    if len(held) > 1:
        context.limits.check(sum(frame.size_bytes for frame in held))
    rows = concatenate(held)
    context.limits.keep(rows)
    for frame in held:
        context.limits.drop(frame)
    return rows


def ordered(context: MatchedRows, read: ReadPlan, frames: Iterator[Frame], *, cuts_early: bool) -> Frame:
    """Return the rows in the order that the read asks for, cut at its limit."""
    if not cuts_early or read.limit is None:
        return _first(context, read, collect(context, frames))
    best: list[Frame] = []
    gathered = 0
    for frame in frames:
        context.limits.keep(frame)
        best.append(frame)
        gathered += frame.length
        if gathered > max(_GATHERED_ROWS, 4 * read.limit):
            best = [_first(context, read, _united(context, best))]
            gathered = best[0].length
    return _first(context, read, _united(context, best))


def _first(context: MatchedRows, read: ReadPlan, frame: Frame) -> Frame:
    """Return the first rows of a frame that is kept, as one that is kept in its place."""
    # A number per row and key, and the order itself.
    context.limits.check(_RANK_BYTES * frame.length * (len(read.order) + 1))
    rows = _in_order(context, read, frame)
    context.limits.keep(rows)
    context.limits.drop(frame)
    return rows


def _in_order(context: MatchedRows, read: ReadPlan, frame: Frame) -> Frame:
    if not frame.length:
        return frame
    first = key_ranks(context, read, frame, read.order[0])
    candidates = _candidates(first, read.limit)
    if candidates is not None:
        frame, first = frame.take(candidates), first[candidates]
    keys = [first, *(key_ranks(context, read, frame, key) for key in read.order[1:])]
    if isinstance(read.ties, EntityTies) and (frame.length > _RANKED_ROWS or _has_ties(keys)):
        keys += [entity_ranks(context, frame, name, KEY) for name in read.ties.variables if _differs(frame.ids[name])]
    return frame.take(first_rows(keys, read.limit))


def _has_ties(keys: Sequence[Ranks]) -> bool:
    """Whether two rows have the same keys."""
    order = first_rows(keys, None)
    same = np.ones(max(0, len(order) - 1), dtype=np.bool_)
    for key in keys:
        in_order = key[order]
        same &= in_order[1:] == in_order[:-1]
    return bool(same.any())


def _differs(row_ids: RowIds) -> bool:
    """Whether there are two entities among these."""
    return bool((row_ids[1:] != row_ids[:1]).any())


def _candidates(first: Ranks, limit: int | None) -> Positions | None:
    """Return the rows that may be among the first by the first key alone, so that ties are not looked at for all."""
    if limit is None or limit == 0 or limit >= len(first):
        return None
    bound = np.partition(first, limit - 1)[limit - 1]
    return np.flatnonzero(first <= bound)


def key_ranks(context: MatchedRows, read: ReadPlan, frame: Frame, key: OrderKey) -> Ranks:
    """Return numbers that order rows by a key."""
    expression = key.key if not isinstance(key.key, OutputRef) else _scalar(read, key.key.index)
    if isinstance(expression, Column):
        ranks = entity_ranks(context, frame, expression.variable, expression.property)
    elif isinstance(expression, EntityRef):
        ranks = entity_ranks(context, frame, expression.variable, KEY)
    else:
        ranks = rank_values(scalar_column(context, frame, expression))
    return -ranks if key.descending else ranks


def entity_ranks(context: MatchedRows, frame: Frame, variable: str, name: str) -> Ranks:
    """Return numbers that order rows by a property of one variable; entities are ranked once, however many rows."""
    row_ids = frame.ids[variable]
    entities = context.whole_table(variable, len(row_ids))
    if entities is not None and len(row_ids) > entities.table.row_count:
        return rank_values(entities.whole_column(name))[entities.codes(row_ids)]
    if len(row_ids) <= _RANKED_ROWS:
        return rank_values(context.take(variable, row_ids, name))
    unique, at = np.unique(row_ids, return_inverse=True)
    return rank_values(context.take(variable, unique, name))[at]


def _scalar(read: ReadPlan, index: int) -> Scalarlike:
    expression = read.outputs[index].expression
    if isinstance(expression, AggregateCall | RankingValue):
        message = f"rows of the match are not ordered by {expression}"
        raise InternalError(message)
    return expression


def order_table(read: ReadPlan, rows: pa.Table) -> Positions:
    """Return the order of finished groups: by the keys, then by the group columns."""
    if not read.order:
        return np.arange(rows.num_rows if read.limit is None else min(rows.num_rows, read.limit))
    first = _group_ranks(rows, read.order[0])
    candidates = _candidates(first, read.limit)
    if candidates is not None:
        rows, first = rows.take(pa.array(candidates)), first[candidates]
    keys = [first, *(_group_ranks(rows, key) for key in read.order[1:])]
    keys += [rank_values(one_array(rows.column(index))) for index in read.groups or ()]
    order = first_rows(keys, read.limit)
    return order if candidates is None else candidates[order]


def _group_ranks(rows: pa.Table, key: OrderKey) -> Ranks:
    if not isinstance(key.key, OutputRef):
        message = "groups are ordered by their columns"
        raise InternalError(message)
    ranks = rank_values(one_array(rows.column(key.key.index)))
    return -ranks if key.descending else ranks
