"""Writes that share a publish: each is judged on the state that the ones before it leave."""

import pytest
from tests.constraint_graph import change_of, part
from tests.session_graph import create_graph, open_session

from omnigraph.engine.constraints import check_change
from omnigraph.engine.view import GraphView
from omnigraph.errors import ConstraintViolationError
from omnigraph.txn.publish.batch import Member, _accept
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  email: String? @unique }
node Company { name: String @key }
edge WorksAt: Person -> Company @card(1..)
"""
SEED = """
{"type": "Person", "data": {"name": "ada"}}
{"type": "Person", "data": {"name": "bob"}}
{"type": "Person", "data": {"name": "cy"}}
{"type": "Company", "data": {"name": "acme"}}
{"edge": "WorksAt", "from": "ada", "to": "acme", "data": {"id": "w1"}}
{"edge": "WorksAt", "from": "ada", "to": "acme", "data": {"id": "w2"}}
"""


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    with open_session(tmp_path / "graph") as opened:
        yield opened


def accept_in_turn(session, *changes):
    """Let the changes meet each other as the members of one group do."""
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    catalog, merged = session.catalog(), {}
    for change in changes:
        txn = branch_writer.begin(WriteKind.INSERT)
        for item in change.types.values():
            if item.rows is not None:
                txn.upsert(item.table_key, item.rows)
            if item.deletes:
                txn.delete(item.table_key, item.deletes)
        txn.add_check(lambda view, change=change: check_change(change, GraphView.of_commit(view, catalog)))
        merged = _accept(Member(txn), branch_writer.snapshot(), merged, None)
    return merged


def works(session, identifier, source):
    return change_of(part(session.catalog(), "WorksAt", [{"id": identifier, "src": source, "dst": "acme"}]))


def test_the_source_an_edge_left_is_that_of_the_write_before_not_of_the_published_state(session):
    accept_in_turn(session, works(session, "w1", "bob"))
    with pytest.raises(ConstraintViolationError, match="source 'bob' has 0 edges"):
        accept_in_turn(session, works(session, "w1", "bob"), works(session, "w1", "cy"))


def test_a_value_given_away_by_an_earlier_member_is_taken(session):
    catalog = session.catalog()
    first = change_of(part(catalog, "Person", [{"id": "bob", "name": "bob", "email": "x"}]))
    second = change_of(part(catalog, "Person", [{"id": "cy", "name": "cy", "email": "x"}]))
    with pytest.raises(ConstraintViolationError, match="value 'x' held by 'bob' and 'cy'"):
        accept_in_turn(session, first, second)


def test_a_node_that_an_earlier_member_removed_cannot_be_joined(session):
    gone = change_of(part(session.catalog(), "Person", deletes=("cy",)))
    with pytest.raises(ConstraintViolationError, match="src 'cy' not found in Person"):
        accept_in_turn(session, gone, works(session, "w3", "cy"))


def test_a_node_that_an_earlier_member_joined_cannot_be_removed(session):
    gone = change_of(part(session.catalog(), "Person", deletes=("cy",)))
    with pytest.raises(ConstraintViolationError, match="src 'cy' not found in Person"):
        accept_in_turn(session, works(session, "w3", "cy"), gone)
