"""``@card``: how many edges of a type the sources that a change touches have after it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.constraints.evaluation import Evaluation
from omnigraph.engine.constraints.image import Image, ids_table, without
from omnigraph.engine.constraints.proofs import counts_are_within
from omnigraph.engine.constraints.set_rules import CARDINALITY
from omnigraph.engine.describing import describe_edge_count
from omnigraph.errors import Violation

# Stands for "no upper bound": no count reaches it.
UNBOUNDED = (1 << 63) - 1
_NO_EDGES = pa.schema([("id", pa.string()), ("src", pa.string())]).empty_table()


def check_cardinality(run: Evaluation, edge: EdgeType, image: Image) -> None:
    """Add the sources with too many or too few edges, among those whose edges the change touches."""
    rule = edge.cardinality
    if not rule.minimum and rule.maximum is None:
        return
    touched = _touched(run, edge, image)
    if not len(touched):
        return
    stored = _NO_EDGES
    if not image.replaces_all and run.view.row_count(edge.table_key):
        stored = run.view.rows_where(edge.table_key, "src", touched, ("id", "src"))
    gone = run.gone_nodes(f"node:{edge.from_type}")
    minimum, maximum = rule.minimum, UNBOUNDED if rule.maximum is None else rule.maximum

    def is_clean() -> bool:
        kept = without(stored, image.replaced).column("src")
        return counts_are_within(image.counts("src"), kept, touched, gone, (minimum, maximum))

    found = run.kernel.find(
        CARDINALITY,
        lambda: {
            "touched": ids_table(touched),
            "gone": ids_table(gone),
            "written": image.written("id", "src"),
            "stored": stored,
            "replaced": image.replaced,
        },
        unless=is_clean,
        minimum=minimum,
        maximum=maximum,
    )
    if found is not None:
        run.found.add(found.num_rows, _described(run, edge, image, found))


def _touched(run: Evaluation, edge: EdgeType, image: Image) -> pa.Array:
    written = image.counts("src").field("values")
    # Sources that only lose edges cannot pass a maximum. A replaced table counts as empty, so nobody loses any.
    if not edge.cardinality.minimum or image.replaces_all:
        return written
    left = run.view.rows_of(edge.table_key, image.replaced.column("id"), ("src",)).column("src")
    return pc.unique(pa.chunked_array([written, *left.chunks], pa.string()))


def _described(run: Evaluation, edge: EdgeType, image: Image, found: pa.Table) -> Iterator[Violation]:
    describer = run.describer(image)
    for batch in found.to_batches():
        for one in zip(*(batch.column(name) for name in ("source", "edges", "row")), strict=True):
            source, edges, row = (value.as_py() for value in one)
            yield describe_edge_count(edge, source, edges, None if row is None else describer.place(row))
