"""Workers that die amid their work or after it, or fail, and several writers at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.spark.loads import SparkLoadSettings, load
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.runner import SparkRunner
from tests.auditor import audit
from tests.load_graph import export, load_lines, make_graph
from tests.spark.deaths import UnluckyRunner

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { @key(src, dst) }\n"
SMALL = SparkLoadSettings(part_bytes=4_000, merge_rows=100)


def people(numbers, **values):
    return "".join(json.dumps({"type": "Person", "data": {"name": f"p{n:04}", **values}}) + "\n" for n in numbers)


def test_workers_that_die_after_their_work_change_nothing_about_the_graph(spark, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text(people(range(50, 250), age=2))
    (tmp_path / "markers").mkdir()
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        load_lines(graph, tmp_path / "seed.jsonl", people(range(100), age=1), "append")
        deaths = {"read the input": "killed", "write the rows": "failed"}
        runner = UnluckyRunner(SparkRunner(spark=spark), tmp_path / "markers", deaths)
        result = run_load(graph, [str(data)], SparkLoadRequest(mode="merge", settings=SMALL), runner)
        ages = {row["data"]["name"]: row["data"]["age"] for row in export(graph)}
    assert ages == {f"p{n:04}": 1 if n < 50 else 2 for n in range(250)}
    assert result.nodes_loaded == {"Person": 200}
    assert {path.name for path in (tmp_path / "markers").iterdir()} == set(deaths)
    assert audit(str(tmp_path / "graph"), {}) == []


@pytest.mark.core
def test_a_worker_killed_while_it_writes_a_fragment_changes_nothing_about_the_graph(spark, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text(people(range(300), age=2))
    (tmp_path / "markers").mkdir()
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        runner = UnluckyRunner(SparkRunner(spark=spark), tmp_path / "markers", {"read the input": "killed amid"})
        result = run_load(graph, [str(data)], SparkLoadRequest(mode="append", settings=SMALL), runner)
        assert sorted(row["data"]["name"] for row in export(graph)) == [f"p{n:04}" for n in range(300)]
    assert result.nodes_loaded == {"Person": 300}
    assert (tmp_path / "markers" / "read the input").exists()
    assert audit(str(tmp_path / "graph"), {}) == []


def test_loads_on_spark_and_an_embedded_writer_at_once_all_commit_or_conflict_cleanly(spark, tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        load_lines(graph, tmp_path / "seed.jsonl", people(range(20), age=1), "append")

        def on_spark(name, numbers, mode):
            path = tmp_path / f"{name}.jsonl"
            path.write_text(people(numbers, age=3))
            return load(graph, [str(path)], mode, spark=spark, message=name, settings=SMALL)

        def embedded():
            for number in range(1000, 1006):
                load_lines(graph, tmp_path / "one.jsonl", people([number]), "append")
            return range(1000, 1006)

        with ThreadPoolExecutor(3) as pool:
            futures = {
                range(100, 160): pool.submit(on_spark, "append", range(100, 160), "append"),
                range(10, 70): pool.submit(on_spark, "merge", range(10, 70), "merge"),
                range(1000, 1006): pool.submit(embedded),
            }
        failures = {numbers: future.exception() for numbers, future in futures.items() if future.exception()}
        assert all(isinstance(error, OmnigraphError) for error in failures.values()), failures
        committed = [numbers for numbers in futures if numbers not in failures]
        wanted = {f"p{n:04}" for numbers in (range(20), *committed) for n in numbers}
        assert {row["data"]["name"] for row in export(graph)} == wanted
        assert len(committed) >= 2
    assert audit(str(tmp_path / "graph"), {}) == []
