"""An overwrite with a file or frame that has no row empties its type, on both engines and inside a transaction."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, load_lines, make_graph
from tests.unit.spark.load.test_contract import run_tasks

import omnigraph
from omnigraph.engine.load import Source
from omnigraph.errors import ConstraintViolationError
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.writer import WritePlan, publish, stage_rows

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { code: String @key }
edge Knows: Person -> Person
"""
PEOPLE = '{"type":"Person","data":{"name":"ada","age":1}}\n{"type":"Person","data":{"name":"bob"}}\n'
CITY = '{"type":"City","data":{"code":"b"}}\n'
KNOWS = '{"edge":"Knows","from":"ada","to":"bob"}\n'
COLUMNS = pa.schema([("name", pa.string()), ("age", pa.int32())])


@pytest.fixture(params=["csv", "no header", "parquet", "parquet named"])
def nobody(request, tmp_path):
    """A file without a row that is one of type Person."""
    match request.param:
        case "csv":
            (tmp_path / "Person.csv").write_text("name,age\n")
            return str(tmp_path / "Person.csv")
        case "no header":
            (tmp_path / "Person.csv").write_text("")
            return str(tmp_path / "Person.csv")
        case "parquet":
            pq.write_table(COLUMNS.empty_table(), tmp_path / "Person.parquet")
            return str(tmp_path / "Person.parquet")
    pq.write_table(COLUMNS.empty_table(), tmp_path / "none.parquet")
    return Source(path=str(tmp_path / "none.parquet"), type_name="Person")


@pytest.fixture(params=[load_files, run_tasks])
def load(request):
    return request.param


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        load_lines(opened, tmp_path / "seed.jsonl", PEOPLE + CITY, "append")
        yield opened


def names(graph):
    return [row["data"].get("name") or row["data"]["code"] for row in export(graph)]


def test_it_is_one_commit_and_the_next_one_is_none(graph, load, nobody):
    result = load(graph, [nobody], "overwrite")
    assert names(graph) == ["b"]
    assert result.nodes_loaded == {"Person": 0}
    assert result.commit.touched == ("node:Person",)
    head = graph.snapshot().state.head
    assert load(graph, [nobody], "overwrite").commit is None
    assert graph.snapshot().state.head == head


def test_another_type_of_the_same_load_is_replaced_in_the_same_commit(graph, load, nobody, tmp_path):
    (tmp_path / "City.csv").write_text("code\nc\nd\n")
    result = load(graph, [nobody, str(tmp_path / "City.csv")], "overwrite")
    assert names(graph) == ["c", "d"]
    assert result.commit.touched == ("node:City", "node:Person")


def test_edges_that_would_lose_their_ends_refuse_it(graph, load, nobody, tmp_path):
    load_lines(graph, tmp_path / "knows.jsonl", KNOWS, "append")
    before = export(graph)
    with pytest.raises(ConstraintViolationError) as caught:
        load(graph, [nobody], "overwrite")
    assert caught.value.details.items[0].type_name == "Knows"
    assert export(graph) == before
    (tmp_path / "Knows.csv").write_text("from,to\n")
    load(graph, [nobody, str(tmp_path / "Knows.csv")], "overwrite")
    assert names(graph) == ["b"]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_other_modes_have_nothing_to_load(graph, load, nobody, mode):
    before = export(graph)
    result = load(graph, [nobody], mode)
    assert (result.commit, result.nodes_loaded) == (None, {})
    assert export(graph) == before


def test_lines_without_a_row_name_no_type(graph, load, tmp_path):
    (tmp_path / "Person.jsonl").write_text("\n")
    assert load(graph, [str(tmp_path / "Person.jsonl")], "overwrite").commit is None
    assert names(graph) == ["b", "ada", "bob"]


def test_a_transaction_sees_the_empty_type_and_publishes_it(tmp_path, nobody):
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        (tmp_path / "seed.jsonl").write_text(PEOPLE + CITY)
        graph.load(tmp_path / "seed.jsonl")
        with graph.transaction() as transaction:
            done = transaction.load(nobody, "overwrite")
            assert done.nodes_loaded == {"Person": 0}
            assert len(transaction.query("query q() { match { $p: Person } return { $p.name } }")) == 0
        assert len(graph.query("query q() { match { $p: Person } return { $p.name } }")) == 0
        assert next(iter(graph.log())).touched == ("node:Person",)
        before = next(iter(graph.log())).id
        with graph.transaction() as transaction:
            transaction.load(nobody, "overwrite")
        assert next(iter(graph.log())).id == before


def test_the_data_source_writes_a_frame_without_rows(graph, tmp_path):
    options = SourceOptions.parse({"graph": str(tmp_path / "graph"), "type": "Person"})
    plan = WritePlan.begin(options, COLUMNS, overwrite=True)
    publish(plan, [stage_rows(plan, 0, iter([]))])
    assert names(graph) == ["b"]
    head = graph.snapshot().state.head
    plan = WritePlan.begin(options, COLUMNS, overwrite=True)
    publish(plan, [])
    assert graph.snapshot().state.head == head
