"""The accepted schema as a graph stores it, and the catalog that comes out of it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.catalog import Catalog, catalog_from_json, catalog_hash, catalog_to_json
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.runtime import LRUCache
from omnigraph.txn.manifest.rows import AcceptedSchema

if TYPE_CHECKING:
    from omnigraph.txn.changes import TableRegister

_CATALOGS = 16


def accept_schema(source: str, catalog: Catalog) -> AcceptedSchema:
    """Return the record of a schema with its identities, as the manifest keeps it."""
    return AcceptedSchema(source=source, compiled=catalog_to_json(catalog).decode(), hash=catalog_hash(catalog))


def table_of(owner: NodeType | EdgeType) -> TableRegister:
    """Return the empty table of a type; its place follows from the numbers that survive renames."""
    from omnigraph.catalog.arrow import arrow_schema  # noqa: PLC0415 - a read needs none of it
    from omnigraph.txn.changes import TableRegister  # noqa: PLC0415 - see above

    return TableRegister(
        table_key=owner.table_key,
        object_id=f"{owner.id:016x}-{owner.incarnation:016x}",
        folder="nodes" if isinstance(owner, NodeType) else "edges",
        schema=arrow_schema(owner),
    )


def catalog_of(schema: AcceptedSchema) -> Catalog:
    """Return the catalog of an accepted schema.

    Raises:
        CatalogFormatError: it was accepted by a version that this one does not understand.
        CatalogCorruptError: it contradicts its hash.
    """
    return catalog_from_json(schema.compiled.encode())


class CatalogCache:
    """Catalogs by the hash of their schema; branches that share a schema share its catalog. Threads may share it."""

    def __init__(self) -> None:
        self._catalogs: LRUCache[str, Catalog] = LRUCache(_CATALOGS)

    def get(self, schema: AcceptedSchema) -> Catalog:
        """Return the catalog of an accepted schema, decoded once; raises what :func:`catalog_of` does."""
        found = self._catalogs.get(schema.hash)
        if found is None:
            found = catalog_of(schema)
            self._catalogs.put(schema.hash, found)
        return found
