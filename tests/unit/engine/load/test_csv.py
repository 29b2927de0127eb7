"""CSV is cut by the letter of RFC 4180: what breaks it is an error with file and line, and no row is swallowed."""

from __future__ import annotations

import csv
import io

import pytest
from tests.load_graph import export, load_files, make_graph

from omnigraph.engine.load import LoadSettings, Source
from omnigraph.engine.load.reading import csv_records
from omnigraph.engine.load.reading.csv_records import BrokenQuote, iter_records
from omnigraph.engine.load.sources.source import ByteStream
from omnigraph.errors import BadRowsError, SourceTooLargeError

SCHEMA = "node Person { name: String @key  age: I32?  note: String? }"
HEADER = "name,age,note\n"


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def _load(graph, tmp_path, text, **options):
    (tmp_path / "Person.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_files(graph, [str(tmp_path / "Person.csv")], "append", **options)


def _cut(text, block_bytes=1 << 20, limit=1 << 20):
    """Return the records of a text with their lines, and what is wrong with it in the end."""
    raw = io.BytesIO(text)
    records, broken = [], None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_records, "_BLOCK_BYTES", block_bytes)
        for block in iter_records(ByteStream("x", raw, raw), "x", max_record_bytes=limit):
            if isinstance(block, BrokenQuote):
                assert broken is None
                broken = block
                continue
            block.cells.validate(full=True)
            cells = block.cells.to_pylist()
            assert sum(block.widths) == len(cells)
            for width, line in zip(block.widths.tolist(), block.lines.tolist(), strict=True):
                records.append((line, cells[:width]))
                del cells[:width]
    return records, broken


GOOD = [
    b"",
    b"\n\n",
    b"a",
    b"a,b\n1,2\n",
    b"a,b\r\n1,2\r\n",
    b"a,b\r1,2\r",
    b"\xef\xbb\xbfa,b\n1,2",
    b'"a","b"\n"1,2","3\n4"\n',
    b'"a ""quoted"" b",\n"""",""\n',
    b'a\n""\n\n"x"\r\n\r\ny\n',
    b'"\r\n",x\n,\n,,\n',
    b'a,"\r",b\r\n"\n\n\n"\nlast',
    "ä,ö\n€,\U0001f600\n".encode(),
]


@pytest.mark.parametrize("text", GOOD)
def test_well_formed_text_is_cut_as_the_standard_library_cuts_it(text):
    expected = [row for row in csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True) if row]
    for block_bytes in (1, 2, 3, 5, 1 << 20):
        records, broken = _cut(text, block_bytes)
        assert broken is None
        assert [[(cell or b"").decode() for cell in cells] for _, cells in records] == expected


def test_record_is_numbered_by_the_line_it_begins_on():
    records, _ = _cut(b'a,b\n\n"x\ny",1\r\n2,"\r\n"\r3,4\n', 4)
    assert [line for line, _ in records] == [1, 3, 5, 7]


@pytest.mark.parametrize("breaks", [b"\n" * 50, b"\r\n" * 50, b"\r" * 50, b"\n\r\r\n" * 20])
@pytest.mark.parametrize("block_bytes", [1, 2, 7, 1 << 20])
def test_blank_lines_are_counted_and_cut_no_record(breaks, block_bytes):
    count = len(breaks.decode().splitlines())
    assert _cut(breaks + b"a,b" + breaks + b"1,2", block_bytes)[0] == [
        (1 + count, [b"a", b"b"]),
        (1 + 2 * count, [b"1", b"2"]),
    ]


def test_blank_blocks_are_not_scanned(monkeypatch):
    scanned = []
    plain = csv_records._Scan.__init__
    monkeypatch.setattr(
        csv_records._Scan,
        "__init__",
        lambda self, data, *rest, **more: (scanned.append(len(data)), plain(self, data, *rest, **more))[1],
    )
    records, _ = _cut(b"a\n" + b"\n" * 1_000_000 + b"\r\n" * 1_000_000 + b"x\n", 10_000)
    assert records == [(1, [b"a"]), (2_000_002, [b"x"])]
    assert sum(scanned) < 50_000


def test_cell_without_anything_is_null_and_a_quoted_one_is_a_text():
    assert _cut(b'a,"",\n,""""\n')[0] == [(1, [b"a", b"", None]), (2, [None, b'"'])]


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("text", "line", "fragment", "whole"),
    [
        (b'a,b\n1,"2\n3,4\n5,6\n', 2, "never closed", 1),
        (b'a,b\n1,"2\n3,"4"\n5,6\n', 2, "continues after its closing quote on line 3", 1),
        (b'a,b\n1,"2"x\n5,6\n', 2, "continues after its closing quote", 1),
        (b'a,b\n1,"2" \n', 2, "continues after its closing quote", 1),
        (b'a,b\n1,"x""y"z"\n', 2, "continues after its closing quote", 1),
        (b'a,b\n1,2\n5" disk,6\n', 3, "inside an unquoted cell", 2),
        (b'a,b\n "1",2\n', 2, "inside an unquoted cell", 1),
        (b'"', 1, "never closed", 0),
        (b'a\n"""', 2, "never closed", 1),
        (b'a\n"x""\n\n\n', 2, "never closed", 1),
    ],
)
def test_quote_out_of_place_ends_the_reading_with_its_line(text, line, fragment, whole, block_bytes):
    records, broken = _cut(text, block_bytes)
    assert broken is not None
    assert broken.line == line
    assert fragment in broken.message
    assert len(records) == whole


def test_one_unclosed_quote_swallows_no_rows(graph, tmp_path):
    rows = [f"p{number},{number},fine\n" for number in range(1003)]
    rows[2] = 'p2,2,"oops\n'
    with pytest.raises(BadRowsError, match=r"Person\.csv:4: the quoted cell that starts here is never closed"):
        _load(graph, tmp_path, HEADER + "".join(rows))
    assert export(graph) == []


def test_every_malformed_record_is_told_with_its_line(graph, tmp_path):
    text = HEADER + 'a,1,"x\ny"\nb,2\nc,3,x,4\n\nd,x,\ne,1,"f"g\n'
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, text)
    assert [(item.line, item.rule) for item in caught.value.details.items] == [
        (4, "csv"),
        (5, "csv"),
        (7, "type"),
        (8, "csv"),
    ]
    assert export(graph) == []


RECORD = 'A,1,"x ""y"" z"'


@pytest.mark.parametrize("cut", range(1, len(RECORD) + 1))
def test_file_that_is_cut_inside_of_its_last_record_is_refused_with_its_line(graph, tmp_path, cut):
    text = HEADER + RECORD[:cut]
    if cut in {len("A,1,"), len('A,1,"x "'), len('A,1,"x ""y"'), len(RECORD)}:
        # Whole cells: nothing tells that more was to come, and a last line break may be missing.
        assert _load(graph, tmp_path, text).total == 1
        return
    with pytest.raises(BadRowsError, match=r"Person\.csv:2: "):
        _load(graph, tmp_path, text)
    assert export(graph) == []


def test_record_beyond_the_longest_line_is_refused_with_its_line(graph, tmp_path):
    text = HEADER + "a,1,x\n" + 'b,2,"' + "y\n" * 4_000_000
    with pytest.raises(SourceTooLargeError, match="line 3 of") as caught:
        _load(graph, tmp_path, text, settings=LoadSettings(max_line_bytes=1 << 20))
    assert caught.value.details.limit == 1 << 20


def test_open_quote_costs_a_few_looks_at_the_text_and_not_one_for_each_block(monkeypatch):
    looked = []
    plain = csv_records._Scan.__init__
    monkeypatch.setattr(
        csv_records._Scan,
        "__init__",
        lambda self, data, *rest, **more: (looked.append(len(data)), plain(self, data, *rest, **more))[1],
    )
    text = b'a\n"' + b"x\n" * 500_000
    _, broken = _cut(text, block_bytes=1000, limit=1 << 30)
    assert broken is not None
    assert sum(looked) < 4 * len(text)
    assert len(looked) < 20


def test_broken_text_in_a_header_is_refused(graph, tmp_path):
    with pytest.raises(BadRowsError, match=r"Person\.csv:1: invalid UTF-8 in a column name"):
        _load(graph, tmp_path, b"name,\xff\nA,1\n")


def test_broken_text_in_a_crooked_record_is_one_problem(graph, tmp_path):
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, HEADER.encode() + b"a,1,\xff,x\nb,2,\xfe\nc,3,d\n\xfd,\xfc,\n")
    assert [(item.line, item.property) for item in caught.value.details.items] == [(2, None), (3, "note"), (5, "name")]


def test_columns_of_any_order_and_blocks_of_any_size_give_the_same_rows(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_records, "_BLOCK_BYTES", 64)
    rows = "".join(f'"note, ""{number}""\n",{number},p{number:03}\r\n' for number in range(200))
    path = tmp_path / "people.csv"
    path.write_text("note,years,name\n" + rows, newline="")
    load_files(graph, [Source(path=str(path), type_name="Person", columns={"age": "years"})], "append")
    assert [(row["data"]["name"], row["data"]["age"], row["data"]["note"]) for row in export(graph)] == [
        (f"p{number:03}", number, f'note, "{number}"\n') for number in range(200)
    ]
