"""Graphs with a real schema, seeded with exact ids, and their rows as plain values."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pyarrow as pa

from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import EdgeType, PropertyType, Scalar
from omnigraph.engine.mutate.values import rows_of
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName
from omnigraph.values.temporal import format_date, format_datetime, parse_date, parse_datetime
from tests.session import Session

# Many tests let writers of one process meet where they choose, one inside the other: there nobody waits for a turn.
RELAXED = TxnSettings(durability="relaxed", line_up=False)


def create_graph(root, schema, seed="", *, runtime=None):
    """Create a graph at ``root`` and seed it with envelope lines, ids included."""
    storage = Storage.open(str(root))
    init_graph(storage, schema, settings=RELAXED, runtime=runtime)
    if seed.strip():
        with Session.open(storage, settings=RELAXED, runtime=runtime) as session:
            add_rows(session, seed)


def add_rows(session, seed):
    """Insert envelope lines, ids included, as one commit; nothing is checked."""
    catalog = session.catalog()
    rows = {}
    for line in filter(None, seed.splitlines()):
        envelope = json.loads(line)
        data = envelope.get("data", {})
        if "type" in envelope:
            owner, ends = catalog.nodes[envelope["type"]], {}
        else:
            owner, ends = catalog.edges[envelope["edge"]], {"src": envelope["from"], "dst": envelope["to"]}
        values = {**ends, **{prop.name: _stored(data.get(prop.name), prop.type) for prop in owner.properties}}
        chosen = data["id"] if owner.key is None else entity_id(owner, values)
        rows.setdefault(owner.table_key, (owner, []))[1].append({"id": chosen, **values})
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.INSERT, actor="seed")
    for table_key, (owner, found) in rows.items():
        txn.insert(table_key, rows_of(owner, found))
    branch_writer.commit(txn)


def open_session(root, **options):
    """Open the graph at ``root``, relaxed unless told otherwise."""
    return Session.open(Storage.open(str(root)), **{"settings": RELAXED, **options})


def read_graph(session, branch=MAIN):
    """Every row by type and id as plain values: ends under ``src`` and ``dst``, dates as text, blobs as base64."""
    catalog = session.catalog(branch)
    snapshot = session.snapshot(branch)
    graph = {}
    for owner in [*catalog.nodes.values(), *catalog.edges.values()]:
        rows = snapshot.table(owner.table_key).read()
        columns = {"id": rows["id"].to_pylist()}
        if isinstance(owner, EdgeType):
            columns |= {end: rows[end].to_pylist() for end in ("src", "dst")}
        columns |= {prop.name: _plain(rows[prop.name], prop.type) for prop in owner.properties}
        found = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        graph[owner.table_key] = {row.pop("id"): row for row in found}
        assert len(graph[owner.table_key]) == rows.num_rows
    return graph


def commit_ids(session, branch=MAIN):
    """The commits of a branch, newest first."""
    branch_writer = session.store.branch_writer(BranchName(branch))
    loaded = branch_writer.snapshot().manifest
    return [commit.id for commit in branch_writer.services.manifest.iter_commits(loaded)]


def _stored(value, of: PropertyType):
    if isinstance(value, list):
        return [_stored_one(item, of.scalar) for item in value]
    return _stored_one(value, of.scalar)


def _stored_one(value, scalar):
    if value is None:
        return None
    match scalar:
        case Scalar.DECIMAL:
            return Decimal(str(value))
        case Scalar.DATE:
            return parse_date(value)
        case Scalar.DATETIME:
            return parse_datetime(value)
        case Scalar.BLOB:
            return base64.b64decode(value.removeprefix("base64:"))
        case _:
            return value


def _plain(column, of: PropertyType):
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if isinstance(array, pa.ChunkedArray):
        return []
    if of.scalar not in {Scalar.DATE, Scalar.DATETIME, Scalar.BLOB}:
        return array.to_pylist()
    if of.is_list:
        return [_plain_array(item.values, of.scalar) if item.is_valid else None for item in array]
    return _plain_array(array, of.scalar)


def _plain_array(array, scalar):
    if scalar is Scalar.BLOB:
        return [None if item is None else "base64:" + base64.b64encode(item).decode() for item in array.to_pylist()]
    width, show = (pa.int32(), format_date) if scalar is Scalar.DATE else (pa.int64(), format_datetime)
    return [None if item is None else show(item) for item in array.view(width).to_pylist()]
