"""Parts of the input: together they are the whole, whatever their size, and every row knows its line."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.load_graph import RELAXED, load_files, make_graph
from tests.session import Session

from omnigraph.engine.load import LoadSettings
from omnigraph.engine.load.reading.jsonl import iter_chunks
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import BadRowsError, SourceTooLargeError, SparkUnsupportedError
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.loads.parts import RangeStream, split_sources
from omnigraph.spark.runner import InProcessRunner
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage

SCHEMA = "node Person { name: String @key  age: I32?  @range(age, 0..150) }"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("parts") / "lines.jsonl"


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.text("ab", max_size=9), min_size=1, max_size=12),
    ends=st.booleans(),
    part_bytes=st.integers(1, 20),
    chunk_bytes=st.integers(1, 8),
)
def test_ranges_hold_every_line_once_with_its_number(file, lines, ends, part_bytes, chunk_bytes):
    data = "\n".join(lines) + ("\n" if ends else "")
    file.write_text(data)
    found = []
    before = 0
    for part in split_sources([Source(path=str(file))], SparkLoadSettings(part_bytes=part_bytes)):
        with file.open("rb") as raw:
            stream = RangeStream("x", raw, part.start, len(data) if part.end is None else part.end)
            last = 0
            for chunk in iter_chunks(stream, "x", chunk_bytes=chunk_bytes, max_line_bytes=99):
                texts = chunk.data.decode().split("\n")[:-1]
                assert chunk.first_line == last + 1
                last = chunk.last_line
                found += [(before + chunk.first_line + at, text) for at, text in enumerate(texts)]
            before += last
    assert found == list(enumerate(data.removesuffix("\n").split("\n") if data else [], start=1))


def test_row_groups_are_read_in_order_and_once(tmp_path):
    pq.write_table(pa.table({"name": [f"p{at}" for at in range(70)]}), tmp_path / "Person.parquet", row_group_size=20)
    parts = split_sources([Source(path=str(tmp_path / "Person.parquet"))], SparkLoadSettings(part_rows=40))
    assert [(part.groups.numbers, part.groups.rows_before) for part in parts] == [((0, 1), 0), ((2, 3), 40)]


def test_standard_input_is_refused_because_workers_cannot_read_it():
    with pytest.raises(SparkUnsupportedError, match="standard input"):
        split_sources([Source(path="-")], SparkLoadSettings())


@pytest.mark.parametrize(("cores", "parts"), [(1, 4), (2, 8), (16, 50), (None, 32)])
def test_there_are_four_parts_for_every_core_if_they_are_large_enough(tmp_path, cores, parts):
    with (tmp_path / "big.jsonl").open("wb") as sparse:
        sparse.truncate(400 << 20)
    found = split_sources([Source(path=str(tmp_path / "big.jsonl"))], SparkLoadSettings(), cores)
    assert len(found) == parts
    assert [part.source_number for part in found] == list(range(parts))


LINES = [{"type": "Person", "data": {"name": f"person number {at}", "age": at % 90}} for at in range(6_000)]
PLAIN = [line["data"] for line in LINES]


@pytest.mark.parametrize(
    ("name", "rows", "parts"), [("envelopes.jsonl", LINES, 9), ("Person.jsonl", PLAIN, 6), ("Person.csv", PLAIN, 1)]
)
def test_the_input_is_read_once(s3_endpoint, name, rows, parts):
    options, root = s3_endpoint.storage_options, s3_endpoint.fresh_prefix()
    if name.endswith(".csv"):
        data = b"name,age\n" + b"".join(f"{row['name']},{row['age']}\n".encode() for row in rows)
    else:
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    ControlObjects(Storage.open(f"{root}/input", options)).put(name, data)
    is_table = name.startswith("Person")
    source = Source(path=f"{root}/input/{name}", type_name="Person" if is_table else None)
    request = SparkLoadRequest(mode="append", settings=SparkLoadSettings(part_bytes=-(-len(data) // parts)))
    storage = Storage.open(f"{root}/graph", options)
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as graph:
        s3_endpoint.reset_calls()
        result = run_load(graph, [source], request, InProcessRunner())
    calls = [call for call in s3_endpoint.calls(wait_idle=True) if call.operation == "GET" and name in call.key]
    assert result.nodes_loaded == {"Person": len(rows)}
    assert len(data) <= sum(call.bytes_out for call in calls) <= 1.05 * len(data)
    assert len(calls) >= parts


def test_places_are_those_of_the_embedded_engine_in_every_part(tmp_path):
    texts = [json.dumps(line) for line in LINES[:400]]
    for at in (0, 7, 180, 399):
        texts[at] = texts[at].replace('"age": ', '"age": "x" + ')
    texts[100] = ""
    texts[250] = json.dumps({"type": "Person", "data": {"name": "a", "age": 999}})
    texts[251] = json.dumps({"type": "Person", "data": {"name": "a", "age": "b"}})
    (tmp_path / "lines.jsonl").write_text("\n".join(texts))
    with make_graph(tmp_path / "one", SCHEMA) as one, make_graph(tmp_path / "two", SCHEMA) as two:
        found = []
        with pytest.raises(BadRowsError) as caught:
            load_files(one, [str(tmp_path / "lines.jsonl")], "append")
        expected = caught.value.details
        for part_bytes in (100, 3_000, 1 << 20):
            request = SparkLoadRequest(mode="append", settings=SparkLoadSettings(part_bytes=part_bytes))
            with pytest.raises(BadRowsError) as caught:
                run_load(two, [str(tmp_path / "lines.jsonl")], request, InProcessRunner())
            found.append(caught.value.details)
    assert [item.line for item in expected.items] == [1, 8, 181, 252, 400]
    assert found == [expected] * 3


def test_a_line_that_is_too_long_is_named_by_its_number_in_the_file(tmp_path):
    texts = [json.dumps(line) for line in LINES[:60]]
    texts[44] = texts[44].replace("person", "p" * 600)
    (tmp_path / "lines.jsonl").write_text("\n".join(texts) + "\n")
    read = LoadSettings(threads=1, max_line_bytes=400, chunk_bytes=256)
    settings_of = [SparkLoadSettings(read=read, part_bytes=part_bytes) for part_bytes in (700, 1 << 20)]
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        for chosen in settings_of:
            with pytest.raises(SourceTooLargeError, match="line 45 of"):
                run_load(
                    graph,
                    [str(tmp_path / "lines.jsonl")],
                    SparkLoadRequest(mode="append", settings=chosen),
                    InProcessRunner(),
                )
