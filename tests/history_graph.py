"""A graph whose rows hold every shape of value, changed at random, and what it held after each commit."""

from __future__ import annotations

import base64

import pyarrow as pa

from omnigraph.store.location import Storage
from omnigraph.store.staging import IndexBuild
from omnigraph.txn.changes import Compaction, IndexBuilds, TableRegister, TableReplace
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName

PERSON, FILE, KNOWS = "node:Person", "node:File", "edge:Knows"
SETTINGS = TxnSettings(durability="relaxed")

_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
_BLOB = {b"lance-encoding:blob": b"true"}
_ID = pa.field("id", pa.string(), nullable=False, metadata=_KEY)
SCHEMAS = {
    PERSON: pa.schema(
        [
            _ID,
            pa.field("age", pa.int64()),
            pa.field("weight", pa.float64()),
            pa.field("tags", pa.list_(pa.field("item", pa.string()))),
            pa.field("born", pa.date32()),
        ]
    ),
    FILE: pa.schema([_ID, pa.field("content", pa.large_binary(), metadata=_BLOB), pa.field("size", pa.int64())]),
    KNOWS: pa.schema([_ID, pa.field("src", pa.string()), pa.field("dst", pa.string()), pa.field("since", pa.int64())]),
}


def create(root, *, settings=SETTINGS, runtime=None):
    """Create the graph at ``root`` and return its storage."""
    storage = Storage.open(str(root))
    tables = [
        TableRegister(
            table_key=key,
            object_id=f"{number:016x}-{number:016x}",
            folder="edges" if key.startswith("edge") else "nodes",
            schema=schema,
        )
        for number, (key, schema) in enumerate(SCHEMAS.items(), start=1)
    ]
    schema = AcceptedSchema(source="", compiled="{}", hash="sha256:0")
    GraphStore.init(storage, schema=schema, tables=tables, settings=settings, runtime=runtime)
    return storage


def open_store(storage, **options):
    """Open the graph for reading and writing, relaxed unless told otherwise."""
    return GraphStore.open(storage, **{"settings": SETTINGS, **options})


def rows_of(table_key, rows):
    """Rows by id as a table."""
    listed = [{"id": chosen, **row} for chosen, row in rows.items()]
    return pa.Table.from_pylist(listed, schema=SCHEMAS[table_key])


def write(store, changes, *, branch=MAIN, actor=None):
    """Commit upserts ``{table: {id: row}}``, a row of None being a delete; return the commit, or None."""
    branch_writer = store.branch_writer(BranchName(branch))
    txn = branch_writer.begin(WriteKind.LOAD_MERGE, actor=actor)
    for table_key, rows in changes.items():
        put = {chosen: row for chosen, row in rows.items() if row is not None}
        if put:
            txn.upsert(table_key, rows_of(table_key, put))
        gone = [chosen for chosen, row in rows.items() if row is None]
        if gone:
            txn.delete(table_key, gone)
    return branch_writer.commit(txn).commit


def replace_all(store, table_key, rows, *, branch=MAIN):
    """Replace every row of a table."""
    return _change(
        store, WriteKind.LOAD_OVERWRITE, TableReplace(table_key=table_key, rows=rows_of(table_key, rows)), branch
    )


def compact(store, table_key, *, branch=MAIN):
    """Rewrite a table's small fragments."""
    return _change(store, WriteKind.OPTIMIZE, Compaction(table_key=table_key), branch)


def index(store, table_key, *, branch=MAIN):
    """Build the index on the ids of a table."""
    build = IndexBuild(column="id", kind="btree", name="id_idx")
    return _change(store, WriteKind.ENSURE_INDICES, IndexBuilds(table_key=table_key, builds=(build,)), branch)


def read_rows(snapshot):
    """Every row of a state as ``{table: {id: row}}``, in the values the graph was given."""
    found = {}
    for table_key in SCHEMAS:
        rows = snapshot.table(table_key).read().to_pylist()
        found[table_key] = {row.pop("id"): row for row in rows}
    return found


def exported(row):
    """A row as changes show it."""
    return {name: _exported(value) for name, value in row.items() if name not in {"src", "dst"}}


def _exported(value):
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode()
    return (value - value.fromordinal(719163)).days if hasattr(value, "toordinal") else value


def _change(store, kind, change, branch):
    branch_writer = store.branch_writer(BranchName(branch))
    txn = branch_writer.begin(kind)
    txn.change(change)
    return branch_writer.commit(txn).commit
