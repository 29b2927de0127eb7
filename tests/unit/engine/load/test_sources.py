"""Where rows come from: compressed files, globs, standard input, table files."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, load_lines, make_graph

from omnigraph.engine.load import LoadSettings, Source, load
from omnigraph.errors import BadRowsError, ExternalBlobError, TypeMissingError, UsageError
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  ratio: F64?  ok: Bool?
              tags: [String]?  face: Vector(2)?  photo: Blob? }
node Knows { a: String? }
edge Likes: Person -> Person { weight: F32? }
edge Knows: Person -> Person { since: Date? }
"""
LINES = '{"type":"Person","data":{"name":"Ada","age":36}}\n{"type":"Person","data":{"name":"Bob"}}\n'


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def _names(graph):
    return [row["data"]["id"] for row in export(graph)]


def _person(**values):
    empty = dict.fromkeys(["age", "born", "seen", "ratio", "ok", "tags", "face", "photo"])
    return {"type": "Person", "data": {"id": values["name"], **empty, **values}}


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compression_is_recognised_whatever_the_name(graph, tmp_path, codec):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(LINES.encode())
    (tmp_path / "rows.jsonl").write_bytes(sink.getvalue().to_pybytes())
    load_files(graph, [str(tmp_path / "rows.jsonl")], "append")
    assert _names(graph) == ["Ada", "Bob"]


def test_gzip_of_several_members_is_read_to_its_end(graph, tmp_path):
    first, second = LINES.splitlines(keepends=True)
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(first.encode()) + gzip.compress(second.encode()))
    load_files(graph, [str(path)], "append")
    assert _names(graph) == ["Ada", "Bob"]


def test_files_and_globs_make_one_commit(graph, tmp_path):
    for number, line in enumerate(LINES.splitlines()):
        (tmp_path / f"part-{number}.jsonl").write_text(line)
    (tmp_path / "more.ndjson").write_text('{"type":"Person","data":{"name":"Cid"}}')
    before = graph.snapshot().state.version
    result = load_files(graph, [str(tmp_path / "part-*.jsonl"), str(tmp_path / "more.ndjson")], "append")
    assert result.nodes_loaded == {"Person": 3}
    assert graph.snapshot().state.version == before + 1
    assert _names(graph) == ["Ada", "Bob", "Cid"]


def test_standard_input_is_jsonl(graph, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(LINES.encode()))))
    load_files(graph, ["-"], "append")
    assert _names(graph) == ["Ada", "Bob"]


def test_problem_on_standard_input_is_named_so(graph, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"\n\noops\n"))))
    with pytest.raises(BadRowsError, match="<stdin>:3"):
        load_files(graph, ["-"], "append")


def test_small_chunks_and_spilling_change_nothing(graph, tmp_path):
    lines = "".join(f'{{"type":"Person","data":{{"name":"p{number:04}","age":{number}}}}}\n' for number in range(2000))
    settings = LoadSettings(chunk_bytes=4096, memory_bytes=8192)
    result = load_lines(graph, tmp_path / "rows.jsonl", lines, "append", settings=settings)
    assert result.nodes_loaded == {"Person": 2000}
    assert [row["data"]["age"] for row in export(graph)] == list(range(2000))


def test_line_numbers_go_on_over_chunks(graph, tmp_path):
    lines = LINES + "\n" * 500 + "oops\n" + "\n" * 500 + '{"type":"Person","data":{}}\n'
    with pytest.raises(BadRowsError) as caught:
        load_lines(graph, tmp_path / "r.jsonl", lines, "append", settings=LoadSettings(chunk_bytes=64))
    assert [item.line for item in caught.value.details.items] == [503, 1004]


def test_csv_by_file_name(graph, tmp_path):
    (tmp_path / "Person.csv").write_text(
        "name,age,born,seen,ratio,ok,tags,face,photo\n"
        'Ada,36,2024-01-01,1970-01-01T00:00:01Z,0.5,true,"[""a"",""b""]","[1,2.5]",base64:aGk=\n'
        '" ",,,,1e3,false,,,\n'
        '"Bob, the ""builder""\nof x",-1,20240101,,,,[],,\n'
    )
    result = load_files(graph, [str(tmp_path / "Person.csv")], "append")
    assert result.nodes_loaded == {"Person": 3}
    builder = 'Bob, the "builder"\nof x'
    assert export(graph) == [
        _person(name=" ", ratio=1000.0, ok=False),
        _person(
            name="Ada",
            age=36,
            born=19723,
            seen=1000,
            ratio=0.5,
            ok=True,
            tags=["a", "b"],
            face=[1.0, 2.5],
            photo="base64:aGk=",
        ),
        _person(name=builder, age=-1, born=19723, tags=[]),
    ]


def test_csv_of_edges_with_mapped_columns(graph, tmp_path):
    load_lines(graph, tmp_path / "seed.jsonl", LINES, "append")
    (tmp_path / "liking.csv").write_text("who,whom,w\nAda,Bob,0.5\nBob,Ada,\n")
    columns = {"from": "who", "to": "whom", "weight": "w"}
    result = load_files(
        graph, [Source(path=str(tmp_path / "liking.csv"), type_name="Likes", columns=columns)], "append"
    )
    assert result.edges_loaded == {"Likes": 2}
    edges = [row for row in export(graph) if "edge" in row]
    assert sorted((row["from"], row["to"], row["data"]["weight"]) for row in edges) == [
        ("Ada", "Bob", 0.5),
        ("Bob", "Ada", None),
    ]


@pytest.mark.parametrize(
    ("text", "line", "fragment"),
    [
        ("name,age\nAda,1\nBob,x\n", 3, "property 'age' expects I32?, got a string"),
        ("name,age\nAda,99999999999\n", 2, "exceeds Int32 range"),
        ("name,age\nAda,1.0\n", 2, "property 'age' expects"),
        ("name,ok\nAda,maybe\n", 2, "property 'ok' expects"),
        ("name,born\nAda,tomorrow\n", 2, "invalid Date literal"),
        ("name,ratio\nAda,nan\n", 2, "property 'ratio' expects"),
        ("name,tags\nAda,a\n", 2, "expects a JSON array"),
        ('name,tags\nAda,"[1]"\n', 2, "null or invalid item"),
        ("name,photo\nAda,aGk=\n", 2, "not allowed"),
        ("name,age\nAda\n", 2, "has 1 cells, but the header has 2"),
        ("name,age\nA,1\nB\nC,x\n", 3, "has 1 cells"),
        ("name,nick\nAda,A\n", 1, "unknown input field 'nick'"),
        ("name,name\nAda,A\n", 1, "two columns map to 'name'"),
        ("age\n1\n", 2, "non-nullable property 'name'"),
        ("name,age\n,1\n", 2, "non-nullable property 'name'"),
        ("id,name\nx,Ada\n", 2, "does not match"),
    ],
)
def test_bad_csv_is_refused_with_its_line(graph, tmp_path, text, line, fragment):
    (tmp_path / "Person.csv").write_text(text)
    with pytest.raises((BadRowsError, ExternalBlobError), match=r"Person\.csv") as caught:
        load_files(graph, [str(tmp_path / "Person.csv")], "append")
    assert fragment in str(caught.value)
    assert f"Person.csv:{line}: " in str(caught.value)
    assert export(graph) == []


def test_csv_with_broken_text_is_refused_with_its_line(graph, tmp_path):
    (tmp_path / "Person.csv").write_bytes(b"name\nAda\nB\xff\n")
    with pytest.raises(BadRowsError, match=r"Person\.csv:3: invalid UTF-8 in column 'name'"):
        load_files(graph, [str(tmp_path / "Person.csv")], "append")


@pytest.mark.parametrize("text", ["", "name\n"])
def test_csv_without_records_loads_nothing(graph, tmp_path, text):
    (tmp_path / "Person.csv").write_text(text)
    assert load_files(graph, [str(tmp_path / "Person.csv")], "append").commit is None


def test_name_of_a_node_type_and_an_edge_type_must_be_made_clear(graph, tmp_path):
    path = tmp_path / "Knows.csv"
    path.write_text("a\nx\n")
    with pytest.raises(UsageError, match="a node type and an edge type"):
        load_files(graph, [str(path)], "append")
    load_files(graph, [Source(path=str(path), type_name="node:Knows")], "append")
    assert [row["data"]["a"] for row in export(graph)] == ["x"]


def test_edge_file_without_ends_is_refused(graph, tmp_path):
    (tmp_path / "Likes.csv").write_text("from,weight\nAda,1\n")
    with pytest.raises(BadRowsError, match="requires field 'to'"):
        load_files(graph, [str(tmp_path / "Likes.csv")], "append")


def test_mapping_of_a_column_that_is_not_there_is_refused(graph, tmp_path):
    (tmp_path / "Person.csv").write_text("name\nAda\n")
    source = Source(path=str(tmp_path / "Person.csv"), columns={"age": "years"})
    with pytest.raises(BadRowsError, match="mapped to column 'years', which the file does not have"):
        load_files(graph, [source], "append")


def test_parquet_of_every_type(graph, tmp_path):
    utc = dt.UTC
    table = pa.table(
        {
            "name": pa.array(["Ada", "Bob"]).dictionary_encode(),
            "age": pa.array([36, None], pa.int64()),
            "born": pa.array([dt.date(2024, 1, 1), None], pa.date32()),
            "seen": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, utc), None], pa.timestamp("us", "UTC")),
            "ratio": pa.array([1, 2], pa.int32()),
            "ok": [True, None],
            "tags": pa.array([["a"], None], pa.large_list(pa.large_string())),
            "face": pa.array([None, [1.0, 2.0]], pa.list_(pa.float64(), 2)),
            "photo": pa.array([b"hi", None], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "Person.parquet")
    load_files(graph, [str(tmp_path / "Person.parquet")], "append", settings=LoadSettings(batch_rows=1))
    assert export(graph) == [
        _person(name="Ada", age=36, born=19723, seen=-1, ratio=1.0, ok=True, tags=["a"], photo="base64:aGk="),
        _person(name="Bob", ratio=2.0, face=[1.0, 2.0]),
    ]


@pytest.mark.parametrize(
    ("column", "line", "fragment"),
    [
        ({"age": pa.array(["1", "2"])}, 1, "property 'age' expects I32?, got a column of string"),
        ({"age": pa.array([1.0, 2.0])}, 1, "got a column of double"),
        ({"age": pa.array([1, 2**31])}, 2, "exceeds Int32 range"),
        ({"ratio": pa.array([1.0, float("nan")])}, 2, "not a number"),
        ({"face": pa.array([[1.0, 2.0], [1.0]])}, 2, "expects 2 dimensions, got 1"),
        ({"tags": pa.array([["a"], ["b", None]])}, 2, "null or invalid item"),
        ({"name": pa.array(["Ada", None])}, 2, "non-nullable property 'name'"),
        ({"nick": pa.array(["a", "b"])}, 1, "unknown input field 'nick'"),
    ],
)
def test_bad_parquet_is_refused_with_its_row(graph, tmp_path, column, line, fragment):
    pq.write_table(pa.table({"name": ["Ada", "Bob"], **column}), tmp_path / "Person.parquet")
    with pytest.raises(BadRowsError) as caught:
        load_files(graph, [str(tmp_path / "Person.parquet")], "append")
    assert fragment in str(caught.value)
    assert caught.value.details.items[0].line == line
    assert export(graph) == []


def test_parquet_cannot_come_from_standard_input(graph):
    with pytest.raises(UsageError, match="standard input"):
        load_files(graph, [Source(path="-", format="parquet", type_name="Person")], "append")


def test_patch_from_a_table_file_changes_the_columns_it_has(graph, tmp_path):
    load_lines(graph, tmp_path / "seed.jsonl", LINES, "append")
    (tmp_path / "Person.csv").write_text("name,ratio\nAda,0.5\n")
    load_files(graph, [str(tmp_path / "Person.csv")], "merge", patch=True)
    assert export(graph)[0] == _person(name="Ada", age=36, ratio=0.5)


def test_type_that_the_branch_does_not_have_is_refused(graph, tmp_path):
    other = make_graph(tmp_path / "other", "node City { name: String @key }")
    with other:
        catalog = other.catalog()
    (tmp_path / "c.jsonl").write_text('{"type":"City","data":{"name":"Rome"}}\n')
    branch_writer = graph.store.branch_writer(BranchName(MAIN))
    with pytest.raises(TypeMissingError, match="was not found"):
        load(branch_writer, catalog, [str(tmp_path / "c.jsonl")], "append")
