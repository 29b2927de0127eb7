"""Exports: what they hold, that they load back to the same bits, and that they are whole or nothing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from tests.export_graph import SCHEMA, make_full_graph, tables_of
from tests.load_graph import load_files, load_lines, make_graph
from tests.session import Session
from tests.session_graph import open_session

from omnigraph.engine.export import ExportSettings
from omnigraph.engine.load import LoadSettings
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import (
    ExportDamagedError,
    ExportManifestError,
    ExportTargetError,
    ExportTypeError,
    FailpointError,
    UsageError,
)
from omnigraph.history.diff.change import NO_FILTER
from omnigraph.history.feed.baseline import export_records
from omnigraph.runtime.failpoints import fail, on_nth
from omnigraph.store.files import FileFolder
from omnigraph.store.location import Storage

CHECKED = LoadSettings(check_sums=True)
FORMATS = ("jsonl", "csv", "parquet")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    with make_full_graph(tmp_path_factory.mktemp("full")) as graph:
        yield graph


def stream(graph, **options):
    sink = io.BytesIO()
    result = graph.export_stream(sink, **options)
    return result, [json.loads(line) for line in sink.getvalue().decode().split("\n")[:-1]]


@pytest.mark.parametrize("form", FORMATS)
def test_loading_an_export_gives_every_bit_back(full, tmp_path, form):
    full.export(tmp_path / "out", form)
    with make_graph(tmp_path / "copy", SCHEMA) as copy:
        done = load_files(copy, [str(tmp_path / "out")], "append", settings=CHECKED)
        assert done.total == 9
        assert tables_of(copy) == tables_of(full)
        copy.export(tmp_path / "again", form)
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("out", "again")]
    sums = [[file["sha256"] for item in manifest["types"] for file in item["files"]] for manifest in manifests]
    assert sums[0] == sums[1]


def test_a_stream_has_edges_first_and_rows_by_id_in_the_encoding_of_the_feed(full, tmp_path):
    result, records = stream(full)
    assert records == list(export_records(full.snapshot(), NO_FILTER))
    assert [item.name for item in result.types] == ["Link", "Bare", "Link", "Thing"]
    assert result.rows == 9
    lines = "".join(json.dumps(record) + "\n" for record in records)
    with make_graph(tmp_path / "copy", SCHEMA) as copy:
        load_lines(copy, tmp_path / "copy.jsonl", lines, "overwrite")
        assert tables_of(copy) == tables_of(full)


def test_a_stream_of_unsorted_rows_with_and_without_blobs_is_sorted(tmp_path):
    with make_graph(tmp_path / "g", "node A { n: I32 }\nnode B { b: Blob? }\n") as graph:
        rows = [f'{{"type":"{name}","data":{{"id":"{at * 7 % 10}"%s}}}}' for name in "AB" for at in range(10)]
        lines = "\n".join(row % (',"n":1' if '"A"' in row else ',"b":"base64:AA=="') for row in rows)
        load_lines(graph, tmp_path / "rows.jsonl", lines, "append")
        _, records = stream(graph)
    assert [record["data"]["id"] for record in records] == [*map(str, range(10)), *map(str, range(10))]


def test_manifest_says_what_is_there_and_files_are_cut_at_fragments(full, tmp_path):
    lines = '{"type":"Bare","data":{"id":"%s"}}'
    with make_graph(tmp_path / "g", "node Bare { }\n") as graph:
        for at in range(3):
            load_lines(graph, tmp_path / f"{at}.jsonl", lines % at, "append")
        seen = []
        result = graph.export(
            tmp_path / "out", "csv", progress=seen.append, settings=ExportSettings(rows_per_file=2, threads=1)
        )
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["kind"], manifest["version"]) == ("omnigraph-export", 1)
    assert (manifest["commit_id"], manifest["branch"]) == (result.commit_id, "main")
    assert manifest["schema"] == (tmp_path / "out" / "schema.pg").read_text() == "node Bare { }\n"
    (bare,) = manifest["types"]
    assert [(file["path"], file["rows"]) for file in bare["files"]] == [
        ("nodes/Bare/part-00000.csv", 2),
        ("nodes/Bare/part-00001.csv", 1),
    ]
    assert (tmp_path / "out/nodes/Bare/part-00000.csv").read_text() == 'id\n"0"\n"1"\n'
    assert (seen[-1].rows, seen[-1].rows_total) == (3, 3)
    assert not (tmp_path / "out" / "_INCOMPLETE").exists()


def test_a_branch_and_an_old_commit_are_exported_as_they_are(tmp_path):
    with make_graph(tmp_path / "g", "node A { n: I32? }\n") as graph:
        load_lines(graph, tmp_path / "1.jsonl", '{"type":"A","data":{"id":"1"}}', "append")
        graph.create_branch("side")
        graph.load([str(tmp_path / "1.jsonl")], "merge", branch="side")
        load_lines(graph, tmp_path / "2.jsonl", '{"type":"A","data":{"id":"2"}}', "append")
        graph.apply_schema("node A { n: I32? m: I32? }\n")
        assert [record["data"] for record in stream(graph, branch="side")[1]] == [{"id": "1", "n": None}]
        assert [record["data"] for record in stream(graph, at="main~2")[1]] == [{"id": "1", "n": None}]
        assert [record["data"]["id"] for record in stream(graph)[1]] == ["1", "2"]
        old = graph.export(tmp_path / "old", "parquet", at="main~1")
        assert (old.rows, old.branch) == (2, "main")
    assert "m: I32?" not in (tmp_path / "old" / "schema.pg").read_text()


def test_what_others_commit_meanwhile_is_not_in_an_export(tmp_path):
    lines = '{"type":"A","data":{"id":"1"}}\n{"type":"B","data":{"id":"1"}}\n'
    with make_graph(tmp_path / "g", "node A { n: I32? }\nnode B { n: I32? }\n") as graph:
        load_lines(graph, tmp_path / "rows.jsonl", lines, "append")

        def write_beside(state):
            graph.load([str(tmp_path / "rows.jsonl")], "overwrite")
            load_lines(graph, tmp_path / f"{state.rows}.jsonl", lines.replace('"1"', f'"m{state.rows}"'), "append")

        result = graph.export(tmp_path / "out", "csv", progress=write_beside, settings=ExportSettings(threads=1))
        assert len(stream(graph)[1]) == 4
    assert [item.rows for item in result.types] == [1, 1]
    assert (tmp_path / "out/nodes/B/part-00000.csv").read_text() == 'id,n\n"1",\n'


def test_types_are_chosen_by_name_and_unknown_ones_refused(full, tmp_path):
    result, records = stream(full, types=["Link"])
    assert [item.kind for item in result.types] == ["edge", "node"]
    assert len(records) == 3
    only = full.export(tmp_path / "out", types=["edge:Link"])
    assert [(item.kind, item.rows) for item in only.types] == [("edge", 2)]
    with pytest.raises(ExportTypeError, match="unknown export type 'Thinf'"):
        stream(full, types=["Thinf"])
    with pytest.raises(UsageError, match=r"format must be jsonl \| csv \| parquet"):
        full.export(tmp_path / "other", "xml")


def test_a_folder_with_something_in_it_is_refused_and_left_alone(full, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ExportTargetError):
        full.export(tmp_path, "csv")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ExportTargetError):
        full.export(tmp_path / "mine.txt", "csv")
    with pytest.raises(ExportTargetError, match="inside the graph"):
        full.export(f"{full.store.storage.root}/out", "csv")


def test_an_export_that_fails_leaves_an_empty_folder(full, tmp_path):
    with open_session(full.store.storage.root) as graph:
        failpoints = graph.runtime.failpoints
        failpoints.enable("engine.export.after_file", on_nth(2, fail("engine.export.after_file")))
        with pytest.raises(FailpointError):
            graph.export(tmp_path / "out", "jsonl", settings=ExportSettings(threads=1))
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
    full.export(tmp_path / "out", "jsonl")


def test_a_killed_export_never_looks_complete_and_cannot_be_loaded(full, tmp_path):
    root = full.store.storage.root
    code = (
        f"from tests.session_graph import open_session; open_session({root!r}).export({str(tmp_path / 'out')!r}, 'csv')"
    )
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": "engine.export.after_file=kill@2"}
    killed = subprocess.run([sys.executable, "-c", code], env=environment, check=False, timeout=300)
    assert killed.returncode == -9
    assert (tmp_path / "out" / "_INCOMPLETE").exists()
    assert not (tmp_path / "out" / "manifest.json").exists()
    with (
        make_graph(tmp_path / "copy", SCHEMA) as copy,
        pytest.raises(ExportManifestError, match="was not finished"),
    ):
        load_files(copy, [str(tmp_path / "out")], "append")
    with pytest.raises(ExportTargetError):
        full.export(tmp_path / "out", "csv")


@pytest.mark.parametrize("damage", ["gone", "shorter", "changed", "newer"])
def test_a_damaged_export_is_refused_before_anything_is_loaded(full, tmp_path, damage):
    full.export(tmp_path / "out", "jsonl")
    file, manifest = tmp_path / "out/nodes/Thing/part-00000.jsonl", tmp_path / "out/manifest.json"
    data = file.read_bytes()
    match damage:
        case "gone":
            file.unlink()
        case "shorter":
            file.write_bytes(data[:-5])
        case "changed":
            file.write_bytes(data.replace(b"12345.678", b"12345.679"))
        case "newer":
            manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    wanted = ExportManifestError if damage == "newer" else ExportDamagedError
    with make_graph(tmp_path / "copy", SCHEMA) as copy:
        with pytest.raises(wanted):
            load_files(copy, [str(tmp_path / "out")], "append", settings=CHECKED)
        assert copy.snapshot().state.recent[-1].operation == "init"


def test_records_longer_than_a_block_of_the_reader_come_back(tmp_path):
    schema = "node A { n: I32? text: String? }\n"
    with make_graph(tmp_path / "g", schema) as graph:
        row = {"type": "A", "data": {"id": "1", "text": "x" * (9 << 20)}}
        load_lines(graph, tmp_path / "rows.jsonl", json.dumps(row), "append")
        graph.export(tmp_path / "out", "csv")
        with make_graph(tmp_path / "copy", schema) as copy:
            load_files(copy, [str(tmp_path / "out")], "append")
            assert tables_of(copy) == tables_of(graph)


def test_a_bucket_takes_an_export_and_gives_it_back(full, clean_s3_endpoint):
    prefix, options = clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options
    full.export(Storage.open(f"{prefix}/out", options), "parquet")
    with pytest.raises(ExportTargetError):
        full.export(Storage.open(f"{prefix}/out", options), "jsonl")
    storage = Storage.open(f"{prefix}/copy", options)
    init_graph(storage, SCHEMA)
    with Session.open(storage) as copy:
        copy.load([f"{prefix}/out"], "append", settings=CHECKED)
        assert tables_of(copy) == tables_of(full)
        # Reached with the options of a graph that is there too.
        copy.export(f"{prefix}/again", "csv", types=["Bare"])
    assert FileFolder(storage=Storage.open(f"{prefix}/again", options)).size_of("nodes/Bare/part-00000.csv") == 14
