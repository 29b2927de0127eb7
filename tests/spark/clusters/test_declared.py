"""Spark's declarative pipelines, run by their own command, with a graph as source and as sink."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest

from tests.e2e.process import ROOT
from tests.session_graph import create_graph, open_session, read_graph
from tests.spark.clusters.processes import Cluster

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { code: String @key }
edge Knows: Person -> Person { @key(src, dst) }
edge In: Person -> Team { @key(src, dst) }
"""


@pytest.fixture
def pipeline(tmp_path):
    """Runs the pipeline of the examples, with files and a graph of its own."""
    folder = tmp_path / "crew"
    shutil.copytree(ROOT / "examples" / "declared", folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(re.sub(r"file:\S+", f"file://{tmp_path}/storage", spec.read_text()))
    for name in ("lines", "people", "knows"):
        (folder / name).mkdir()
    (tmp_path / "spark").mkdir()
    cluster = Cluster(tmp_path / "spark")

    def run():
        environment = cluster.environment | {"CREW_FOLDER": str(folder)}
        command = [f"{environment['SPARK_HOME']}/bin/spark-pipelines", "run", "--spec", str(spec)]
        ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert "Run is COMPLETED." in ended.stderr + ended.stdout

    yield folder, run
    cluster.end()


def put(folder, kind, number, *rows):
    (folder / kind / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def fill(folder, number):
    first = 10 * number
    names = [f"p{n:02}" for n in range(first, first + 10)]
    put(folder, "people", number, *({"name": name, "age": number} for name in names))
    put(folder, "knows", number, *({"from": name, "to": names[0]} for name in names[1:]))
    put(
        folder,
        "lines",
        number,
        {"edge": "In", "from": f"lead{number}", "to": f"team{number}"},
        {"type": "Team", "data": {"code": f"team{number}"}},
        {"type": "Person", "data": {"name": f"lead{number}", "age": 60 + number}},
    )


def found(folder):
    with open_session(folder / "graph") as graph:
        rows = read_graph(graph)
        marks = [commit.batch.number for commit in graph.log().commits if commit.batch is not None]
    return {key: len(some) for key, some in rows.items()}, sorted(marks)


def elders(folder):
    return set(pq.read_table(folder / "spark-warehouse" / "elders").column("name").to_pylist())


@pytest.fixture
def first_run(pipeline):
    """The pipeline after its first run."""
    folder, run = pipeline
    create_graph(folder / "graph", SCHEMA, '{"type":"Person","data":{"name":"zed","age":77}}')
    fill(folder, 0)
    run()
    return folder, run


@pytest.mark.more
def test_a_declared_pipeline_reads_a_graph_and_writes_nodes_and_edges_in_flows_of_their_own(first_run):
    folder, _ = first_run
    assert found(folder) == ({"node:Person": 12, "node:Team": 1, "edge:Knows": 9, "edge:In": 1}, [0, 0, 0])
    assert "zed" in elders(folder)


@pytest.mark.more
@pytest.mark.long
def test_the_next_run_continues_from_its_checkpoints_and_reads_what_the_graph_has_then(first_run):
    folder, run = first_run
    fill(folder, 1)
    # A catalog in memory forgets its tables, and Spark refuses the folder that one of them has left.
    shutil.rmtree(folder / "spark-warehouse")
    run()
    assert found(folder) == ({"node:Person": 23, "node:Team": 2, "edge:Knows": 18, "edge:In": 2}, [0, 0, 0, 1, 1, 1])
    assert {"zed", "lead0"} <= elders(folder)
