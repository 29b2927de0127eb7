"""One publish: everything or nothing, in order, readable by everybody."""

import itertools

import pytest
from tests.txn_graph import (
    KNOWS,
    NODE_SCHEMA,
    PERSON,
    TEAM,
    authority_of,
    edge_rows,
    history,
    init_graph,
    insert,
    node_rows,
    open_graph,
    read_ids,
)

from omnigraph.errors import (
    BadValue,
    ExpectedVersionMismatchError,
    GraphExistsError,
    GraphMissingError,
    KeyExistsError,
    PreconditionFailedError,
    ReadOnlyError,
    SchemaMovedError,
    TypeMissingError,
    UsageError,
)
from omnigraph.store.location import Storage
from omnigraph.txn.changes import Compaction, TableDrop, TableRegister, TableReplace
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


@pytest.fixture
def graph(storage):
    with open_graph(storage) as opened:
        yield opened


def test_an_insert_is_visible_to_the_writer_and_to_others(storage, graph):
    result = insert(graph, PERSON, node_rows(["a", "b"]), actor="ann")
    assert result.commit.actor == "ann"
    assert result.manifest_version == 2
    assert read_ids(graph, PERSON) == ["a", "b"]
    with open_graph(storage, mode="read_only") as other:
        assert read_ids(other, PERSON) == ["a", "b"]


def test_several_tables_change_in_one_commit(graph):
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.INSERT)
    txn.insert(PERSON, node_rows(["a", "b"]))
    txn.insert(TEAM, node_rows(["t"]))
    txn.insert(KNOWS, edge_rows([("e", "a", "b")]), has_fresh_ids=True)
    result = branch_writer.commit(txn)
    assert result.manifest_version == 2
    assert [read_ids(graph, key) for key in (PERSON, TEAM, KNOWS)] == [["a", "b"], ["t"], ["e"]]
    assert [commit.operation for commit in history(graph)] == ["insert", "init"]


def test_row_counts_of_the_manifest_follow_the_rows(graph):
    insert(graph, PERSON, node_rows(["a", "b", "c"]))
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.MUTATE)
    txn.upsert(PERSON, node_rows(["c", "d"], value=1))
    txn.delete(PERSON, ["a", "zzz"])
    branch_writer.commit(txn)
    snapshot = graph.snapshot(BranchName(MAIN))
    assert snapshot.entry(PERSON).row_count == 3
    assert read_ids(graph, PERSON) == ["b", "c", "d"]


def test_an_existing_id_is_refused_and_nothing_changes(graph):
    insert(graph, PERSON, node_rows(["a"]))
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.INSERT)
    txn.insert(TEAM, node_rows(["t"]))
    txn.insert(PERSON, node_rows(["b", "a"]))
    with pytest.raises(KeyExistsError, match="'a'"):
        branch_writer.commit(txn)
    assert read_ids(graph, PERSON) == ["a"]
    assert read_ids(graph, TEAM) == []
    assert len(history(graph)) == 2


def test_the_last_word_of_a_transaction_counts(graph):
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.MUTATE)
    txn.insert(PERSON, node_rows(["a", "b"], value=1))
    txn.upsert(PERSON, node_rows(["a"], value=2))
    txn.delete(PERSON, ["b"])
    branch_writer.commit(txn)
    table = graph.snapshot(BranchName(MAIN)).table(PERSON)
    assert table.read(columns=["id", "value"]).to_pylist() == [{"id": "a", "value": 2}]


def test_inserting_an_id_twice_in_one_transaction_is_refused(graph):
    txn = authority_of(graph).begin(WriteKind.INSERT)
    txn.insert(PERSON, node_rows(["a"]))
    with pytest.raises(KeyExistsError):
        txn.insert(PERSON, node_rows(["a"]))


def test_a_table_takes_one_kind_of_change_per_commit(graph):
    txn = authority_of(graph).begin(WriteKind.LOAD_OVERWRITE)
    txn.change(TableReplace(table_key=PERSON, rows=node_rows(["x"])))
    with pytest.raises(UsageError, match="one kind of change"):
        txn.insert(PERSON, node_rows(["y"]))


def test_an_empty_transaction_makes_no_commit(graph):
    branch_writer = authority_of(graph)
    result = branch_writer.commit(branch_writer.begin(WriteKind.MUTATE))
    assert result.commit is None
    assert len(history(graph)) == 1


def test_overwrite_replaces_all_rows_also_by_none(graph):
    insert(graph, PERSON, node_rows(["a", "b"]))
    for ids in (["c"], []):
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.LOAD_OVERWRITE)
        txn.change(TableReplace(table_key=PERSON, rows=node_rows(ids)))
        branch_writer.commit(txn)
        assert read_ids(graph, PERSON) == ids
    insert(graph, PERSON, node_rows(["d"]))
    assert read_ids(graph, PERSON) == ["d"]


def test_tables_come_and_go_with_the_schema_in_one_commit(graph):
    insert(graph, PERSON, node_rows(["a"]))
    branch_writer = authority_of(graph)
    before = graph.snapshot(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.SCHEMA_APPLY)
    rows = node_rows(["c1"])
    txn.change(TableRegister(table_key="node:City", object_id="7", folder="nodes", schema=NODE_SCHEMA, rows=rows))
    txn.change(TableDrop(table_key=PERSON))
    txn.set_schema(AcceptedSchema(source="two", compiled="{}", hash="sha256:2"))
    branch_writer.commit(txn)
    after = graph.snapshot(BranchName(MAIN))
    assert after.state.schema.source == "two"
    assert read_ids(graph, "node:City") == ["c1"]
    with pytest.raises(TypeMissingError, match="node:Person"):
        after.entry(PERSON)
    assert [stone.table_key for stone in after.state.tombstones] == [PERSON]
    assert before.table(PERSON).row_count == 1
    insert(graph, "node:City", node_rows(["c2"]))
    assert read_ids(graph, "node:City") == ["c1", "c2"]


def test_a_write_made_for_another_schema_is_refused(graph):
    branch_writer = authority_of(graph)
    late = branch_writer.begin(WriteKind.INSERT)
    late.insert(PERSON, node_rows(["a"]))
    apply = branch_writer.begin(WriteKind.SCHEMA_APPLY)
    apply.set_schema(AcceptedSchema(source="two", compiled="{}", hash="sha256:2"))
    branch_writer.commit(apply)
    with pytest.raises(SchemaMovedError):
        branch_writer.commit(late)


def test_inserts_rebase_over_writes_to_the_same_table(graph):
    branch_writer = authority_of(graph)
    late = branch_writer.begin(WriteKind.INSERT)
    late.insert(PERSON, node_rows(["late"]))
    insert(graph, PERSON, node_rows(["early"]))
    branch_writer.commit(late)
    assert read_ids(graph, PERSON) == ["early", "late"]


def test_an_insert_that_lost_its_id_meanwhile_is_refused(graph):
    branch_writer = authority_of(graph)
    late = branch_writer.begin(WriteKind.INSERT)
    late.insert(PERSON, node_rows(["same"]))
    insert(graph, PERSON, node_rows(["same"], value=1))
    with pytest.raises(KeyExistsError):
        branch_writer.commit(late)


def test_an_update_is_refused_when_its_table_moved_and_goes_on_when_another_did(graph):
    insert(graph, PERSON, node_rows(["a"]))
    branch_writer = authority_of(graph)
    conflicting, independent = (branch_writer.begin(WriteKind.MUTATE) for _ in range(2))
    conflicting.upsert(PERSON, node_rows(["a"], value=1))
    independent.upsert(TEAM, node_rows(["t"]))
    insert(graph, PERSON, node_rows(["b"]))
    branch_writer.commit(independent)
    with pytest.raises(ExpectedVersionMismatchError) as caught:
        branch_writer.commit(conflicting)
    assert caught.value.details.table_key == PERSON
    assert caught.value.details.actual == caught.value.details.expected + 1
    assert read_ids(graph, PERSON) == ["a", "b"]


def test_an_update_is_refused_when_a_table_it_read_moved(graph):
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.MUTATE)
    txn.read_table(PERSON)
    txn.upsert(TEAM, node_rows(["t"]))
    insert(graph, PERSON, node_rows(["b"]))
    with pytest.raises(ExpectedVersionMismatchError):
        branch_writer.commit(txn)


def test_a_conditional_write_demands_its_head(graph):
    first = insert(graph, PERSON, node_rows(["a"])).commit
    insert(graph, PERSON, node_rows(["b"]), expected_head=first.id)
    with pytest.raises(PreconditionFailedError) as caught:
        insert(graph, PERSON, node_rows(["c"]), expected_head=first.id)
    assert caught.value.details.expected == first.id
    assert read_ids(graph, PERSON) == ["a", "b"]


def test_checks_see_the_state_that_is_published_on(graph):
    """An edge whose end vanished between begin and commit must not slip in."""
    insert(graph, PERSON, node_rows(["a", "b"]))
    branch_writer = authority_of(graph)
    edge = branch_writer.begin(WriteKind.INSERT)
    edge.insert(KNOWS, edge_rows([("e", "a", "b")]), has_fresh_ids=True)
    seen = []

    def ends_exist(view):
        seen.append(view.existing_ids(PERSON, ["a", "b"]))
        if seen[-1] != {"a", "b"}:
            raise UsageError("end missing", details=BadValue(what="end", value="b", expected="a node"))

    edge.add_check(ends_exist)
    drop = branch_writer.begin(WriteKind.LOAD_OVERWRITE)
    drop.change(TableReplace(table_key=PERSON, rows=node_rows(["a"])))
    branch_writer.commit(drop)
    with pytest.raises(UsageError, match="end missing"):
        branch_writer.commit(edge)
    assert seen == [{"a"}]
    assert read_ids(graph, KNOWS) == []


def test_a_snapshot_stays_as_it_is(graph):
    insert(graph, PERSON, node_rows(["a"]))
    old = graph.snapshot(BranchName(MAIN))
    insert(graph, PERSON, node_rows(["b"]))
    assert old.table(PERSON).read(columns=["id"])["id"].to_pylist() == ["a"]


def test_many_commits_keep_one_line_of_history(graph):
    commits = [insert(graph, PERSON, node_rows([f"p{number:03}"])).commit for number in range(70)]
    line = history(graph)
    assert [commit.id for commit in reversed(line)][1:] == [commit.id for commit in commits]
    assert all(newer.parent == older.id for newer, older in itertools.pairwise(line))
    assert read_ids(graph, PERSON) == [f"p{number:03}" for number in range(70)]


def test_compaction_keeps_the_rows(graph):
    for number in range(5):
        insert(graph, PERSON, node_rows([f"p{number}"]))
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.OPTIMIZE)
    txn.change(Compaction(table_key=PERSON))
    branch_writer.commit(txn)
    assert read_ids(graph, PERSON) == [f"p{number}" for number in range(5)]
    insert(graph, PERSON, node_rows(["after"]))
    assert "after" in read_ids(graph, PERSON)


def test_a_read_only_graph_refuses_writers(storage):
    with open_graph(storage, mode="read_only") as graph, pytest.raises(ReadOnlyError):
        authority_of(graph)


def test_a_place_without_a_graph_is_reported_as_such(tmp_path):
    with pytest.raises(GraphMissingError):
        open_graph(Storage.open(str(tmp_path / "nowhere")))


def test_a_graph_is_never_initialised_twice(storage, graph):
    insert(graph, PERSON, node_rows(["a"]))
    with pytest.raises(GraphExistsError):
        init_graph(storage.root)
    assert read_ids(graph, PERSON) == ["a"]
    assert isinstance(graph, GraphStore)
