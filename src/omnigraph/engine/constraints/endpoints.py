"""Referential integrity: every edge joins two nodes that are there after the change."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ENDPOINTS, EdgeType
from omnigraph.engine.constraints.evaluation import Evaluation
from omnigraph.engine.constraints.image import Image, ids_table, without
from omnigraph.engine.constraints.set_rules import ENDPOINT_MISSING, ORPHANED_EDGE
from omnigraph.engine.describing import describe_missing_end, describe_orphan
from omnigraph.errors import Violation

_NO_REPLACED = ids_table(pa.array([], pa.string()))


def check_endpoints(run: Evaluation, edge: EdgeType, image: Image | None) -> None:
    """Add the written edges that miss a node, then the stored ones that lose one."""
    if image is not None and image.rows.num_rows:
        _check_written(run, edge, image)
    _check_kept(run, edge, image)


def _check_written(run: Evaluation, edge: EdgeType, image: Image) -> None:
    sources, targets = (run.unwritten_ends(edge, side) for side in ENDPOINTS)
    if edge.is_same_type:
        both = pc.unique(pa.chunked_array([sources, targets]))
        from_nodes = to_nodes = run.nodes_after(f"node:{edge.from_type}", both)
    else:
        from_nodes = run.nodes_after(f"node:{edge.from_type}", sources)
        to_nodes = run.nodes_after(f"node:{edge.to_type}", targets)
    found = run.kernel.find(
        ENDPOINT_MISSING,
        lambda: {
            "written": image.written("src", "dst"),
            "sources": ids_table(*from_nodes.known),
            "targets": ids_table(*to_nodes.known),
        },
        unless=lambda: not len(from_nodes.missing) and not len(to_nodes.missing),
    )
    if found is not None:
        run.found.add(found.num_rows, _described_missing(run, edge, image, found))


def _described_missing(run: Evaluation, edge: EdgeType, image: Image, found: pa.Table) -> Iterator[Violation]:
    describer = run.describer(image)
    for batch in found.to_batches():
        for one in zip(*(batch.column(name) for name in ("row", "side", "missing")), strict=True):
            row, side, missing = (value.as_py() for value in one)
            yield describe_missing_end(edge, describer.place(row), side, missing)


def _check_kept(run: Evaluation, edge: EdgeType, image: Image | None) -> None:
    if run.is_replaced(edge.table_key):
        return
    parts = []
    for side, node in (("src", edge.from_type), ("dst", edge.to_type)):
        gone = run.gone_nodes(f"node:{node}")
        if not len(gone):
            continue
        met = run.view.rows_where(edge.table_key, side, gone, ("id", side))
        named = pa.array([side] * met.num_rows, pa.string())
        parts.append(met.rename_columns(["id", "node"]).add_column(1, "side", named))
    kept = pa.concat_tables(parts) if parts else None
    if kept is None or not kept.num_rows:
        return
    replaced = _NO_REPLACED if image is None else image.replaced
    found = run.kernel.find(
        ORPHANED_EDGE,
        lambda: {"kept": kept, "replaced": replaced},
        unless=lambda: not without(kept, replaced).num_rows,
    )
    if found is not None:
        run.found.add(found.num_rows, _described_orphans(edge, found))


def _described_orphans(edge: EdgeType, found: pa.Table) -> Iterator[Violation]:
    for batch in found.to_batches():
        for one in zip(*(batch.column(name) for name in ("id", "side", "node")), strict=True):
            yield describe_orphan(edge, *(value.as_py() for value in one))
