"""Validation of the merged graph: the rules of the schema, their violations as conflicts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.constraints.evaluator import find_violations
from omnigraph.engine.view import GraphView
from omnigraph.errors import BranchMissingError, MergeConflict, Violation
from omnigraph.history.merge.conflicts import violation_conflict
from omnigraph.history.merge.images import row_images
from omnigraph.history.merge.planning import MergePlan, Sides
from omnigraph.runtime import Counters
from omnigraph.txn.snapshot import Snapshot


def find_rule_conflicts(
    plan: MergePlan, sides: Sides, view: GraphView, counters: Counters
) -> tuple[MergeConflict, ...]:
    """Return what the merged graph would break, as the one evaluator of all writes sees it; all of it, in its order.

    Args:
        plan: the merge.
        sides: where the images of the rows come from.
        view: the state of the target that the merge is to be published on.
        counters: where the calls go.
    """
    found = find_violations(plan.change, view, limit=sys.maxsize)
    conflicts = [_conflict(violation, view.catalog) for violation in found.items]
    return tuple(_with_images(conflicts, sides, view.catalog, counters))


def _conflict(violation: Violation, catalog: Catalog) -> MergeConflict:
    edge = catalog.edges.get(violation.type_name)
    owner = edge if edge is not None else catalog.nodes[violation.type_name]
    return violation_conflict(violation, owner.table_key, edge)


def _with_images(
    conflicts: Sequence[MergeConflict], sides: Sides, catalog: Catalog, counters: Counters
) -> list[MergeConflict]:
    wanted: dict[str, set[str]] = {}
    for conflict in conflicts:
        if conflict.type_key is not None and conflict.entity_id is not None:
            wanted.setdefault(conflict.type_key, set()).add(conflict.entity_id)
    images = {
        (key, name): _images(side, key, ids, catalog, counters)
        for key, ids in wanted.items()
        for name, side in (("base", sides.base), ("source", sides.source), ("target", sides.target))
    }
    return [
        replace(
            conflict,
            base=images.get((conflict.type_key or "", "base"), {}).get(conflict.entity_id or ""),
            source=images.get((conflict.type_key or "", "source"), {}).get(conflict.entity_id or ""),
            target=images.get((conflict.type_key or "", "target"), {}).get(conflict.entity_id or ""),
        )
        for conflict in conflicts
    ]


def _images(
    side: Snapshot, key: str, ids: set[str], catalog: Catalog, counters: Counters
) -> Mapping[str, dict[str, Any]]:
    kind, _, name = key.partition(":")
    owner = catalog.nodes[name] if kind == "node" else catalog.edges[name]
    try:
        with side.reading():
            table = side.table(key, counters)
            rows = table.lookup(pa.array(sorted(ids), pa.string()), table.schema.names, counters)
    except BranchMissingError:
        # Of a base that was deleted with its branch nothing can be shown. Deletions of the sides are found by others.
        return {}
    return dict(zip(rows.column("id").to_pylist(), row_images(owner, rows), strict=True))
