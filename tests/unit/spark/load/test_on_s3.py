"""Loads whose graph and whose sources lie in a bucket."""

from __future__ import annotations

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import RELAXED, export
from tests.session import Session

from omnigraph.engine.load import Source
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import FileMissingError
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.runner import InProcessRunner
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { @key(src, dst) }\n"
SMALL = SparkLoadSettings(part_bytes=1500)


def people(numbers, age):
    rows = ({"type": "Person", "data": {"name": f"p{number}", "age": age}} for number in numbers)
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_objects_are_read_and_written_like_files(s3_endpoint):
    options, root = s3_endpoint.storage_options, s3_endpoint.fresh_prefix()
    inputs = ControlObjects(Storage.open(f"{root}/input", options))
    inputs.put("a.jsonl", people(range(100), 1))
    inputs.put("b.jsonl.gz", gzip.compress(people(range(100, 120), 1)))
    packed = io.BytesIO()
    pq.write_table(pa.table({"from": ["p1", "p2"], "to": ["p3", "p119"]}), packed)
    inputs.put("Knows.parquet", packed.getvalue())
    storage = Storage.open(f"{root}/graph", options)
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as graph:

        def run(sources, mode):
            return run_load(graph, sources, SparkLoadRequest(mode=mode, settings=SMALL), InProcessRunner())

        assert run([f"{root}/input"], "append").total == 122
        inputs.put("a.jsonl", people(range(50, 150), 2))
        result = run([f"{root}/input/*.jsonl", Source(path=f"{root}/input/Knows.parquet")], "merge")
        assert result.unchanged == {"Knows": 2}
        ages = [row["data"]["age"] for row in export(graph) if row.get("type") == "Person"]
        assert (ages.count(1), ages.count(2)) == (50, 100)
        with pytest.raises(FileMissingError) as caught:
            run([f"{root}/input/none-*.jsonl"], "append")
        assert options["aws_secret_access_key"] not in str(caught.value.to_json())
    assert ControlObjects(storage).list_keys("__scratch") == ()
