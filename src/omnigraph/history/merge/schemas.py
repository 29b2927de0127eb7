"""Merging branches whose schemas differ: one schema for both, and every side's rows as that schema has them.

The schema is settled first, on catalogs alone. What one side dropped and the other one wrote to is found in the rows,
and is a conflict of schemas too. After that all sides are read in the columns of the merged schema, so that rows are
compared, decided and judged as if every side had had it from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.migration import MakeRequired, Step, UnsupportedChange
from omnigraph.catalog.migration.codes import ADD_REQUIRED_PROPERTY
from omnigraph.catalog.migration.merge import Loss, MergedSchema, SchemaConflict, Side, merge_schemas
from omnigraph.catalog.model import ENDPOINTS
from omnigraph.engine.accepted import accept_schema
from omnigraph.engine.comparison import comparable, one_array
from omnigraph.engine.past import ColumnReading, ReadTable
from omnigraph.engine.schema.apply import RowsToCheck, rows_to_check
from omnigraph.engine.schema.lower import Continued, continued_types, lower_schema
from omnigraph.engine.view import GraphView
from omnigraph.errors import MergeConflict
from omnigraph.history.diff.rows import find_changed_rows, rows_delta
from omnigraph.history.diff.selection import select_differing
from omnigraph.history.merge.conflicts import ConflictKind
from omnigraph.records import record
from omnigraph.store.tables.lookup import filter_stream
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import RowChange, TableAlter, TableChange, TableRegister, as_id_array, id_array
from omnigraph.txn.manifest.rows import AcceptedSchema, TableEntry
from omnigraph.txn.snapshot import GraphSnapshot

SideName = str
_PREFERS: Mapping[str | None, Side] = {"ours": "target", "theirs": "source"}


@record(eq=False)
class SideTable:
    """One side's table of a type of the merged schema.

    Args:
        snapshot: the state of the side.
        entry: the table there.
        pair: the type there and in the merged schema; None where the rows of no side need a translation.
        can_adopt: whether the table is laid out as the merged schema has it, ids of columns included.
    """

    snapshot: GraphSnapshot
    entry: TableEntry
    pair: Continued | None = None
    can_adopt: bool = True

    @property
    def table(self) -> Table:
        """The table in the columns of the merged schema."""
        stored = self.snapshot.table(self.entry.table_key)
        if self.pair is None:
            return stored
        after = arrow_schema(self.pair.after)
        schema = pa.schema([field if field.name == KEY else field.with_nullable(True) for field in after])
        origins = self.pair.origins
        numbers = {name: number for number, name in stored.fields}
        # Files that two versions share hold the same where they say the same columns of theirs to be the same.
        fields = tuple((numbers[origins[name]] if name in origins else -1, name) for name in schema.names)
        return ReadTable(stored, FilledReading(schema=schema, origins=origins, fills=self.pair.fills), fields)


@record
class FilledReading(ColumnReading):
    """Rows as a merged schema has them; ``fills`` is what columns hold that would hold null."""

    fills: Mapping[str, pa.Scalar]

    def show(self, rows: Any, names: Sequence[str]) -> Any:
        """Return columns of a stored table or batch as the merged schema has them."""
        # A record is made anew from its class, which a bare super would still mean.
        shown = ColumnReading.show(self, rows, names)
        if self.fills.keys().isdisjoint(names):
            return shown
        columns = [
            pc.fill_null(shown.column(name), self.fills[name]) if name in self.fills else shown.column(name)
            for name in shown.schema.names
        ]
        return type(shown).from_arrays(columns, schema=shown.schema)


def side_table(
    name: SideName, snapshot: GraphSnapshot, table_key: str, schemas: SettledSchemas | None
) -> SideTable | None:
    """Return the table that a side has for one of the schema that a merge leads to, None where it has none."""
    if schemas is not None:
        return schemas.find(name, snapshot, table_key)
    entry = snapshot.state.table(table_key)
    return None if entry is None else SideTable(snapshot=snapshot, entry=entry)


@record(eq=False)
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
        # Rows of all sides meet in the same columns, so that one side that is translated makes all of them so.
        found = (pairs[table_key] for pairs in self.pairs.values() if table_key in pairs)
        return SideTable(
            snapshot=snapshot,
            entry=entry,
            pair=None if all(map(_is_plain, found)) else pair,
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
) -> SettledSchemas:
    """Merge the schemas of base, source and target.

    Args:
        sides: the states.
        catalog_at: decodes the schema of a state.
        resolve: how conflicts are decided; only "ours" and "theirs" say anything about schemas.
    """
    base, source, target = (catalog_at(sides[name]) for name in ("base", "source", "target"))
    prefer, born_as = _PREFERS.get(resolve), sides["target"].manifest.life.line.born_as
    merged = merge_schemas(base, source, target, prefer, born_as=born_as)
    if not merged.conflicts:
        contested = _contested([loss for loss in merged.losses if loss.by != prefer], sides)
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
            message=f"{change.table_key} is a different type in the target; rename or drop it there first",
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
    is_same = before.equals(after)
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


def _contested(losses: Sequence[Loss], sides: Mapping[SideName, GraphSnapshot]) -> dict[Loss, int]:
    """Return the losses that take rows, or values, with them that the other side wrote, and how many."""
    found = {}
    for loss in losses:
        before, after = sides["base"], sides[loss.kept_by]
        keys = loss.base_key, loss.kept_key
        if keys[0].startswith("interface:") or before.state.table(keys[0]) == after.state.table(keys[1]):
            continue
        with before.reading(), after.reading():
            old, new = before.table(keys[0]), after.table(keys[1])
            changed = (
                _changed_rows(old, new) if loss.property_name is None else _set_values(old, new, loss.property_name)
            )
        if changed:
            found[loss] = changed
    return found


def _changed_rows(old: Table, new: Table) -> int:
    """Return how many rows were inserted or changed."""
    changed = find_changed_rows(old, new)
    return len(changed.inserted.ids) + len(changed.after.ids)


def _set_values(old: Table, new: Table, column: str) -> int:
    """Return how many rows got another value in a column."""
    lost, gained = select_differing(old, new)
    if lost is None or gained is None:
        return 0
    delta = rows_delta(lost.read([KEY, column]), gained.read([KEY, column]))
    inserted = delta.inserted.column(column)
    return int(len(inserted) - inserted.null_count + delta.after.num_rows)


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

    def _stored_where(self, table: Table, column: str, wanted: pa.Array, columns: Sequence[str]) -> pa.Table:
        if table.pushes_predicates or column in ENDPOINTS:
            return super()._stored_where(table, column, wanted, columns)
        value_set = comparable(wanted)
        return filter_stream(
            table.scan(list(dict.fromkeys((*columns, column)))),
            lambda rows: pc.is_in(comparable(one_array(rows.column(column))), value_set=value_set),
            wanted_count=len(wanted),
        )

    def _stored(self, table_key: str) -> Table | None:
        found = self._schemas.find("target", self.snapshot, table_key)
        return None if found is None else found.table


@record(eq=False)
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
        hidden = pa.concat_arrays([id_array(change.written), as_id_array(change.deletes)])
        return rows.filter(pc.invert(pc.is_in(rows.column(KEY), value_set=hidden)))
