"""The pieces of an export on executors, run in this process."""

from __future__ import annotations

import pickle

import pytest
from tests.export_graph import SCHEMA, make_full_graph, tables_of
from tests.load_graph import make_graph

from omnigraph.engine.export import ExportSettings
from omnigraph.engine.export.folder import ExportJob
from omnigraph.runtime import Runtime
from omnigraph.spark.exports import ExecutorExport
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.runner import InProcessRunner


class TwiceRunner(InProcessRunner):
    """Sends every task through pickle and works on it twice, as speculation does."""

    def run(self, function, tasks, doing):
        copies = [pickle.loads(pickle.dumps(task)) for task in tasks]  # noqa: S301 - made on the same line
        first, second = super().run(function, copies, doing), super().run(function, copies, doing)
        assert first == second
        return first


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_repeated_attempts_write_the_same_files_and_a_spark_load_reads_them(tmp_path, form):
    with make_full_graph(tmp_path) as graph, make_graph(tmp_path / "copy", SCHEMA) as copy:
        storage = graph.store.storage
        cut = graph.export_cut("main", None, None)
        job = ExportJob.plan(cut, tmp_path / "out", form, graph=storage, settings=ExportSettings())
        done = job.run(ExecutorExport(job, storage, TwiceRunner()).write, Runtime.system())
        assert done.rows == 9
        files = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
        assert files == ["manifest.json", *[f"part-00000.{form}"] * 4, "schema.pg"]
        request = SparkLoadRequest(mode="append", settings=SparkLoadSettings())
        run_load(copy, [str(tmp_path / "out")], request, InProcessRunner())
        assert tables_of(copy) == tables_of(graph)
