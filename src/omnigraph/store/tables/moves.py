"""Whether rows of a table are still what they were at an earlier version of it.

Files never change, so a row that lies at the same place of the same file is the same row. What both versions have of
unchanged fragments is not looked at; rows that lie elsewhere now, as folding and compacting leave them, are compared.
A wrong answer is always "moved", which costs whoever asks a second look and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.records import record
from omnigraph.store.tables.lookup import known_candidates, read_tail
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID
from omnigraph.store.tables.pins import FragmentRef
from omnigraph.store.tables.row_ids import ADDRESS_BITS
from omnigraph.store.tables.table import Table

# Ends of more new rows are not looked through: whoever asks is better off looking for what it needs.
_LOOKED_THROUGH = 200_000
_SRC, _DST = _ENDS = ("src", "dst")

# Edges by their ends: the node that they start at and the one that they lead to, either of them None for any.
EdgeEnds = tuple[str | None, str | None]
_Fragment = tuple[tuple[str, ...], tuple[int, int] | None]


def rows_moved(before: Table, after: Table, ids: Collection[str]) -> bool:
    """Whether one of the rows with these ids may be another one than it was, or there is one where there was none."""
    if before.pin == after.pin or not ids:
        return False
    if before.pin.location != after.pin.location or before.fields != after.fields:
        return True
    wanted = pa.array(sorted(ids), pa.string())
    suspects = _suspects(before, after, wanted)
    return bool(len(suspects)) and _have_moved(before, after, suspects)


def edges_added(before: Table, after: Table, ends: Collection[EdgeEnds], known: Collection[str]) -> bool:
    """Whether there may be a new edge with some of these ends; ``known`` are edges that are looked at elsewhere.

    Edges that are gone, or changed, are not noticed: they were known.
    """
    if before.pin == after.pin or not ends:
        return False
    if before.pin.location != after.pin.location or before.fields != after.fields:
        return True
    counts = {fragment.files: fragment.row_count for fragment in before.fragments}
    fresh = [fragment for fragment in after.fragments if fragment.row_count > counts.get(fragment.files, 0)]
    if sum(fragment.row_count for fragment in fresh) > _LOOKED_THROUGH:
        return True
    edges = pa.array(sorted(known), pa.string())
    touching = [rows.filter(have_ends(rows, ends)).column(KEY) for rows in _rows_of(after, fresh)]
    return any(len(ids) and not pc.all(pc.is_in(ids, value_set=edges)).as_py() for ids in touching)


def have_ends(rows: pa.Table, ends: Collection[EdgeEnds]) -> pa.ChunkedArray:
    """Return which edges may have some of these ends; of pairs, one may start like one and lead where another does."""
    pairs = [pair for pair in ends if None not in pair]
    sources, targets = rows.column(_SRC), rows.column(_DST)
    is_between = pc.and_(_one_of(sources, [src for src, _ in pairs]), _one_of(targets, [dst for _, dst in pairs]))
    is_at = pc.or_(
        _one_of(sources, [src for src, dst in ends if dst is None]),
        _one_of(targets, [dst for src, dst in ends if src is None]),
    )
    return pc.or_(is_between, is_at)


def _one_of(column: pa.ChunkedArray, nodes: list[str | None]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(nodes, pa.string()))


def _rows_of(table: Table, fragments: list[FragmentRef]) -> list[pa.Table]:
    """Return id and ends of all rows of fragments, from memory where they are in memory."""
    if not fragments:
        return []
    blocks = {item.metadata.id: block for item, block in read_tail(table, fragments).blocks if block.rows is not None}
    found = [block.rows.select([KEY, *_ENDS]) for block in blocks.values() if block.rows is not None]
    others = [item.metadata.id for item in fragments if item.metadata.id not in blocks]
    return [*found, *([table.read([KEY, *_ENDS], fragment_ids=others)] if others else [])]


def _suspects(before: Table, after: Table, wanted: pa.Array) -> pa.Array:
    """Return those ids whose rows may lie in fragments that the versions do not have in common."""
    common = {_identity(fragment) for fragment in before.fragments}
    common &= {_identity(fragment) for fragment in after.fragments}
    is_suspect = np.zeros(len(wanted), dtype=np.bool_)
    for table in (before, after):
        candidates = known_candidates(table, wanted)
        if candidates is None:
            return wanted
        is_loose = np.array([_identity(fragment) not in common for fragment in table.fragments], dtype=np.bool_)
        is_suspect[candidates.wanted[is_loose[candidates.fragments]]] = True
        is_suspect[candidates.crowded] = True
    return wanted.filter(pa.array(is_suspect))


def _identity(fragment: FragmentRef) -> _Fragment:
    """Return what tells a fragment's live rows: its files, and which of their rows are deleted."""
    deletion = fragment.metadata.deletion_file
    return fragment.files, None if deletion is None else (deletion.read_version, deletion.id)


@record(kw_only=False)
class _Place:
    """Where a row lies, and its row id, which it keeps as long as it is the same row."""

    files: tuple[str, ...]
    offset: int
    row_id: int


def _places(table: Table, ids: pa.Array) -> dict[str, _Place]:
    files = {fragment.metadata.id: fragment.files for fragment in table.fragments}
    found = table.lookup(ids, ())
    columns = (found.column(name).to_pylist() for name in (KEY, ROW_ADDRESS, ROW_ID))
    mask = (1 << ADDRESS_BITS) - 1
    return {
        name: _Place(files[address >> ADDRESS_BITS], address & mask, row_id)
        for name, address, row_id in zip(*columns, strict=True)
    }


def _have_moved(before: Table, after: Table, ids: pa.Array) -> bool:
    new = _places(after, ids)
    counts = {fragment.files: fragment.row_count for fragment in before.fragments}
    grown = {item.files for item in after.fragments if item.row_count > counts.get(item.files, 0)}
    # Rows of a file are deleted and never come back, so that one which is still there was there.
    asked = [name for name in ids.to_pylist() if name not in new or new[name].files in grown]
    old = _places(before, pa.array(asked, pa.string())) if asked else {}
    if any(_row_id(old, name) != _row_id(new, name) for name in asked):
        return True
    elsewhere = pa.array([name for name, place in old.items() if new[name] != place], pa.string())
    if not len(elsewhere):
        return False
    # Blobs may be large, and reading them twice is no cheaper than deciding again.
    return bool(before.blobs) or _content(before, elsewhere) != _content(after, elsewhere)


def _row_id(places: dict[str, _Place], name: str) -> int | None:
    place = places.get(name)
    return None if place is None else place.row_id


def _content(table: Table, ids: pa.Array) -> bytes:
    """Return the values of rows as bytes, so that equal ones are equal to the last bit."""
    names = table.schema.names
    found = table.lookup(ids, names).select(names).sort_by(KEY).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema.remove_metadata()) as stream:
        stream.write_table(found.replace_schema_metadata())
    written: bytes = sink.getvalue().to_pybytes()
    return written
