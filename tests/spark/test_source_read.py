"""A graph as a DataFrame: pinned, filtered by storage, and with every value as it was stored."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.errors import HistoryGoneError
from omnigraph.spark.loads import load_frames
from omnigraph.spark.runner import job_error, task_error
from omnigraph.spark.source.datasource import OmnigraphSource
from tests.load_graph import export, make_graph
from tests.session_graph import add_rows, create_graph, open_session

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  u: U64?
  price: Decimal(12, 2)?
  born: Date?
  seen: DateTime?
  tags: [String]?
  emb: Vector(2)?
  kind: enum(calm, wild)?
  raw: Blob?
}
edge Knows: Person -> Person { since: I32? }
"""


def person(number):
    data = {
        "name": f"p{number}",
        "age": None if number == 3 else number,
        "score": number / 2,
        "u": number,
        "price": f"{number}.10",
        "born": "2020-02-29",
        "seen": f"1969-12-31T23:59:59.{number:03}Z",
        "tags": ["a", "b"][: number % 3],
        "emb": [1.0, number],
        "kind": "wild",
        "raw": "base64:AAEC",
    }
    return json.dumps({"type": "Person", "data": data})


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph of three commits, three fragments of people each with its own rows."""
    root = tmp_path_factory.mktemp("source") / "g"
    create_graph(root, SCHEMA, "\n".join(map(person, range(4))))
    with open_session(root) as session:
        add_rows(session, "\n".join(map(person, range(4, 8))))
        add_rows(session, "\n".join(map(person, range(8, 12))))
    return root


def read(spark, graph, **options):
    return spark.read.format("omnigraph").options(graph=str(graph), **options).load()


@pytest.mark.core
def test_rows_of_a_type_come_in_spark_types_and_filters_may_go_to_storage(spark, graph):
    frame = read(spark, graph, type="Person", partitions="3", pushdown="true")
    assert frame.schema.simpleString() == (
        "struct<id:string,name:string,age:int,score:double,u:decimal(20,0),price:decimal(12,2),born:date,seen:timestamp,"
        "tags:array<string>,emb:array<float>,kind:string,raw:binary>"
    )
    wanted = frame.filter("age >= 2 AND score < 3 AND seen > timestamp'1969-12-31T23:59:59.003Z' AND name LIKE 'p%'")
    wanted = wanted.filter("price > 1.10 AND price < 100.5")
    plan = wanted._jdf.queryExecution().optimizedPlan().toString()
    assert "Filter" not in plan
    assert wanted._jdf.rdd().getNumPartitions() == 3
    rows = sorted(wanted.select("name", "age", "seen", "tags", "emb", "kind", "raw", "born", "price").collect())
    assert [row["name"] for row in rows] == ["p4", "p5"]
    assert [row["price"] for row in rows] == [Decimal("4.10"), Decimal("5.10")]
    assert rows[0]["seen"].microsecond == 4_000
    assert (rows[1]["tags"], rows[1]["emb"], bytes(rows[1]["raw"])) == (["a", "b"], [1.0, 5.0], b"\x00\x01\x02")


def test_a_frame_may_be_filtered_in_many_ways_at_once(spark, graph):
    frame = read(spark, graph, type="Person", columns="name,age")
    young, old = frame.filter("age < 2"), frame.filter("age > 9")
    assert sorted(row["name"] for row in young.union(old).collect()) == ["p0", "p1", "p10", "p11"]
    assert frame.filter((F.col("age") == 3) | F.col("age").isNull() | (F.col("age") % 5 == 0)).count() == 4
    assert frame.count() == 12


def test_a_frame_keeps_the_state_it_was_made_on(spark, graph):
    frame = read(spark, graph, type="Knows", columns="src,since")
    old = read(spark, graph, type="Person", columns="id", snapshot="main~2")
    edge = '{"edge":"Knows","from":"p0","to":"p1","data":{"id":"k","since":7}}'
    with open_session(graph) as session:
        add_rows(session, edge)
    assert frame.columns == ["src", "since"]
    assert frame.collect() == []
    assert old.count() == 4
    assert read(spark, graph, type="Knows").collect()[0].asDict() == {"id": "k", "src": "p0", "dst": "p1", "since": 7}


@pytest.mark.core
def test_a_query_is_a_frame_and_mistakes_say_their_code(spark, graph):
    text = "query old($n: I32) { match { $p: Person  $p.age > $n } return { $p.name as name, $p.age as age } }"
    frame = read(spark, graph, query=text, params='{"n": 9}')
    assert sorted(map(tuple, frame.collect())) == [("p10", 10), ("p11", 11)]
    text = "query due($n: Decimal(5, 2)) { match { $p: Person  $p.price > $n } return { sum($p.price * 1.5) as s } }"
    assert [row["s"] for row in read(spark, graph, query=text, params='{"n": 9.10}').collect()] == [Decimal("31.800")]
    secret = json.dumps({"aws_secret_access_key": "hush"})
    hidden = read(spark, graph, type="Person", storage_options=secret)
    assert "hush" not in hidden._jdf.queryExecution().toString() + hidden._jdf.queryExecution().stringWithStats()
    for options, code in [
        ({"type": "Persn"}, "[type.not_found]"),
        ({"type": "Person", "columns": "nam"}, "[usage]"),
        ({"query": "query q() { match { $p: Nobody } return { $p } }"}, "[query."),
    ]:
        with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as raised:
            read(spark, graph, **options)
        assert code in str(raised.value)


def test_a_state_that_a_cleanup_reclaimed_is_gone_for_every_reader(tmp_path):
    # What Spark calls in its driver and in its workers, called right here: a worker that fails is a costly one.
    root = tmp_path / "g"
    create_graph(root, "node Person { name: String @key }", '{"type":"Person","data":{"name":"a"}}')
    text = "query all() { match { $p: Person } return { $p.name as name } }"
    readers = []
    for options in ({"type": "Person"}, {"query": text}):
        source = OmnigraphSource({"graph": str(root), **options})
        readers.append(source.reader(source.schema()))
    with open_session(root) as session:
        old = str(session.snapshot().state.head.commit)
        add_rows(session, '{"type":"Person","data":{"name":"b"}}')
        session.cleanup(keep=1, confirm=True)
    for reader in readers:
        gone = rf"\[history\.gone\] the state of commit '{old}' was reclaimed: table 'node:Person'"
        (partition,) = reader.partitions()
        with pytest.raises(HistoryGoneError, match=gone) as raised:
            list(reader.read(partition))
        told = job_error("query", task_error(raised.value))
        assert (type(told), told.details.commit_id) == (HistoryGoneError, old)
    with pytest.raises(HistoryGoneError, match=old):
        OmnigraphSource({"graph": str(root), "type": "Person", "snapshot": old}).schema()


def test_frames_of_the_source_load_into_another_graph_as_they_are(spark, graph, tmp_path):
    frames = {name: read(spark, graph, type=name) for name in ("Person", "Knows")}
    with make_graph(tmp_path / "copy", SCHEMA) as copy, open_session(graph) as session:
        load_frames(copy, frames, spark=spark)
        assert export(copy) == export(session)


def test_sql_reads_and_writes_views_and_is_told_so_where_it_makes_tables(spark, tmp_path):
    root = tmp_path / "g"
    create_graph(root, "node Person { name: String @key  age: I32? }", '{"type":"Person","data":{"name":"a","age":3}}')
    place = f"USING omnigraph OPTIONS (graph '{root}', type 'Person')"
    spark.sql(f"CREATE TEMPORARY VIEW sql_people {place}")
    spark.sql("INSERT INTO sql_people VALUES ('b', 'b', 4)")
    spark.sql(f"CREATE TEMPORARY VIEW sql_people_now {place}")
    rows = spark.sql("SELECT name, age FROM sql_people_now ORDER BY name").collect()
    assert list(map(tuple, rows)) == [("a", 3), ("b", 4)]
    place = f"{place} LOCATION '{tmp_path / 'table'}'"
    made = [f"CREATE TABLE sql_1 {place}", f"CREATE TABLE sql_2 {place} AS SELECT 'c' AS name, 5 AS age"]
    # Spark asks nobody about a table whose columns are given; what uses it is told.
    spark.sql(f"CREATE TABLE sql_3 (name STRING, age INT) {place}")
    try:
        for text in [*made, "SELECT * FROM sql_3", "INSERT INTO sql_3 VALUES ('d', 6)"]:
            with pytest.raises(Exception, match=r"\[spark.unsupported\].*does not support catalog tables") as raised:
                spark.sql(text).collect()
            assert "CREATE TEMPORARY VIEW name USING omnigraph" in str(raised.value)
    finally:
        spark.sql("DROP TABLE sql_3")
    assert read(spark, root, type="Person").count() == 2
