"""Order and limit over rows of the match."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.engine.arrays import one_array
from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame, Positions, RowIds, concatenate
from omnigraph.engine.query.output.columns import scalar_column
from omnigraph.engine.query.output.ranks import Ranks, first_rows, rank_values
from omnigraph.errors import InternalError
from omnigraph.ir.model import (
    AggregateCall,
    Column,
    EntityRef,
    EntityTies,
    OrderKey,
    RankingValue,
    ReadPlan,
    Scalarlike,
)
from omnigraph.store.table import KEY

_RANK_BYTES = 8
# With a limit, rows are cut down to it whenever so many have gathered.
_GATHERED_ROWS = 1 << 20


def collect(context: QueryContext, frames: Iterator[Frame]) -> Frame:
    """Return all rows, within the memory that the read may hold; they count until they are dropped."""
    held = []
    for frame in frames:
        context.limits.keep(frame)
        held.append(frame)
    return _united(context, held)


def _united(context: QueryContext, held: list[Frame]) -> Frame:
    """Return the rows of frames that are kept as one that is, in their place."""
    if len(held) > 1:
        context.limits.check(sum(frame.size_bytes for frame in held))
    rows = concatenate(held)
    context.limits.keep(rows)
    for frame in held:
        context.limits.drop(frame)
    return rows


def ordered(context: QueryContext, read: ReadPlan, frames: Iterator[Frame], *, cuts_early: bool) -> Frame:
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


def _first(context: QueryContext, read: ReadPlan, frame: Frame) -> Frame:
    """Return the first rows of a frame that is kept, as one that is kept in its place."""
    # A number per row and key, and the order itself.
    context.limits.check(_RANK_BYTES * frame.length * (len(read.order) + 1))
    rows = _in_order(context, read, frame)
    context.limits.keep(rows)
    context.limits.drop(frame)
    return rows


def _in_order(context: QueryContext, read: ReadPlan, frame: Frame) -> Frame:
    if not frame.length:
        return frame
    keys = [key_ranks(context, read, frame, key) for key in read.order]
    candidates = _candidates(keys[0], read.limit)
    if candidates is not None:
        frame, keys = frame.take(candidates), [key[candidates] for key in keys]
    ties = read.ties
    if isinstance(ties, EntityTies):
        keys += [entity_ranks(context, frame, name, KEY) for name in ties.variables]
    return frame.take(first_rows(keys, read.limit))


def _candidates(first: Ranks, limit: int | None) -> Positions | None:
    """Return the rows that may be among the first by the first key alone, so that ties are not looked at for all."""
    if limit is None or limit == 0 or limit >= len(first):
        return None
    bound = np.partition(first, limit - 1)[limit - 1]
    return np.flatnonzero(first <= bound)


def key_ranks(context: QueryContext, read: ReadPlan, frame: Frame, key: OrderKey) -> Ranks:
    """Return numbers that order rows by a key."""
    expression = key.key if isinstance(key.key, Column) else _scalar(read, key.key.index)
    if isinstance(expression, Column):
        ranks = entity_ranks(context, frame, expression.variable, expression.property)
    elif isinstance(expression, EntityRef):
        ranks = entity_ranks(context, frame, expression.variable, KEY)
    else:
        ranks = rank_values(scalar_column(context, frame, expression))
    return -ranks if key.descending else ranks


def entity_ranks(context: QueryContext, frame: Frame, variable: str, name: str) -> Ranks:
    """Return numbers that order rows by a property of one variable; entities are ranked once, however many rows."""
    entities, row_ids = context.entities_of(variable), frame.ids[variable]
    if entities.prefers_memory(len(row_ids)) and len(row_ids) > entities.table.row_count:
        return rank_values(entities.whole_column(name))[entities.codes(row_ids)]
    unique, at = _unique(row_ids)
    return rank_values(entities.values(unique, name))[at]


def _unique(row_ids: RowIds) -> tuple[RowIds, Positions]:
    unique, at = np.unique(row_ids, return_inverse=True)
    return unique, at


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
    if isinstance(key.key, Column):
        message = "groups are ordered by their columns"
        raise InternalError(message)
    ranks = rank_values(one_array(rows.column(key.key.index)))
    return -ranks if key.descending else ranks
