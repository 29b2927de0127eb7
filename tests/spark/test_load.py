"""Loads on a real Spark: every format, every mode, and what workers cannot do."""

from __future__ import annotations

import gzip
import json
from random import Random

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.engine.load import Source
from omnigraph.errors import BadRowsError, ConstraintViolationError, ExternalBlobError, KeyExistsError
from omnigraph.spark.loads import SparkLoadSettings, load, load_frames
from omnigraph.txn.manifest.rows import BatchMark
from tests.load_graph import export, load_files, make_graph

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    email: String? @unique
    @range(age, 0..150)
}
edge Knows: Person -> Person { since: Date?  @key(src, dst) }
"""
SMALL = SparkLoadSettings(part_bytes=16_000, part_rows=100, merge_rows=128)
PEOPLE = [{"name": f"p{number}", "age": number % 90, "email": f"{number}@x"} for number in range(400)]
KNOWS = [{"from": f"p{number}", "to": f"p{(number * 7) % 400}", "since": "2024-05-06"} for number in range(400)]


def lines(people=PEOPLE, knows=KNOWS):
    nodes = [json.dumps({"type": "Person", "data": person}) for person in people]
    edges = [
        json.dumps({"edge": "Knows", "from": edge["from"], "to": edge["to"], "data": {"since": edge["since"]}})
        for edge in knows
    ]
    return "\n".join([*edges, *nodes]) + "\n"


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


@pytest.fixture
def expected(tmp_path):
    (tmp_path / "plain.jsonl").write_text(lines())
    with make_graph(tmp_path / "embedded", SCHEMA) as other:
        load_files(other, [str(tmp_path / "plain.jsonl")], "append")
        return export(other)


@pytest.mark.core
def test_every_format_gives_the_graph_of_an_embedded_load(spark, graph, expected, tmp_path):
    half = len(PEOPLE) // 2
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "some.jsonl").write_text(lines(PEOPLE[:half], KNOWS[:100]))
    (tmp_path / "input" / "more.jsonl.gz").write_bytes(gzip.compress(lines(PEOPLE[half:], []).encode()))
    pq.write_table(pa.Table.from_pylist(KNOWS[100:300]), tmp_path / "Knows.parquet", row_group_size=50)
    pacsv.write_csv(pa.Table.from_pylist(KNOWS[300:]), tmp_path / "last.csv")
    sources = [
        str(tmp_path / "input"),
        str(tmp_path / "Know*"),
        Source(path=str(tmp_path / "last.csv"), type_name="Knows"),
    ]
    result = load(graph, sources, "append", spark=spark, settings=SMALL)
    assert export(graph) == expected
    assert (result.nodes_loaded, result.edges_loaded) == ({"Person": 400}, {"Knows": 400})
    assert result.bytes_read > 0
    assert set(result.seconds) == {"read", "check", "write", "publish"}
    assert not list((tmp_path / "graph").glob("__scratch/*"))


def test_frames_of_several_types_are_one_commit(spark, graph, expected):
    people = spark.createDataFrame(pa.Table.from_pylist(PEOPLE)).repartition(3)
    knows = spark.createDataFrame(pa.Table.from_pylist(KNOWS)).withColumnRenamed("since", "day")
    before = graph.snapshot().state.version
    load_frames(graph, {"Person": people, "Knows": knows}, spark=spark, columns={"Knows": {"since": "day"}})
    assert export(graph) == expected
    assert graph.snapshot().state.version == before + 1


@pytest.mark.core
def test_a_bad_row_of_a_frame_is_named_by_its_number(spark, graph):
    rows = [{"name": f"p{number}", "age": 200 if number == 37 else 1} for number in range(60)]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows)).coalesce(1)
    with pytest.raises(ConstraintViolationError) as caught:
        load_frames(graph, {"Person": frame}, spark=spark)
    first = caught.value.details.items[0]
    assert (first.source, first.line, first.entity_id, first.rule) == ("<Person>", 38, "p37", "range")
    with pytest.raises(BadRowsError, match="<Person>:1: unknown input field 'nme'"):
        load_frames(graph, {"Person": frame.withColumnRenamed("name", "nme")}, spark=spark)


def test_a_merge_on_spark_writes_what_changed_and_refuses_what_an_append_may_not_bring(spark, graph, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text(lines())
    load(graph, [str(data)], "append", spark=spark, settings=SMALL)
    changed = [{**person, "age": 99} if number < 40 else person for number, person in enumerate(PEOPLE)]
    data.write_text(lines([*changed, {"name": "new"}], KNOWS[:10]))
    result = load(graph, [str(data)], "merge", spark=spark, settings=SMALL)
    assert result.unchanged == {"Person": 360, "Knows": 10}
    assert sum(row["data"].get("age") == 99 for row in export(graph)) == 40
    with pytest.raises(KeyExistsError, match=r"data.jsonl:\d+: table '\w+:\w+' already has this id"):
        load(graph, [str(data)], "append", spark=spark, settings=SMALL)


@pytest.mark.core
def test_a_change_log_of_frames_gives_the_graph_of_the_embedded_one(spark, graph, tmp_path):
    gone = {f"p{number}" for number in range(0, 400, 40)}
    people = [{**person, "_op": None, "_seq": 1} for person in PEOPLE]
    people += [{"name": name, "age": None, "email": None, "_op": "delete", "_seq": 3} for name in sorted(gone)]
    knows = [{**edge, "_seq": 2 if {edge["from"], edge["to"]} & gone else 4} for edge in KNOWS]
    pq.write_table(pa.Table.from_pylist(people), tmp_path / "Person.parquet")
    pq.write_table(pa.Table.from_pylist(knows), tmp_path / "Knows.parquet")
    files = [str(tmp_path / "Person.parquet"), str(tmp_path / "Knows.parquet")]
    with make_graph(tmp_path / "embedded", SCHEMA) as other:
        wanted = load_files(other, files, "apply")
        expected = export(other)
    frames = {
        name: spark.read.parquet(str(tmp_path / f"{name}.parquet")).repartition(3) for name in ("Person", "Knows")
    }
    result = load_frames(graph, frames, "apply", spark=spark, settings=SMALL, batch=("log", 1))
    assert export(graph) == expected
    assert result.changes == wanted.changes
    assert result.changes.superseded == len(gone) + sum(edge["_seq"] == 2 for edge in knows)
    again = load_frames(graph, frames, "apply", spark=spark, batch=("log", 1))
    assert (again.commit, again.is_repeat) == (result.commit, True)
    # Without a batch name they are another stream, which has not seen the sequences yet.
    assert load(graph, files, "apply", spark=spark).changes.affected == 0
    assert load(graph, files, "apply", spark=spark).commit is None


def test_blobs_given_as_addresses_are_copied_or_kept_by_tasks(spark, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"content")
    address = (folder / "a.bin").as_uri()
    line = json.dumps({"type": "Doc", "data": {"name": "x", "body": address}})
    (tmp_path / "rows.jsonl").write_text(line)
    frame = spark.createDataFrame([("y", address)], "name string, body string")
    schema = "node Doc { name: String @key  body: Blob? }"
    with omnigraph.init(tmp_path / "graph", schema, external_blobs=[folder]) as graph:
        load(graph, [str(tmp_path / "rows.jsonl")], "merge", spark=spark)
        load_frames(graph, {"Doc": frame}, "merge", spark=spark)
        assert [graph.blob("Doc", name, "body").data for name in "xy"] == [b"content"] * 2
        load_frames(graph, {"Doc": frame}, "overwrite", spark=spark)
        assert graph.blob("Doc", "y", "body").uri == address
        outside = spark.createDataFrame([("z", "file:///etc/passwd")], "name string, body string")
        with pytest.raises(ExternalBlobError, match="outside of the allowed bases"):
            load_frames(graph, {"Doc": outside}, "merge", spark=spark)


def test_a_shuffled_log_gives_the_graph_of_all_rows_on_spark_and_in_process(spark, tmp_path):
    random = Random(7)  # noqa: S311 - a seeded generator is what makes the run repeatable
    events = [
        {"name": f"p{random.randrange(300)}", "age": at % 90, "_op": "delete" if at % 10 == 3 else "upsert", "_seq": at}
        for at in range(1500)
    ]
    newest = {event["name"]: event for event in events}
    wanted = {name: event["age"] for name, event in newest.items() if event["_op"] == "upsert"}
    random.shuffle(events)
    with make_graph(tmp_path / "graph", "node Person { name: String @key  age: I32? }") as graph:
        for number in range(4):
            pq.write_table(pa.Table.from_pylist(events[number::4]), tmp_path / "Person.parquet")
            if number == 2:
                done = load_files(
                    graph, [str(tmp_path / "Person.parquet")], "apply", batch=BatchMark(app="l", number=2)
                )
            else:
                frame = spark.read.parquet(str(tmp_path / "Person.parquet")).repartition(3)
                done = load_frames(graph, {"Person": frame}, "apply", spark=spark, settings=SMALL, batch=("l", number))
            counts = done.changes
            assert counts.rows == counts.written + counts.unchanged + counts.superseded + counts.deleted
        assert {row["data"]["name"]: row["data"]["age"] for row in export(graph)} == wanted
        assert len(graph.snapshot().state.sequences["l"].runs) == 4
