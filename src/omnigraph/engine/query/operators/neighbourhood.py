"""Where a walk looks for edges: adjacency of the whole edge table, or of what was fetched around the frontier.

Both are the same kind of arrays and are walked by the same functions, so that they cannot give different rows.
"""

from __future__ import annotations

import numpy as np

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.frame import Positions, RowIds
from omnigraph.engine.query.operators.choice import walks_in_memory
from omnigraph.engine.query.operators.fetching import fetch_edges
from omnigraph.engine.query.topology import Adjacency
from omnigraph.ir.model import Direction
from omnigraph.records import record


@record
class Neighbourhood:
    """Adjacency, and how its numbers relate to row ids.

    ``sources`` and ``targets`` hold the row ids behind the numbers of a fetched neighbourhood, ascending; those of a
    whole one are those of the images.
    """

    adjacency: Adjacency
    from_entities: Entities
    to_entities: Entities
    edge_entities: Entities
    sources: RowIds | None = None
    targets: RowIds | None = None
    edges: RowIds | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every edge of the table is in it."""
        return self.sources is None

    def source_codes(self, row_ids: RowIds) -> Positions:
        """Return the numbers of entities at which a walk starts; -1 where there is none."""
        return self.from_entities.codes(row_ids) if self.sources is None else _find(self.sources, row_ids)

    def target_codes(self, row_ids: RowIds) -> Positions:
        """Return the numbers of entities at which a walk may end; -1 where there is none."""
        return self.to_entities.codes(row_ids) if self.targets is None else _find(self.targets, row_ids)

    def target_ids(self, codes: Positions) -> RowIds:
        """Return the row ids of entities that were reached."""
        return (self.to_entities.all_ids if self.targets is None else self.targets)[codes]

    def edge_ids(self, codes: Positions) -> RowIds:
        """Return the row ids of edges."""
        return (self.edge_entities.all_ids if self.edges is None else self.edges)[codes]


def neighbourhood(
    context: QueryContext,
    edge_name: str,
    direction: Direction,
    sources: RowIds,
    *,
    hops: int = 1,
) -> Neighbourhood:
    """Return edges in which everything can be found that lies within so many hops of the sources."""
    edge = context.catalog.edges[edge_name]
    start, end = (edge.to_type, edge.from_type) if direction == "in" else (edge.from_type, edge.to_type)
    from_entities, to_entities = context.entities(f"node:{start}"), context.entities(f"node:{end}")
    edge_entities = context.entities(edge.table_key)
    if walks_in_memory(context, edge, direction, sources, hops):
        adjacency = context.memory.topology.adjacency(
            edge_entities.table,
            context.entities(f"node:{edge.from_type}").table,
            context.entities(f"node:{edge.to_type}").table,
            direction,
            context.counters,
            context.limits.check,
        )
        return Neighbourhood(
            adjacency=adjacency,
            from_entities=from_entities,
            to_entities=to_entities,
            edge_entities=edge_entities,
        )
    fetched = fetch_edges(context, edge, direction, sources, hops)
    return Neighbourhood(
        adjacency=fetched.adjacency,
        from_entities=from_entities,
        to_entities=to_entities,
        edge_entities=edge_entities,
        sources=fetched.sources,
        targets=fetched.targets,
        edges=fetched.edges,
    )


def _find(known: RowIds, row_ids: RowIds) -> Positions:
    if not len(known):
        return np.full(len(row_ids), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
    return np.where(known[at] == row_ids, at, -1)
