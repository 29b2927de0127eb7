"""Merging branches whose schemas differ: one schema for both, and every side's rows as that schema has them.

The schema is settled first, on catalogs alone. What one side dropped and the other one wrote to is found in the rows,
and is a conflict of schemas too. After that all sides are read in the columns of the merged schema, so that rows are
compared, decided and judged as if every side had had it from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.migration import MakeRequired, Step, UnsupportedChange
from omnigraph.catalog.migration.codes import ADD_REQUIRED_PROPERTY
from omnigraph.catalog.migration.merge import Loss, MergedSchema, SchemaConflict, Side, merge_schemas
from omnigraph.engine.accepted import accept_schema
from omnigraph.engine.comparison import comparable, one_array
from omnigraph.engine.equality import columns_equal
from omnigraph.engine.schema.apply import RowsToCheck, rows_to_check
from omnigraph.engine.schema.lower import Continued, continued_types, lower_schema
from omnigraph.engine.view import GraphView
from omnigraph.errors import MergeConflict
from omnigraph.history.diff.rows import Check, TableDelta, rows_delta, table_delta
from omnigraph.history.diff.selection import select_differing
from omnigraph.history.merge.conflicts import ConflictKind
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import RowChange, TableAlter, TableChange, TableRegister
from omnigraph.txn.manifest.rows import AcceptedSchema, TableEntry
from omnigraph.txn.snapshot import GraphSnapshot

SideName = str
_PREFERS: Mapping[str | None, Side] = {"ours": "target", "theirs": "source"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideTable:
    """One side's table of a type of the merged schema.

    Args:
        snapshot: the state of the side.
        entry: the table there.
        pair: the type there and in the merged schema; None where the rows need no translation.
        can_adopt: whether the table is laid out as the merged schema has it, ids of columns included.
    """

    snapshot: GraphSnapshot
    entry: TableEntry
    pair: Continued | None = None
    can_adopt: bool = True

    @property
    def table(self) -> Table:
        """The table as it is stored."""
        return self.snapshot.table(self.entry.table_key)

    def translated(self, rows: pa.Table) -> pa.Table:
        """Return whole stored rows in the columns of the merged schema."""
        if self.pair is None:
            return rows
        return self.pair.translated(rows, arrow_schema(self.pair.after).names)

    def lookup(self, ids: pa.Array) -> pa.Table:
        """Return the rows with these ids, in the columns of the merged schema."""
        table = self.table
        names = table.schema.names
        return self.translated(table.lookup(ids, names).select(names))


def side_table(
    name: SideName, snapshot: GraphSnapshot, table_key: str, schemas: SettledSchemas | None
) -> SideTable | None:
    """Return the table that a side has for one of the schema that a merge leads to, None where it has none."""
    if schemas is not None:
        return schemas.find(name, snapshot, table_key)
    entry = snapshot.state.table(table_key)
    return None if entry is None else SideTable(snapshot=snapshot, entry=entry)


def side_delta(base: SideTable | None, source: SideTable, check: Check) -> TableDelta:
    """Return how the source differs from the base, in the columns of the merged schema."""
    if source.pair is None and (base is None or base.pair is None):
        return table_delta(None if base is None else base.table, source.table, check)
    lost, gained = select_differing(None if base is None else base.table, source.table)
    parts = []
    for side, selection in ((base, lost), (source, gained)):
        if side is None or selection is None:
            parts.append(source.translated(source.table.schema.empty_table()))
            continue
        parts.append(side.translated(selection.read(side.table.schema.names)))
        check(sum(part.nbytes for part in parts))
    return rows_delta(*parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettledSchemas:
    """The schema that a merge leads to.

    Args:
        catalog: the schema.
        accepted: its record for the manifest; None when it is the one that the target has.
        pairs: per side and table of the merged schema the type that the side has for it.
        alterations: what happens to the tables of the target because of it.
        checks: what it newly demands of rows that the target has.
        steps: what happens to the schema of the target.
        conflicts: what could not be decided; then nothing else means anything.
    """

    catalog: Catalog
    accepted: AcceptedSchema | None = None
    pairs: Mapping[SideName, Mapping[str, Continued]] = field(default_factory=dict)
    alterations: tuple[TableChange, ...] = ()
    checks: tuple[RowsToCheck, ...] = ()
    steps: tuple[Step, ...] = ()
    conflicts: tuple[MergeConflict, ...] = ()

    def find(self, name: SideName, snapshot: GraphSnapshot, table_key: str) -> SideTable | None:
        """Return the table that a side has for one of the merged schema, None where it has none."""
        pair = self.pairs[name].get(table_key)
        entry = None if pair is None else snapshot.state.table(pair.before.table_key)
        if pair is None or entry is None:
            return None
        before, after = arrow_schema(pair.before), arrow_schema(pair.after)
        return SideTable(
            snapshot=snapshot,
            entry=entry,
            pair=None if _is_plain(pair) else pair,
            can_adopt=before.equals(after, check_metadata=True) and pair.before.table_key == table_key,
        )

    def combined(self, rows: Mapping[str, RowChange], adopted: Mapping[str, TableEntry]) -> tuple[TableChange, ...]:
        """Return one change per table of the target: of its rows, of its columns and name, or of all of it at once."""
        left, changes = dict(rows), list[TableChange]()
        for change in self.alterations:
            if isinstance(change, TableRegister):
                found = left.pop(change.table_key, None)
                changes.append(_with_rows(change, found, adopted.get(change.table_key)))
            elif isinstance(change, TableAlter):
                key = change.table_key if change.new_key is None else change.new_key
                changes.append(_altered(change, left.pop(key, None), adopted.get(key)))
            else:
                changes.append(change)
        return (*changes, *left.values())


def settle_schemas(
    sides: Mapping[SideName, GraphSnapshot],
    catalog_at: Callable[[GraphSnapshot], Catalog],
    resolve: str | None,
    born_as: str | None,
    check: Check,
) -> SettledSchemas:
    """Merge the schemas of base, source and target.

    Args:
        sides: the states.
        catalog_at: decodes the schema of a state.
        resolve: how conflicts are decided; only "ours" and "theirs" say anything about schemas.
        born_as: the life of the target, for ids that have to be made up.
        check: is told how many bytes of rows are held.
    """
    base, source, target = (catalog_at(sides[name]) for name in ("base", "source", "target"))
    prefer = _PREFERS.get(resolve)
    merged = merge_schemas(base, source, target, prefer, born_as=born_as)
    if not merged.conflicts:
        contested = _contested([loss for loss in merged.losses if loss.by != prefer], sides, check)
        if prefer is None:
            conflicts = tuple(loss.conflict(count) for loss, count in contested.items())
        else:
            if contested:
                merged = merge_schemas(base, source, target, prefer, contested, born_as=born_as)
            conflicts = merged.conflicts
    else:
        conflicts = merged.conflicts
    if not conflicts:
        conflicts = tuple(_taken_names(merged.catalog, target))
    if conflicts:
        return SettledSchemas(catalog=target, conflicts=tuple(map(_conflict, conflicts)))
    is_same = merged.catalog == target
    return SettledSchemas(
        catalog=merged.catalog,
        accepted=None if is_same else accept_schema(_text(merged, sides, source, target), merged.catalog),
        pairs={
            name: _pairs(catalog, merged.catalog)
            for name, catalog in (("base", base), ("source", source), ("target", target))
        },
        alterations=tuple(lower_schema(target, merged.catalog)),
        checks=tuple(_checks(target, merged)),
        steps=merged.steps,
    )


def _conflict(found: SchemaConflict) -> MergeConflict:
    base, source, target = (
        None if text is None else {"declaration": text} for text in (found.base, found.source, found.target)
    )
    return MergeConflict(
        kind=ConflictKind.SCHEMA_DIVERGENCE.value,
        message=found.message,
        type_key=found.type_key,
        properties=() if found.property_name is None else (found.property_name,),
        base=base,
        source=source,
        target=target,
    )


def _text(merged: MergedSchema, sides: Mapping[SideName, GraphSnapshot], source: Catalog, target: Catalog) -> str:
    """Return the text of the merged schema: as one of the sides wrote it if that says the same."""
    for name, catalog in (("target", target), ("source", source)):
        if catalog.shape_hash == merged.catalog.shape_hash:
            return sides[name].state.schema.source
    return merged.text


def _taken_names(merged: Catalog, target: Catalog) -> list[SchemaConflict]:
    """Find types that come under a name whose table the target has for another type, which a commit cannot do."""
    changes = lower_schema(target, merged)
    known = {*(one.table_key for one in target.nodes.values()), *(one.table_key for one in target.edges.values())}
    return [
        SchemaConflict(
            message=f"{change.table_key} is another type in the target; give that one another name, or drop it, first",
            type_key=change.table_key,
        )
        for change in changes
        if isinstance(change, TableRegister) and change.table_key in known
    ]


def _pairs(side: Catalog, merged: Catalog) -> dict[str, Continued]:
    return {pair.after.table_key: pair for pair in continued_types(side, merged)}


def _is_plain(pair: Continued) -> bool:
    """Whether stored rows are rows of the merged schema as they are."""
    before, after = arrow_schema(pair.before), arrow_schema(pair.after)
    is_same = before.names == after.names and before.types == after.types
    return is_same and not pair.fills and pair.origins == {name: name for name in after.names}


def _checks(target: Catalog, merged: MergedSchema) -> list[RowsToCheck]:
    plan = merged.plans["target"]
    found = {check.pair.after.table_key: check for check in rows_to_check(target, plan)}
    pairs = _pairs(target, merged.catalog)
    for step in plan.steps:
        # A value that is required at once may have come with the rows of the source.
        if isinstance(step, UnsupportedChange) and step.code is ADD_REQUIRED_PROPERTY:
            key, _, name = step.entity.partition(".")
            if key not in pairs:
                continue
            kind, _, type_name = key.partition(":")
            required = MakeRequired(
                type_kind="node" if kind == "node" else "edge", type_name=type_name, property_name=name
            )
            known = found.get(key, RowsToCheck(pair=pairs[key], required=(), constraints=(), counts_edges=False))
            found[key] = RowsToCheck(
                pair=known.pair,
                required=(*known.required, required),
                constraints=known.constraints,
                counts_edges=known.counts_edges,
            )
    return list(found.values())


def _contested(losses: Sequence[Loss], sides: Mapping[SideName, GraphSnapshot], check: Check) -> dict[Loss, int]:
    """Return the losses that take rows, or values, with them that the other side wrote, and how many."""
    found = {}
    for loss in losses:
        before, after = sides["base"], sides[loss.kept_by]
        keys = loss.base_key, loss.kept_key
        if keys[0].startswith("interface:") or before.state.table(keys[0]) == after.state.table(keys[1]):
            continue
        with before.reading(), after.reading():
            delta = _raw_delta(before.table(keys[0]), after.table(keys[1]), loss.property_name, check)
        changed = delta.inserted.num_rows + delta.after.num_rows
        if loss.property_name is not None:
            values = delta.inserted.column(loss.property_name)
            is_other = ~columns_equal(delta.before.column(loss.property_name), delta.after.column(loss.property_name))
            changed = len(values) - values.null_count + int(is_other.sum())
        if changed:
            found[loss] = changed
    return found


def _raw_delta(before: Table, after: Table, column: str | None, check: Check) -> TableDelta:
    names = [KEY] if column is None else [KEY, column]
    if column is None:
        return table_delta(before, after, check)
    parts = []
    for selection in select_differing(before, after):
        if selection is not None:
            parts.append(selection.read(names))
            check(sum(part.nbytes for part in parts))
    return rows_delta(*parts)


def _with_rows(change: TableRegister, rows: RowChange | None, adopted: TableEntry | None) -> TableRegister:
    return TableRegister(
        table_key=change.table_key,
        object_id=change.object_id,
        folder=change.folder,
        schema=change.schema,
        rows=None if rows is None else rows.inserts,
        outcome=adopted,
    )


def _altered(change: TableAlter, rows: RowChange | None, adopted: TableEntry | None) -> TableAlter:
    found: RowChange | None = None
    if rows is not None or adopted is not None:
        found = RowChange(
            table_key=change.table_key,
            inserts=None if rows is None else rows.inserts,
            upserts=None if rows is None else rows.upserts,
            deletes=() if rows is None else rows.deletes,
            outcome=adopted,
        )
    return TableAlter(
        table_key=change.table_key,
        new_key=change.new_key,
        schema=change.schema,
        origins=change.origins,
        fills=change.fills,
        rows=found,
    )


class MergedView(GraphView):
    """The state of the target as the merged schema has it, asked by id or by value.

    Args:
        snapshot: the state of the target.
        schemas: the merged schema.
        pending: changes of rows that are on top of it, by table of the merged schema.
    """

    def __init__(
        self, snapshot: GraphSnapshot, schemas: SettledSchemas, pending: Mapping[str, TableChange] | None = None
    ) -> None:
        super().__init__(snapshot, schemas.catalog, pending or {})
        self._schemas = schemas

    def all_rows(self, table_key: str, columns: Sequence[str]) -> pa.Table:
        """Return columns of every row of the table."""
        pair = self._translation(table_key)
        if pair is None:
            return super().all_rows(table_key, columns)
        table, written, hidden = self._parts(table_key)
        stored = self.schema(table_key).empty_table() if table is None else pair.rows_after(table, list(columns))
        if hidden is not None:
            stored = stored.filter(pc.invert(pc.is_in(stored.column(KEY), value_set=hidden)))
        return self._joined(table_key, [stored, *([] if written is None else [written])], columns)

    def rows_of(self, table_key: str, ids: pa.Array | pa.ChunkedArray, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows with these ids; unknown ids are left out."""
        pair = self._translation(table_key)
        table, written, hidden = self._parts(table_key)
        if pair is None or table is None:
            return super().rows_of(table_key, ids, columns)
        wanted = pc.unique(ids)
        asked = wanted if hidden is None else wanted.filter(pc.invert(pc.is_in(wanted, value_set=hidden)))
        found = [pair.translated(table.lookup(asked, pair.columns_before(columns)), list(columns))]
        if written is not None:
            found.append(written.filter(pc.is_in(written.column(KEY), value_set=wanted)))
        return self._joined(table_key, found, columns)

    def rows_where(
        self, table_key: str, column: str, values: pa.Array | pa.ChunkedArray, columns: Sequence[str]
    ) -> pa.Table:
        """Return ``columns`` of the rows whose ``column`` is one of ``values``; nulls match nothing."""
        if self._translation(table_key) is None or column == KEY:
            return super().rows_where(table_key, column, values, columns)
        rows = self.all_rows(table_key, list(dict.fromkeys((column, *columns))))
        wanted = pc.unique(one_array(values).cast(self.schema(table_key).field(column).type)).drop_null()
        is_met = pc.is_in(comparable(one_array(rows.column(column))), value_set=comparable(wanted))
        return rows.filter(is_met).select(list(columns))

    def _translation(self, table_key: str) -> Continued | None:
        found = self._schemas.find("target", self.snapshot, table_key)
        return None if found is None else found.pair

    def _stored(self, table_key: str) -> Table | None:
        found = self._schemas.find("target", self.snapshot, table_key)
        return None if found is None else found.table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedRowsAfter:
    """The rows of a merged graph, for rules that the merged schema newly demands of the target's.

    Rows that the merge writes are judged as writes: the changes in ``written`` are left out.
    """

    view: MergedView
    written: Mapping[str, RowChange] = field(default_factory=dict)

    @property
    def snapshot(self) -> GraphSnapshot:
        """The state of the target."""
        return self.view.snapshot

    def lacking(self, check: RowsToCheck, column: str) -> pa.Table:
        """Return the ids of the rows without a value in a column."""
        rows = self.read(check, [column])
        return rows.filter(pc.is_null(rows.column(column))).select([KEY])

    def read(self, check: RowsToCheck, columns: Sequence[str]) -> pa.Table:
        """Return ``id`` and these columns of the rows."""
        key = check.pair.after.table_key
        rows = self.view.all_rows(key, list(dict.fromkeys((KEY, *columns))))
        change = self.written.get(key)
        if change is None:
            return rows
        none = pa.array([], pa.string())
        chunks = [] if change.written is None else change.written.column(KEY).chunks
        hidden = pa.concat_arrays([none, *chunks, pa.array(change.deletes, pa.string())])
        return rows.filter(pc.invert(pc.is_in(rows.column(KEY), value_set=hidden)))
