"""Change logs: operations, sequences, what goes with deleted nodes, counts, feeds as input, other writers."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, load_lines, make_graph

import omnigraph
from omnigraph.errors import (
    BadRowsError,
    BatchRepeatedError,
    ConstraintViolationError,
    ExpectedVersionMismatchError,
    UsageError,
)
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String?  rank: I32 @default(7)  @unique(mail) }
node Thing { title: String  size: I32?  tags: [String]?  photo: Blob?  emb: Vector(2)? }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


@pytest.fixture
def apply(graph, tmp_path):
    """Apply envelopes, and return what became of them."""

    def run(*rows, **options):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        return load_lines(graph, tmp_path / "log.jsonl", lines, "apply", **options)

    return run


def person(name, op=None, seq=None, **data):
    marks = {key: value for key, value in (("_op", op), ("_seq", seq)) if value is not None}
    return {"type": "Person", **marks, "data": {"name": name, **data}}


def knows(edge_id, src, dst, op=None, seq=None, **data):
    marks = {key: value for key, value in (("_op", op), ("_seq", seq)) if value is not None}
    ends = {} if src is None else {"from": src, "to": dst}
    return {"edge": "Knows", **ends, **marks, "data": {"id": edge_id, **data}}


def people(graph):
    return {row["data"]["name"]: row["data"] for row in export(graph) if row.get("type") == "Person"}


def edges(graph):
    return {row["data"]["id"]: (row["from"], row["to"]) for row in export(graph) if "edge" in row}


def told(result):
    counts = result.changes
    return counts.written, counts.unchanged, counts.superseded, counts.deleted


def test_the_highest_sequence_wins_and_patches_change_what_they_give(graph, apply):
    result = apply(
        person("ada", seq=2, age=2),
        person("ada", seq=1, age=1, mail="a"),
        person("ada", "patch", 4, mail="b"),
        person("ada", "patch", 3, mail="c", age=3),
        person("bob", "patch", 1, age=9),
    )
    assert told(result) == (2, 0, 3, 0)
    assert people(graph)["ada"] == {"id": "ada", "name": "ada", "age": 3, "mail": "b", "rank": 7}
    assert people(graph)["bob"]["rank"] == 7


def test_without_a_sequence_the_last_row_of_the_input_wins(graph, apply):
    assert told(apply(person("ada", age=1), person("ada", age=2), person("ada", "delete"), person("ada", age=3))) == (
        1,
        0,
        3,
        0,
    )
    assert people(graph)["ada"]["age"] == 3


def test_rows_of_the_same_sequence_count_in_their_order(graph, apply):
    apply(person("ada", seq=1, age=1), person("ada", seq=1, age=2))
    assert people(graph)["ada"]["age"] == 2


def test_rows_that_change_nothing_are_neither_written_nor_versioned(graph, apply):
    apply(person("ada", age=1), person("bob", age=1))
    before = graph.snapshot().table("node:Person").read(["id", "_row_last_updated_at_version"]).to_pylist()
    result = apply(person("ada", age=1), person("bob", age=2), person("cid", "delete"))
    assert told(result) == (1, 2, 0, 0)
    after = graph.snapshot().table("node:Person").read(["id", "_row_last_updated_at_version"]).to_pylist()
    assert [row for row in before if row["id"] == "ada"] == [row for row in after if row["id"] == "ada"]
    assert before != after
    head = graph.snapshot().state.head
    result = apply(person("ada", age=1))
    assert (result.commit, result.reason) == (None, "nothing has changed")
    assert graph.snapshot().state.head == head


def test_a_deleted_node_takes_its_edges_and_the_counts_say_so(graph, apply):
    apply(person("ada"), person("bob"), knows("e1", "ada", "bob"), knows("e2", "bob", "bob"))
    result = apply(person("ada", "delete"))
    assert told(result) == (0, 0, 0, 1)
    assert result.changes.cascaded == 1
    assert edges(graph) == {"e2": ("bob", "bob")}
    assert result.commit.touched == ("edge:Knows", "node:Person")
    assert result.commit.operation == "load_apply"


def test_with_refuse_a_node_that_has_edges_cannot_be_deleted(graph, apply):
    apply(person("ada"), person("bob"), knows("e1", "ada", "bob"))
    with pytest.raises(ConstraintViolationError) as caught:
        apply(person("ada", "delete"), on_delete="refuse")
    assert caught.value.details.items[0].type_name == "Knows"
    result = apply(person("ada", "delete"), knows("e1", None, None, "delete"), on_delete="refuse")
    assert told(result) == (0, 0, 0, 2)
    assert edges(graph) == {}


def test_edges_older_than_the_delete_of_their_node_go(graph, apply):
    apply(person("ada", seq=1), person("bob", seq=1))
    older = apply(knows("e1", "ada", "bob", seq=2), person("ada", "delete", 3), person("ada", seq=4))
    assert told(older) == (0, 1, 2, 0)
    assert edges(graph) == {}
    with pytest.raises(ConstraintViolationError):
        apply(knows("e1", "ada", "bob"), person("ada", "delete"))


NEWER = [
    person("ada", seq=1),
    person("bob", seq=1, age=5),
    knows("e0", "ada", "bob", seq=2),
    person("bob", "delete", 3),
    knows("e1", "ada", "bob", seq=5),
]


@pytest.mark.parametrize("on_delete", ["cascade", "refuse"])
@pytest.mark.parametrize(
    "calls",
    [
        [[0, 1, 2, 3, 4]],
        [[0, 1, 2, 4], [3]],
        [[0, 1, 2], [3, 4]],
        [[0, 1], [4], [3], [2]],
    ],
    ids=str,
)
def test_a_node_with_edges_above_its_delete_stays_until_its_next_row_comes(graph, apply, calls, on_delete):
    kept = {"e0": ("ada", "bob")} if on_delete == "refuse" else {}
    counted = 0
    for numbers in calls:
        rows = [NEWER[number] for number in numbers]
        counted += sum(told(apply(*rows, on_delete=on_delete)))
        again = apply(*rows, on_delete=on_delete)
        assert (again.commit, again.changes.affected) == (None, 0)
    assert counted == len(NEWER)
    assert people(graph)["bob"]["age"] == 5
    assert edges(graph) == {"e1": ("ada", "bob"), **kept}
    # What has still to come says what became of it: older values than those of the delete do not count.
    apply(person("bob", seq=2, age=6))
    assert people(graph)["bob"]["age"] == 5
    apply(person("bob", seq=4, age=7))
    assert people(graph)["bob"]["age"] == 7
    apply(person("bob", "delete", 6), knows("e0", None, None, "delete", 6), on_delete="cascade")
    assert (sorted(people(graph)), edges(graph)) == (["ada"], {})


def test_a_delete_below_an_edge_of_an_earlier_call_of_the_transaction_does_not_count(tmp_path):
    query = "query q() { match { $p: Person  $p knows $q } return { $p.name as src, $q.name as dst, $q.age as age } }"
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        with graph.transaction() as transaction:
            for number, rows in enumerate([NEWER[:3], [NEWER[4]], [NEWER[3]]]):
                file = tmp_path / f"{number}.jsonl"
                file.write_text("".join(json.dumps(row) + "\n" for row in rows))
                transaction.load(file, "apply")
        assert graph.query(query).to_arrow().to_pylist() == [{"src": "ada", "dst": "bob", "age": 5}]


def test_only_what_an_entity_is_in_the_end_has_to_keep_the_rules(graph, apply):
    # Values that move between rows, and one row that is written twice, break no rule of uniqueness.
    apply(person("p1", seq=1, mail="a"), person("p2", seq=1, mail="b"))
    apply(
        person("p1", seq=2, mail="b"),
        person("p2", seq=3, mail="c"),
        person("p2", seq=4, mail="a"),
    )
    assert {name: row["mail"] for name, row in people(graph).items()} == {"p1": "b", "p2": "a"}
    with pytest.raises(ConstraintViolationError) as caught:
        apply(person("p3", mail="a"))
    assert caught.value.details.items[0].line == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (person("ada", "upsrt"), "must be upsert, patch or delete, got 'upsrt'; did you mean 'upsert'?"),
        (person("ada", "D"), "must be upsert, patch or delete"),
        (person("ada", None, "soon"), "must be a whole number of 64 bits or an instant"),
        (person("ada", None, 1.5), "must be a whole number of 64 bits or an instant"),
        (person("ada", None, True), "must be a whole number of 64 bits or an instant"),
        (person("ada", None, 1 << 70), "must be a whole number of 64 bits or an instant"),
        (
            {"type": "Thing", "_op": "delete", "data": {"title": "t"}},
            "a delete of Thing, which has no key, needs field 'id'",
        ),
        ({"type": "Thing", "data": {}}, "non-nullable property 'title'"),
        ({"type": "Thing", "_op": "patch", "data": {"id": "t"}}, "non-nullable property 'title'"),
        ({"edge": "Knows", "data": {"id": "e"}}, "edge Knows requires field 'from'"),
        ({"op": "update", "kind": "node", "id": "ada", "type": "Person"}, "not a change of a feed"),
        ({"op": "move", "kind": "node", "id": "ada", "type": "Person"}, "not a change of a feed"),
        ({"source": "s", "blocks": 1, "begin": {"sequence": 1}}, "not a batch of a change feed"),
    ],
)
def test_a_row_that_is_none_of_a_log_is_refused_with_its_line(graph, apply, row, message):
    with pytest.raises(BadRowsError) as caught:
        apply(person("bob", seq=1 if row.get("_seq") is not None else None), row)
    problem = caught.value.details.items[0]
    assert message in problem.message.replace('"', "'")
    assert problem.line == 2
    assert people(graph) == {}


def test_sequences_that_cannot_be_compared_are_refused(apply):
    with pytest.raises(BadRowsError) as caught:
        apply(person("ada", seq=1), person("bob", seq="2026-01-01"))
    assert caught.value.details.items[0].message == ("the row has an instant, rows of Person before it a number")
    with pytest.raises(BadRowsError) as caught:
        apply(person("ada"), person("bob", seq=2))
    assert caught.value.details.items[0].message == "the row has a number, rows of Person before it no sequence"


@pytest.mark.parametrize(
    "older",
    ["2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00.5+01:00", "2026-01-01T00:00:00.999999999Z"],
)
def test_instants_order_rows_down_to_the_nanosecond(graph, apply, older):
    apply(person("ada", seq="2026-01-01T00:00:01Z", age=2), person("ada", seq=older, age=1))
    assert people(graph)["ada"]["age"] == 2


def test_csv_and_parquet_have_columns_for_operation_and_sequence(graph, tmp_path):
    (tmp_path / "Person.csv").write_text(
        "_op,name,age,_seq\nupsert,ada,1,10\n,bob,5,9\nupsert,ada,2,9\ndelete,bob,,11\npatch,cid,4,1\n"
    )
    ends = {"from": ["ada", None], "to": ["cid", None], "id": ["e1", "e0"], "_op": [None, "delete"]}
    when = pa.array([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({**ends, "_seq": when}), tmp_path / "Knows.parquet")
    result = load_files(graph, [str(tmp_path / "Person.csv"), str(tmp_path / "Knows.parquet")], "apply")
    assert told(result) == (3, 2, 2, 0)
    assert {name: row["age"] for name, row in people(graph).items()} == {"ada": 1, "cid": 4}
    assert edges(graph) == {"e1": ("ada", "cid")}
    (tmp_path / "Person.csv").write_text("name,_op,_seq\nada,drop,1\nbob,,x\n")
    with pytest.raises(BadRowsError) as caught:
        load_files(graph, [str(tmp_path / "Person.csv")], "apply")
    assert [(item.line, item.property, item.type_name) for item in caught.value.details.items] == [
        (2, "_op", "Person"),
        (3, "_seq", "Person"),
    ]
    pq.write_table(pa.table({"name": ["a"], "_seq": [0.5]}), tmp_path / "Person.parquet")
    with pytest.raises(BadRowsError, match="column '_seq' must hold whole numbers, instants or text"):
        load_files(graph, [str(tmp_path / "Person.parquet")], "apply")


def test_other_modes_know_no_such_columns(graph, tmp_path):
    (tmp_path / "Person.csv").write_text("name,_op\nada,upsert\n")
    with pytest.raises(BadRowsError, match="unknown input field '_op'"):
        load_files(graph, [str(tmp_path / "Person.csv")], "merge")


def test_values_of_every_form_are_compared_and_patched(graph, apply):
    thing = {"id": "t", "title": "t", "tags": ["a", "b"], "photo": "base64:aGk=", "emb": [1.0, 2.0]}
    row = {"type": "Thing", "data": thing}
    apply(row)
    assert told(apply(row)) == (0, 1, 0, 0)
    apply({"type": "Thing", "_op": "patch", "data": {"id": "t", "size": 3, "tags": None}})
    found = next(one["data"] for one in export(graph))
    assert (found["size"], found["tags"], found["photo"], found["emb"]) == (3, None, "base64:aGk=", [1.0, 2.0])
    # Without an id such a row is always a new entity.
    assert told(apply({"type": "Thing", "data": {"title": "u"}}, {"type": "Thing", "data": {"title": "u"}})) == (
        2,
        0,
        0,
        0,
    )


def test_a_call_inside_a_transaction_sees_what_came_before_it(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:

        def log(*rows):
            (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            return tmp_path / "log.jsonl"

        graph.load(log(person("ada"), person("bob"), knows("e1", "ada", "bob")), "apply")
        with graph.transaction() as transaction:
            transaction.load(log(person("cid"), knows("e2", "cid", "ada")), "append")
            done = transaction.load(log(person("ada", "delete"), person("cid", "patch", age=3)), "apply")
            assert told(done) == (1, 0, 0, 1)
            assert done.changes.cascaded == 2
        found = graph.query("query q() { match { $p: Person } return { $p.name $p.age } order { $p.name } }")
        assert found.to_arrow().to_pylist() == [{"p.name": "bob", "p.age": None}, {"p.name": "cid", "p.age": 3}]
        with graph.transaction() as transaction, pytest.raises(UsageError, match="inside a transaction"):
            transaction._write(_batch_request(log()), None)


def _batch_request(path):
    from omnigraph.operations.writes import LoadRequest  # noqa: PLC0415 - what a client could send

    return LoadRequest(sources=[str(path)], mode="apply", batch=("b", 1))


def test_a_log_is_made_again_when_somebody_else_writes_first(graph, apply, monkeypatch, tmp_path):
    apply(person("ada", age=1), person("bob", age=1))
    writer = graph.store.branch_writer(BranchName(MAIN))
    commit, waiting = writer.commit, [[person("ada", age=5), knows("e1", "ada", "bob")]]

    def first_the_other(txn):
        if waiting:
            lines = "".join(json.dumps(row) + "\n" for row in waiting.pop())
            load_lines(graph, tmp_path / "other.jsonl", lines, "merge")
        return commit(txn)

    monkeypatch.setattr(writer, "commit", first_the_other)
    result = apply(person("ada", "patch", mail="m"), person("bob", "delete"))
    assert told(result) == (1, 0, 0, 1)
    assert result.changes.cascaded == 1
    assert people(graph)["ada"] == {"id": "ada", "name": "ada", "age": 5, "mail": "m", "rank": 7}
    assert (list(people(graph)), edges(graph)) == (["ada"], {})
    waiting.append([person("dan")])
    with pytest.raises(ExpectedVersionMismatchError):
        apply(person("ada", "patch", mail="n"), on_conflict="refuse")


def test_the_lines_of_a_feed_replicate_it(tmp_path):
    with omnigraph.init(tmp_path / "source", SCHEMA) as source, omnigraph.init(tmp_path / "copy", SCHEMA) as copy:

        def log(rows):
            (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            return tmp_path / "log.jsonl"

        source.load(log([person("ada", mail="a"), person("bob", mail="b"), knows("e1", "ada", "bob")]), "apply")
        source.load(log([person("ada", mail="c"), person("cid", mail="a")]), "apply")
        source.load(log([person("bob", "delete"), person("ada", mail="b")]), "apply")
        batches = list(source.feed("beginning"))
        lines = log([batch.to_json() for batch in batches])
        result = copy.load(lines, "apply")
        assert told(result) == (2, 2, 4, 0)
        for text in (
            "match { $p: Person } return { $p.name $p.mail } order { $p.name }",
            "match { $p: Person $p knows $q } return { $q.name }",
        ):
            query = f"query q() {{ {text} }}"
            assert copy.query(query).to_arrow().to_pylist() == source.query(query).to_arrow().to_pylist()
        # Each change as a row of its own, as a frame has them.
        rows = [row for batch in batches for row in batch.to_arrow().to_pylist()]
        plain = [{**row, "time": None, "after": json.loads(row["after"] or "null"), "before": None} for row in rows]
        assert copy.load(log(plain), "apply").commit is None


def test_a_batch_is_loaded_once_and_a_repeated_call_names_the_first_commit(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        (tmp_path / "Person.csv").write_text("name\nada\n")
        first = graph.load(tmp_path / "Person.csv", "append", batch=("nightly", 1))
        (tmp_path / "Person.csv").write_text("name\nbob\n")
        second = graph.load(tmp_path / "Person.csv", "apply", batch=("nightly", 2))
        again = graph.load(tmp_path / "Person.csv", "append", batch=("nightly", 1))
        assert again.is_repeat
        assert (again.commit, again.total) == (first.commit, 0)
        assert again.to_json()["repeated"] is True
        assert graph.load(tmp_path / "gone.csv", "apply", batch=("nightly", 2)).commit == second.commit
        # A batch without news is a batch: what comes after it goes on from there.
        third = graph.load(tmp_path / "Person.csv", "apply", batch=("nightly", 4))
        assert third.commit.batch.number == 4
        with pytest.raises(BatchRepeatedError):
            graph.load(tmp_path / "Person.csv", "apply", batch=("nightly", 3))
        for wrong in ("nightly", ("nightly",), ("", 1), ("n", -1), ("n", "1")):
            with pytest.raises(UsageError):
                graph.load(tmp_path / "Person.csv", "apply", batch=wrong)
        with pytest.raises(UsageError, match="on_delete needs mode apply"):
            graph.load(tmp_path / "Person.csv", "merge", on_delete="refuse")
