"""A small graph driven through the internal API: two node tables and an edge table, rows made on demand."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.history.merge.lineage import record_merge, relate
from omnigraph.store.location import Storage
from omnigraph.txn.changes import TableRegister
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName
from tests.crash.later import LaterClock, watch_for_hours

PERSON, TEAM, KNOWS = "node:Person", "node:Team", "edge:Knows"
# Many tests let writers of one process meet where they choose, one inside the other: there nobody waits for a turn.
RELAXED = TxnSettings(durability="relaxed", line_up=False)
SCHEMA = AcceptedSchema(source="node Person {}", compiled="{}", hash="sha256:0")

_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
NODE_SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False, metadata=_KEY), pa.field("value", pa.int64())])
EDGE_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata=_KEY),
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
    ]
)


def node_rows(ids, value=0):
    """Rows of a node table."""
    ids = list(ids)
    return pa.table({"id": ids, "value": [value] * len(ids)}, schema=NODE_SCHEMA)


def edge_rows(triples):
    """Rows of the edge table, from (id, src, dst)."""
    columns = list(zip(*triples, strict=True)) or [[], [], []]
    return pa.table(dict(zip(("id", "src", "dst"), map(list, columns), strict=True)), schema=EDGE_SCHEMA)


def registrations(extra=0):
    """The tables of the graph, with ``extra`` further node tables that nothing writes to."""
    nodes = ["Person", "Team", *(f"Extra{number}" for number in range(extra))]
    tables = [
        TableRegister(
            table_key=f"node:{name}", object_id=f"{number:016x}-{number:016x}", folder="nodes", schema=NODE_SCHEMA
        )
        for number, name in enumerate(nodes, start=1)
    ]
    edge = TableRegister(table_key=KNOWS, object_id=f"{9999:016x}-{9999:016x}", folder="edges", schema=EDGE_SCHEMA)
    return [*tables, edge]


def init_graph(root, options=None, *, settings=RELAXED, runtime=None, extra=0):
    """Create the graph at ``root`` and return its storage."""
    storage = Storage.open(str(root), options)
    GraphStore.init(
        storage, schema=SCHEMA, tables=registrations(extra), settings=settings, runtime=runtime, actor="test"
    )
    return storage


def open_graph(storage, **kwargs):
    """Open the graph for reading and writing, relaxed unless told otherwise; in a later world, look at it twice."""
    graph = GraphStore.open(storage, **{"settings": RELAXED, **kwargs})
    runtime = kwargs.get("runtime")
    if runtime is not None and isinstance(runtime.clock, LaterClock):
        watch_for_hours(graph, runtime)
    return graph


def authority_of(graph, branch=MAIN):
    """The publish authority of a branch."""
    return graph.branch_writer(BranchName(branch))


def insert(graph, table_key, rows, *, branch=MAIN, actor=None, **begin):
    """Commit one insert and return the result."""
    branch_writer = authority_of(graph, branch)
    txn = branch_writer.begin(WriteKind.INSERT, actor=actor, **begin)
    txn.insert(table_key, rows)
    return branch_writer.commit(txn)


def read_ids(graph, table_key, branch=MAIN):
    """The ids a fresh look at the branch shows, sorted."""
    table = graph.snapshot(BranchName(branch)).table(table_key)
    return sorted(table.read(columns=["id"])["id"].to_pylist())


def history(graph, branch=MAIN):
    """The commits of a branch, newest first."""
    branch_writer = authority_of(graph, branch)
    loaded = branch_writer.snapshot().manifest
    return list(branch_writer.services.manifest.iter_commits(loaded))


def join(graph, source, target=MAIN, *, actor=None):
    """Merge a branch as far as history goes: the commit with two parents and its record, without any row."""
    captured = graph.snapshot(BranchName(source))
    branch_writer = graph.branch_writer(BranchName(target))
    txn = branch_writer.begin(WriteKind.BRANCH_MERGE, actor=actor, merged_parent=captured.state.head.commit)

    def record(view):
        found = relate(graph, captured, view.snapshot)
        record_merge(graph, txn.commit_id, captured, view.snapshot, found)

    txn.add_check(record)
    return branch_writer.commit(txn).commit
