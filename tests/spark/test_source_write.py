"""DataFrames into a graph through the data source: one commit each, and the same rules as any load."""

from __future__ import annotations

import datetime as dt
import shutil

import pytest

from omnigraph.spark.loads import load_frames
from tests.session_graph import create_graph, open_session, read_graph

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


@pytest.fixture
def graph(tmp_path):
    create_graph(tmp_path / "g", SCHEMA, '{"type":"Person","data":{"name":"ada","age":36}}')
    return tmp_path / "g"


def people(graph):
    with open_session(graph) as session:
        found = read_graph(session)["node:Person"]
        return {name: row["age"] for name, row in found.items()}, session.snapshot().state.version


def frame(spark, *rows):
    return spark.createDataFrame(list(rows), "name string, age int").repartition(2)


def write(frame, graph, spark_mode="append", **options):
    options = {"graph": str(graph), "type": "Person", **options}
    frame.write.format("omnigraph").options(**options).mode(spark_mode).save()


@pytest.mark.core
def test_append_merge_and_overwrite_are_one_commit_each(spark, graph):
    _, before = people(graph)
    write(frame(spark, ("bob", 7), ("cy", None)), graph, actor="ann")
    write(frame(spark, ("ada", 37), ("di", 1)), graph, mode="merge")
    assert people(graph) == ({"ada": 37, "bob": 7, "cy": None, "di": 1}, before + 2)
    write(frame(spark, ("eve", 5)), graph, "overwrite")
    assert people(graph) == ({"eve": 5}, before + 3)
    assert not list(graph.glob("__scratch/*/*"))


def test_a_graph_that_was_removed_and_made_again_is_written_and_read(spark, graph):
    """Processes of Spark live on and know the graph that was there before."""
    write(frame(spark, ("bob", 7)), graph)
    shutil.rmtree(graph)
    create_graph(graph, SCHEMA.replace("age", "years"), '{"type":"Person","data":{"name":"eve"}}')
    rows = frame(spark, ("ada", 1)).withColumnRenamed("age", "years")
    write(rows, graph)
    write(rows.replace(1, 2), graph, mode="merge")
    query = "query q() { match { $p: Person } return { $p.name, $p.years } order { $p.name } }"
    found = spark.read.format("omnigraph").options(graph=str(graph), query=query).load().collect()
    assert [tuple(row) for row in found] == [("ada", 2), ("eve", None)]


@pytest.mark.core
def test_a_write_that_breaks_a_rule_fails_with_our_code_and_changes_nothing(spark, graph):
    kept = people(graph)
    with pytest.raises(Exception, match="<Person>:") as raised:
        write(frame(spark, ("bob", 7), ("ada", 1)), graph)
    assert "[storage.key_exists]" in str(raised.value)
    edges = spark.createDataFrame([("ada", "nobody")], "`from` string, `to` string")
    with pytest.raises(Exception, match="nobody") as raised:
        write(edges, graph, type="Knows")
    assert "[constraint." in str(raised.value)
    with pytest.raises(Exception, match="did you mean 'age'"):
        write(frame(spark, ("bob", 7)).withColumnRenamed("age", "agee"), graph)
    assert people(graph) == kept
    assert not list(graph.glob("__scratch/*/*"))


def test_timestamps_finer_than_a_millisecond_are_refused_unless_they_are_to_be_cut(spark, tmp_path):
    create_graph(tmp_path / "g", "node Event { code: String @key  at: DateTime? }", "")
    fine = dt.datetime(2026, 1, 31, 10, 0, 0, 1234, dt.UTC)
    events = spark.createDataFrame([("a", fine)], "code string, at timestamp")
    with pytest.raises(Exception, match=r"'2026-01-31T10:00:00\.001234Z' is finer than a millisecond"):
        write(events, tmp_path / "g", type="Event")
    write(events, tmp_path / "g", type="Event", truncate="true")
    with open_session(tmp_path / "g") as session:
        load_frames(session, {"Event": events.replace("a", "b", "code")}, spark=spark, truncate=True)
        found = read_graph(session)["node:Event"]
        assert {code: row["at"] for code, row in found.items()} == dict.fromkeys("ab", "2026-01-31T10:00:00.001Z")
