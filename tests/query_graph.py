"""Graphs to be read: their indexes, and their rows as the oracle wants them."""

from __future__ import annotations

from omnigraph.catalog.model import index_intents
from omnigraph.store.staging import IndexBuild
from omnigraph.txn.changes import IndexBuilds
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.query_oracle import Graph
from tests.query_oracle.values import from_text
from tests.session_graph import read_graph


def build_indexes(session):
    """Build every index that the schema wants over the rows there are."""
    catalog = session.catalog()
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.ENSURE_INDICES)
    for owner in [*catalog.nodes.values(), *catalog.edges.values()]:
        builds = [
            IndexBuild(column=intent.column, kind=intent.kind.value, name=intent.name)
            for intent in index_intents(owner)
        ]
        txn.change(IndexBuilds(table_key=owner.table_key, builds=tuple(builds)))
    branch_writer.commit(txn)


def oracle_graph(session, schema):
    """Return every row of the newest state as plain values."""
    tables = {key.partition(":")[2]: rows for key, rows in read_graph(session).items()}
    nodes = {
        name: {chosen: _values(row, kinds) for chosen, row in tables[name].items()}
        for name, kinds in schema.nodes.items()
    }
    edges = {
        name: {chosen: (row["src"], row["dst"], _values(row, shape.properties)) for chosen, row in tables[name].items()}
        for name, shape in schema.edges.items()
    }
    return Graph(nodes=nodes, edges=edges)


def _values(row, kinds):
    return {name: from_text(row[name], kind) for name, kind in kinds.items()}
