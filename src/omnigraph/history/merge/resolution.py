"""Deciding rows that both sides changed: one side for all of them, or a decision for an entity or a property of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ENDPOINTS
from omnigraph.engine.equality import columns_equal, rows_equal
from omnigraph.engine.mutate.values import stored_array
from omnigraph.errors import BadValue, InternalError, UsageError
from omnigraph.history.merge.conflicts import ENDS, ConflictKind, decided_together
from omnigraph.history.merge.decisions import EntityDecision
from omnigraph.history.merge.three_way import Mask, RowConflicts, TableMerge
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY
from omnigraph.values import meant

Resolution = Literal["ours", "theirs", "properties"]
RESOLUTIONS: tuple[Resolution, ...] = ("ours", "theirs", "properties")
_SHOWN = 100


def check_resolution(resolve: object) -> None:
    """Return if ``resolve`` names a way to resolve conflicts, or none.

    Raises:
        UsageError: it does not.
    """
    if resolve is not None and not (isinstance(resolve, str) and resolve in RESOLUTIONS):
        shown = resolve if isinstance(resolve, str) and resolve.isascii() else ascii(resolve)
        details = BadValue(what="resolve", value=shown[:_SHOWN], expected=", ".join(RESOLUTIONS))
        message = f"unknown conflict resolution {ascii(resolve)[:_SHOWN]}"
        raise UsageError(message, details=details, hint=meant(resolve, RESOLUTIONS))


def resolve_rows(merge: TableMerge, resolve: Resolution) -> TableMerge:
    """Return the merge with as many of its row conflicts decided as ``resolve`` can decide."""
    if not merge.conflicts:
        return merge
    match resolve:
        case "ours":
            return replace(merge, conflicts=())
        case "theirs":
            return _take_source(merge)
        case "properties":
            return _combine(merge)
        case _:
            assert_never(resolve)


def changed_on_both(conflicts: RowConflicts) -> list[tuple[str, ...]]:
    """Return for each row the properties that both sides gave different values; none where a side has no row."""
    if conflicts.source is None or conflicts.target is None:
        return [()] * len(conflicts.ids)
    clashes = _clashes(conflicts, conflicts.source, conflicts.target)
    settled = [conflicts.settled.get(entity_id, frozenset()) for entity_id in conflicts.ids.to_pylist()]
    return [
        tuple(name for name, mask in clashes.items() if mask[row] and name not in settled[row])
        for row in range(len(conflicts.ids))
    ]


def _take_source(merge: TableMerge) -> TableMerge:
    inserts, updates, deletes = [merge.inserts], [merge.updates], [merge.deletes]
    for conflicts in merge.conflicts:
        if conflicts.source is None:
            deletes.append(conflicts.ids)
        elif conflicts.target is None:
            inserts.append(conflicts.source)
        else:
            updates.append(conflicts.source)
    return TableMerge(
        inserts=pa.concat_tables(inserts), updates=pa.concat_tables(updates), deletes=pa.concat_arrays(deletes)
    )


def _combine(merge: TableMerge) -> TableMerge:
    updates, left = [merge.updates], []
    for conflicts in merge.conflicts:
        if conflicts.kind is not ConflictKind.DIVERGENT_UPDATE:
            left.append(conflicts)
            continue
        rows, rest = _combine_updates(conflicts)
        updates.append(rows)
        if len(rest.ids):
            left.append(rest)
    return replace(merge, updates=pa.concat_tables(updates), conflicts=tuple(left))


def _combine_updates(conflicts: RowConflicts) -> tuple[pa.Table, RowConflicts]:
    """Return the rows whose sides changed different properties, combined, and what is left undecided."""
    base, source, target = conflicts.base, conflicts.source, conflicts.target
    if base is None or source is None or target is None:
        raise InternalError("a conflicting update lacks one of its images")
    clashes = _clashes(conflicts, source, target)
    is_clear = ~np.logical_or.reduce([np.zeros(len(conflicts.ids), dtype=np.bool_), *clashes.values()])
    # What the source left alone is the target's to say.
    is_left = {name: _equal(base, source, names) for names in _groups(source) for name in names}
    columns = [
        source.column(name) if name == KEY else _choose(is_left[name], target.column(name), source.column(name))
        for name in source.column_names
    ]
    combined = pa.table(columns, schema=source.schema)
    # Of what is clear, a row that comes out as the target has it already needs no write.
    return combined.filter(pa.array(is_clear & ~rows_equal(combined, target))), conflicts.only(~is_clear)


def settle_rows(merge: TableMerge, decisions: Mapping[str, EntityDecision], resolve: Resolution | None) -> TableMerge:
    """Return the merge with its row conflicts decided: by a decision about the entity, the others by ``resolve``.

    Where only properties of an entity are decided, its other properties come from the side that changed them, and
    those that both sides changed are decided by ``resolve``; the entity stays a conflict if that decides none.
    """
    if not decisions:
        return merge if resolve is None else resolve_rows(merge, resolve)
    named = pa.array(sorted(decisions), pa.string())
    others, left = list[RowConflicts](), list[RowConflicts]()
    inserts, updates, deletes = [merge.inserts], [merge.updates], [merge.deletes]
    for conflicts in merge.conflicts:
        is_decided: Mask = pc.is_in(conflicts.ids, value_set=named).to_numpy(zero_copy_only=False)
        if not is_decided.all():
            others.append(conflicts.only(~is_decided))
        if not is_decided.any():
            continue
        part = conflicts.only(is_decided)
        found = _settle(part, [decisions[entity_id] for entity_id in part.ids.to_pylist()], resolve)
        (inserts if part.target is None else updates).append(found.rows)
        deletes.append(found.deletes)
        if len(found.left.ids):
            left.append(found.left)
    decided = replace(
        merge,
        inserts=pa.concat_tables(inserts),
        updates=pa.concat_tables(updates),
        deletes=pa.concat_arrays(deletes),
        conflicts=tuple(others),
    )
    rest = decided if resolve is None else resolve_rows(decided, resolve)
    return replace(rest, conflicts=(*rest.conflicts, *left))


@record(eq=False)
class _Settled:
    rows: pa.Table
    deletes: pa.Array
    left: RowConflicts


_OURS, _THEIRS, _BASE, _EACH, _OPEN = range(5)
_CODES: Mapping[str, int] = {"ours": _OURS, "theirs": _THEIRS, "base": _BASE, "properties": _EACH}


def _settle(conflicts: RowConflicts, decisions: Sequence[EntityDecision], resolve: Resolution | None) -> _Settled:
    sides = (conflicts.target, conflicts.source, conflicts.base)
    starts = np.array([_EACH if one.whole is None else _CODES[one.whole.choice] for one in decisions])
    is_there = np.array([start == _EACH or sides[start] is not None for start in starts])
    # What the target does not have needs no removal.
    is_gone = ~is_there & (conflicts.target is not None)
    shown = next(rows for rows in sides if rows is not None)
    if not is_there.any():
        return _Settled(
            rows=shown.slice(0, 0), deletes=conflicts.ids.filter(pa.array(is_gone)), left=conflicts.only(is_there)
        )
    part = conflicts.only(is_there)
    chosen = [one for one, is_kept in zip(decisions, is_there, strict=True) if is_kept]
    rows, is_open, settled = _compose(part, chosen, starts[is_there], resolve)
    is_written = ~is_open if part.target is None else ~is_open & ~rows_equal(rows, part.target)
    return _Settled(
        rows=rows.filter(pa.array(is_written)),
        deletes=conflicts.ids.filter(pa.array(is_gone)),
        left=replace(part.only(is_open), settled=settled),
    )


def _compose(
    conflicts: RowConflicts,
    decisions: Sequence[EntityDecision],
    starts: npt.NDArray[np.int_],
    resolve: Resolution | None,
) -> tuple[pa.Table, Mask, dict[str, frozenset[str]]]:
    """Return the decided rows, which of them are not decided in full, and what is decided of those."""
    sides = (conflicts.target, conflicts.source, conflicts.base)
    shown = next(rows for rows in sides if rows is not None)
    count = len(decisions)
    clashes: Mapping[str, Mask] = {}
    if conflicts.source is not None and conflicts.target is not None:
        clashes = _clashes(conflicts, conflicts.source, conflicts.target)
    is_open = np.zeros(count, dtype=np.bool_)
    # What is open takes a side too, so that the column can be put together; the row is left out.
    fallback = _CODES[resolve] if resolve in {"ours", "theirs"} else _OPEN
    columns: dict[str, pa.ChunkedArray] = {}
    for names in ((KEY,), *_groups(shown)):
        name = decided_together(names)[0]
        codes = starts.copy()
        if name == KEY:
            codes[codes == _EACH] = _OURS
        else:
            codes = _from_each(conflicts, names, clashes.get(names[0]), codes, fallback)
        literals = list[Any]()
        for row, one in enumerate(decisions):
            made = one.properties.get(name)
            if made is not None:
                codes[row] = _CODES.get(made.choice, _OPEN + 1 + len(literals))
                literals += [made.value] if made.choice == "value" else []
        is_open |= codes == _OPEN
        codes[codes == _OPEN] = _OURS
        for column in names:
            values = [value[_SHOWN_END[column]] for value in literals] if name == ENDS else literals
            columns[column] = _pick(sides, column, codes, values)
    settled = {
        entity_id: frozenset(name for made in one.properties for name in (ENDPOINTS if made == ENDS else (made,)))
        for entity_id, one in zip(conflicts.ids.to_pylist(), decisions, strict=True)
    }
    rows = pa.table([columns[name] for name in shown.column_names], schema=shown.schema)
    return rows, is_open, settled


_SHOWN_END = {"src": "from", "dst": "to"}


def _from_each(
    conflicts: RowConflicts,
    names: tuple[str, ...],
    is_clash: Mask | None,
    codes: npt.NDArray[np.int_],
    fallback: int,
) -> npt.NDArray[np.int_]:
    """Return whose value of a property each row takes where that is the side that changed it."""
    if is_clash is None or conflicts.source is None:
        return codes
    is_each = codes == _EACH
    is_left = np.zeros(len(codes), dtype=np.bool_)
    if conflicts.base is not None:
        is_left = _equal(conflicts.base, conflicts.source, names)
    return np.where(is_each, np.where(is_clash, fallback, np.where(is_left, _OURS, _THEIRS)), codes)


def _pick(
    sides: tuple[pa.Table | None, ...], name: str, codes: npt.NDArray[np.int_], literals: Sequence[Any]
) -> pa.ChunkedArray:
    """Return a column whose rows come from the sides and from values, as the codes say."""
    count = len(codes)
    shown = next(rows for rows in sides if rows is not None)
    kind = shown.schema.field(name).type
    chunks, starts, start = list[pa.Array](), np.zeros(_EACH, dtype=np.int64), 0
    for number, rows in enumerate(sides):
        starts[number] = start
        if rows is not None:
            chunks += rows.column(name).chunks
            start += count
    if literals:
        chunks.append(stored_array(literals, kind))
    is_side = codes < _EACH
    places = np.where(is_side, starts[np.where(is_side, codes, 0)] + np.arange(count), start + codes - _OPEN - 1)
    return pa.chunked_array(chunks, kind).take(pa.array(places))


def _clashes(conflicts: RowConflicts, source: pa.Table, target: pa.Table) -> Mapping[str, Mask]:
    """Return per property the rows where the sides differ and neither left it as the base has it."""
    base = conflicts.base
    found: dict[str, Mask] = {}
    for names in _groups(source):
        is_open = ~_equal(source, target, names)
        if base is not None:
            is_open &= ~_equal(base, source, names) & ~_equal(base, target, names)
        found.update(dict.fromkeys(names, is_open))
    return found


def _groups(rows: pa.Table) -> list[tuple[str, ...]]:
    """Return the columns that are decided together.

    The two ends of an edge are one thing: taking one from each side would join two nodes that neither side joined.
    """
    ends = tuple(name for name in ENDPOINTS if name in rows.column_names)
    singles = [(name,) for name in rows.column_names if name not in {KEY, *ends}]
    return [ends, *singles] if ends else [*singles]


def _choose(mask: Mask, chosen: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    places = np.arange(len(mask))
    both = pa.chunked_array([*chosen.chunks, *other.chunks], chosen.type)
    return both.take(pa.array(np.where(mask, places, places + len(mask))))


def _equal(one: pa.Table, other: pa.Table, names: tuple[str, ...]) -> Mask:
    is_equal = np.ones(one.num_rows, dtype=np.bool_)
    for name in names:
        is_equal &= columns_equal(one.column(name), other.column(name))
    return is_equal
