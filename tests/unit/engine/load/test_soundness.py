"""Arrow data is validated in full before anything of it is stored: nothing that comes in can make a type unreadable."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, load_lines, make_graph

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.load import LoadSettings
from omnigraph.engine.load.reading import parquet as parquet_module
from omnigraph.engine.load.reading.parquet import parse_values
from omnigraph.engine.load.reading.tables import sound_rows
from omnigraph.errors import BadRowsError, FileAccessError

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  tags: [String]?  photo: Blob? }
edge Knows: Person -> Person { note: String? }
"""
ADA = '{"type":"Person","data":{"name":"Ada"}}\n'


@pytest.fixture
def graph(tmp_path):
    """A graph that must be as it was, and still take rows, whatever a test tries to load."""
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        load_lines(opened, tmp_path / "seed.jsonl", ADA, "append")
        before, head = export(opened), opened.snapshot().state.version
        yield opened
        assert export(opened) == before
        assert opened.snapshot().state.version == head
        load_lines(opened, tmp_path / "more.jsonl", ADA.replace("Ada", "Bob"), "append")


def _broken(*cells, large=False):
    """Return a column of texts over bytes that nobody looked at."""
    data = pa.array(cells, pa.large_binary() if large else pa.binary())
    return pa.Array.from_buffers(
        pa.large_string() if large else pa.string(), len(data), data.buffers(), data.null_count
    )


NAMES = pa.array(["Cid", "Dan", "Eve"])
ROWS = {
    "text of a blob": {"name": NAMES, "photo": _broken(b"base64:aGk=", b"D\xff", None)},
    "key": {"name": _broken(b"Cid", b"D\xff", b"Eve")},
    "large text": {"name": _broken(b"Cid", b"\xc3", b"Eve", large=True)},
    "text of a date": {"name": NAMES, "born": _broken(b"2024-01-01", b"\xed\xa0\x80", None)},
    "item of a list": {
        "name": NAMES,
        "tags": pa.ListArray.from_arrays(pa.array([0, 1, 3, 3], pa.int32()), _broken(b"x", b"y", b"\x80")),
    },
    "item of a large list": {
        "name": NAMES,
        "tags": pa.LargeListArray.from_arrays(pa.array([0, 1, 3, 3]), _broken(b"x", b"y", b"\x80")),
    },
}


@pytest.mark.parametrize("columns", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_text_that_is_not_utf8_is_refused_with_file_row_and_column(graph, tmp_path, columns, mode):
    pq.write_table(pa.table(columns), tmp_path / "Person.parquet")
    with pytest.raises(BadRowsError, match=r"Person\.parquet:2: invalid UTF-8 in column '") as caught:
        load_files(graph, [str(tmp_path / "Person.parquet")], mode, settings=LoadSettings(batch_rows=2))
    problem = caught.value.details.items[0]
    assert (problem.line, problem.property, problem.rule) == (2, list(columns)[-1], "arrow")


def test_end_of_an_edge_that_is_not_utf8_is_refused(graph, tmp_path):
    pq.write_table(pa.table({"from": ["Ada"], "to": _broken(b"Ad\xe1")}), tmp_path / "Knows.parquet")
    with pytest.raises(BadRowsError, match=r"Knows\.parquet:1: invalid UTF-8 in column 'to'"):
        load_files(graph, [str(tmp_path / "Knows.parquet")], "append")


def test_dictionary_with_broken_text_is_refused(graph, tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), _broken(b"Cid", b"D\xff"))
    pq.write_table(pa.table({"name": column}), tmp_path / "Person.parquet")
    with pytest.raises((BadRowsError, FileAccessError), match=r"Person\.parquet"):
        load_files(graph, [str(tmp_path / "Person.parquet")], "append")


@pytest.mark.parametrize(
    ("column", "fragment"),
    [
        ({"seen": pa.array([2**64 - 1], pa.uint64())}, "exceeds Int64 range"),
        ({"born": pa.array([2**64 - 1], pa.uint64())}, "out of range"),
        ({"born": pa.array([2**64 - 1], pa.uint64()).dictionary_encode()}, "out of range"),
    ],
)
def test_number_that_is_no_time_is_refused_with_its_row(graph, tmp_path, column, fragment):
    pq.write_table(pa.table({"name": ["Cid"], **column}), tmp_path / "Person.parquet")
    with pytest.raises(BadRowsError, match=rf"Person\.parquet:1: .*{fragment}"):
        load_files(graph, [str(tmp_path / "Person.parquet")], "append")


def _check(**columns):
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return sound_rows(_Named(), {name: name for name in columns}, batch, np.arange(1, batch.num_rows + 1))


class _Named:
    name = "Person"


def test_sound_rows_of_a_batch_are_kept():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, None]), _broken(b"\xff", b"ok"))
    found = _check(a=_broken(b"w", b"x", b"\xfe", b"z"), b=dictionary)
    assert [problem.line for problem in found.problems] == [2, 3]
    assert [problem.property for problem in found.problems] == ["b", "a"]
    assert found.numbers.tolist() == [1, 4]
    assert found.batch.column("a").to_pylist() == ["w", "z"]


UNSOUND = {
    "indices beyond a dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 5], pa.int8()), ["x"], safe=False
    ),
    "offsets that run backwards": lambda: pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 3, 1], np.int32)), pa.py_buffer(b"abc")]
    ),
    "offsets beyond the bytes": lambda: pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 9999, 3], np.int32)), pa.py_buffer(b"abc")]
    ),
    "lists beyond their items": lambda: pa.Array.from_buffers(
        pa.list_(pa.string()), 2, [None, pa.py_buffer(np.array([0, 77, 1], np.int32))], children=[pa.array(["x"])]
    ),
}


@pytest.mark.parametrize("make", UNSOUND.values(), ids=UNSOUND.keys())
def test_column_whose_layout_is_broken_leaves_no_row(make):
    found = _check(a=pa.array(["x", "y"]), b=make())
    assert found.batch.num_rows == 0
    assert [(problem.line, problem.property) for problem in found.problems] == [(1, "b")]
    assert "column 'b' is damaged: " in found.problems[0].message


def test_time_beyond_64_bits_is_kept_exactly_for_the_decoder():
    seconds = pa.array([5, 2**62, None], pa.timestamp("s"))
    parsed = parse_values(PropertyType(scalar=Scalar.DATETIME), seconds)
    assert parsed.bad is not None
    assert [parsed.value_at(row) for row in range(3)] == [5000, 1000 * 2**62, None]
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), seconds.dictionary_encode())
    parsed = parse_values(PropertyType(scalar=Scalar.DATETIME, is_list=True), lists)
    assert [parsed.value_at(row) for row in range(2)] == [[5000, 1000 * 2**62], [None]]


def test_damaged_page_with_a_checksum_is_noticed(graph, tmp_path):
    path = tmp_path / "Person.parquet"
    table = pa.table({"name": [f"p{number}" for number in range(500)], "age": pa.array(range(500), pa.int32())})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    at = data.index(b"p250")
    data[at + 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileAccessError, match=r"Person\.parquet' is not readable"):
        load_files(graph, [str(path)], "append")


def test_damaged_page_of_an_export_is_noticed_without_its_manifest(graph, tmp_path):
    graph.export(tmp_path / "out", "parquet")
    path = tmp_path / "out" / "nodes" / "Person" / "part-00000.parquet"
    data = bytearray(path.read_bytes())
    ids = pq.read_metadata(path).row_group(0).column(0)
    first = ids.dictionary_page_offset or ids.data_page_offset
    data[first + ids.total_compressed_size - 1] ^= 4
    (tmp_path / "Person.parquet").write_bytes(data)
    with pytest.raises(FileAccessError, match="CRC"):
        load_files(graph, [str(tmp_path / "Person.parquet")], "merge")


def test_footer_that_promises_other_rows_is_noticed(graph, tmp_path, monkeypatch):
    pq.write_table(pa.table({"name": ["Cid", "Dan"]}), tmp_path / "Person.parquet")
    monkeypatch.setattr(parquet_module, "_batches", lambda *_: iter([pa.record_batch({"name": pa.array(["Cid"])})]))
    with pytest.raises(FileAccessError, match="promises 2 rows, but its pages end at row 1"):
        load_files(graph, [str(tmp_path / "Person.parquet")], "append")
