"""Creating a graph from a schema, and holding it open."""

from __future__ import annotations

import pytest
from tests.session_graph import RELAXED, create_graph, open_session, read_graph

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.engine.accepted import CatalogCache
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import (
    BranchMissingError,
    GraphExistsError,
    GraphMissingError,
    QueryNotFoundError,
    QueryParameterError,
    ReadOnlyError,
    SchemaCheckError,
    SchemaSyntaxError,
    ValueFormatError,
    WrongQueryKindError,
)
from omnigraph.store.location import Storage
from omnigraph.values import BranchName

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: Date? }\n"


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    return tmp_path / "graph"


def test_every_type_gets_an_empty_table_named_by_its_name_and_numbers(root):
    with open_session(root) as session:
        catalog, snapshot = session.catalog(), session.snapshot()
        owners = [*catalog.nodes.values(), *catalog.edges.values()]
        assert set(snapshot.state.tables) == {owner.table_key for owner in owners}
        for owner in owners:
            entry = snapshot.entry(owner.table_key)
            folder = "nodes" if owner.table_key.startswith("node:") else "edges"
            assert entry.object_id == f"{owner.id:016x}-{owner.incarnation:016x}"
            assert entry.pin.location.startswith(f"{folder}/{owner.name}-{owner.id:x}-{owner.incarnation:x}-")
            assert entry.row_count == 0
            assert snapshot.table(owner.table_key).schema.equals(arrow_schema(owner), check_metadata=True)


def test_accepted_schema_keeps_its_source_and_its_identities(root):
    with open_session(root) as session:
        schema = session.snapshot().state.schema
        assert schema.source == SCHEMA
        catalog = session.catalog()
        assert len(catalog.identity_domain) == 26
        assert catalog.nodes["Person"].id > 0


def test_catalog_is_decoded_once_per_schema(root):
    with open_session(root) as session:
        session.store.create_branch(BranchName("side"))
        assert session.catalog() is session.catalog("side")
        cache = CatalogCache()
        assert cache.get(session.snapshot().state.schema) is cache.get(session.snapshot("side").state.schema)


def test_graph_is_never_initialised_twice(root):
    with pytest.raises(GraphExistsError):
        init_graph(Storage.open(str(root)), SCHEMA, settings=RELAXED)


@pytest.mark.parametrize(
    ("schema", "error"), [("nod Person {}", SchemaSyntaxError), ("edge Knows: Person -> Person", SchemaCheckError)]
)
def test_bad_schema_creates_nothing(tmp_path, schema, error):
    storage = Storage.open(str(tmp_path / "graph"))
    with pytest.raises(error):
        init_graph(storage, schema, settings=RELAXED)
    with pytest.raises(GraphMissingError):
        open_session(tmp_path / "graph")


def test_branch_is_written_by_itself(root):
    with open_session(root) as session:
        session.store.create_branch(BranchName("side"))
        session.mutate('query q() { insert Person { name: "Ann" } }', branch="side")
        assert read_graph(session)["node:Person"] == {}
        assert read_graph(session, "side")["node:Person"] == {"Ann": {"name": "Ann", "age": None}}


def test_read_only_session_refuses_to_write(root):
    with open_session(root, mode="read_only") as session, pytest.raises(ReadOnlyError):
        session.mutate('query q() { insert Person { name: "Ann" } }')


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("query q() { match { $p: Person } return { $p.name } }", {}, WrongQueryKindError),
        ('query q() { insert Person { name: "a" } }', {"name": "other"}, QueryNotFoundError),
        ("query q($n: String) { insert Person { name: $n } }", {"params": {"n": 1}}, QueryParameterError),
        ("query q($n: String) { insert Person { name: $n } }", {"params": [1]}, QueryParameterError),
        ('query q() { insert Person { name: "a" } }', {"branch": "nowhere"}, BranchMissingError),
        ('query q() { insert Person { name: "a" } }', {"expected_head": "garbage"}, ValueFormatError),
    ],
)
def test_bad_requests_are_named_and_change_nothing(root, text, options, error):
    with open_session(root) as session:
        with pytest.raises(error):
            session.mutate(text, **options)
        assert read_graph(session) == {"node:Person": {}, "edge:Knows": {}}


def test_one_of_several_declarations_is_chosen_by_name(root):
    text = 'query a() { insert Person { name: "a" } }\nquery b() { insert Person { name: "b" } }'
    with open_session(root) as session:
        session.mutate(text, name="b")
        assert list(read_graph(session)["node:Person"]) == ["b"]


def test_loaded_rows_and_an_applied_schema_are_seen_by_the_next_mutation(root, tmp_path):
    lines = '{"type": "Person", "data": {"name": "Ann"}}\n{"type": "Person", "data": {"name": "Bo", "age": 3}}\n'
    (tmp_path / "people.jsonl").write_text(lines, encoding="utf-8")
    wider = SCHEMA.replace("age: I32?", "age: I32?  nick: String?")
    with open_session(root) as session:
        assert session.load([str(tmp_path / "people.jsonl")]).nodes_loaded == {"Person": 2}
        before = session.catalog()
        assert session.apply_schema(wider).applied
        assert session.catalog() is not before
        done = session.mutate('query q() { update Person set { nick: "x" } where name = "Bo" }')
        assert done.affected_nodes == 1
        assert read_graph(session)["node:Person"] == {
            "Ann": {"name": "Ann", "age": None, "nick": None},
            "Bo": {"name": "Bo", "age": 3, "nick": "x"},
        }


def test_insert_is_compiled_again_for_a_schema_that_moved(root):
    wider = SCHEMA.replace("age: I32?", "age: I32?  nick: String?")
    with open_session(root) as session, open_session(root) as other:
        session.catalog()
        other.apply_schema(wider)
        session.mutate('query q() { insert Person { name: "Ann", nick: "A" } }')
        assert read_graph(session)["node:Person"] == {"Ann": {"name": "Ann", "age": None, "nick": "A"}}
