"""From one schema to another in terms of tables: which are added, dropped, renamed, or get other columns.

What continues what is told by the numbers that survive renames, so nothing here has to interpret single steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType, PropertyDef
from omnigraph.engine.accepted import table_of
from omnigraph.engine.rows.columns import default_scalar
from omnigraph.records import record
from omnigraph.store.staging.columns import rows_in_columns
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import TableAlter, TableChange, TableDrop
from omnigraph.values.ids import TypeId

TableType = NodeType | EdgeType


@record
class Continued:
    """A type that both schemas have, whatever it is called in each of them."""

    before: TableType
    after: TableType

    @property
    def origins(self) -> dict[str, str]:
        """The columns that go on: the name of each afterwards, and before."""
        kept = {prop.name: was.name for prop, was in self._properties if was is not None}
        system = [field.name for field in arrow_schema(self.after) if self.after.get(field.name) is None]
        return {**{name: name for name in system}, **kept}

    def rows_after(self, table: Table, names: Sequence[str]) -> pa.Table:
        """Return ``id`` and these columns of the stored rows as they will be."""
        return self.translated(table.read(self.columns_before(names)), names)

    def columns_before(self, names: Sequence[str]) -> list[str]:
        """Return the stored columns that ``id`` and these columns come from."""
        origins = self.origins
        return list(dict.fromkeys(["id", *(origins[name] for name in names if name in origins)]))

    def translated(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return ``id`` and these columns of rows that were read as :meth:`columns_before` says, as they will be."""
        schema = arrow_schema(self.after)
        wanted = pa.schema([schema.field(name) for name in dict.fromkeys(("id", *names))])
        return rows_in_columns(rows, wanted, self.origins, self.fills)

    @property
    def _properties(self) -> list[tuple[PropertyDef, PropertyDef | None]]:
        """The properties afterwards, each with the one that it continues."""
        before = self.before.properties
        return [(prop, next((one for one in before if prop.continues(one)), None)) for prop in self.after.properties]

    @property
    def fills(self) -> dict[str, pa.Scalar]:
        """What stored rows get in columns that demand a value, where they have none."""
        found = {}
        for prop, old in self._properties:
            default = default_scalar(prop)
            if default is not None and not prop.type.nullable and (old is None or old.type.nullable):
                found[prop.name] = default
        return found

    @property
    def drops_columns(self) -> bool:
        """Whether a property of the type goes."""
        return len(self.before.properties) > sum(old is not None for _, old in self._properties)


def lower_schema(accepted: Catalog, desired: Catalog) -> list[TableChange]:
    """Return what has to happen to the tables of a graph, at most one change per table."""
    changes: list[TableChange] = [TableDrop(table_key=owner.table_key) for owner in dropped_types(accepted, desired)]
    continued = {pair.after.id: pair for pair in continued_types(accepted, desired)}
    for owner in _by_id(desired).values():
        pair = continued.get(owner.id)
        change = table_of(owner) if pair is None else _altered(pair)
        if change is not None:
            changes.append(change)
    return changes


def continued_types(accepted: Catalog, desired: Catalog) -> list[Continued]:
    """Return the types that stay, nodes before edges, by the name they have afterwards."""
    # A type that came by a merge is known to other branches by its aliases.
    before = {number: owner for owner in _by_id(accepted).values() for number in (owner.id, *owner.aliases)}
    found = ((next((before[n] for n in (one.id, *one.aliases) if n in before), None), one) for one in _tables(desired))
    return [Continued(before=old, after=owner) for old, owner in found if old is not None]


def dropped_types(accepted: Catalog, desired: Catalog) -> list[TableType]:
    """Return the types that go."""
    after = _by_id(desired)
    return [owner for number, owner in _by_id(accepted).items() if number not in after]


def _altered(pair: Continued) -> TableAlter | None:
    before, after = arrow_schema(pair.before), arrow_schema(pair.after)
    new_key = None if pair.before.table_key == pair.after.table_key else pair.after.table_key
    if before.equals(after, check_metadata=True):
        return None if new_key is None else TableAlter(table_key=pair.before.table_key, new_key=new_key)
    return TableAlter(
        table_key=pair.before.table_key, new_key=new_key, schema=after, origins=pair.origins, fills=pair.fills
    )


def _by_id(catalog: Catalog) -> dict[TypeId, TableType]:
    return {owner.id: owner for owner in _tables(catalog)}


def _tables(catalog: Catalog) -> list[TableType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]
