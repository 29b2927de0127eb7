"""What a mutation was decided on is told by rows: what others write beside these does not make it run again."""

from __future__ import annotations

import pytest
from tests.session import Session
from tests.session_graph import RELAXED, add_rows, create_graph, open_session, read_graph
from tests.unit.engine.mutate.test_run import _Overtaken

from omnigraph.engine.mutate import run_mutation
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import ConstraintViolationError, KeyExistsError
from omnigraph.ir import compile_query, expect_mutation
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
node Team { code: String @key }
node Note { text: String }
edge Knows: Person -> Person
edge Member: Person -> Team { since: I32?  @key(src, dst) }
edge Leads: Person -> Team @card(0..1)
"""
SEED = """
{"type": "Person", "data": {"name": "Ann", "age": 34}}
{"type": "Person", "data": {"name": "Bo", "age": 28}}
{"type": "Person", "data": {"name": "Cy", "age": 5}}
{"type": "Team", "data": {"code": "t"}}
{"type": "Note", "data": {"id": "n1", "text": "x"}}
{"edge": "Knows", "from": "Ann", "to": "Bo", "data": {"id": "k1"}}
{"edge": "Knows", "from": "Ann", "to": "Cy", "data": {"id": "k2"}}
{"edge": "Knows", "from": "Bo", "to": "Cy", "data": {"id": "k3"}}
{"edge": "Member", "from": "Ann", "to": "t", "data": {"since": 1}}
{"edge": "Member", "from": "Bo", "to": "t", "data": {"since": 1}}
"""


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    return tmp_path / "graph"


@pytest.fixture
def session(root):
    with open_session(root) as session:
        yield session


class _Recording(_Overtaken):
    """One that also keeps the transactions it has begun."""

    def __init__(self, inner, meanwhile):
        super().__init__(inner, meanwhile)
        self.begun = []

    def begin(self, *args, **options):
        self.begun.append(super().begin(*args, **options))
        return self.begun[-1]


def decide(session, body, meanwhile=lambda: None, branch=MAIN):
    """Run a mutation that another write overtakes; return its result and its transaction."""
    plan = expect_mutation(compile_query(f"query q() {{ {body} }}", None, session.catalog(branch)))
    writer = _Recording(session.store.branch_writer(BranchName(branch)), meanwhile)
    done = run_mutation(writer, session.catalog(branch), plan, {}, history=session.store.refs)
    (txn,) = writer.begun
    return done, txn


def write(session, body, branch=MAIN):
    return lambda: session.mutate(f"query q() {{ {body} }}", branch=branch)


ANN = 'update Person set { age: 1 } where name = "Ann"'
BESIDE = [
    (ANN, 'update Person set { age: 9 } where name = "Bo"'),
    (ANN, 'insert Person { name: "Eve" }'),
    (ANN, 'delete Person where name = "Cy"'),
    ('delete Person where name = "Ann"', 'update Person set { age: 9 } where name = "Bo"'),
    ('delete Person where name = "Ann"', 'insert Knows { from: "Cy", to: "Bo" }'),
    ('delete Person where name = "Ann"', 'delete Knows where id = "k3"'),
    ('update Person set { age: 1 } where name in ["Ann", "Bo"]', 'update Person set { age: 9 } where name = "Cy"'),
    ('update Person set { age: age + 1 } where name = "Ann" and age > 3', 'delete Person where name = "Cy"'),
    ('upsert Person { name: "Eve", age: 3 }', 'insert Person { name: "Fay" }'),
    ('insert Person { name: "Eve", age: 3 } strict', 'insert Person { name: "Fay" }'),
    ('insert Person { name: "Eve" } update Person set { age: 2 } where name = "Ann"', 'insert Person { name: "Eve" }'),
    ('update Note set { text: "y" } where id = "n1"', 'insert Note { text: "z" }'),
    ('delete Knows where id = "k1"', 'delete Knows where id = "k2"'),
    ('delete Knows where from = "Ann" and to = "Bo"', 'insert Knows { from: "Ann", to: "Cy" }'),
    ('delete Knows where from = "Ann"', 'insert Knows { from: "Cy", to: "Ann" }'),
    (
        'update Member set { since: 2 } where from = "Ann" and to = "t"',
        'update Member set { since: 3 } where from = "Bo" and to = "t"',
    ),
    ('update Person set { age: 1 } where name = "nobody"  insert Team { code: "u" }', 'insert Person { name: "Eve" }'),
]
MEETING = [
    (ANN, 'update Person set { email: "a" } where name = "Ann"'),
    (ANN, 'delete Person where name = "Ann"'),
    (ANN, 'insert Person { name: "Ann", email: "new" }'),
    ('update Person set { age: 1 } where name = "Eve"  insert Team { code: "u" }', 'insert Person { name: "Eve" }'),
    ('upsert Person { name: "Eve", age: 3 }', 'insert Person { name: "Eve", email: "e" }'),
    ('insert Person { name: "Eve", age: 3 } delete Person where name = "Eve"', 'insert Person { name: "Eve" }'),
    ('delete Person where name = "Ann"', 'insert Knows { from: "Cy", to: "Ann" }'),
    ('delete Person where name = "Ann"', 'delete Knows where id = "k1"'),
    ('delete Person where name = "Ann"', 'update Member set { since: 3 } where from = "Ann" and to = "t"'),
    ('delete Knows where from = "Ann" and to = "Bo"', 'insert Knows { from: "Ann", to: "Bo" }'),
    ('delete Knows where from = "Ann"', 'insert Knows { from: "Ann", to: "Ann" }'),
    ('delete Knows where id = "k1"', 'delete Knows where id = "k1"'),
    (
        'update Member set { since: 2 } where from = "Ann" and to = "t"',
        'update Member set { since: 3 } where from = "Ann" and to = "t"',
    ),
    ("update Person set { age: 1 } where age > 30", 'insert Person { name: "Eve" }'),
    ('update Person set { age: 1 } where name != "Ann"', 'insert Person { name: "Eve" }'),
    ('update Person set { age: 1 } where name = "Ann" or age > 90', 'insert Person { name: "Eve" }'),
    ('delete Member where from = "Ann" and since > 5', 'insert Member { from: "Ann", to: "t", since: 9 }'),
]


@pytest.mark.parametrize(("body", "beside"), BESIDE)
def test_a_write_beside_other_rows_is_not_run_again(root, session, tmp_path, body, beside):
    done, txn = decide(session, body, write(session, beside))
    assert (txn.reruns, done.commit is not None) == (0, True)
    assert txn.read_set == frozenset()
    assert without_made_ids(read_graph(session)) == one_after_the_other(tmp_path, beside, body)


@pytest.mark.parametrize(("body", "meeting"), MEETING)
def test_a_write_on_rows_that_changed_is_run_again(root, session, tmp_path, body, meeting):
    _, txn = decide(session, body, write(session, meeting))
    assert txn.reruns == 1
    assert without_made_ids(read_graph(session)) == one_after_the_other(tmp_path, meeting, body)


def one_after_the_other(tmp_path, *bodies):
    """Return what a graph holds that is written to by one writer."""
    create_graph(tmp_path / "other", SCHEMA, SEED)
    with open_session(tmp_path / "other") as session:
        for body in bodies:
            write(session, body)()
        return without_made_ids(read_graph(session))


def without_made_ids(graph):
    """Return the rows of a graph in an order that does not depend on ids that were made up."""
    return {
        key: sorted((sorted(row.items(), key=str) for row in rows.values()), key=str) for key, rows in graph.items()
    }


def test_inserting_a_key_that_came_meanwhile_is_refused_where_it_must_be_new(session):
    with pytest.raises(KeyExistsError):
        decide(session, 'insert Person { name: "Eve" } strict', write(session, 'insert Person { name: "Eve" }'))


@pytest.mark.parametrize(
    ("body", "meanwhile", "message"),
    [
        ('update Person set { email: "e" } where name = "Ann"', 'insert Person { name: "Eve", email: "e" }', "email"),
        (
            'insert Leads { from: "Bo", to: "t" } update Person set { age: 2 } where name = "Ann"',
            'insert Leads { from: "Bo", to: "t" }',
            "Bo",
        ),
        (
            'insert Knows { from: "Bo", to: "Cy" } update Person set { age: 2 } where name = "Ann"',
            'delete Person where name = "Cy"',
            "Cy",
        ),
    ],
)
def test_rules_about_other_rows_hold_on_the_state_that_it_is_published_on(session, body, meanwhile, message):
    with pytest.raises(ConstraintViolationError, match=message):
        decide(session, body, write(session, meanwhile))


def test_an_edge_never_survives_its_node_in_either_order(session):
    decide(session, 'delete Person where name = "Ann"', write(session, 'insert Knows { from: "Cy", to: "Ann" }'))
    assert list(read_graph(session)["edge:Knows"]) == ["k3"]
    with pytest.raises(ConstraintViolationError, match="src 'Bo' not found"):
        decide(session, 'insert Knows { from: "Bo", to: "Cy" }', write(session, 'delete Person where name = "Bo"'))
    assert read_graph(session)["edge:Knows"] == {}


def test_rows_that_maintenance_moved_beside_a_write_are_the_same_rows(session):
    for number in range(3):
        write(session, f'insert Person {{ name: "New{number}" }}')()

    def meanwhile():
        write(session, 'update Person set { age: 9 } where name = "Bo"')()
        session.optimize()

    before = session.snapshot().table("node:Person")
    _, txn = decide(session, 'update Person set { age: age + 1 } where name = "Ann"', meanwhile)
    files = {fragment.files for fragment in before.fragments}
    assert files.isdisjoint(fragment.files for fragment in session.snapshot().table("node:Person").fragments)
    assert txn.reruns == 0
    found = read_graph(session)["node:Person"]
    assert (found["Ann"]["age"], found["Bo"]["age"]) == (35, 9)


def test_rows_of_a_branch_that_writes_its_own_first_are_the_same_rows(session):
    session.store.create_branch(BranchName("draft"))
    _, txn = decide(session, ANN, write(session, 'update Person set { age: 9 } where name = "Bo"', "draft"), "draft")
    assert txn.reruns == 0
    found = read_graph(session, "draft")["node:Person"]
    assert (found["Ann"]["age"], found["Bo"]["age"], read_graph(session)["node:Person"]["Ann"]["age"]) == (1, 9, 34)
    _, txn = decide(
        session, ANN, write(session, 'update Person set { email: "a" } where name = "Ann"', "draft"), "draft"
    )
    assert (txn.reruns, read_graph(session, "draft")["node:Person"]["Ann"]["email"]) == (1, "a")


def test_rows_on_an_object_store_are_told_apart_as_well(clean_s3_endpoint):
    storage = Storage.open(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options_without_retries)
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as session, Session.open(storage, settings=RELAXED) as other:
        add_rows(session, SEED)
        _, beside = decide(session, ANN, write(other, 'update Person set { age: 9 } where name = "Bo"'))
        _, meeting = decide(session, ANN, write(other, 'update Person set { email: "a" } where name = "Ann"'))
        assert (beside.reruns, meeting.reruns) == (0, 1)
        found = read_graph(session)["node:Person"]
        assert (found["Ann"], found["Bo"]["age"]) == ({"name": "Ann", "age": 1, "email": "a"}, 9)
