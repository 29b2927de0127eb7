"""Tables as others write them: every dialect of CSV, truth values, dates and numbers that lose nothing."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, make_graph

from omnigraph.engine.load import Dialect, Source
from omnigraph.errors import BadRowsError, FileAccessError, UsageError

SCHEMA = """
node Person {
    name: String @key  age: I32?  ok: Bool?  born: Date?  seen: DateTime?  pay: F64?  sum: Decimal(8, 2)?
    note: String?  tags: [String]?
}
edge Knows: Person -> Person { kind: String? }
"""


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def _load(graph, tmp_path, text, *, name="people.csv", columns=None, type_name="Person", **settings):
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    source = Source(path=str(tmp_path / name), type_name=type_name, columns=columns or {}, dialect=Dialect(**settings))
    return load_files(graph, [source], "append")


def _rows(graph, *names):
    return [tuple(row["data"][name] for name in names) for row in export(graph) if "type" in row]


@pytest.mark.parametrize("delimiter", [";", "\t", "|", ":"])
def test_cells_are_separated_by_any_sign(graph, tmp_path, delimiter):
    text = f'name,age,note\nada,36,"a{delimiter}b"\n'.replace(",", delimiter)
    _load(graph, tmp_path, text, delimiter=delimiter)
    assert _rows(graph, "name", "age", "note") == [("ada", 36, f"a{delimiter}b")]


def test_a_tsv_file_has_tabs(graph, tmp_path):
    _load(graph, tmp_path, "name\tnote\nada\ta,b\n", name="people.tsv")
    assert _rows(graph, "name", "note") == [("ada", "a,b")]


def test_another_quote_and_none_at_all(graph, tmp_path):
    _load(graph, tmp_path, "name,note\nada,'a, ''b'''\nbo,\"x\"\n", quote="'")
    _load(graph, tmp_path, 'name,note\ncy,5" disk\n', quote="")
    assert _rows(graph, "name", "note") == [("ada", "a, 'b'"), ("bo", '"x"'), ("cy", '5" disk')]


def test_columns_of_a_file_without_a_header_are_given(graph, tmp_path):
    _load(graph, tmp_path, "ada,36\nbo,\n", header=["name", "age"])
    assert _rows(graph, "name", "age") == [("ada", 36), ("bo", None)]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf_8_sig", "ISO-8859-15"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_text_has_any_encoding(graph, tmp_path, encoding, is_packed):
    data = "name,note\nMüller,é\n".encode(encoding)
    name = "people.csv.gz" if is_packed else "people.csv"
    _load(graph, tmp_path, gzip.compress(data) if is_packed else data, name=name, encoding=encoding)
    assert _rows(graph, "name", "note") == [("Müller", "é")]


def test_long_text_of_another_encoding_is_read_in_pieces(graph, tmp_path):
    rows = [f"p{number},{'ü' * 100}\n" for number in range(20_000)]
    _load(graph, tmp_path, ("name,note\n" + "".join(rows)).encode("utf-16"), encoding="utf-16")
    assert len(_rows(graph, "name")) == 20_000
    assert set(_rows(graph, "note")) == {("ü" * 100,)}


def test_a_byte_that_no_character_has_is_a_problem_of_its_cell(graph, tmp_path):
    with pytest.raises(BadRowsError, match=r"people\.csv:3: invalid CP1252 in column 'note'"):
        _load(graph, tmp_path, b"name,note\nada,\xe9\nbo,\x81\n", encoding="cp1252")


def test_half_a_character_at_the_end_is_a_problem_of_the_file(graph, tmp_path):
    with pytest.raises(FileAccessError, match="truncated data"):
        _load(graph, tmp_path, "name\nada\n".encode("utf-16-le") + b"x", encoding="utf-16-le")


def test_null_markers_are_null_with_and_without_quotes(graph, tmp_path):
    text = 'name,age,note\nada,NULL,\\N\nbo,NA,"NULL"\ncy,1,na\n'
    _load(graph, tmp_path, text, null=["NULL", "\\N", "NA"])
    assert _rows(graph, "name", "age", "note") == [("ada", None, None), ("bo", None, None), ("cy", 1, "na")]


def test_without_a_request_no_text_is_null_and_blanks_count(graph, tmp_path):
    _load(graph, tmp_path, "name,note\nada,NULL\nbo, x \n")
    assert _rows(graph, "name", "note") == [("ada", "NULL"), ("bo", " x ")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["true", "True", "1", "yes", "Y", "t"], True), (["false", "FALSE", "0", "no", "N", "f"], False)],
)
def test_truth_values_have_many_spellings(graph, tmp_path, words, expected):
    _load(graph, tmp_path, "name,ok\n" + "".join(f"p{at},{word}\n" for at, word in enumerate(words)))
    assert _rows(graph, "ok") == [(expected,)] * len(words)


def test_decimals_with_a_comma(graph, tmp_path):
    _load(graph, tmp_path, "name;pay;sum\nada;1,5;0,10\nbo;-2;3\n", delimiter=";", decimal=",")
    assert [(name, pay, str(total)) for name, pay, total in _rows(graph, "name", "pay", "sum")] == [
        ("ada", 1.5, "0.10"),
        ("bo", -2.0, "3.00"),
    ]
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, "name;pay;sum\ncy;1.234,5;1\nda;1.5;1.5\n", delimiter=";", decimal=",")
    assert [(item.line, item.property, item.value) for item in caught.value.details.items] == [
        (2, "pay", '"1.234,5"'),
        (3, "pay", '"1.5"'),
        (3, "sum", '"1.5 "'),
    ]


@pytest.mark.parametrize(
    ("born", "seen"),
    [
        ("2024-01-31", "2024-01-31T10:00:00Z"),
        ("2024/1/31", "2024/01/31 12:00:00+02:00"),
        ("31.01.2024", "31.01.2024 10:00"),
        ("20240131", "2024-01-31 05:00-0500"),
        ("31.1.2024", "2024-01-31 10:00:00 UTC"),
    ],
)
def test_dates_and_instants_in_spellings_with_one_meaning(graph, tmp_path, born, seen):
    _load(graph, tmp_path, f"name,born,seen\nada,{born},{seen}\nbo,2024-01-31,2024-01-31T10:00:00Z\n")
    assert len(set(_rows(graph, "born", "seen"))) == 1


@pytest.mark.parametrize("born", ["01/02/2024", "1.2.24", "31.13.2024", "Jan 31 2024"])
def test_a_date_with_no_meaning_or_two_is_refused_as_it_was_written(graph, tmp_path, born):
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, f"name,born\nada,{born}\n")
    assert born in caught.value.details.items[0].message


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
def test_blanks_around_names_and_cells_are_dropped_on_request(graph, tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr("omnigraph.engine.load.reading.csv_records._BLOCK_BYTES", block_bytes)
    _load(graph, tmp_path, ' name , "note" ,age\n ada , "x, ""y"""  , 36 \n bo ,   ,\t7\n', trim=True)
    assert _rows(graph, "name", "note", "age") == [("ada", 'x, "y"', 36), ("bo", None, 7)]


@pytest.mark.parametrize("cell", ['"a" b', 'a "b"', '"a" "b"', ' "a'])
def test_a_quote_out_of_place_is_one_with_blanks_too(graph, tmp_path, cell):
    with pytest.raises(BadRowsError, match=r"people\.csv:2: "):
        _load(graph, tmp_path, f"name,note\nada,{cell}\nbo,x\n", trim=True)


def test_all_unknown_columns_are_told_at_once(graph, tmp_path):
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, "nme,age,what,ok\nada,1,2,3\n", columns={"note": "notes", "nte": "age"})
    assert [(item.line, item.property) for item in caught.value.details.items] == [
        (1, "note"),
        (1, "nte"),
        (1, "nme"),
        (1, "what"),
    ]
    assert "did you mean 'name'?" in caught.value.details.items[2].message


def test_extra_columns_are_ignored_on_request(graph, tmp_path):
    _load(graph, tmp_path, ",name,what\n0,ada,x\n1,bo,y\n", ignore_extra_columns=True)
    assert _rows(graph, "name") == [("ada",), ("bo",)]


def test_any_column_is_mapped_to_any_property(graph, tmp_path):
    _load(graph, tmp_path, "id,type,from\nada,x,1\nbo,y,2\n", columns={"name": "id", "note": "type", "age": "from"})
    assert _rows(graph, "name", "note", "age") == [("ada", "x", 1), ("bo", "y", 2)]
    text = "id,type,a,b\ne1,t,ada,bo\n"
    columns = {"from": "a", "to": "b", "kind": "type"}
    _load(graph, tmp_path, text, name="knows.csv", type_name="Knows", columns=columns)
    assert export(graph)[-1] == {"edge": "Knows", "from": "ada", "to": "bo", "data": {"id": "e1", "kind": "t"}}


def test_one_column_may_stand_for_several_properties(graph, tmp_path):
    _load(graph, tmp_path, "id\nada\n", columns={"name": "id", "note": "id"})
    assert _rows(graph, "name", "note") == [("ada", "ada")]


def test_whole_numbers_are_texts_of_keys_and_ends_in_parquet(graph, tmp_path):
    pq.write_table(pa.table({"name": [1, 2], "ok": [0, 1], "note": ["NULL", " x "]}), tmp_path / "people.parquet")
    ends = pa.table({"from": pa.array([1]).dictionary_encode(), "to": pa.array([2], pa.uint8())})
    pq.write_table(ends, tmp_path / "Knows.parquet")
    people = Source(
        path=str(tmp_path / "people.parquet"), type_name="Person", dialect=Dialect(null=["NULL"], trim=True)
    )
    load_files(graph, [people, str(tmp_path / "Knows.parquet")], "append")
    assert _rows(graph, "name", "ok", "note") == [("1", False, None), ("2", True, "x")]
    assert [(row["from"], row["to"]) for row in export(graph) if "edge" in row] == [("1", "2")]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"note": pa.array([1])}, "property 'note' expects String?, got a column of int64"),
        ({"ok": pa.array([2])}, "property 'ok' expects Bool?, got an integer"),
        ({"ok": pa.array(["maybe"])}, "property 'ok' expects Bool?, got a string"),
    ],
)
def test_what_would_lose_something_is_refused_in_parquet(graph, tmp_path, column, message):
    pq.write_table(pa.table({"name": ["a"], **column}), tmp_path / "Person.parquet")
    with pytest.raises(BadRowsError) as caught:
        load_files(graph, [str(tmp_path / "Person.parquet")], "append")
    assert message in caught.value.message


def test_problems_are_told_by_column_with_a_sample_the_count_and_the_first_places(graph, tmp_path):
    rows = "".join(f"p{at},{'x' if at % 2 else at},{'maybe' if at % 5 == 0 else ''}\n" for at in range(300))
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, f"name,age,ok\n{rows}")
    path, details = tmp_path / "people.csv", caught.value.details
    assert (details.total, len(details.items)) == (210, 100)
    assert [(one.sample.property, one.count, one.sample.value, len(one.places)) for one in details.groups] == [
        ("ok", 60, '"maybe"', 5),
        ("age", 150, '"x"', 5),
    ]
    assert str(caught.value).splitlines() == [
        f"{path}:2: property 'ok' expects Bool?, got a string (and 209 more)",
        (
            f"  {path}:2: property 'ok' expects Bool?, got a string: \"maybe\""
            f" (60 rows: {path}:2, {path}:7, {path}:12, {path}:17, {path}:22, …)"
        ),
        (
            f"  {path}:3: property 'age' expects I32?, got a string: \"x\""
            f" (150 rows: {path}:3, {path}:5, {path}:7, {path}:9, {path}:11, …)"
        ),
    ]


def test_different_mistakes_of_one_column_are_different_groups(graph, tmp_path):
    text = "name,age\n" + "a,x\nb,99999999999\nc,y\nd,99999999998\n"
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, text)
    assert [(one.count, one.sample.line) for one in caught.value.details.groups] == [(2, 2), (2, 3)]


@pytest.mark.parametrize(
    "settings",
    [
        {"delimiter": "ab"},
        {"delimiter": "a"},
        {"delimiter": "é"},
        {"delimiter": ""},
        {"delimiter": "\n"},
        {"quote": ";", "delimiter": ";"},
        {"encoding": "base64"},
        {"encoding": "no such"},
        {"header": []},
        {"header": "ab"},
        {"null": "NULL"},
        {"decimal": ";"},
        {"trim": 1},
    ],
)
def test_a_dialect_that_nothing_can_be_written_in_is_refused(settings):
    with pytest.raises(UsageError):
        Dialect(**settings)


def test_what_is_said_of_cells_is_refused_where_there_are_none(graph, tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    for settings, expected in (({"delimiter": ";"}, "a CSV file"), ({"trim": True}, "a file of one type")):
        source = Source(path=str(tmp_path / "a.jsonl"), dialect=Dialect(**settings))
        with pytest.raises(UsageError, match=f"applies only to {expected}; the load has none"):
            load_files(graph, [source], "append")
