"""The parts of a load that have a life of their own: chunks, the spool, fresh ids, what it tells while it runs."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from tests.load_graph import export, load_lines, make_graph

from omnigraph.catalog import compile_schema
from omnigraph.engine.load import LoadSettings
from omnigraph.engine.load.intake import fill_ids, ulid_array
from omnigraph.engine.load.reading.jsonl import iter_chunks
from omnigraph.engine.load.sources.source import ByteStream
from omnigraph.engine.load.spool import open_spool
from omnigraph.errors import PreconditionFailedError, SchemaMovedError
from omnigraph.lang.pg import parse_schema
from omnigraph.runtime import Failpoints, Runtime
from omnigraph.values import CommitId, Ulid
from omnigraph.values.ids import is_ulid

PERSON = compile_schema(parse_schema(b"node Person { name: String @key }", "schema.pg")).nodes["Person"]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\n", b"a\nbb\n\nccc", b"\n\nx\r\ny\n"])
def test_chunks_are_whole_lines_and_together_the_file(text, chunk_bytes):
    raw = io.BytesIO(text)
    chunks = list(iter_chunks(ByteStream("x", raw, raw), "x", chunk_bytes=chunk_bytes, max_line_bytes=50))
    whole = b"".join(chunk.data for chunk in chunks)
    assert whole == (text if text.endswith(b"\n") or not text else text + b"\n")
    assert all(chunk.data.endswith(b"\n") for chunk in chunks)
    line = 1
    for chunk in chunks:
        assert chunk.first_line == line
        line += chunk.data.count(b"\n")


def test_reserved_ids_are_ascending_and_nobody_elses():
    ids = Runtime.seeded(7).ids
    seen = [ids.ulid()]
    for count in (1, 5, 1000):
        seen += ulid_array(ids.reserve(count), count).to_pylist()
        seen.append(ids.ulid())
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    assert all(is_ulid(text) for text in seen)


def test_ids_in_columns_are_the_consecutive_numbers():
    first = Ulid.from_parts(5, (1 << 80) - (1 << 40) - 3)
    texts = ulid_array(first, 6).to_pylist()
    assert [Ulid.parse(text).number for text in texts] == [first.number + step for step in range(6)]


def test_only_missing_ids_are_filled():
    filled = fill_ids(pa.array(["a", None, "b", None]), Runtime.seeded(1).ids).to_pylist()
    assert (filled[0], filled[2]) == ("a", "b")
    assert is_ulid(filled[1])
    assert filled[1] < filled[3]


@pytest.mark.parametrize("memory_bytes", [0, 100, 1 << 20])
def test_spool_gives_back_what_it_got_in_order(memory_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_spool(memory_bytes, Failpoints()) as spool:
        for number in range(10):
            rows = pa.table({"id": [f"{number}-{row}" for row in range(5)]})
            spool.add(PERSON, rows, has_fresh_ids=number != 3)
        assert spool.counts == {"node:Person": 50}
        assert spool.fresh == frozenset()
        assert spool.table("node:Person")["id"].to_pylist() == [f"{n}-{row}" for n in range(10) for row in range(5)]
        assert bool(list(tmp_path.iterdir())) == (memory_bytes < 1 << 20)
    assert list(tmp_path.iterdir()) == []


def test_progress_tells_bytes_and_rows(tmp_path):
    told = []
    lines = "".join(f'{{"type":"Person","data":{{"name":"p{number}"}}}}\n' for number in range(300))
    with make_graph(tmp_path / "graph", "node Person { name: String @key }") as graph:
        load_lines(
            graph,
            tmp_path / "rows.jsonl",
            lines,
            "append",
            progress=told.append,
            settings=LoadSettings(chunk_bytes=2048),
        )
    read = [state for state in told if state.phase == "read"]
    assert read[-1].bytes_read == read[-1].bytes_total == len(lines)
    assert [state.rows for state in read] == sorted(state.rows for state in read)
    assert (told[-1].phase, told[-1].rows) == ("write", 300)


def test_load_demands_the_head_and_the_schema_it_was_told(tmp_path):
    with make_graph(tmp_path / "graph", "node Person { name: String @key }") as graph:
        line = '{"type":"Person","data":{"name":"a"}}\n'
        with pytest.raises(PreconditionFailedError):
            load_lines(
                graph,
                tmp_path / "r.jsonl",
                line,
                "append",
                expected_head=CommitId(Ulid.parse("01ARZ3NDEKTSV4RRFFQ69G5FAV")),
            )
        with pytest.raises(SchemaMovedError):
            load_lines(graph, tmp_path / "r.jsonl", line, "append", schema_hash="sha256:0")
        assert export(graph) == []
