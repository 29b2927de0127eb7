"""A Blob is read like a file, over every backend: from any place, of one state, with a bounded buffer."""

from __future__ import annotations

import io
import os

import pytest

import omnigraph
from omnigraph.errors import BlobMissingError, TypeMissingError, UsageError
from tests.session_graph import RELAXED

SCHEMA = """
node Doc { name: String @key  title: String?  body: Blob? }
edge Cites: Doc -> Doc {
    scan: Blob?
    @key(src, dst)
}
"""
PUT = """query put($name: String, $body: Blob?) { upsert Doc { name: $name, body: $body } }"""
CITE = """query cite($scan: Blob?) { upsert Cites { from: "large", to: "small", scan: $scan } }"""
LARGE = os.urandom(300_000)
BUFFER = 64 << 10


@pytest.fixture(scope="module")
def graph(tmp_path_factory, backend):
    with omnigraph.init(tmp_path_factory.mktemp("blobs") / "g", SCHEMA, settings=RELAXED) as made:
        for name, body in {"large": LARGE, "small": b"small", "empty": b"", "none": None}.items():
            made.mutate(PUT, {"name": name, "body": body})
        made.mutate(CITE, {"scan": b"scanned"})
        yield made


def test_a_blob_is_read_from_any_place_like_a_file(graph):
    with graph.open_blob("Doc", "large", "body", buffer_bytes=BUFFER) as reader:
        file = io.BytesIO(LARGE)
        assert (reader.size, reader.readable(), reader.seekable(), reader.writable()) == (len(LARGE), True, True, False)
        for offset, whence, size in [
            (0, 0, 10),
            (100, 1, 70_000),
            (-5, 2, 10),
            (3, 0, 0),
            (-3, 1, 5),
            (400_000, 0, 5),
            (-300_000, 2, 200_000),
            (1, 0, None),
            (0, 0, -1),
        ]:
            if whence != 1 or file.tell() + offset >= 0:
                assert reader.seek(offset, whence) == file.seek(offset, whence)
            assert reader.read(size) == file.read(size)
            assert reader.tell() == file.tell()


def test_pieces_are_those_of_the_buffer(graph):
    reader = graph.open_blob("node:Doc", "large", "body", buffer_bytes=BUFFER)
    assert list(map(len, reader.chunks())) == [BUFFER] * 4 + [len(LARGE) - 4 * BUFFER]
    assert (list(reader.chunks()), reader.read()) == ([], b"")
    reader.close()
    reader.close()
    assert reader.closed
    for use in (reader.read, reader.tell, lambda: reader.seek(0)):
        with pytest.raises(UsageError, match="the blob is closed"):
            use()


def test_a_reader_stays_with_the_state_that_it_was_opened_on(graph):
    graph.mutate(PUT, {"name": "changing", "body": b"one" * 50_000})
    reader = graph.open_blob("Doc", "changing", "body", buffer_bytes=BUFFER)
    assert reader.read(3) == b"one"
    graph.mutate(PUT, {"name": "changing", "body": b"two"})
    assert reader.read() == (b"one" * 50_000)[3:]
    with graph.open_blob("Doc", "changing", "body") as later:
        assert (later.read(), later.tag == reader.tag) == (b"two", False)
    with graph.at("~1").open_blob("Doc", "changing", "body") as earlier:
        assert (earlier.size, earlier.tag, earlier.commit_id) == (150_000, reader.tag, reader.commit_id)


def test_empty_blobs_and_those_of_edges(graph):
    with graph.open_blob("Doc", "empty", "body") as reader:
        assert (reader.size, reader.read(), reader.read(5)) == (0, b"", b"")
    [edge] = graph.query("query q() { match { $a: Doc  $b: Doc  $a $e: cites $b } return { id($e) as id } }").rows()
    with graph.open_blob("Cites", edge["id"], "scan") as reader:
        assert reader.read() == b"scanned"


def test_what_is_not_there_or_no_blob_is_refused(graph):
    for entity in ("none", "nobody"):
        with pytest.raises(BlobMissingError, match=f"Doc '{entity}' has no body"):
            graph.open_blob("Doc", entity, "body")
    with pytest.raises(UsageError, match="'title' of Doc is not a Blob"):
        graph.open_blob("Doc", "small", "title")
    with pytest.raises(TypeMissingError):
        graph.open_blob("Dok", "small", "body")
    for size in (0, -1, 1.5, "1", True, 1 << 40):
        with pytest.raises(UsageError):
            graph.open_blob("Doc", "small", "body", buffer_bytes=size)
    with graph.open_blob("Doc", "small", "body") as reader:
        for offset, whence in [(-1, 0), (-6, 2), (0, 3), (0, -1), (1.5, 0), ("1", 0), (1 << 70, 0)]:
            with pytest.raises(UsageError):
                reader.seek(offset, whence)
        for size in (1.5, "1", b"1"):
            with pytest.raises(UsageError):
                reader.read(size)
        assert reader.read() == b"small"
