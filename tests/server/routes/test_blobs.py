"""Blobs over HTTP: what is read of them, and what their tags stand for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cluster.config.reading import read_cluster
from omnigraph.errors import UsageError
from omnigraph.operations.reads import ReadBlobRequest
from omnigraph.runtime import counting
from omnigraph.server.cluster import cluster_settings
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.main import open_service
from tests.applied_cluster import apply_directory
from tests.server.inside import client_of, watch
from tests.session_graph import RELAXED

MIB = 1 << 20
SCHEMA = "node Doc { name: String @key  title: String?  body: Blob? }"
PUT = (
    "query put($name: String, $title: String?, $body: Blob?) { upsert Doc { name: $name, title: $title, body: $body } }"
)
LARGE = os.urandom(9 * MIB + 5)
WHERE = "/graphs/g/blob?entity=node&type=Doc&property=body&id="


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("blobs") / "g.omni"
    with omnigraph.init(place, SCHEMA, settings=RELAXED) as graph:
        graph.mutate(PUT, {"name": "large", "body": LARGE})
        graph.mutate(PUT, {"name": "small", "body": b"small"})
        graph.mutate(PUT, {"name": "none"})
    return place


@pytest.mark.parametrize(
    ("start", "length", "read"), [(0, 0, 0), (5 * MIB, 1000, 1000), (len(LARGE) - 3, None, 3), (len(LARGE), 10, 0)]
)
def test_only_the_bytes_that_are_asked_for_are_read(place: Path, start: int, length: int | None, read: int):
    with omnigraph.open(place, mode="read_only") as graph, counting() as counters:
        part = graph.blob("Doc", "large", "body", start=start, length=length)
        assert (part.size, part.data) == (len(LARGE), LARGE[start : start + read])
        # Finding the row and where its Blob lies takes some thousand bytes, however long that is.
        assert counters.cost().bytes_read < read + 100_000


def test_a_blob_that_is_not_there_is_none_and_another_property_is_refused(place: Path):
    with omnigraph.open(place, mode="read_only") as graph:
        assert graph.blob("Doc", "none", "body") is None
        assert graph.blob("Doc", "nobody", "body") is None
        with pytest.raises(UsageError, match="'title' of Doc is not a Blob"):
            graph.blob("Doc", "small", "title")


def test_a_tag_lasts_as_long_as_the_stored_value(tmp_path: Path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        graph.mutate(PUT, {"name": "a", "body": b"one"})
        first = graph.blob("Doc", "a", "body")
        graph.mutate(PUT, {"name": "b", "body": b"two"})
        assert graph.blob("Doc", "a", "body") == first
        assert graph.blob("Doc", "b", "body").tag != first.tag
        graph.create_branch("side")
        assert graph.branch("side").blob("Doc", "a", "body") == first
        graph.branch("side").mutate(PUT, {"name": "a", "body": b"six"})
        graph.mutate(PUT, {"name": "a", "body": b"ten"})
        tags = {graph.branch(name).blob("Doc", "a", "body").tag for name in ("main", "side")} | {first.tag}
        assert len(tags) == 3
        assert graph.at("~2").blob("Doc", "a", "body") == first


def test_a_blob_keeps_its_bytes_through_a_new_schema(tmp_path: Path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        graph.mutate(PUT, {"name": "a", "body": b"one"})
        graph.apply_schema(SCHEMA.replace("body: Blob?", 'content: Blob? @rename_from("body")  more: Blob?'))
        assert graph.blob("Doc", "a", "content").data == b"one"
        assert graph.at("~1").blob("Doc", "a", "content").data == b"one"
        assert graph.at("~1").blob("Doc", "a", "more") is None


@pytest.mark.anyio
async def test_a_blob_is_read_in_pieces_as_the_client_takes_them(place: Path):
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True)
    service = open_service(settings)
    seen = watch(service, "g")

    def asked() -> list[int | None]:
        found = [request.length for request in seen if isinstance(request, ReadBlobRequest)]
        seen.clear()
        return found

    async with client_of(service) as http:
        head = await http.head(WHERE + "large", headers={"Range": "bytes=0-9"})
        assert (head.status_code, head.headers["content-length"]) == (200, str(len(LARGE)))
        unchanged = await http.get(WHERE + "large", headers={"If-None-Match": head.headers["etag"]})
        assert unchanged.status_code == 304
        assert asked() == [0, 0]
        part = await http.get(WHERE + "large", headers={"Range": f"bytes={5 * MIB}-{5 * MIB + 9}"})
        assert (part.status_code, part.content) == (206, LARGE[5 * MIB : 5 * MIB + 10])
        assert asked() == [0, 10]
        whole = await http.get(WHERE + "large")
        assert whole.content == LARGE
        assert asked() == [0, 4 * MIB, 4 * MIB, MIB + 5]


@pytest.mark.anyio
async def test_content_outside_of_the_graph_is_named_and_never_fetched(tmp_path: Path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "ä b.bin").write_bytes(b"outside")
    uri = (tmp_path / "files" / "ä b.bin").as_uri()
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED, external_blobs=[tmp_path / "files"]) as graph:
        graph.load({"Doc": [{"name": "a", "body": uri}]}, mode="overwrite")
    (tmp_path / "files" / "ä b.bin").unlink()
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(tmp_path / "g")),), unauthenticated=True)
    async with client_of(open_service(settings)) as http:
        for method in ("GET", "HEAD"):
            answer = await http.request(method, WHERE + "a", headers={"Range": "bytes=0-1", "If-Match": '"x"'})
            assert (answer.status_code, answer.content, answer.headers["location"]) == (302, b"", uri)
            assert answer.headers["cache-control"] == "no-store"
            assert "omnigraph-snapshot-id" in answer.headers
        # A server takes nothing from outside unless its configuration says so, and no local file ever.
        row = {"type": "Doc", "data": {"name": "b", "body": uri}}
        body = {"data": json.dumps(row), "mode": "merge"}
        refused = await http.post("/graphs/g/load", json=body)
        assert (refused.status_code, "is not allowed" in refused.json()["error"]) == (400, True)


def test_a_cluster_allows_a_server_buckets_only(tmp_path: Path):
    (tmp_path / "g.pg").write_text(SCHEMA, encoding="utf-8")

    def declare(declared: str) -> None:
        text = "version: 1\ngraphs:\n  g:\n    schema: g.pg\n    external_blobs:\n" + declared
        (tmp_path / "cluster.yaml").write_text(text, encoding="utf-8")

    local = tmp_path.as_uri()
    declare(f"""
      allow:
        - {{ base: "s3://files/crm/", scope: server_safe }}
        - {{ base: "s3://files/own/", scope: embedded_only }}
        - {{ base: "{local}/", scope: embedded_only }}
""")
    apply_directory(tmp_path)
    assert cluster_settings(str(tmp_path)).graphs[0].blob_bases == ("s3://files/crm/",)
    for declared, reason in [
        ("      allow: s3://files/", "must be a list"),
        ("      deny: []", "unknown key 'graphs.g.external_blobs.deny'"),
        ("      allow:\n        - { base: 's3://files/' }", "needs a scope"),
        (f"      allow:\n        - {{ base: '{local}', scope: server_safe }}", "is a local folder"),
        ("      allow:\n        - { base: 's3://me:word@files/', scope: server_safe }", "it has credentials"),
        (
            "      allow:\n        - { base: 's3://a/', scope: server_safe, x: 1 }",
            "unknown key 'graphs.g.external_blobs.allow[0].x'",
        ),
    ]:
        declare(declared)
        (found,) = read_cluster(str(tmp_path)).findings.errors
        assert reason in found.message
        assert "word" not in found.message


@pytest.mark.anyio
@pytest.mark.parametrize("asked", [f"bytes={'9' * 5000}-", f"bytes=-{'9' * 5000}", f"bytes=0-{'9' * 5000}"], ids=len)
async def test_a_range_of_more_digits_than_any_byte_has_asks_for_nothing(place: Path, asked: str):
    service = open_service(ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True))
    async with client_of(service) as http:
        answer = await http.get(WHERE + "small", headers={"Range": asked})
    assert (answer.status_code, answer.content) == (200, b"small")
