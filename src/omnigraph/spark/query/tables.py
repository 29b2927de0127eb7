"""The tables of the pinned snapshot, as tasks read them, and how large they are."""

from __future__ import annotations

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.runner import PreparedRead
from omnigraph.spark.query.layout import Layout
from omnigraph.spark.query.scans import TableParts
from omnigraph.spark.source.pinned import group_fragments
from omnigraph.spark.states import StateTable
from omnigraph.store.location import Storage
from omnigraph.store.portable import fragment_sizes

# A task is worth so many rows, and reads no more than these unless a single fragment has them.
_WORTH_ROWS, _MOST_ROWS = 100_000, 1_000_000


class Tables:
    """The tables of one read.

    Args:
        storage: where the graph is.
        prepared: the read.
        parallelism: how many tasks can run at once.
    """

    def __init__(self, storage: Storage, prepared: PreparedRead, parallelism: int) -> None:
        self._storage = storage
        self._prepared = prepared
        self._parallelism = parallelism
        self._known: dict[str, TableParts] = {}
        rows = {key: entry.row_count for key, entry in prepared.snapshot.state.tables.items()}
        self.facts = Facts(catalog=prepared.context.catalog, row_counts=rows)

    def parts(self, owner: NodeType | EdgeType) -> TableParts:
        """Return a table in parts of some fragments."""
        known = self._known.get(owner.table_key)
        if known is None:
            table = self._prepared.snapshot.table(owner.table_key, self._prepared.context.counters)
            wanted = min(self._parallelism, -(-table.row_count // _WORTH_ROWS))
            known = TableParts(
                stored=StateTable.of(self._storage, self._prepared.snapshot, owner.table_key),
                groups=tuple(group_fragments(fragment_sizes(table), wanted, _MOST_ROWS)),
                row_count=table.row_count,
            )
            self._known[owner.table_key] = known
        return known


def has_unique_ends(edge: EdgeType) -> bool:
    """Whether no two edges of a type go from one node to another one."""
    ruled = [names for names in (edge.key, *edge.uniques) if names]
    return any(set(names) <= {"src", "dst"} for names in ruled)


def columns_of(owner: NodeType | EdgeType, variable: str, names: dict[str, str]) -> Layout:
    """Return the layout of a variable's properties, which ``names`` gives a column each."""
    schema = arrow_schema(owner)
    return Layout(columns={(variable, prop): (name, schema.field(prop).type) for prop, name in names.items()})
