"""Index or adjacency: which way a walk goes, decided from row counts alone unless an index would have to carry it."""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.demand import adjacency_price
from omnigraph.engine.query.frame import RowIds, distinct
from omnigraph.errors import BadValue, OmnigraphError, UsageError
from omnigraph.ir.model import Direction
from omnigraph.store.matching import index_coverage

_LOG = logging.getLogger(__name__)

_MAX_HOPS = ("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", 6)
_MAX_FRONTIER = ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", 1024)
# Building adjacency reads every edge once and sorts it.
_BUILD_COST = 1.5
# The tail of an edge table that no index covers is held in memory up to about this many rows, and costs no scan.
_TAIL_ROWS = 50_000


def walks_in_memory(context: QueryContext, edge: EdgeType, direction: Direction, sources: RowIds, hops: int) -> bool:
    """Whether adjacency in memory is the cheaper way for these sources; an option may force either way."""
    mode = context.options.expand_mode
    if mode != "auto":
        return mode == "csr"
    known = context.memory.topology.known_adjacency(
        context.entities(edge.table_key).table,
        context.entities(f"node:{edge.from_type}").table,
        context.entities(f"node:{edge.to_type}").table,
        direction,
    )
    if known is not None:
        return True
    edges = context.entities(edge.table_key).table
    edge_count = edges.row_count
    price = adjacency_price(edge_count, context.memory.topology.unknown_rows(edges))
    if context.memory.demand.is_worth(demand_key(context, edge, direction), price):
        return True
    walked = hops if edge.is_same_type else 1
    frontier = len(distinct(sources)) if len(sources) <= 4 * _setting(*_MAX_FRONTIER) else len(sources)
    if walked > _setting(*_MAX_HOPS) or frontier > _setting(*_MAX_FRONTIER):
        return True
    start = edge.to_type if direction == "in" else edge.from_type
    fanout = edge_count / max(1, context.entities(f"node:{start}").table.row_count)
    adjacency_cost = _BUILD_COST * edge_count
    if walked * frontier * fanout >= adjacency_cost:
        return True
    if _is_covered(context, edge, direction):
        return False
    return walked * edge_count >= adjacency_cost


def demand_key(context: QueryContext, edge: EdgeType, direction: Direction) -> Hashable:
    """Return under which name fetched edges are counted."""
    return (context.entities(edge.table_key).table.pin, direction)


def _is_covered(context: QueryContext, edge: EdgeType, direction: Direction) -> bool:
    """Whether indexes on the ends that are walked from cover the edge table, its small tail aside."""
    table = context.entities(edge.table_key).table
    columns = {"out": ("src",), "in": ("dst",), "both": ("src", "dst")}[direction]
    try:
        covered = frozenset.intersection(*(index_coverage(table, name, context.counters) for name in columns))
    except OmnigraphError:
        _LOG.warning("the indexes of %s could not be looked at; edges are found by scanning", edge.table_key)
        return False
    loose = sum(item.row_count for item in table.fragments if item.metadata.id not in covered)
    if loose > _TAIL_ROWS:
        _LOG.warning("%s has %d edges that no index covers; run optimize", edge.table_key, loose)
    return loose <= _TAIL_ROWS


def _setting(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        return max(0, int(text))
    except ValueError:
        details = BadValue(what=name, value=text, expected="an integer")
        raise UsageError(f"environment variable {name} is no integer: value={text}", details=details) from None
