"""Small files that stand for much work: blank lines, bad rows and long runs are cheap, counted, or refused."""

from __future__ import annotations

import gzip
import io
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, load_lines, make_graph

from omnigraph.engine.load import LoadSettings, Source
from omnigraph.engine.load import intake as problems
from omnigraph.engine.load.reading import csv, tables
from omnigraph.engine.load.reading import jsonl as chunks
from omnigraph.engine.load.reading.jsonl import iter_chunks
from omnigraph.engine.load.sources import source as sources
from omnigraph.engine.load.sources.source import ByteStream
from omnigraph.engine.rows import RowDecoder, lines
from omnigraph.engine.rows import columnar as chunk
from omnigraph.errors import BadRowsError, SourceTooLargeError

SCHEMA = "node Person { name: String @key  age: I32? }"
MIB = 1 << 20


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


@pytest.fixture
def decoded(monkeypatch):
    """The lines that were decoded one by one."""
    seen, decode = [], RowDecoder.decode
    monkeypatch.setattr(
        RowDecoder, "decode", lambda self, line, number: (seen.append(number), decode(self, line, number))[1]
    )
    return seen


@pytest.fixture
def split_bytes(monkeypatch):
    """The sizes of the chunks whose lines were told apart."""
    sizes, split = [], lines.split
    monkeypatch.setattr(chunk, "split", lambda data: (sizes.append(len(data)), split(data))[1])
    return sizes


@pytest.fixture
def few_problems(monkeypatch):
    for module in (chunk, problems, tables, csv):
        monkeypatch.setattr(module, "MAX_PROBLEMS", 50)


def _pack(path, *pieces):
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for piece in pieces:
            stream.write(piece)
    return str(path)


def _person(number):
    return b'{"type":"Person","data":{"name":"p%07d"}}\n' % number


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\n"])
def test_blank_lines_of_a_packed_file_are_not_looked_at_one_by_one(graph, tmp_path, decoded, split_bytes, blank):
    """A gzip of 292 KB kept a load busy for minutes."""
    run = blank * (4 * MIB)
    path = _pack(tmp_path / "rows.jsonl.gz", _person(1), run, _person(2), run, b"oops\n")
    with pytest.raises(BadRowsError, match=rf"rows\.jsonl\.gz:{2 * 4 * MIB + 3}: "):
        load_files(graph, [path], "append")
    assert decoded == [2 * 4 * MIB + 3]
    # Runs of blank lines are passed over as a whole; what is told apart are the pieces with something in them.
    assert sum(split_bytes) <= 3 * (256 << 10) + 3


def test_blank_lines_between_rows_change_nothing(graph, tmp_path, decoded):
    rows = b"".join(_person(number) + b" \t\r\n\n" * (number % 7) for number in range(2000))
    load_lines(graph, tmp_path / "rows.jsonl", rows, "append")
    assert [row["data"]["name"] for row in export(graph)] == [f"p{number:07}" for number in range(2000)]
    assert decoded == []


def test_chunk_of_very_short_lines_is_cut_small_and_keeps_its_line_numbers():
    text = b"".join([*map(_person, range(3)), b"x\n\n" * 500_000, *map(_person, range(3))])
    raw = io.BytesIO(text)
    found = list(iter_chunks(ByteStream("x", raw, raw), "x", chunk_bytes=16 * MIB, max_line_bytes=MIB))
    assert b"".join(piece.data for piece in found) == text
    assert max(len(piece.data) for piece in found) <= (256 << 10) + len(_person(0))
    line = 1
    for piece in found:
        assert piece.first_line == line
        line += piece.data.count(b"\n")


def test_chunk_of_rows_is_cut_as_large_as_it_was_asked_for():
    raw = io.BytesIO(b"".join(map(_person, range(50_000))))
    found = list(iter_chunks(ByteStream("x", raw, raw), "x", chunk_bytes=16 * MIB, max_line_bytes=MIB))
    assert len(found) == 1


@pytest.mark.usefixtures("few_problems")
def test_reading_stops_after_very_many_bad_rows(graph, tmp_path, decoded, monkeypatch):
    monkeypatch.setattr(chunks, "_DENSE_BYTES", 500)
    errors = tmp_path / "errors.jsonl"
    with pytest.raises(BadRowsError, match=r"\(and 49 more; the rest was not read\)") as caught:
        load_files(graph, [_pack(tmp_path / "rows.jsonl.gz", b"x\n" * 500_000)], "append", errors_to=errors)
    assert caught.value.details.total == 50
    assert len(errors.read_text().splitlines()) == 50
    # One piece for each thread and one more may have been under way.
    assert len(decoded) <= 4 * 50
    assert export(graph) == []


@pytest.mark.usefixtures("few_problems")
@pytest.mark.parametrize("row", ["x,1,2\n", "x\n", "x,old\n"])
def test_reading_stops_after_very_many_bad_records(graph, tmp_path, row):
    (tmp_path / "Person.csv").write_text("name,age\n" + row * 100_000)
    with pytest.raises(BadRowsError, match="the rest was not read") as caught:
        load_files(graph, [str(tmp_path / "Person.csv")], "append")
    assert caught.value.details.total <= 100


def test_few_bad_rows_are_all_counted(graph, tmp_path):
    with pytest.raises(BadRowsError, match=r"\(and 299 more\)") as caught:
        load_lines(graph, tmp_path / "rows.jsonl", "x\n" * 300, "append")
    assert caught.value.details.total == 300


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_file_that_holds_far_more_than_it_stores_is_refused(graph, tmp_path, monkeypatch, codec):
    monkeypatch.setattr(sources, "_UNPACKED_BYTES", 8 * MIB)
    path = tmp_path / "rows.jsonl"
    with pa.CompressedOutputStream(str(path), codec) as stream:
        stream.write(b"\n" * (64 * MIB))
    with pytest.raises(SourceTooLargeError, match=r"rows\.jsonl.* expands from \d+ to more than") as caught:
        load_files(graph, [str(path)], "append", settings=LoadSettings(chunk_bytes=MIB))
    assert caught.value.details.resource == "unpacked_bytes"
    assert caught.value.details.actual < 40 * MIB


def test_standard_input_that_holds_far_more_than_it_stores_is_refused(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_UNPACKED_BYTES", MIB)
    packed = gzip.compress(b"\n" * (16 * MIB), 9)

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(packed))))
    with pytest.raises(SourceTooLargeError, match="'<stdin>' expands from"):
        load_files(graph, ["-"], "append")


def test_rows_that_are_packed_well_are_loaded(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_UNPACKED_BYTES", 1000)
    path = _pack(tmp_path / "rows.jsonl.gz", *map(_person, range(20_000)))
    assert load_files(graph, [path], "append").total == 20_000


def test_parquet_of_endless_runs_is_refused(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_UNPACKED_BYTES", MIB)
    read = []
    monkeypatch.setattr("omnigraph.engine.load.reading.parquet._batches", lambda *_: read.append(1) or iter(()))
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int8()), ["same"])
    pq.write_table(pa.table({"name": names}), tmp_path / "Person.parquet")
    with pytest.raises(SourceTooLargeError, match=r"Person\.parquet"):
        load_files(graph, [Source(path=str(tmp_path / "Person.parquet"))], "append")
    assert read == []
