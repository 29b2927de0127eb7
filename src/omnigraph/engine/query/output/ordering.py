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

# With a limit, rows are cut down to it whenever so many have gathered.
_GATHERED_ROWS = 1 << 20


def collect(context: QueryContext, frames: Iterator[Frame]) -> Frame:
    """Return all rows, within the memory that the read may hold."""
    held = []
    for frame in frames:
        context.limits.hold(frame.size_bytes)
        held.append(frame)
    rows = concatenate(held)
    context.limits.hold(-rows.size_bytes)
    return rows


def ordered(context: QueryContext, read: ReadPlan, frames: Iterator[Frame], *, cuts_early: bool) -> Frame:
    """Return the rows in the order that the read asks for, cut at its limit."""
    if not cuts_early or read.limit is None:
        return _first(context, read, collect(context, frames))
    best: list[Frame] = []
    gathered = 0
    for frame in frames:
        best.append(frame)
        gathered += frame.length
        context.limits.check(sum(item.size_bytes for item in best))
        if gathered > max(_GATHERED_ROWS, 4 * read.limit):
            best = [_first(context, read, concatenate(best))]
            gathered = best[0].length
    return _first(context, read, concatenate(best))


def _first(context: QueryContext, read: ReadPlan, frame: Frame) -> Frame:
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
