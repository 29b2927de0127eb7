"""Writes of the data source, task by task and commit by commit, without Spark around them."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)
from tests.session_graph import create_graph, open_session, read_graph

from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import (
    BadRowsError,
    ConstraintViolationError,
    FailpointError,
    KeyExistsError,
    OmnigraphError,
    SchemaMovedError,
    TypeMissingError,
    UsageError,
)
from omnigraph.spark.source.datasource import OmnigraphSource
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.types import plain_schema, wire_schema
from omnigraph.spark.source.writer import WritePlan, publish, stage_rows, stream_mark, take_away
from omnigraph.store.location import Storage

SCHEMA = """
node Person { name: String @key  age: I32?  big: U64?  price: Decimal(12, 2)?  tags: [String]?  emb: Vector(2)? }
node Event { title: String  @unique(title) }
edge Knows: Person -> Person { since: I32? }
"""
SEED = '{"type":"Person","data":{"name":"ada","age":36}}\n{"type":"Person","data":{"name":"bob","age":7}}\n'
PEOPLE = StructType([StructField("name", StringType()), StructField("age", IntegerType())])


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "g", SCHEMA, SEED)
    return tmp_path / "g"


def begin(root, schema=PEOPLE, *, overwrite=False, **options):
    parsed = SourceOptions.parse({"graph": str(root), "type": "Person", **options})
    return WritePlan.begin(parsed, plain_schema(schema), overwrite=overwrite)


def stage(plan, *partitions, schema=PEOPLE):
    """Stage each list of rows as one partition."""
    wire = wire_schema(schema)
    staged = []
    for number, rows in enumerate(partitions):
        batches = pa.Table.from_pylist(rows, schema=wire).to_batches()
        staged.append(stage_rows(plan, number, iter(batches)))
    return staged


def people(root, branch="main"):
    with open_session(root) as session:
        found = read_graph(session, branch)["node:Person"]
        return {name: row["age"] for name, row in found.items()}


def leftovers(root):
    """Scratch objects, and data files that no fragment of any table names."""
    with open_session(root) as session:
        snapshot = session.snapshot()
        named = set()
        for key in snapshot.state.tables:
            table = snapshot.table(key)
            named |= {file for fragment in table.fragments for file in fragment.files}
    found = {path.name for path in root.rglob("data/*.lance") if "__manifest" not in path.parts}
    scratch = [path for path in root.glob("__scratch/**/*") if path.is_file()]
    return scratch, found - named


def test_an_append_of_several_partitions_is_one_commit_and_leaves_nothing_behind(root):
    with open_session(root) as session:
        before = session.snapshot().state.version
    plan = begin(root, actor="ann", message="two more")
    publish(plan, stage(plan, [{"name": "cy", "age": 1}], [], [{"name": "di", "age": None}]))
    assert people(root) == {"ada": 36, "bob": 7, "cy": 1, "di": None}
    with open_session(root) as session:
        state = session.snapshot().state
        assert state.version == before + 1
        assert (state.recent[-1].actor, state.recent[-1].message) == ("ann", "two more")
    assert leftovers(root) == ([], set())


def test_a_merge_replaces_rows_and_an_overwrite_all_of_them(root):
    plan = begin(root, mode="merge")
    publish(plan, stage(plan, [{"name": "ada", "age": 37}], [{"name": "eve", "age": 3}]))
    assert people(root) == {"ada": 37, "bob": 7, "eve": 3}
    plan = begin(root, overwrite=True)
    publish(plan, stage(plan, [{"name": "zed", "age": 9}]))
    assert people(root) == {"zed": 9}


def test_rows_of_a_branch_that_only_inherits_the_table_stay_there(root):
    with open_session(root) as session:
        session.create_branch("side")
    plan = begin(root, branch="side")
    publish(plan, stage(plan, [{"name": "cy", "age": 1}]))
    assert people(root, "side") == {"ada": 36, "bob": 7, "cy": 1}
    assert people(root) == {"ada": 36, "bob": 7}


def test_what_breaks_a_rule_says_which_row_and_changes_nothing(root):
    plan = begin(root)
    staged = stage(plan, [{"name": "cy", "age": 1}], [{"name": "di", "age": 2}, {"name": "ada", "age": 3}])
    with pytest.raises(KeyExistsError, match="<Person>:3"):
        publish(plan, staged)
    take_away(plan, staged)
    edges = StructType([StructField("from", StringType()), StructField("to", StringType())])
    plan = begin(root, edges, type="Knows")
    staged = stage(plan, [{"from": "ada", "to": "nobody"}], schema=edges)
    with pytest.raises(ConstraintViolationError, match="nobody"):
        publish(plan, staged)
    take_away(plan, staged)
    assert people(root) == {"ada": 36, "bob": 7}
    assert leftovers(root) == ([], set())


def test_an_abort_takes_away_what_tasks_have_written(root):
    plan = begin(root)
    staged = stage(plan, [{"name": "cy", "age": 1}], [{"name": "di", "age": 1}])
    assert len(leftovers(root)[1]) == 2
    take_away(plan, staged)
    take_away(plan, [])
    assert leftovers(root) == ([], set())


def test_an_abort_after_a_commit_that_failed_leaves_the_files_it_may_have_published(root, monkeypatch):
    plan = begin(root)
    staged = stage(plan, [{"name": "cy", "age": 1}])
    monkeypatch.setenv("OMNIGRAPH_FAILPOINTS", "spark.source.after_publish=error")
    with pytest.raises(FailpointError):
        publish(plan, staged)
    monkeypatch.delenv("OMNIGRAPH_FAILPOINTS")
    take_away(plan, staged)
    assert people(root) == {"ada": 36, "bob": 7, "cy": 1}
    assert leftovers(root) == ([], set())


def test_an_abort_after_a_commit_that_spark_never_heard_of_leaves_its_rows(root):
    plan = begin(root)
    staged = stage(plan, [{"name": "cy", "age": 1}])
    publish(plan, staged)
    take_away(plan, staged)
    assert people(root) == {"ada": 36, "bob": 7, "cy": 1}


def test_a_partition_that_is_staged_twice_counts_once(root, monkeypatch):
    plan = begin(root)
    monkeypatch.setenv("OMNIGRAPH_FAILPOINTS", "spark.source.after_rows=error")
    with pytest.raises(FailpointError):
        stage(plan, [{"name": "cy", "age": 1}])
    monkeypatch.delenv("OMNIGRAPH_FAILPOINTS")
    publish(plan, stage(plan, [{"name": "cy", "age": 1}]))
    assert people(root) == {"ada": 36, "bob": 7, "cy": 1}
    scratch, unnamed = leftovers(root)
    assert (scratch, len(unnamed)) == ([], 1)


def test_every_type_of_value_comes_back_from_what_spark_gives(root):
    schema = StructType(
        [
            StructField("name", StringType()),
            StructField("big", DecimalType(20, 0)),
            StructField("price", DecimalType(20, 4)),
            StructField("tags", ArrayType(StringType())),
            StructField("emb", ArrayType(DoubleType())),
        ]
    )
    plan = begin(root, schema)
    rows = [{"name": "cy", "big": Decimal(2**63), "price": Decimal("1.1000"), "tags": ["x", "y"], "emb": [1.0, 0.5]}]
    rows.append({"name": "di", "big": None, "price": None, "tags": None, "emb": None})
    publish(plan, stage(plan, rows, schema=schema))
    with open_session(root) as session:
        table = session.snapshot().table("node:Person").read()
    found = {row["name"]: row for row in table.to_pylist()}
    assert found["cy"]["big"] == 2**63
    assert found["cy"]["price"] == Decimal("1.10")
    assert found["cy"]["tags"] == ["x", "y"]
    assert found["cy"]["emb"] == [1.0, 0.5]
    assert found["di"]["big"] is None


def test_columns_and_options_that_do_not_fit_are_refused_before_any_row(root):
    with pytest.raises(BadRowsError, match="did you mean 'age'"):
        begin(root, StructType([StructField("name", StringType()), StructField("agee", IntegerType())]))
    with pytest.raises(BadRowsError, match="expects I32"):
        begin(root, StructType([StructField("name", StringType()), StructField("age", StringType())]))
    with pytest.raises(TypeMissingError):
        begin(root, type="Persn")
    with pytest.raises(UsageError, match="cannot be combined"):
        begin(root, overwrite=True, mode="merge")
    with pytest.raises(UsageError, match="only a branch"):
        begin(root, snapshot="main~1")
    with pytest.raises(UsageError, match="unknown option"):
        begin(root, tpye="Person")


def test_rows_that_do_not_fit_are_all_reported_and_counted(root):
    plan = begin(root)
    staged = stage(plan, [{"name": "cy", "age": 1}, {"name": None, "age": 1}], [{"name": None, "age": 2}])
    with pytest.raises(BadRowsError, match="<Person>:2") as raised:
        publish(plan, staged)
    assert [item.line for item in raised.value.details.items] == [2, 3]
    assert raised.value.details.total == 2


def test_rows_read_with_an_older_schema_are_refused(root):
    plan = begin(root)
    staged = stage(plan, [{"name": "cy", "age": 1}])
    with open_session(root) as session:
        session.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))
    with pytest.raises(SchemaMovedError):
        publish(plan, staged)


@pytest.mark.parametrize(
    "place",
    [
        "spark.source.before_publish",
        "spark.load.after_write",
        "txn.claim.after_put",
        "txn.commit.after_tables",
        "txn.publish.after_cas",
        "spark.source.after_publish",
    ],
)
def test_a_micro_batch_that_is_delivered_again_is_in_the_graph_once(root, monkeypatch, place):
    mark = stream_mark(begin(root), 5, "query", None)
    plan = begin(root)
    staged = stage(plan, [{"name": "cy", "age": 1}], [{"name": "di", "age": 2}])
    monkeypatch.setenv("OMNIGRAPH_FAILPOINTS", f"{place}=error@1")
    with suppress(OmnigraphError):
        publish(plan, staged, mark)
    take_away(plan, staged)
    monkeypatch.delenv("OMNIGRAPH_FAILPOINTS")
    other = begin(root)
    publish(other, stage(other, [{"name": "other", "age": 0}]))
    for _ in range(2):
        again = begin(root)
        publish(again, stage(again, [{"name": "cy", "age": 1}, {"name": "di", "age": 2}]), mark)
    assert people(root) == {"ada": 36, "bob": 7, "cy": 1, "di": 2, "other": 0}
    with open_session(root) as session:
        assert dict(session.snapshot().state.batches) == {"query": 5}


def test_a_stream_has_the_callers_name_or_that_of_its_checkpoint(root):
    assert stream_mark(begin(root, app="mine"), 1, "query", "/checkpoint").app == "mine"
    assert stream_mark(begin(root), 1, None, "/checkpoint").app == "/checkpoint"
    with pytest.raises(UsageError, match="needs the option 'app'"):
        stream_mark(begin(root), 1, None, None)


def test_graphs_on_object_storage_are_written_and_read_with_options_as_json(s3_endpoint):
    root, secrets = s3_endpoint.fresh_prefix(), dict(s3_endpoint.storage_options)
    storage = Storage.open(root, secrets)
    init_graph(storage, SCHEMA)
    plan = begin(root, storage_options=json.dumps(secrets))
    publish(plan, stage(plan, [{"name": "cy", "age": 1}], [{"name": "di", "age": 2}]))
    refused = stage(plan, [{"name": "ed", "age": 3}])
    take_away(plan, refused)
    assert not plan.scratch.names()
    source = OmnigraphSource({"graph": root, "type": "Person", "storage_options": json.dumps(secrets)})
    reader = source.reader(source.schema())
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted((row["name"], row["age"]) for row in rows) == [("cy", 1), ("di", 2)]


def test_storage_options_stay_out_of_texts(root):
    options = {"graph": str(root), "type": "Person", "storage_options": '{"aws_secret_access_key": "hush"}'}
    parsed = SourceOptions.parse(options)
    assert parsed.storage == Storage.open(str(root), {"aws_secret_access_key": "hush"})
    assert "hush" not in repr(parsed)
    with pytest.raises(UsageError) as raised:
        SourceOptions.parse({**options, "storage_options": '["hush"]'})
    assert "hush" not in str(raised.value) + repr(raised.value.details)
