"""The rows of a table's difference as changes of entities, by id, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.diff.change import ChangeFilter, ChangeOp, EntityChange
from omnigraph.history.diff.changed_rows import ChangedRows, Rows
from omnigraph.history.diff.equality import Mask, columns_equal
from omnigraph.history.diff.images import DST, SRC, Image, row_images
from omnigraph.history.diff.pairs import TablePair
from omnigraph.history.diff.stored import Places
from omnigraph.runtime import Counters
from omnigraph.store.table import KEY

_SHOWN = {SRC: "from", DST: "to"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Side:
    """The rows that one operation changed, as it found and left them."""

    op: ChangeOp
    before: Rows | None
    after: Rows | None
    ids: pa.ChunkedArray


def iter_changes(
    pair: TablePair, delta: ChangedRows, wanted: ChangeFilter, counters: Counters, *, after_id: str | None = None
) -> Iterator[EntityChange]:
    """Yield a table's changes by id.

    Args:
        pair: whose rows they are.
        delta: the rows.
        wanted: operations that do not pass are left out.
        counters: where the calls for rows that are not in memory go.
        after_id: leave out ids up to and including this one.
    """
    sides = [side for side in _sides(delta) if wanted.wants_op(side.op)]
    ids = pa.chunked_array([chunk for side in sides for chunk in side.ids.chunks], pa.string())
    owners = np.repeat(np.arange(len(sides)), [len(side.ids) for side in sides])
    places = np.concatenate([np.arange(len(side.ids)) for side in sides] or [np.zeros(0, dtype=np.int64)])
    order = pc.sort_indices(ids).to_numpy()
    if after_id is not None:
        is_later = pc.greater(ids, pa.scalar(after_id)).to_numpy()
        order = order[is_later[order]]
    size = min((rows.slice_rows for side in sides for rows in (side.before, side.after) if rows is not None), default=1)
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        found: dict[int, EntityChange] = {}
        for number, side in enumerate(sides):
            mine = chosen[owners[chosen] == number]
            found.update(zip(mine.tolist(), _changes(pair, side, places[mine], counters), strict=True))
        yield from (found[place] for place in chosen.tolist())


def changed_ids(delta: ChangedRows, wanted: ChangeFilter) -> pa.ChunkedArray:
    """Return the ids of the changes that pass, in no order."""
    sides = (side for side in _sides(delta) if wanted.wants_op(side.op))
    return pa.chunked_array([chunk for side in sides for chunk in side.ids.chunks], pa.string())


def _sides(delta: ChangedRows) -> tuple[_Side, ...]:
    return (
        _Side(op="insert", before=None, after=delta.inserted, ids=delta.inserted.ids),
        _Side(op="update", before=delta.before, after=delta.after, ids=delta.after.ids),
        _Side(op="delete", before=delta.deleted, after=None, ids=delta.deleted.ids),
    )


def _changes(pair: TablePair, side: _Side, places: Places, counters: Counters) -> Iterator[EntityChange]:
    if not len(places):
        return
    before = None if side.before is None else side.before.take(places, counters)
    after = None if side.after is None else side.after.take(places, counters)
    is_edge = pair.kind == "edge"
    none: list[Image | None] = [None] * len(places)
    was = none if before is None else row_images(before, is_edge=is_edge)
    will = none if after is None else row_images(after, is_edge=is_edge)
    differing = [()] * len(places) if before is None or after is None else _differing(before, after)
    for entity_id, old, new, changed in zip(
        side.ids.take(pa.array(places)).to_pylist(), was, will, differing, strict=True
    ):
        yield EntityChange(
            kind=pair.kind, type=pair.type, id=entity_id, op=side.op, before=old, after=new, changed=changed
        )


def _differing(before: pa.Table, after: pa.Table) -> list[tuple[str, ...]]:
    """Return for each row the names of what differs, in the table's order."""
    masks: dict[str, Mask] = {
        _SHOWN.get(name, name) if {SRC, DST} <= set(before.column_names) else name: ~columns_equal(
            before.column(name), after.column(name)
        )
        for name in before.column_names
        if name != KEY
    }
    return [tuple(name for name, mask in masks.items() if mask[place]) for place in range(before.num_rows)]
