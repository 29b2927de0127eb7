"""Blobs given as addresses in the tasks of a load on Spark, run in this process, against the embedded load."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.marks import first
from tests.session_graph import RELAXED
from tests.unit.engine.test_external_blobs import CONTENT, HOSTILE, SCHEMA

import omnigraph
from omnigraph.errors import ExternalBlobError, ExternalBlobSourceError, OmnigraphError, SourceTooLargeError
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.runner import InProcessRunner
from omnigraph.store.files import FileFolder, Storage
from omnigraph.values.blobs import reference_to

# Every line is a part of its own, or nearly.
TINY = SparkLoadSettings(part_bytes=64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    place.mkdir()
    (place / "a.bin").write_bytes(CONTENT)
    (tmp_path / "secret").write_bytes(b"secret")
    return place


def open_graph(place, **more):
    return omnigraph.init(place / "g", SCHEMA, settings=RELAXED, **more)


def lines_of(path: Path, *rows) -> str:
    path.write_text("".join(json.dumps({"type": "Doc", "data": {"name": n, "body": b}}) + "\n" for n, b in rows))
    return str(path)


def run_tasks(graph, source, mode):
    return run_load(graph.backend.engine, [source], SparkLoadRequest(mode=mode, settings=TINY), InProcessRunner())


@pytest.mark.parametrize("mode", ["append", "merge", "apply"])
def test_content_is_copied(tmp_path, folder, mode):
    source = lines_of(tmp_path / "rows.jsonl", ("x", (folder / "a.bin").as_uri()), ("y", "base64:b2s="), ("z", None))
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        run_tasks(graph, source, mode)
        (folder / "a.bin").unlink()
        assert [graph.blob("Doc", name, "body") and graph.blob("Doc", name, "body").data for name in "xyz"] == [
            CONTENT,
            b"ok",
            None,
        ]


def test_an_overwrite_keeps_the_address(tmp_path, folder):
    address = (folder / "a.bin").as_uri()
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        run_tasks(graph, lines_of(tmp_path / "rows.jsonl", ("x", address)), "overwrite")
        part = graph.blob("Doc", "x", "body")
        assert (part.uri, part.data) == (address, b"")


def failure(load, graph, source, mode):
    with pytest.raises(OmnigraphError) as problem:
        load(graph, source, mode)
    return problem.value.to_json()


@pytest.mark.parametrize("text", [*HOSTILE, "{base}/none"])
@pytest.mark.parametrize("mode", first(1, ["merge", "overwrite"]))
def test_what_is_refused_is_refused_as_in_the_embedded_load(tmp_path, folder, text, mode):
    address = text.replace("{base}", folder.as_uri()).replace("{path}", str(folder))
    source = lines_of(tmp_path / "rows.jsonl", ("x", address))
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        head = graph.log(limit=1)[0].id
        embedded = failure(lambda graph, source, mode: graph.load(source, mode=mode), graph, source, mode)
        assert failure(run_tasks, graph, source, mode) == embedded
        assert graph.log(limit=1)[0].id == head


def test_a_graph_without_bases_takes_none(tmp_path, folder):
    source = lines_of(tmp_path / "rows.jsonl", ("x", (folder / "a.bin").as_uri()))
    with open_graph(tmp_path) as graph, pytest.raises(ExternalBlobError, match="is not allowed in this graph"):
        run_tasks(graph, source, "merge")


def test_bytes_that_are_a_reference_meet_the_same_rules(tmp_path, folder):
    smuggled = reference_to("file:///etc/passwd")
    pq.write_table(pa.table({"name": ["x"], "body": pa.array([smuggled], pa.binary())}), tmp_path / "Doc.parquet")
    with (
        open_graph(tmp_path, external_blobs=[folder]) as graph,
        pytest.raises(ExternalBlobError, match="outside of the allowed bases"),
    ):
        run_tasks(graph, str(tmp_path / "Doc.parquet"), "overwrite")


def test_all_tasks_together_copy_no_more_than_one_write_may(tmp_path, folder):
    allowed = omnigraph.ExternalBlobs(bases=[folder.as_uri()], max_bytes=2 * len(CONTENT))
    address = (folder / "a.bin").as_uri()
    source = lines_of(tmp_path / "rows.jsonl", *((f"n{number}", address) for number in range(3)))
    with open_graph(tmp_path, external_blobs=allowed) as graph:
        run_tasks(graph, lines_of(tmp_path / "two.jsonl", ("a", address), ("b", address)), "merge")
        head = graph.log(limit=1)[0].id
        with pytest.raises(SourceTooLargeError, match=f"more than {2 * len(CONTENT)} bytes"):
            run_tasks(graph, source, "merge")
        assert graph.log(limit=1)[0].id == head
        run_tasks(graph, source, "overwrite")
        assert graph.blob("Doc", "n2", "body").uri == address


def test_objects_of_a_bucket_are_copied_or_kept(tmp_path, clean_s3_endpoint):
    prefix = clean_s3_endpoint.fresh_prefix()
    options = clean_s3_endpoint.storage_options_without_retries
    FileFolder(storage=Storage.open(f"{prefix}/in", options)).put("1.bin", CONTENT)
    address = f"{prefix}/in/1.bin"
    opened = omnigraph.init(
        f"{prefix}/g", SCHEMA, settings=RELAXED, storage_options=options, external_blobs=[f"{prefix}/in/"]
    )
    with opened as graph:
        run_tasks(graph, lines_of(tmp_path / "rows.jsonl", ("x", address)), "merge")
        assert graph.blob("Doc", "x", "body").data == CONTENT
        with pytest.raises(ExternalBlobSourceError, match="is unavailable: no such object"):
            run_tasks(graph, lines_of(tmp_path / "none.jsonl", ("x", f"{prefix}/in/none")), "merge")
        run_tasks(graph, lines_of(tmp_path / "rows.jsonl", ("x", address)), "overwrite")
        assert graph.blob("Doc", "x", "body").uri == address
