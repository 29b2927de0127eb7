"""Everything that Spark does for a graph, once, on a cluster: two graphs are kept in step, one by the embedded engine.

The tests continue each other, because each job on a cluster has its price.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import SparkUnsupportedError
from omnigraph.spark import (
    algorithms,
    check_workers,
    diff,
    export,
    frame,
    load,
    load_frames,
    merge,
    optimize,
    query,
    register,
    session,
    write_stream,
)
from omnigraph.spark.loads import SparkLoadSettings
from omnigraph.spark.sessions import workers
from tests.spark.clusters.modes import MODE

SCHEMA = """
node Person { name: String @key  age: I32?  born: DateTime? }
node Team { code: String @key }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge In: Person -> Team { @key(src, dst) }
"""
CREW = "query q() { match { $p: Person  $p in $t } return { $t.code, $p.name, $p.age } order { $p.name } }"
PARTS = SparkLoadSettings(part_bytes=500, merge_rows=10)


@dataclass
class Pair:
    """The graph that Spark works on, and the one that the embedded engine does the same to."""

    ours: omnigraph.Graph
    other: omnigraph.Graph
    folder: Path

    def rows(self):
        """Return all rows of both, which must be equal."""
        ours, other = (rows_of(graph) for graph in (self.ours, self.other))
        assert ours == other
        return ours


def rows_of(graph):
    return list(graph.baseline())


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contract")
    with omnigraph.init(folder / "ours", SCHEMA) as ours, omnigraph.init(folder / "other", SCHEMA) as other:
        yield Pair(ours, other, folder)


def person(number, **values):
    return {"type": "Person", "data": {"name": f"p{number:02}", **values}}


def knows(number):
    return {"edge": "Knows", "from": f"p{number:02}", "to": f"p{number // 2:02}", "data": {"since": 2000 + number}}


LOADS = {
    "append": [person(n, age=n, born="2001-02-03T04:05:06.789Z") for n in range(40)] + [knows(n) for n in range(1, 40)],
    "merge": [person(n, age=n + n % 2) for n in range(30, 50)] + [knows(n) for n in range(35, 50)],
    "overwrite": [{"type": "Team", "data": {"code": code}} for code in ("core", "lab")],
    "apply": [
        {**person(5), "_op": "delete"},
        {**person(6, age=60), "_op": "patch"},
        {"edge": "In", "from": "p01", "to": "core"},
    ],
}


def test_session_is_that_of_the_process_and_its_workers_fit(spark, monkeypatch):
    assert session() is spark
    monkeypatch.setattr(spark, workers.PASSED, False)
    check_workers(spark)
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.validateSchema.enabled") == "true"


@pytest.mark.parametrize("mode", LOADS)
def test_files_are_loaded(spark, pair, mode):
    file = pair.folder / f"{mode}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in LOADS[mode]))
    done = load(pair.ours, [str(file)], mode, spark=spark, settings=PARTS)
    here = pair.other.load(file, mode)
    assert (done.nodes_loaded, done.edges_loaded, done.changes) == (here.nodes_loaded, here.edges_loaded, here.changes)
    assert pair.rows()


def test_frames_of_several_types_are_one_commit(spark, pair):
    before = len(pair.ours.log())
    frames = {
        "Team": spark.sql("SELECT 'dock' AS code"),
        "In": spark.range(10, 20).selectExpr("concat('p', id) AS `from`", "'dock' AS `to`"),
    }
    assert load_frames(pair.ours, frames, "merge", spark=spark).total == 11
    pair.other.load(
        {"Team": [{"code": "dock"}], "In": [{"from": f"p{n}", "to": "dock"} for n in range(10, 20)]}, "merge"
    )
    assert pair.rows()
    assert len(pair.ours.log()) == before + 1


def test_queries_give_the_same_rows(spark, pair):
    wanted = pair.other.query(CREW).rows()
    assert query(pair.ours, CREW, spark=spark).rows() == wanted
    assert len(wanted) == 11
    found = frame(pair.ours, CREW, spark=spark).collect()
    assert sorted(row.p_name for row in found) == [row["p.name"] for row in wanted]


def test_algorithms_give_the_same_rows(spark, pair):
    for name in ("degree", "connected_components"):
        found = algorithms.run(pair.ours, name, "Knows", spark=spark)
        assert found.to_arrow() == pair.other.algorithms.run(name, "Knows").to_arrow()


def test_frames_are_read_and_written(spark, pair):
    register(spark)
    options = {"graph": pair.ours.uri, "partitions": "2"}
    people = spark.read.format("omnigraph").options(**options, type="Person").load()
    wanted = pair.other.query("query q() { match { $p: Person } return { $p.name, $p.age } }").rows()
    assert {row.name: row.age for row in people.collect()} == {row["p.name"]: row["p.age"] for row in wanted}
    crew = spark.read.format("omnigraph").options(graph=pair.ours.uri, query=CREW).load()
    assert crew.count() == 11
    more = spark.range(50, 60).selectExpr("concat('p', id) AS name", "CAST(id AS INT) AS age")
    more.repartition(2).write.format("omnigraph").options(graph=pair.ours.uri, type="Person").mode("append").save()
    pair.other.load({"Person": [{"name": f"p{n}", "age": n} for n in range(50, 60)]}, "append")
    assert pair.rows()


def test_merges_and_differences_are_the_same(spark, pair):
    for graph in (pair.ours, pair.other):
        draft = graph.create_branch("draft")
        draft.mutate("query q() { update Person set { age: 1 } where age > 45 }")
        graph.mutate('query q() { delete Team where code = "lab" }')
    found, wanted = diff(pair.ours, "main", "draft", spark=spark), pair.other.diff("main", "draft")
    assert found.stats() == wanted.stats()
    assert merge(pair.ours, "draft", spark=spark).outcome == pair.other.merge("draft").outcome
    assert pair.rows()


def test_tables_are_optimized_and_exported(spark, pair):
    optimize(pair.ours, spark=spark)
    assert pair.rows()
    done = export(pair.ours, pair.folder / "out", "parquet", spark=spark)
    assert done.rows == len(pair.rows())
    with omnigraph.init(pair.folder / "back", SCHEMA) as back:
        back.load(pair.folder / "out", "append")
        assert rows_of(back) == pair.rows()


@pytest.mark.parametrize("way", ["sink", "function"])
def test_changes_keep_a_copy_current(spark, pair, way):
    register(spark)
    options = {"graph": pair.ours.uri, "changes": "true", "start": "baseline"}
    with omnigraph.init(pair.folder / f"copy by {way}", SCHEMA) as copy:

        def follow():
            changes = spark.readStream.format("omnigraph").options(**options).load()
            if way == "sink":
                sink = changes.writeStream.format("omnigraph").options(graph=copy.uri, mode="apply")
            else:
                sink = write_stream(changes, copy, mode="apply", app="copy")
            sink = sink.option("checkpointLocation", str(pair.folder / f"progress of {way}"))
            sink.trigger(availableNow=True).start().awaitTermination()

        follow()
        assert rows_of(copy) == pair.rows()
        for graph in (pair.ours, pair.other):
            graph.mutate(f'query q() {{ delete Person where name = "p1{len(way)}" }}')
        follow()
        assert rows_of(copy) == pair.rows()
        assert [commit.batch.number for commit in copy.log() if commit.batch is not None] == [1, 0]


def names_in(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("what", ["graph", "export"] if MODE != "local-cluster" else [])
def test_a_folder_that_workers_do_not_see_is_refused_before_a_job_starts(spark, pair, what, tmp_path, monkeypatch):
    """Behind the link is another folder for every process, as on a machine of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").symlink_to("/proc/self/cwd")
    if what == "export":
        with pytest.raises(SparkUnsupportedError, match=r"do not see the folder .*/mine/out'"):
            export(pair.ours, tmp_path / "mine" / "out", "parquet", spark=spark)
        assert not any(path.is_file() for path in (tmp_path / "out").rglob("*"))
        return
    with omnigraph.init(tmp_path / "mine" / "graph", SCHEMA) as graph:
        before = names_in(tmp_path / "graph")
        with pytest.raises(SparkUnsupportedError, match=r"do not see the folder .*/mine/graph'") as caught:
            load(graph, [str(pair.folder / "append.jsonl")], "append", spark=spark)
        assert "s3://" in (caught.value.hint or "")
        assert names_in(tmp_path / "graph") - before <= {"__scratch"}
        assert len(graph.log()) == 1
