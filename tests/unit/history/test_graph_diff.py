"""The net difference of two states of a graph with a real schema."""

import json

import pytest
from tests.session_graph import add_rows, commit_ids, create_graph, open_session

from omnigraph.errors import ChangeSchemaBoundaryError, CommitMissingError, UsageError, ValueFormatError
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.diff.compare import GraphDiff, diff_between
from omnigraph.values import BranchName, TagName

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date? }
node Note { text: String }
edge Wrote: Person -> Note { at: DateTime? }
"""
SEED = """
{"type": "Person", "data": {"name": "ann", "age": 1, "born": "1970-01-03"}}
{"type": "Person", "data": {"name": "bob", "age": 2}}
{"type": "Note", "data": {"id": "n1", "text": "x"}}
{"edge": "Wrote", "from": "ann", "to": "n1", "data": {"id": "w1", "at": "1970-01-01T00:00:01Z"}}
"""


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    with open_session(tmp_path / "graph") as opened:
        yield opened


def newest(session):
    return str(commit_ids(session)[0])


def test_changes_come_by_table_with_both_images_and_what_differs(session):
    before = newest(session)
    session.mutate('query a() { update Person set { age: 9 } where name = "ann" }')
    session.mutate('query a() { delete Note where text = "x" }')
    session.mutate('query a() { insert Person { name: "cid" } }')
    diff = diff_between(session.store, before, newest(session)).to_json()
    assert [(c["kind"], c["type"]["name"], c["id"], c["op"]) for c in diff["changes"]] == [
        ("edge", "Wrote", "w1", "delete"),
        ("node", "Note", "n1", "delete"),
        ("node", "Person", "ann", "update"),
        ("node", "Person", "cid", "insert"),
    ]
    edge, _, ann, cid = diff["changes"]
    assert edge["before"] == {"properties": {"at": 1000}, "endpoints": {"from": "ann", "to": "n1"}}
    assert ann["before"] == {"properties": {"name": "ann", "age": 1, "born": 2}}
    assert ann["after"] == {"properties": {"name": "ann", "age": 9, "born": 2}}
    assert ann["changed"] == ["age"]
    assert cid["after"] == {"properties": {"name": "cid", "age": None, "born": None}}
    assert diff["stats"]["types_affected"] == ["Note", "Person", "Wrote"]
    assert (diff["stats"]["inserts"], diff["stats"]["updates"], diff["stats"]["deletes"]) == (1, 1, 2)
    assert diff["from_graph_commit_id"] == before
    assert diff["stats"] == diff_between(session.store, before, newest(session)).stats().to_json()
    json.dumps(diff)


def test_filters_choose_by_kind_type_operation_and_id(session):
    before = newest(session)
    add_rows(
        session, '{"type": "Person", "data": {"name": "cid"}}\n{"type": "Note", "data": {"id": "n2", "text": "y"}}'
    )
    session.mutate("query a() { update Person set { age: 9 } where age > 0 }")

    def ids(**words):
        wanted = ChangeFilter.of(**words)
        diff = diff_between(session.store, before, newest(session), wanted)
        found = [change.id for change in diff]
        assert len(found) == sum((diff.stats().inserts, diff.stats().updates, diff.stats().deletes))
        return found

    assert ids() == ["n2", "ann", "bob", "cid"]
    assert ids(kinds=["edge"]) == []
    assert ids(kinds=["node"], type_names=["Note"]) == ["n2"]
    assert ids(ops=["update"]) == ["ann", "bob"]
    assert ids(ids=["bob", "cid", "nobody", "it's"]) == ["bob", "cid"]
    assert ids(ids=["bob", "cid"], ops=["insert"]) == ["cid"]
    with pytest.raises(UsageError):
        ChangeFilter.of(ops=["upsert"])


def test_the_same_question_has_the_same_digest():
    every = ChangeFilter.of(ops=["insert", "update", "delete"], kinds=["node", "edge", "node"])
    assert every.digest == ChangeFilter().digest
    assert ChangeFilter.of(type_names=["A", "B"]).digest == ChangeFilter.of(type_names=["B", "A", "B"]).digest
    assert ChangeFilter.of(type_names=["A"]).digest != ChangeFilter.of(type_names=["B"]).digest
    assert ChangeFilter.of(ids=["A"]).digest != ChangeFilter.of(type_names=["A"]).digest


def test_a_rename_is_no_change_and_rows_go_under_the_later_name(session):
    before = newest(session)
    session.apply_schema(
        SCHEMA.replace("node Person", 'node Human @rename_from("Person")').replace("Wrote: Person", "Wrote: Human")
    )
    assert list(diff_between(session.store, before, newest(session))) == []
    session.mutate('query a() { update Human set { age: 9 } where name = "ann" }')
    forth = list(diff_between(session.store, before, newest(session)))
    back = list(diff_between(session.store, newest(session), before))
    assert [(c.type.name, c.id, c.op) for c in forth] == [("Human", "ann", "update")]
    assert [(c.type.name, c.id, c.op) for c in back] == [("Person", "ann", "update")]
    assert forth[0].type.id == back[0].type.id


def test_a_type_that_was_dropped_and_declared_again_is_two(session):
    lean = SCHEMA.replace("node Note { text: String }", "").replace("edge Wrote: Person -> Note { at: DateTime? }", "")
    before = newest(session)
    session.apply_schema(lean, allow_data_loss=False)
    dropped = list(diff_between(session.store, before, newest(session)))
    assert [(c.type.name, c.id, c.op) for c in dropped] == [("Wrote", "w1", "delete"), ("Note", "n1", "delete")]
    session.apply_schema(SCHEMA)
    add_rows(session, '{"type": "Note", "data": {"id": "n1", "text": "x"}}')
    again = list(diff_between(session.store, before, newest(session), ChangeFilter.of(type_names=["Note"])))
    assert [(c.id, c.op) for c in again] == [("n1", "delete"), ("n1", "insert")]
    assert len({c.type.id for c in again}) == 2


def test_of_two_lifetimes_of_a_type_the_deletes_come_first_in_both_directions(tmp_path):
    """The ids of lifetimes are digests: an order by them would differ from graph to graph."""
    names = [f"T{number}" for number in range(6)]
    schema = "".join(f"node {name} {{ text: String }}\n" for name in names)
    rows = "".join(f'{{"type": "{name}", "data": {{"id": "x", "text": "x"}}}}\n' for name in names)
    create_graph(tmp_path / "graph", f"node Keep {{ text: String }}\n{schema}", rows)
    with open_session(tmp_path / "graph") as session:
        before = newest(session)
        session.apply_schema("node Keep { text: String }\n")
        session.apply_schema(f"node Keep {{ text: String }}\n{schema}")
        add_rows(session, rows)
        for pair in ((before, newest(session)), (newest(session), before)):
            diff = diff_between(session.store, *pair)
            expected = [(name, op) for name in names for op in ("delete", "insert")]
            assert [(change.type.name, change.op) for change in diff] == expected
            assert [(one.type_name, one.deletes, one.inserts) for one in diff.stats().types] == [
                (name, int(op == "delete"), int(op == "insert")) for name, op in expected
            ]


@pytest.mark.parametrize(
    "change",
    [("age: I32?", "age: I32?  city: String?"), ("born: Date?", ""), ("age: I32?", 'years: I32? @rename_from("age")')],
)
def test_another_set_of_columns_is_no_change_of_rows_in_either_direction(session, change):
    before = newest(session)
    session.apply_schema(SCHEMA.replace(*change))
    for pair in ((before, newest(session)), (newest(session), before)):
        diff = diff_between(session.store, *pair)
        assert (list(diff), diff.stats().types) == ([], ())


def test_properties_that_two_branches_declared_differently_are_a_boundary_in_both_directions(session):
    """Nothing says which of the two is meant, and rows of one have no reading in the other."""
    session.create_branch("side")
    session.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  city: String?"))
    session.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  city: I64?"), branch="side")
    for pair in (("main", "side"), ("side", "main")):
        diff = diff_between(session.store, *pair, ChangeFilter.of(type_names=["Note"]))
        with pytest.raises(ChangeSchemaBoundaryError) as caught:
            list(diff)
        assert caught.value.details.type_name == "Person"
        assert "omnigraph changes baseline" in caught.value.hint
        with pytest.raises(ChangeSchemaBoundaryError):
            diff.stats()


def test_any_two_commits_of_any_branches_are_compared(session):
    session.store.create_branch(BranchName("side"))
    before = newest(session)
    session.mutate('query a() { insert Person { name: "cid" } }', branch="side")
    session.mutate('query a() { insert Person { name: "dan" } }')
    side = str(commit_ids(session, "side")[0])
    found = [(c.id, c.op) for c in diff_between(session.store, newest(session), side)]
    assert found == [("cid", "insert"), ("dan", "delete")]
    with pytest.raises(CommitMissingError):
        diff_between(session.store, before, "01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_state_does_not_differ_from_itself_and_reads_nothing(session):
    snapshot = session.snapshot()
    assert list(GraphDiff(snapshot, snapshot)) == []
    assert GraphDiff(snapshot, snapshot).stats().types == ()


def test_states_are_named_by_any_reference(session):
    session.mutate('query a() { insert Person { name: "cid" } }')
    session.store.create_tag(TagName("then"), at="main")
    session.store.create_branch(BranchName("side"))
    session.mutate('query a() { insert Person { name: "dan" } }', branch="side")
    assert [c.id for c in diff_between(session.store, "main~1", "tag:then")] == ["cid"]
    assert [c.id for c in diff_between(session.store, "tag:then", "side")] == ["dan"]
    assert [c.id for c in diff_between(session.store, "~2", "main", branch="side")] == ["cid"]
    with pytest.raises(ValueFormatError):
        diff_between(session.store, "main", "no such:thing")
