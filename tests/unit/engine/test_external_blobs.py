"""Blobs given as addresses: what an allow-list lets in, what is copied, what is kept, and what hostile texts meet."""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.errors import (
    BadRowsError,
    BlobReferenceError,
    ExternalBlobError,
    ExternalBlobSourceError,
    SourceTooLargeError,
    UsageError,
)
from omnigraph.runtime import counting
from omnigraph.store import files
from omnigraph.values.blobs import EXTERNAL_MARK, MAX_ADDRESS_BYTES, reference_to

SCHEMA = "node Doc { name: String @key  body: Blob? }"
PUT = "query put($name: String, $body: Blob?) { upsert Doc { name: $name, body: $body } }"
CONTENT = b"0123456789" * 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    (place / "in side").mkdir(parents=True)
    (place / "in side" / "a%b.bin").write_bytes(CONTENT)
    (place / "empty").write_bytes(b"")
    (tmp_path / "secret").write_bytes(b"secret")
    return place


def open_graph(place: Path, **more):
    return omnigraph.init(place / "g", SCHEMA, settings=RELAXED, **more)


def put(graph, address, mode="merge", name="x"):
    return graph.load({"Doc": [{"name": name, "body": address}]}, mode=mode)


def file(folder: Path) -> str:
    return (folder / "in side" / "a%b.bin").as_uri()


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_append_and_merge_copy_the_content(tmp_path, folder, mode):
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        put(graph, file(folder), mode)
        put(graph, (folder / "empty").as_uri(), mode, name="y")
        graph.mutate(PUT, {"name": "z", "body": file(folder)})
        (folder / "in side" / "a%b.bin").unlink()
        assert [graph.blob("Doc", name, "body").data for name in "xyz"] == [CONTENT, b"", CONTENT]


def test_overwrite_keeps_the_address_and_nothing_reads_it_again(tmp_path, folder):
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        with counting() as counters:
            put(graph, file(folder), "overwrite")
        assert "blob.get" not in counters.cost().calls
        (folder / "in side" / "a%b.bin").unlink()
        part = graph.blob("Doc", "x", "body")
        assert (part.uri, part.size, part.data, str(part)) == (file(folder), 0, b"", f"at {file(folder)}")
        assert graph.entity("Doc", "x")["body"] == file(folder)
        with pytest.raises(BlobReferenceError) as problem:
            graph.open_blob("Doc", "x", "body")
        assert problem.value.details.uri == file(folder)
        # Relocating it is no change, and a branch has it as well.
        graph.optimize()
        graph.create_branch("side")
        assert graph.branch("side").blob("Doc", "x", "body").uri == file(folder)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_an_export_names_the_address_and_loads_back(tmp_path, folder, form):
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        put(graph, file(folder), "overwrite")
        lines = io.BytesIO()
        graph.export_stream(lines)
        assert json.loads(lines.getvalue())["data"]["body"] == file(folder)
        graph.export(tmp_path / "out", form)
        graph.load(tmp_path / "out", mode="overwrite")
        assert graph.blob("Doc", "x", "body").uri == file(folder)
        graph.load(tmp_path / "out", mode="merge")
        assert graph.blob("Doc", "x", "body").data == CONTENT
    with (
        omnigraph.init(tmp_path / "other", SCHEMA, settings=RELAXED) as other,
        pytest.raises(ExternalBlobError, match="is not allowed in this graph"),
    ):
        other.load(tmp_path / "out", mode="overwrite")


def test_diffs_and_changes_name_the_address(tmp_path, folder):
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        put(graph, b"inside")
        put(graph, file(folder), "overwrite")
        [change] = graph.diff("~1")
        assert change.before.properties["body"] == "base64:" + base64.b64encode(b"inside").decode()
        assert change.after.properties["body"] == file(folder)


HOSTILE = [
    "",
    "a.bin",
    "/etc/passwd",
    "../secret",
    "file:secret",
    "file:///etc/passwd",
    "{base}/../secret",
    "{base}/in side/../../secret",
    "{base}/%2e%2e/secret",
    "{base}/..%2fsecret",
    "{base}/in%20side%2fa%25b.bin",
    "{base}/./empty",
    "{base}//empty",
    "{base}/empty/",
    "{base}/empty?x=1",
    "{base}/empty#x",
    "{base}\\empty",
    "{base}/%00",
    "{base}/%ff",
    "{base}/emp\nty",
    '{base}/"',
    "{base}",
    "{base}x/empty",
    "file://localhost{path}/empty",
    "file://me:word@{path}/empty",
    "FILE:///etc/passwd",
    "http://127.0.0.1/x",
    "https://example.org/x",
    "s3://bucket/x",
    "s3://bucket:9000/x",
    "s3:///x",
    "ftp://x/y",
    "data:text/plain,x",
    "base64",
    "file://" + "a" * (MAX_ADDRESS_BYTES + 1),
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_an_address_outside_of_the_bases_is_refused_and_changes_nothing(tmp_path, folder, text):
    address = text.replace("{base}", folder.as_uri()).replace("{path}", str(folder))
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        head = graph.log(limit=1)[0].id
        lines = tmp_path / "rows.jsonl"
        lines.write_text(json.dumps({"type": "Doc", "data": {"name": "x", "body": address}}))
        for mode in ("append", "merge", "overwrite"):
            with pytest.raises((ExternalBlobError, BadRowsError)) as problem:
                graph.load(lines, mode=mode)
            assert "word" not in str(problem.value)
            if text != "\ud800":
                assert isinstance(problem.value, ExternalBlobError)
                assert "rows.jsonl:1: property 'body': external blob" in str(problem.value)
        if text.isprintable():
            with pytest.raises(ExternalBlobError, match=r"property 'Doc\.body': external blob .* is not allowed"):
                graph.mutate(PUT, {"name": "x", "body": address})
        assert graph.log(limit=1)[0].id == head


@pytest.mark.parametrize("target", ["file", "folder", "outside", "pipe", "folder itself", "nothing"])
def test_links_pipes_and_what_is_not_there_are_not_read(tmp_path, folder, target):
    name = "thing"
    if target == "file":
        (folder / "thing").symlink_to(folder / "empty")
    elif target == "outside":
        (folder / "thing").symlink_to(tmp_path / "secret")
    elif target == "folder":
        (folder / "thing").symlink_to(tmp_path)
        name = "thing/secret"
    elif target == "pipe":
        os.mkfifo(folder / "thing")
    elif target == "folder itself":
        (folder / "thing").mkdir()
    reason = {"file": "symbolic links", "outside": "symbolic links", "folder": "symbolic links"}.get(target)
    reason = reason or {"nothing": "no such file or directory"}.get(target, "it is not a regular file")
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        for mode in ("merge", "overwrite"):
            with pytest.raises(ExternalBlobSourceError, match=f"is unavailable: {reason}") as problem:
                put(graph, f"{folder.as_uri()}/{name}", mode)
            assert problem.value.details.uri == f"{folder.as_uri()}/{name}"
        assert graph.blob("Doc", "x", "body") is None


def test_content_that_looks_like_a_reference_is_one(tmp_path, folder):
    smuggled = reference_to("file:///etc/passwd")
    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        for given in (smuggled, "base64:" + base64.b64encode(smuggled).decode()):
            with pytest.raises(ExternalBlobError, match="outside of the allowed bases"):
                put(graph, given)
            with pytest.raises(ExternalBlobError, match="outside of the allowed bases"):
                graph.mutate(PUT, {"name": "x", "body": given})
        pq.write_table(pa.table({"name": ["x"], "body": pa.array([smuggled], pa.binary())}), tmp_path / "Doc.parquet")
        with pytest.raises(ExternalBlobError, match="outside of the allowed bases"):
            graph.load(tmp_path / "Doc.parquet", mode="overwrite")
        (folder / "trap").write_bytes(smuggled)
        with pytest.raises(ExternalBlobSourceError, match="its content is a reference to another object"):
            put(graph, (folder / "trap").as_uri())
        # What begins like one and is none is content.
        for content in (EXTERNAL_MARK + b"\xff", EXTERNAL_MARK + b"a" * (MAX_ADDRESS_BYTES + 1)):
            put(graph, content)
            assert graph.blob("Doc", "x", "body").data == content


def test_one_write_copies_no_more_than_it_may(tmp_path, folder):
    allowed = omnigraph.ExternalBlobs(bases=[folder.as_uri()], max_bytes=2 * len(CONTENT))
    rows = [{"name": f"n{number}", "body": file(folder)} for number in range(3)]
    with open_graph(tmp_path, external_blobs=allowed) as graph:
        with counting() as counters:
            graph.load({"Doc": rows[:2]}, mode="merge")
        assert counters.cost().calls["blob.get"] == 2
        with pytest.raises(SourceTooLargeError, match=f"more than {2 * len(CONTENT)} bytes"):
            graph.load({"Doc": rows}, mode="merge")
        graph.load({"Doc": rows}, mode="overwrite")
        assert graph.blob("Doc", "n2", "body").uri == file(folder)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, folder, monkeypatch):
    real, seen = os.fstat, []

    def fstat(number):
        found = real(number)
        if os.path.realpath(f"/proc/self/fd/{number}").endswith("a%b.bin"):
            seen.append(number)
            # Looked at as it is opened, before it is read, and after.
            if len(seen) % 3 == 2:
                with (folder / "in side" / "a%b.bin").open("ab") as stream:
                    stream.write(b"more")
        return found

    with open_graph(tmp_path, external_blobs=[folder]) as graph:
        monkeypatch.setattr(files.os, "fstat", fstat)
        with pytest.raises(ExternalBlobSourceError, match="is unavailable: it changed while it was read"):
            put(graph, file(folder))
        monkeypatch.undo()
        # Tried once more, by the decoder that tells what is wrong with a row.
        assert len(seen) == 6
        assert graph.blob("Doc", "x", "body") is None


@pytest.mark.parametrize(
    ("bases", "reason"),
    [
        (["s3://b/x/", "s3://b/x/y"], "overlaps with"),
        (["s3://b/", "s3://b/"], "overlaps with"),
        (["s3://b/x?y"], "it has a query"),
        (["s3://me:word@b/x"], "it has credentials"),
        (["s3://b:1/x"], "it has a port"),
        (["s3://b/../x"], "dot segment"),
        (["s3://b/%2e/x"], "encoded character"),
        (["/folder"], "does not begin with s3:// or file://"),
        (["file:///"], "not a folder that exists"),
        (["file:///no/such/folder"], "not a folder that exists"),
        (["https://example.org/"], "does not begin with"),
        ([1], "base"),
        ("s3://b/x", "bases"),
        (5, "bases"),
    ],
)
def test_a_base_is_checked_when_a_graph_is_opened(tmp_path, bases, reason):
    with pytest.raises(UsageError, match=reason) as problem:
        omnigraph.ExternalBlobs(bases=bases)
    assert "word" not in str(problem.value)
    with pytest.raises(UsageError):
        open_graph(tmp_path, external_blobs=bases)
    assert not (tmp_path / "g").exists()


def test_objects_of_a_bucket_are_copied_or_kept(tmp_path, clean_s3_endpoint):
    prefix = clean_s3_endpoint.fresh_prefix()
    options = clean_s3_endpoint.storage_options_without_retries
    inside = files.FileFolder(storage=files.Storage.open(f"{prefix}/in", options))
    inside.put("a b/1.bin", CONTENT)
    files.FileFolder(storage=files.Storage.open(f"{prefix}/out", options)).put("2.bin", b"secret")
    with omnigraph.init(
        f"{prefix}/g", SCHEMA, settings=RELAXED, storage_options=options, external_blobs=[f"{prefix}/in/"]
    ) as graph:
        address = f"{prefix}/in/a b/1.bin"
        put(graph, address)
        assert graph.blob("Doc", "x", "body").data == CONTENT
        for text in (f"{prefix}/out/2.bin", f"{prefix}/in/../out/2.bin", f"{prefix}/in2/a", f"{prefix}/in/a%20b/1.bin"):
            with pytest.raises(ExternalBlobError, match="is not allowed"):
                put(graph, text)
        for mode in ("merge", "overwrite"):
            with pytest.raises(ExternalBlobSourceError, match="is unavailable: no such object"):
                put(graph, f"{prefix}/in/none", mode)
        put(graph, address, "overwrite")
        assert graph.blob("Doc", "x", "body").uri == address
