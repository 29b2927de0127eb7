"""Scans: by key, from memory, or through a storage filter.

The filters decide in every case, but for one that says no more than the id that a node was looked up by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from omnigraph.catalog.entity_ids import entity_id
from omnigraph.engine.query.context import FrameRows, QueryContext
from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.frame import Frame, RowIds, tagged, untagged
from omnigraph.engine.query.predicates import evaluate, read_columns, storage_filter
from omnigraph.engine.query.steps import Scan
from omnigraph.errors import ValueFormatError
from omnigraph.ir.model import Column, Compare, Narrow, Predicate, TextMatch, UnionScan, Widen
from omnigraph.ir.types import fit_assigned, fit_compared
from omnigraph.store.tables.lookup import index_coverage
from omnigraph.store.tables.pinned import ROW_ID

# Rows that travel together: enough to pay for a step, few enough that a read can be stopped between two of them.
MORSEL = 1 << 18
# Rows of more variables than this travel in smaller numbers.
_NARROW = 8
# Columns of larger tables are not brought into memory for one filter.
_MEMORY_ROWS = 5_000_000
# Filters are asked about so few of the nodes that a ranking leaves, about all of them otherwise.
_RANKED_SHARE = 16


def morsel_rows(variables: int) -> int:
    """Return how many rows of so many variables travel together: wide ones take no more memory than narrow ones."""
    return max(1, MORSEL * _NARROW // max(_NARROW, variables))


def scan(context: QueryContext, step: Scan, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Join every incoming row with every node that passes."""
    found: RowIds | None = None
    held_bytes = 0
    try:
        for frame in frames:
            if found is None:
                found = _find(context, step)
                # What is no view was made for this read alone.
                held_bytes = found.nbytes if found.base is None else 0
                context.limits.hold(held_bytes)
            yield from _product(context, frame, step.variable, found)
    finally:
        context.limits.hold(-held_bytes)


def union_scan(context: QueryContext, step: UnionScan, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Join every incoming row with every node of several types that passes."""
    found: RowIds | None = None
    try:
        for frame in frames:
            if found is None:
                found = np.concatenate(
                    [np.zeros(0, np.int64), *(_find_one(context, step, at) for at in range(len(step.type_names)))]
                )
                context.limits.hold(found.nbytes)
            yield from _product(context, frame, step.variable, found)
    finally:
        context.limits.hold(0 if found is None else -found.nbytes)


def _find_one(context: QueryContext, step: UnionScan, number: int) -> RowIds:
    type_name = step.type_names[number]
    one = Scan(variable=step.variable, type_name=type_name, filters=step.filters, is_pushed=True)
    inner = context.within({**context.variables, step.variable: f"node:{type_name}"})
    return tagged(_find(inner, one), number)


def narrow(context: QueryContext, step: Narrow, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Keep the rows in which a variable is of one type, and name it as one of that type."""
    number = context.tables_of(step.variable).index(f"node:{step.type_name}")
    for frame in frames:
        numbers, plain = untagged(frame.ids[step.variable])
        kept = frame.binding({step.name: plain}).keep(numbers == number)
        if kept.length:
            yield kept


def widen(step: Widen, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Give an entity of one type the name of a variable that ranges over several."""
    number = step.type_names.index(step.type_name)
    for frame in frames:
        yield frame.binding({step.variable: tagged(frame.ids[step.name], number)})


def _product(context: QueryContext, frame: Frame, variable: str, found: RowIds) -> Iterator[Frame]:
    if frame.length == 1 and not frame.ids and not frame.values:
        for start in range(0, len(found), MORSEL):
            context.limits.check()
            piece = found[start : start + MORSEL]
            yield Frame(length=len(piece), ids={variable: piece})
        return
    most = morsel_rows(len(frame.ids) + 1)
    rows_per_piece = max(1, most // max(1, len(found)))
    for start in range(0, frame.length if len(found) else 0, rows_per_piece):
        piece_of_rows = frame.slice(start, start + rows_per_piece)
        for low in range(0, len(found), most):
            nodes = found[low : low + most]
            # The new columns, and the places that they are taken from.
            context.limits.check(8 * len(nodes) * piece_of_rows.length * (len(frame.ids) + 2))
            rows = np.repeat(np.arange(piece_of_rows.length), len(nodes))
            yield piece_of_rows.take(rows).binding({variable: np.tile(nodes, piece_of_rows.length)})


def _find(context: QueryContext, step: Scan) -> RowIds:
    entities = context.entities(f"node:{step.type_name}")
    if not entities.table.row_count:
        return np.zeros(0, dtype=np.int64)
    if step.key is not None:
        return _look_up(context, step, entities)
    if step.limit is not None:
        limit = min(step.limit, entities.table.row_count)
        rows = entities.table.read([*entities.columns, ROW_ID], limit=limit)
        return entities.add(rows)
    ranked = _ranked_ids(context, step, entities)
    if not step.filters:
        return entities.all_ids if ranked is None else ranked
    if ranked is not None and len(ranked) * _RANKED_SHARE < entities.table.row_count:
        return _passing(context, step, ranked, step.filters)
    if _reads_memory(context, step, entities):
        return _filter_memory(context, step, entities)
    return _filter_storage(context, step, entities)


def _ranked_ids(context: QueryContext, step: Scan, entities: Entities) -> RowIds | None:
    """Return the nodes that a ranking by words does not leave out; None when no such ranking decides."""
    leading = context.leading
    if leading is None or leading.ranking.variable != step.variable:
        return None
    query = str(context.given(leading.ranking.query))
    limit = None if step.filters else leading.limit
    codes, scores = context.text_scores(entities, leading.ranking.field.property, query, limit=limit)
    if limit is not None:
        from omnigraph.engine.query.search import rank_order  # noqa: PLC0415 - few reads look for words

        best = rank_order(scores, codes, entities.id_ranks, limit=limit, is_descending=True)
        codes = np.sort(codes[best])
    return entities.row_ids_of(codes)


def _look_up(context: QueryContext, step: Scan, entities: Entities) -> RowIds:
    node_id = _node_id(context, step, entities)
    if node_id is None:
        return np.zeros(0, dtype=np.int64)
    found = entities.find(node_id)
    left = tuple(predicate for predicate in step.filters if not _says_id(predicate, step, entities))
    return _passing(context, step, found, left) if left else found


def _says_id(predicate: Predicate, step: Scan, entities: Entities) -> bool:
    """Whether a filter says no more than the id that was looked for: the id of a node with one text as its key."""
    key = entities.owner.key or ()
    if len(key) != 1 or not isinstance(predicate, Compare) or predicate.op != "=":
        return False
    is_key = isinstance(predicate.left, Column) and predicate.left.property == key[0] and predicate.left.type.is_text
    return is_key and (predicate.right,) == step.key


def _node_id(context: QueryContext, step: Scan, entities: Entities) -> str | None:
    """Return the id that follows from the key; None when no node can have such a key."""
    owner = entities.owner
    values = {}
    for name, operand in zip(owner.key or (), step.key or (), strict=True):
        prop, value = owner.get(name), context.given(operand)
        if prop is None or value is None:
            return None
        if prop.type.is_decimal or isinstance(value, Decimal):
            fitted, kind = fit_compared(value, operand.type, prop.type)
            if kind.single != prop.type.single:
                return None
            value = fitted
        try:
            plain = int(value) if isinstance(value, float) and value.is_integer() else value
            values[name] = fit_assigned(plain, prop.type)
        except ValueFormatError:
            return None
    return str(entity_id(owner, values))


def _reads_memory(context: QueryContext, step: Scan, entities: Entities) -> bool:
    names = [column.property for predicate in step.filters for column in read_columns(predicate)]
    if any(isinstance(predicate, TextMatch) for predicate in step.filters) or entities.has_in_memory(names):
        return True
    mode = context.options.mode
    if mode == "indexed" or entities.table.row_count > _MEMORY_ROWS:
        return False
    # Without an index storage reads the whole column as well, and forgets it.
    return mode == "csr" or not any(index_coverage(entities.table, name) for name in names)


def _filter_memory(context: QueryContext, step: Scan, entities: Entities) -> RowIds:
    passing = np.ones(entities.image.row_count, dtype=np.bool_)
    for predicate in step.filters:
        context.limits.check(entities.image.row_count)
        passing &= context.whole_mask(step.variable, predicate)
    return entities.all_ids[passing]


def _filter_storage(context: QueryContext, step: Scan, entities: Entities) -> RowIds:
    is_pushed = step.is_pushed and entities.table.pushes_predicates
    asked = storage_filter(step.filters, context.given) if is_pushed else None
    found = [np.zeros(0, dtype=np.int64)]
    reader = entities.table.scan([*entities.columns, ROW_ID], asked)
    for batch in reader:
        context.limits.check(batch.nbytes)
        if batch.num_rows:
            added = entities.add(pa.Table.from_batches([batch]))
            found.append(_passing(context, step, added, step.filters))
    context.limits.check(2 * sum(ids.nbytes for ids in found))
    return np.concatenate(found)


def _passing(context: QueryContext, step: Scan, row_ids: RowIds, filters: Sequence[Predicate]) -> RowIds:
    frame = Frame(length=len(row_ids), ids={step.variable: row_ids})
    for predicate in filters:
        frame = frame.keep(evaluate(predicate, FrameRows(context, frame)))
    return frame.ids[step.variable]
