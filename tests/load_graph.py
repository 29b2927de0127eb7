"""Graphs made from schema text, loaded from lines, and read back row by row."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType
from omnigraph.engine.load import load
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName
from tests.session import Session

# Many tests let writers of one process meet where they choose, one inside the other: there nobody waits for a turn.
RELAXED = TxnSettings(durability="relaxed", line_up=False)


def make_graph(root: Path, schema: str) -> Session:
    """Create a graph and return it open."""
    storage = Storage.open(str(root))
    init_graph(storage, schema, settings=RELAXED)
    return Session.open(storage, settings=RELAXED)


def load_files(graph: Session, sources, mode: str, **options):
    """Load sources into main."""
    branch_writer = graph.store.branch_writer(BranchName(MAIN))
    return load(branch_writer, graph.catalog(), sources, mode, **options)


def load_lines(graph: Session, path: Path, lines: str | bytes, mode: str, **options):
    """Write lines to a file and load it into main."""
    path.write_bytes(lines.encode() if isinstance(lines, str) else lines)
    return load_files(graph, [str(path)], mode, **options)


def export(graph: Session):
    """Return every row of main as an envelope, by table and id; dates as counts, blobs as base64."""
    catalog = graph.catalog()
    snapshot = graph.snapshot()
    rows = []
    for owner in [*catalog.nodes.values(), *catalog.edges.values()]:
        names = arrow_schema(owner).names
        table = snapshot.table(owner.table_key).read(names)
        table = table.cast(pa.schema([(field.name, _counts(field.type)) for field in table.schema]))
        found = sorted(table.to_pylist(), key=lambda row: row["id"])
        for row in found:
            if isinstance(owner, EdgeType):
                ends = {"from": row.pop("src"), "to": row.pop("dst")}
                rows.append({"edge": owner.name, **ends, "data": _json(row)})
            else:
                rows.append({"type": owner.name, "data": _json(row)})
    return rows


def _counts(given: pa.DataType) -> pa.DataType:
    if pa.types.is_list(given):
        return pa.list_(_counts(given.value_type))
    return {pa.date32(): pa.int32(), pa.date64(): pa.int64()}.get(given, given)


def _json(row):
    return {
        name: "base64:" + base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in row.items()
    }
