"""Exports that executors write: the very files of the embedded engine, complete or not there."""

from __future__ import annotations

import json

import pytest

from omnigraph.engine.export import ExportSettings
from omnigraph.engine.load import LoadSettings
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import ExportTargetError, StorageCorruptError
from omnigraph.spark import export
from omnigraph.store.location import Storage
from tests.export_graph import SCHEMA, make_full_graph, tables_of
from tests.load_graph import load_files, load_lines, make_graph
from tests.marks import with_core
from tests.session import Session

SMALL = ExportSettings(rows_per_file=2)
CHECKED = LoadSettings(check_sums=True)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    with make_full_graph(folder) as opened:
        for number in range(3):
            row = f'{{"type":"Link","data":{{"id":"more {number}","title":"t"}}}}\n'
            load_lines(opened, folder / f"{number}.jsonl", row, "append")
        yield opened


def manifest_of(folder):
    found = json.loads((folder / "manifest.json").read_text())
    del found["created_at"]
    return found


@pytest.mark.parametrize("form", with_core(["jsonl", "csv", "parquet"], {"jsonl"}))
def test_executors_write_the_same_bytes_as_the_embedded_engine(spark, graph, tmp_path, form):
    seen = []
    done = export(graph, tmp_path / "spark", form, spark=spark, settings=SMALL, progress=seen.append)
    here = graph.export(tmp_path / "here", form, settings=SMALL)
    assert manifest_of(tmp_path / "spark") == manifest_of(tmp_path / "here")
    assert (done.types, done.commit_id) == (here.types, here.commit_id)
    assert (seen[-1].rows, seen[-1].bytes_written) == (12, done.bytes_written)
    with make_graph(tmp_path / "copy", SCHEMA) as copy:
        load_files(copy, [str(tmp_path / "spark")], "append", settings=CHECKED)
        assert tables_of(copy) == tables_of(graph)


def test_an_earlier_state_of_a_graph_in_a_bucket_goes_to_a_bucket(spark, clean_s3_endpoint, tmp_path):
    prefix, options = clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options
    storage = Storage.open(f"{prefix}/graph", options)
    init_graph(storage, "node A { n: I32? }\n")
    (tmp_path / "a.jsonl").write_text('{"type":"A","data":{"id":"1","n":1}}\n')
    with Session.open(storage) as remote:
        remote.load([str(tmp_path / "a.jsonl")], "append")
        remote.mutate("query q() { delete A where n = 1 }")
        export(remote, f"{prefix}/out", "parquet", spark=spark, at="main~1")
        with pytest.raises(ExportTargetError):
            export(remote, f"{prefix}/out", "parquet", spark=spark)
        remote.load([f"{prefix}/out"], "append", settings=CHECKED)
        assert [row["id"] for row in tables_of(remote)["node:A"]] == ["1"]


def test_a_task_that_fails_leaves_an_empty_folder_and_its_own_error(spark, tmp_path):
    with make_graph(tmp_path / "g", "node A { n: I32? }\nnode B { n: I32? }\n") as broken:
        load_lines(broken, tmp_path / "a.jsonl", '{"type":"A","data":{}}\n{"type":"B","data":{}}\n', "append")
        location = broken.snapshot().entry("node:B").pin.location
        for file in (tmp_path / "g" / location / "data").iterdir():
            file.unlink()
        with pytest.raises(StorageCorruptError):
            export(broken, tmp_path / "out", "csv", spark=spark)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
