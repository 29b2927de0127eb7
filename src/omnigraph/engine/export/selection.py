"""What an export is of: one state of the graph, and the types that were asked for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.errors import ExportTypeError, MissingThing
from omnigraph.records import record
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import checked_names


@record
class ExportCut:
    """A pinned state with its schema, and which of its types are wanted, nodes before edges, each by name."""

    snapshot: Snapshot
    catalog: Catalog
    owners: tuple[NodeType | EdgeType, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, catalog: Catalog, types: Sequence[str] | None) -> ExportCut:
        """Return the cut; a name selects the node and the edge type of that name, ``node:Name`` only one of them.

        Raises:
            ExportTypeError: the schema has no such type.
            UsageError: these are not several names.
        """
        owners: list[NodeType | EdgeType] = [catalog.nodes[name] for name in sorted(catalog.nodes)]
        owners += [catalog.edges[name] for name in sorted(catalog.edges)]
        if types is not None:
            types = checked_names("types", types)
            for name in types:
                if not any(name in {owner.name, owner.table_key} for owner in owners):
                    raise _unknown(name, [owner.name for owner in owners])
            owners = [owner for owner in owners if not {owner.name, owner.table_key}.isdisjoint(types)]
        return cls(snapshot=snapshot, catalog=catalog, owners=tuple(owners))

    @property
    def row_count(self) -> int:
        """How many rows are wanted."""
        return sum(self.snapshot.entry(owner.table_key).row_count for owner in self.owners)


def _unknown(name: str, known: Sequence[str]) -> ExportTypeError:
    near = tuple(difflib.get_close_matches(name[:200], known, n=3))
    details = MissingThing(what="type", name=name, near=near)
    hint = f"did you mean {near[0]}?" if near else None
    return ExportTypeError(f"unknown export type '{name}'", details=details, hint=hint)
