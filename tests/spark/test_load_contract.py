"""Cases of the load corpus on a real Spark against the embedded load; all of them on request.

The same tasks run through every case without Spark in ``tests/unit/spark/load``.
"""

from __future__ import annotations

import os
import shutil

import pytest

from omnigraph.spark.loads import SparkLoadSettings, load
from tests.corpus.test_load import CASES, input_of
from tests.load_contract import export_of, failure_of, told
from tests.load_graph import export, load_files, load_lines, make_graph
from tests.raw_files import SCHEMA as RAW_SCHEMA
from tests.raw_files import spoil, write_raw
from tests.session_graph import open_session

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
KNOWN = [param for param in CASES if "patch" not in param.values[1]]
PARTS = SparkLoadSettings(part_bytes=200)


@pytest.mark.parametrize(("case", "mode"), KNOWN if LONG else KNOWN[5::16])
def test_a_load_on_spark_ends_as_the_embedded_one_does(spark, case, mode, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_bytes(input_of(case))
    with make_graph(tmp_path / "graph", case.sections["schema"]) as graph:
        if "seed" in case.sections:
            load_lines(graph, tmp_path / "seed.jsonl", case.sections["seed"], "append")
        before = export(graph)
        if case.sections["expect"].startswith("error"):
            found = failure_of(load, graph, [str(data)], mode, spark=spark, settings=PARTS)
            assert found == failure_of(load_files, graph, [str(data)], mode)
            assert export(graph) == before
        else:
            shutil.copytree(tmp_path / "graph", tmp_path / "other")
            result = load(graph, [str(data)], mode, spark=spark, settings=PARTS)
            with open_session(tmp_path / "other") as other:
                assert told(result) == told(load_files(other, [str(data)], mode))
                assert export_of(graph) == export_of(other)


@pytest.mark.core
def test_files_as_a_new_user_brings_them_end_as_in_the_embedded_load(spark, tmp_path):
    folder = write_raw(tmp_path / "raw")
    with make_graph(tmp_path / "graph", RAW_SCHEMA) as graph:
        shutil.copytree(tmp_path / "graph", tmp_path / "other")
        result = load(graph, [str(folder)], "append", spark=spark, settings=SparkLoadSettings(part_bytes=64))
        with open_session(tmp_path / "other") as other:
            assert told(result) == told(load_files(other, [str(folder)], "append"))
            assert export_of(graph) == export_of(other)
        spoil(folder)
        found = failure_of(load, graph, [str(folder)], "append", spark=spark, settings=SparkLoadSettings(part_bytes=64))
        assert found == failure_of(load_files, graph, [str(folder)], "append")
        assert found["details"]["total"] == 124
