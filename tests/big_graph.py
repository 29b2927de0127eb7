"""Graphs of many rows, written straight through a transaction as Arrow columns: nothing is checked, so it is quick."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.engine.open_graph import init_graph
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.session_graph import RELAXED

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


def create_empty(storage):
    """Create the graph without rows."""
    init_graph(storage, SCHEMA, settings=RELAXED)


def add_people(session, people, sources, targets):
    """Insert persons p0, p1, … and an edge between each of these pairs of their numbers, as one commit."""
    names = _numbered("p", people)
    ages = pa.array(np.arange(people) % 90, pa.int32())
    # Edge ids ascend as those that a load makes up do.
    edge_ids = pc.utf8_lpad(_numbered("", len(sources)), 26, "0")
    edges = {"id": edge_ids, "src": names.take(pa.array(sources)), "dst": names.take(pa.array(targets))}
    catalog = session.catalog()
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.INSERT)
    nodes = {"id": names, "name": names, "age": ages}
    for owner, columns in ((catalog.nodes["Person"], nodes), (catalog.edges["Knows"], edges)):
        txn.insert(owner.table_key, pa.table(columns, schema=arrow_schema(owner)), has_fresh_ids=True)
    branch_writer.commit(txn)


def _numbered(prefix, count):
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(np.arange(count)), pa.string()), "")
