"""Input made to hurt: a clear error, the graph as it was, and no memory beyond what the settings allow."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from tests.load_graph import export, load_files, load_lines, make_graph

from omnigraph.engine.load import LoadSettings, Source
from omnigraph.errors import (
    BadRowsError,
    ConstraintViolationError,
    FileAccessError,
    FileMissingError,
    KeyExistsError,
    SourceTooLargeError,
    TypeMissingError,
    UsageError,
)

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
edge Knows: Person -> Person @card(0..2)
"""
ADA = '{"type":"Person","data":{"name":"Ada"}}\n'


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        load_lines(opened, tmp_path / "seed.jsonl", ADA, "append")
        before = export(opened)
        yield opened
        assert export(opened) == before


def _people(count):
    return "".join(f'{{"type":"Person","data":{{"name":"p{number}"}}}}\n' for number in range(count))


def test_truncated_gzip_is_named(graph, tmp_path):
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(_people(5000).encode())[:-40])
    with pytest.raises(FileAccessError, match=r"data\.jsonl\.gz' is not readable"):
        load_files(graph, [str(path)], "append")


def test_damaged_gzip_is_named(graph, tmp_path):
    path = tmp_path / "data.jsonl.gz"
    packed = bytearray(gzip.compress(_people(5000).encode()))
    packed[200:400] = bytes(200)
    path.write_bytes(bytes(packed))
    with pytest.raises((FileAccessError, BadRowsError)):
        load_files(graph, [str(path)], "append")


def test_truncated_zstd_is_named(graph, tmp_path):
    path = tmp_path / "data.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x04\x58\x00")
    with pytest.raises(FileAccessError, match="not readable"):
        load_files(graph, [str(path)], "append")


def test_line_of_a_hundred_megabytes_is_refused_without_reading_it_all(graph, tmp_path):
    path = tmp_path / "data.jsonl"
    with path.open("wb") as stream:
        stream.write(ADA.replace("Ada", "Bob").encode())
        stream.write(b'{"type":"Person","data":{"name":"')
        stream.truncate(100 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(SourceTooLargeError, match="line 2 of") as caught:
            load_files(graph, [str(path)], "append", settings=LoadSettings(max_line_bytes=8 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.details.limit == 8 << 20
    assert peak < 40 << 20


def test_long_line_within_the_limit_is_loaded_like_any_other(tmp_path):
    name = "x" * (3 << 20)
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        settings = LoadSettings(chunk_bytes=1 << 16)
        load_lines(graph, tmp_path / "a.jsonl", f"{ADA}{ADA.replace('Ada', name)}", "append", settings=settings)
        assert [row["data"]["name"] for row in export(graph)] == ["Ada", name]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_json_is_refused(graph, tmp_path, opening):
    deep = opening * 200_000
    with pytest.raises(BadRowsError, match=r"data\.jsonl:1"):
        load_lines(graph, tmp_path / "data.jsonl", f'{{"type":"Person","data":{{"tags":{deep}}}}}\n', "append")


def test_second_value_on_a_line_that_would_crash_a_lenient_reader_is_refused(graph, tmp_path):
    line = '{"type":"Person","data":{"name":"Bob"}}null{"type":"Person","data":{"name":"Cid"}}\n'
    with pytest.raises(BadRowsError, match="invalid strict JSON at line 1"):
        load_lines(graph, tmp_path / "data.jsonl", line, "append")


def test_million_digits_are_refused(graph, tmp_path):
    digits = "9" * 1_000_000
    with pytest.raises(BadRowsError):
        load_lines(
            graph, tmp_path / "data.jsonl", f'{{"type":"Person","data":{{"name":"B","age":{digits}}}}}\n', "merge"
        )


def test_binary_noise_is_refused_line_by_line(graph, tmp_path):
    noise = bytes(range(256)) * 20
    with pytest.raises(BadRowsError) as caught:
        load_lines(graph, tmp_path / "data.jsonl", noise, "append")
    assert caught.value.details.total == noise.count(b"\n") + (not noise.endswith(b"\n"))


def test_many_bad_rows_are_counted_and_the_first_hundred_kept(graph, tmp_path):
    lines = '{"type":"Person","data":{"name":1}}\n' * 3000
    errors = tmp_path / "errors.jsonl"
    with pytest.raises(BadRowsError, match=r"and 2999 more") as caught:
        load_lines(graph, tmp_path / "data.jsonl", lines, "append", errors_to=errors)
    assert len(caught.value.details.items) == 100
    assert [item.line for item in caught.value.details.items] == list(range(1, 101))
    written = [json.loads(line) for line in errors.read_text().splitlines()]
    assert [row["line"] for row in written] == list(range(1, 3001))
    assert {row["property"] for row in written} == {"name"}


def test_all_constraint_violations_go_to_the_errors_file(graph, tmp_path):
    lines = "".join(f'{{"edge":"Knows","from":"Ada","to":"q{number}"}}\n' for number in range(500))
    errors = tmp_path / "errors.jsonl"
    with pytest.raises(ConstraintViolationError) as caught:
        load_lines(graph, tmp_path / "data.jsonl", lines, "append", errors_to=errors, limit=10)
    assert len(caught.value.details.items) == 10
    assert len(errors.read_text().splitlines()) == caught.value.details.total == 501


def test_all_rows_that_exist_go_to_the_errors_file(graph, tmp_path):
    lines = ADA.replace("Ada", "Bob") + ADA
    errors = tmp_path / "errors.jsonl"
    with pytest.raises(KeyExistsError, match=r"data\.jsonl:2: table '.*' already has this id: 'Ada'"):
        load_lines(graph, tmp_path / "data.jsonl", lines, "append", errors_to=errors)
    assert [json.loads(line)["line"] for line in errors.read_text().splitlines()] == [2]


def test_full_disk_for_temporary_files_is_named(graph, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(FileAccessError, match="cannot write temporary files"):
        load_lines(graph, tmp_path / "a.jsonl", _people(10), "append", settings=LoadSettings(memory_bytes=0))


def test_good_load_leaves_no_errors_file(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        load_lines(graph, tmp_path / "data.jsonl", ADA, "append", errors_to=tmp_path / "errors.jsonl")
    assert not (tmp_path / "errors.jsonl").exists()


def test_errors_file_that_cannot_be_written_is_named(graph, tmp_path):
    with pytest.raises(FileAccessError, match="not writable"):
        load_lines(graph, tmp_path / "data.jsonl", "oops\n", "append", errors_to=tmp_path / "no" / "errors.jsonl")


def test_missing_file_is_named(graph, tmp_path):
    with pytest.raises(FileMissingError, match=r"nowhere\.jsonl"):
        load_files(graph, [str(tmp_path / "nowhere.jsonl")], "append")


def test_glob_that_matches_nothing_is_named(graph, tmp_path):
    with pytest.raises(FileMissingError, match="no file matches"):
        load_files(graph, [str(tmp_path / "*.jsonl.nope")], "append")


def test_directory_is_refused(graph, tmp_path):
    with pytest.raises(FileAccessError):
        load_files(graph, [Source(path=str(tmp_path), format="jsonl")], "append")


def test_file_of_an_unknown_format_is_refused(graph, tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(ADA)
    with pytest.raises(UsageError, match="extension"):
        load_files(graph, [str(path)], "append")


def test_standard_input_can_be_named_once(graph):
    with pytest.raises(UsageError, match="only once"):
        load_files(graph, ["-", "-"], "append")


def test_noise_that_claims_to_be_parquet_is_refused(graph, tmp_path):
    path = tmp_path / "Person.parquet"
    path.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(FileAccessError, match="not readable"):
        load_files(graph, [str(path)], "append")


def test_table_file_of_no_type_is_refused(graph, tmp_path):
    path = tmp_path / "Persons.csv"
    path.write_text("name\nBob\n")
    with pytest.raises(TypeMissingError, match="the schema has no type") as caught:
        load_files(graph, [str(path)], "append")
    assert caught.value.details.near[0] == "Person"


def test_one_bad_row_in_the_last_file_keeps_the_first_ones_out(graph, tmp_path):
    (tmp_path / "a.jsonl").write_text(_people(100))
    (tmp_path / "b.jsonl").write_text("oops\n")
    with pytest.raises(BadRowsError, match=r"b\.jsonl:1"):
        load_files(graph, [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], "append")
