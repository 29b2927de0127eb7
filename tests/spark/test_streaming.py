"""Streams into and out of a graph: stopped anywhere and started again, each row is there exactly once."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.cloudpickle import register_pickle_by_value

import omnigraph
from omnigraph.errors import OmnigraphError, TypeMissingError
from omnigraph.spark import write_stream
from omnigraph.spark.source.datasource import OmnigraphSource
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.writer import StreamWriter
from tests.load_graph import load_lines
from tests.session_graph import add_rows, create_graph, open_session, read_graph
from tests.spark.clusters.modes import MODE, MODES

# A stream starts several processes, and each loads its libraries.

# How many micro-batches of nodes and edges; each has the price of a job and of a commit.
BATCHES = 100 if os.environ.get("OMNIGRAPH_FUZZ") == "long" or MODE in MODES else 3
SCHEMA = "node Event { title: String @key  size: I32? }"
# What workers cannot import has to travel with the classes below.
register_pickle_by_value(sys.modules[__name__])


class FlakySource(OmnigraphSource):
    """The data source with a sink that breaks once, where a file beside the graph says."""

    @classmethod
    def name(cls):
        return "omnigraph_flaky"

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        return FlakyWriter.begin(SourceOptions.parse(self.options), schema, overwrite=overwrite)


class FlakyWriter(StreamWriter):
    def _break(self, *places):
        """Return the place that is due, if it is one of these; it is not due again."""
        order = Path(f"{self._plan.storage.root}.break")
        place = order.read_text() if order.exists() else ""
        if place in places:
            order.unlink()
            return place
        return None

    def write(self, iterator):
        message = super().write(iterator)
        if self._break("write"):
            raise RuntimeError("broken at write")
        return message

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        place = self._break("txn.publish.before_cas", "txn.publish.after_cas")
        if place is not None:
            os.environ["OMNIGRAPH_FAILPOINTS"] = f"{place}=error@1"
        try:
            super().commit(messages, batchId)
        finally:
            os.environ.pop("OMNIGRAPH_FAILPOINTS", None)
        if place is not None or self._break("after commit"):
            raise RuntimeError("broken at commit")


def events(root):
    with open_session(root) as session:
        found = read_graph(session)["node:Event"]
        marks = [commit.batch.number for commit in session.log(limit=1000).commits if commit.batch is not None]
        return {name: row["size"] for name, row in found.items()}, sorted(marks)


def test_each_row_arrives_once_wherever_the_sink_breaks(spark, tmp_path):
    root, incoming = tmp_path / "g", tmp_path / "in"
    incoming.mkdir()
    create_graph(root, SCHEMA)
    spark.dataSource.register(FlakySource)
    lines = spark.readStream.schema("title string, size int").option("maxFilesPerTrigger", "1").json(str(incoming))

    def run():
        sink = lines.writeStream.format("omnigraph_flaky").trigger(availableNow=True)
        started = sink.options(graph=str(root), type="Event", checkpointLocation=str(tmp_path / "ck")).start()
        started.awaitTermination()

    expected = {}
    for number, place in enumerate(["write", "txn.publish.after_cas", "after commit"]):
        rows = [{"title": f"e{number}-{row}", "size": row} for row in range(3)]
        (incoming / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        expected |= {row["title"]: row["size"] for row in rows}
        (tmp_path / "g.break").write_text(place)
        # A task that breaks is tried again; a commit that breaks ends the stream.
        with nullcontext() if place == "write" else pytest.raises(Exception, match="broken at"):
            run()
        with open_session(root) as session:
            add_rows(session, json.dumps({"type": "Event", "data": {"title": f"other{number}"}}))
        expected[f"other{number}"] = None
    run()
    assert events(root) == (expected, [0, 1, 2])


def test_changes_reach_a_stream_once_across_restarts(spark, tmp_path):
    root, target = tmp_path / "g", tmp_path / "out"
    create_graph(root, SCHEMA, '{"type":"Event","data":{"title":"a","size":1}}')

    def run():
        options = {"graph": str(root), "changes": "true", "type": "Event", "start": "baseline", "max_commits": "1"}
        stream = spark.readStream.format("omnigraph").options(**options).load().select("op", "id", "after.size")
        sink = stream.writeStream.format("json").option("checkpointLocation", str(tmp_path / "ck"))
        sink.trigger(availableNow=True).start(str(target)).awaitTermination()

    run()
    with open_session(root) as session:
        for number in (2, 3):
            add_rows(session, f'{{"type":"Event","data":{{"title":"b{number}","size":{number}}}}}')
    run()
    found = [json.loads(line) for path in sorted(target.glob("*.json")) for line in path.read_text().splitlines()]
    assert sorted((row["op"], row["id"], row["size"]) for row in found) == [
        ("baseline", "a", 1),
        ("insert", "b2", 2),
        ("insert", "b3", 3),
    ]


@pytest.mark.core
def test_nodes_and_edges_of_one_stream_are_one_commit_for_each_micro_batch(spark, tmp_path):
    """Each line of the input becomes a node and an edge to it; no commit has one without the other."""
    root, incoming = tmp_path / "g", tmp_path / "in"
    incoming.mkdir()
    create_graph(root, f"{SCHEMA}\nedge After: Event -> Event", '{"type":"Event","data":{"title":"e000"}}')
    for number in range(1, BATCHES + 1):
        file = incoming / f"{number:03}.json"
        file.write_text(f'{{"title":"e{number:03}","before":"e{number - 1:03}"}}\n')
        # A stream takes files in the order of their times.
        os.utime(file, (1_700_000_000 + number,) * 2)
    given = spark.readStream.schema("title string, before string").option("maxFilesPerTrigger", "1")
    rows = given.json(str(incoming)).selectExpr(
        """explode(array(
            to_json(named_struct('edge', 'After', 'from', title, 'to', before)),
            to_json(named_struct('type', 'Event', 'data', named_struct('title', title)))
        )) AS value"""
    )
    sink = rows.writeStream.format("omnigraph").options(graph=str(root), checkpointLocation=str(tmp_path / "ck"))
    sink.trigger(availableNow=True).start().awaitTermination()
    assert len(events(root)[0]) == BATCHES + 1
    assert events(root)[1] == list(range(BATCHES))
    with omnigraph.open(root) as graph:
        states = [graph.at(commit) for commit in graph.log(limit=BATCHES)]
        query = "query q() { match { $e: Event } return { count($e) as events } }"
        edges = "query q() { match { $e: Event  $e after $b } return { count($e) as edges } }"
        found = [(state.query(query).rows()[0]["events"], state.query(edges).rows()[0]["edges"]) for state in states]
    assert found == [(number + 1, number) for number in range(BATCHES, 0, -1)]


def test_a_feed_of_one_type_keeps_a_copy_current_by_itself(spark, tmp_path):
    schema = "node Event { title: String @key  size: I32?  @unique(size) }"
    source, target = tmp_path / "g", tmp_path / "copy"

    def event(name, size):
        return json.dumps({"type": "Event", "data": {"title": name, "size": size}})

    create_graph(source, schema, "\n".join([event("a", 1), event("b", 2), event("c", 3)]))
    create_graph(target, schema)

    def run():
        options = {"graph": str(source), "changes": "true", "type": "Event", "start": "baseline"}
        stream = spark.readStream.format("omnigraph").options(**options).load()
        sink = stream.writeStream.format("omnigraph").option("checkpointLocation", str(tmp_path / "ck"))
        into = {"graph": str(target), "type": "Event", "mode": "apply"}
        sink.trigger(availableNow=True).options(**into).start().awaitTermination()

    run()
    with open_session(source) as session:
        # Between two triggers a row changes twice, a value moves to another row, and a row goes.
        for name, size in (("a", 7), ("b", 1), ("a", 2)):
            load_lines(session, tmp_path / "log.jsonl", event(name, size), "merge")
        load_lines(session, tmp_path / "log.jsonl", '{"type":"Event","_op":"delete","data":{"title":"c"}}', "apply")
    run()
    assert events(target) == ({"a": 2, "b": 1}, [0, 1])


def test_a_graph_is_replicated_by_a_stream_that_breaks_and_crosses_a_schema_change(spark, tmp_path, monkeypatch):
    source, target, edge = tmp_path / "g", tmp_path / "copy", "\nedge After: Event -> Event"
    create_graph(source, SCHEMA + edge, '{"type":"Event","data":{"title":"a","size":1}}')
    create_graph(target, SCHEMA + edge)
    changes = {"graph": str(source), "changes": "true", "start": "baseline", "max_commits": "3"}

    def run():
        stream = spark.readStream.format("omnigraph").options(**changes).load()
        with open_session(target) as copy:
            sink = write_stream(stream, copy, mode="apply", app="copy").trigger(availableNow=True)
        sink.option("checkpointLocation", str(tmp_path / "ck")).start().awaitTermination()

    run()
    with open_session(source) as session:
        add_rows(
            session, '{"type":"Event","data":{"title":"b"}}\n{"edge":"After","from":"b","to":"a","data":{"id":"ba"}}'
        )
        session.mutate('query q() { delete Event where title = "a" }')
    with monkeypatch.context() as patch:
        patch.setenv("OMNIGRAPH_FAILPOINTS", "spark.source.after_publish=error@1")
        with pytest.raises(Exception, match=r"spark\.source\.after_publish"):
            run()
    newer = SCHEMA.replace("size: I32?", 'bytes: I64? @rename_from("size")') + edge
    with open_session(source) as session:
        session.apply_schema(newer)
        session.mutate('query q() { update Event set { bytes: 5000000000 } where title = "b" }')
    # The delivery that broke behind its commit is repeated and changes nothing; the next one needs the schema.
    with pytest.raises(Exception, match=r"unknown input field 'bytes'"):
        run()
    with open_session(target) as session:
        session.apply_schema(newer)
    run()
    with open_session(source) as one, open_session(target) as other:
        assert read_graph(other) == read_graph(one)
        assert [commit.batch.number for commit in other.log().commits if commit.batch is not None] == [2, 1, 0]


def test_a_stream_of_loads_makes_one_commit_of_each_batch_however_often_it_comes(spark, tmp_path, monkeypatch):
    root, incoming = tmp_path / "g", tmp_path / "in"
    incoming.mkdir()
    create_graph(root, SCHEMA, '{"type":"Event","data":{"title":"e1","size":0}}')
    lines = spark.readStream.schema("name string, size int").option("maxFilesPerTrigger", "1").json(str(incoming))

    def run():
        with open_session(root) as graph:
            sink = write_stream(lines, graph, "Event", "merge", app="events", columns={"title": "name"})
        started = sink.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
        started.awaitTermination()

    def add(number, *rows):
        (incoming / f"{number}.json").write_text(
            "\n".join(json.dumps({"name": name, "size": size}) for name, size in rows)
        )

    add(0, ("e0", 1), ("e1", 1), ("e2", 1))
    with monkeypatch.context() as patch:
        patch.setenv("OMNIGRAPH_FAILPOINTS", "spark.source.after_publish=error@1")
        with pytest.raises(Exception, match=r"spark\.source\.after_publish"):
            run()
    add(1, ("e2", 2), ("e3", 2))
    run()
    add(2)
    run()
    assert events(root) == ({"e0": 1, "e1": 1, "e2": 2, "e3": 2}, [0, 1, 2])
    with open_session(root) as graph, pytest.raises(TypeMissingError):
        write_stream(lines, graph, "Evnt", app="events")
    with open_session(root) as graph, pytest.raises(OmnigraphError, match="frame must be a stream"):
        write_stream(spark.range(1), graph, "Event", app="events")
