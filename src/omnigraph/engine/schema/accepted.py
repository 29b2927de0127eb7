"""The accepted schema as a graph stores it, and the catalog that comes out of it again.

What continues what is told by the numbers that survive renames, so nothing here has to interpret single steps.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph.catalog import Catalog, catalog_from_json, catalog_hash, catalog_to_json
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.records import record
from omnigraph.txn.changes import TableAlter, TableChange, TableDrop, TableRegister
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.values.ids import TypeId

_CATALOGS = 16


def accept_schema(source: str, catalog: Catalog) -> AcceptedSchema:
    """Return the record of a schema with its identities, as the manifest keeps it."""
    return AcceptedSchema(source=source, compiled=catalog_to_json(catalog).decode(), hash=catalog_hash(catalog))


def table_of(owner: NodeType | EdgeType) -> TableRegister:
    """Return the empty table of a type; its place follows from the numbers that survive renames."""
    return TableRegister(
        table_key=owner.table_key,
        object_id=f"{owner.id:016x}-{owner.incarnation:016x}",
        folder="nodes" if isinstance(owner, NodeType) else "edges",
        schema=arrow_schema(owner),
    )


class CatalogCache:
    """Catalogs by the hash of their schema; branches that share a schema share its catalog. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalogs: OrderedDict[str, Catalog] = OrderedDict()

    def get(self, schema: AcceptedSchema) -> Catalog:
        """Return the catalog of an accepted schema, decoded once.

        Raises:
            CatalogFormatError: it was accepted by a version that this one does not understand.
            CatalogCorruptError: it contradicts its hash.
        """
        with self._lock:
            known = self._catalogs.get(schema.hash)
            if known is not None:
                self._catalogs.move_to_end(schema.hash)
                return known
        decoded = catalog_from_json(schema.compiled.encode())
        with self._lock:
            self._catalogs[schema.hash] = decoded
            while len(self._catalogs) > _CATALOGS:
                self._catalogs.popitem(last=False)
        return decoded


TableType = NodeType | EdgeType


@record
class Continued:
    """A type that both schemas have, whatever it is called in each of them."""

    before: TableType
    after: TableType

    @property
    def origins(self) -> dict[str, str]:
        """The columns that go on: the name of each afterwards, and before."""
        old_names = {prop.id: prop.name for prop in self.before.properties}
        kept = {prop.name: old_names[prop.id] for prop in self.after.properties if prop.id in old_names}
        system = [field.name for field in arrow_schema(self.after) if self.after.get(field.name) is None]
        return {**{name: name for name in system}, **kept}

    @property
    def drops_columns(self) -> bool:
        """Whether a property of the type goes."""
        return not {prop.id for prop in self.before.properties} <= {prop.id for prop in self.after.properties}


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
    before = _by_id(accepted)
    return [
        Continued(before=before[number], after=owner) for number, owner in _by_id(desired).items() if number in before
    ]


def dropped_types(accepted: Catalog, desired: Catalog) -> list[TableType]:
    """Return the types that go."""
    after = _by_id(desired)
    return [owner for number, owner in _by_id(accepted).items() if number not in after]


def _altered(pair: Continued) -> TableAlter | None:
    before, after = arrow_schema(pair.before), arrow_schema(pair.after)
    new_key = None if pair.before.table_key == pair.after.table_key else pair.after.table_key
    if before.equals(after, check_metadata=True):
        return None if new_key is None else TableAlter(table_key=pair.before.table_key, new_key=new_key)
    return TableAlter(table_key=pair.before.table_key, new_key=new_key, schema=after, origins=pair.origins)


def _by_id(catalog: Catalog) -> dict[TypeId, TableType]:
    owners: list[TableType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return {owner.id: owner for owner in owners}
