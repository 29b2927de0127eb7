"""What a check sees of a transaction's own changes: the tables as they would be after the commit."""

import pytest
from tests.txn_graph import NODE_SCHEMA, PERSON, TEAM, authority_of, init_graph, insert, node_rows, open_graph

from omnigraph.txn.changes import TableDrop, TableRegister, TableReplace
from omnigraph.txn.publish.kinds import WriteKind

LATER = "node:Later"


@pytest.fixture
def graph(tmp_path):
    with open_graph(init_graph(tmp_path / "g")) as opened:
        insert(opened, PERSON, node_rows(["old", "both"]))
        yield opened


def _seen(graph, kind, table_key, *changes):
    """What a check of a transaction with these changes finds of three ids."""
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(kind)
    found = []
    txn.add_check(lambda view: found.append(view.existing_ids(table_key, ["old", "both", "fresh"])))
    for change in changes:
        txn.change(change)
    branch_writer.commit(txn)
    return found[-1]


def test_a_replaced_table_holds_what_replaces_it(graph):
    change = TableReplace(table_key=PERSON, rows=node_rows(["both", "fresh"]))
    assert _seen(graph, WriteKind.LOAD_OVERWRITE, PERSON, change) == {"both", "fresh"}


def test_a_registered_table_holds_its_first_rows(graph):
    change = TableRegister(
        table_key=LATER, object_id=f"{7:016x}-{7:016x}", folder="nodes", schema=NODE_SCHEMA, rows=node_rows(["fresh"])
    )
    assert _seen(graph, WriteKind.SCHEMA_APPLY, LATER, change) == {"fresh"}


def test_a_dropped_table_holds_nothing(graph):
    assert _seen(graph, WriteKind.SCHEMA_APPLY, PERSON, TableDrop(table_key=PERSON)) == set()


def test_a_table_without_a_change_holds_what_is_published(graph):
    change = TableReplace(table_key=TEAM, rows=node_rows(["fresh"]))
    assert _seen(graph, WriteKind.LOAD_OVERWRITE, PERSON, change) == {"old", "both"}
