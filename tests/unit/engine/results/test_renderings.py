"""The layout of each rendering: headlines, separators, quoting, widths."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest
from tests.results import result_of

from omnigraph.engine.results import ReadInfo

TEXT, I32 = pa.string(), pa.int32()
PEOPLE = (("p.name", TEXT, ["Ann", "Bo"]), ("age", I32, [36, None]))
AT_COMMIT = ReadInfo(query_name="who", snapshot="01S", commit_id="01C")


class TestJson:
    def test_document_has_its_members_in_order(self):
        assert result_of(*PEOPLE, info=AT_COMMIT).to_json() == (
            "{\n"
            '  "query_name": "who",\n'
            '  "target": {\n    "branch": null,\n    "snapshot": "01S"\n  },\n'
            '  "row_count": 2,\n'
            '  "columns": [\n    "p.name",\n    "age"\n  ],\n'
            '  "rows": [\n'
            '    {\n      "p.name": "Ann",\n      "age": 36\n    },\n'
            '    {\n      "p.name": "Bo",\n      "age": null\n    }\n'
            "  ],\n"
            '  "graph_commit_id": "01C"\n'
            "}\n"
        )

    def test_unknown_commit_and_missing_columns_are_left_out(self):
        assert list(json.loads(result_of(*PEOPLE).to_json())) == [
            "query_name",
            "target",
            "row_count",
            "columns",
            "rows",
        ]
        assert list(json.loads(result_of().to_json())) == ["query_name", "target", "row_count", "rows"]

    def test_no_row_is_an_empty_list_and_keeps_the_columns(self):
        document = result_of(("a", TEXT, [])).to_json()
        assert '"rows": []' in document
        assert json.loads(document)["columns"] == ["a"]

    def test_last_of_equal_names_counts_in_rows_and_all_stand_among_columns(self):
        document = json.loads(result_of(("a", I32, [1]), ("b", I32, [2]), ("a", TEXT, ["x"])).to_json())
        assert document["columns"] == ["a", "b", "a"]
        assert document["rows"] == [{"a": "x", "b": 2}]

    def test_lists_are_spread_over_lines_as_the_rest_is(self):
        text = result_of(("tags", pa.list_(TEXT), [["a", "b"], []])).to_json()
        assert '      "tags": [\n        "a",\n        "b"\n      ]\n' in text
        assert '      "tags": []\n' in text


PATH = pa.struct([("nodes", pa.list_(TEXT)), ("edges", pa.list_(TEXT))])
WALKED = ("w", PATH, [{"nodes": ["a", "b"], "edges": ["e"]}, None])


class TestPaths:
    """A path is the one value with named parts."""

    def test_json_has_an_object_of_its_nodes_and_edges(self):
        document = result_of(WALKED).to_json()
        assert json.loads(document)["rows"] == [{"w": {"nodes": ["a", "b"], "edges": ["e"]}}, {"w": None}]
        assert '      "w": {\n        "nodes": [\n          "a",\n          "b"\n        ],\n' in document

    def test_lines_and_cells_hold_it_as_compact_json(self):
        compact = '{"nodes":["a","b"],"edges":["e"]}'
        assert result_of(WALKED).to_jsonl().splitlines()[1:] == [f'{{"w":{compact}}}', '{"w":null}']
        assert result_of(WALKED).to_kv().splitlines()[2] == f"w: {compact}"
        assert result_of(WALKED).to_table().splitlines()[3].rstrip() == compact
        assert list(csv.reader(io.StringIO(result_of(WALKED).to_csv()))) == [["w"], [compact], ["null"]]

    def test_python_gets_a_dictionary(self):
        assert result_of(WALKED).rows() == [{"w": {"nodes": ["a", "b"], "edges": ["e"]}}, {"w": None}]


class TestJsonl:
    def test_metadata_comes_first_and_rows_are_compact(self):
        assert result_of(*PEOPLE, info=AT_COMMIT).to_jsonl() == (
            '{"kind":"metadata","query_name":"who","target":{"branch":null,"snapshot":"01S"},"row_count":2}\n'
            '{"p.name":"Ann","age":36}\n'
            '{"p.name":"Bo","age":null}\n'
        )

    def test_line_ends_inside_values_do_not_end_the_line(self):
        lines = result_of(("a", TEXT, ["x\ny\r\u2028z"])).to_jsonl().split("\n")
        assert len(lines) == 3
        assert json.loads(lines[1]) == {"a": "x\ny\r\u2028z"}


class TestCsv:
    @pytest.mark.parametrize(
        ("value", "written"),
        [
            ("plain text", "plain text"),
            (" edge ", " edge "),
            ("a,b", '"a,b"'),
            ('say "x"', '"say ""x"""'),
            ("one\ntwo", '"one\ntwo"'),
            ("one\rtwo", '"one\rtwo"'),
            ("a;b\tc", "a;b\tc"),
            ("=1+1", "=1+1"),
        ],
    )
    def test_field_is_quoted_only_where_it_must_be(self, value: str, written: str):
        assert result_of(("a", TEXT, [value]), ("b", I32, [1])).to_csv() == f"a,b\n{written},1\n"

    def test_column_names_are_quoted_alike_and_may_repeat(self):
        assert result_of(("a,b", I32, [1]), ("x", I32, [2]), ("x", I32, [3])).to_csv() == '"a,b",x,x\n1,2,3\n'

    def test_other_readers_get_the_same_cells(self):
        values = ["plain", "a,b", 'q"q', "l\nl", "r\r\nr", "null", "é"]
        written = result_of(("a", TEXT, values), ("b", pa.list_(TEXT), [[value] for value in values])).to_csv()
        found = list(csv.reader(io.StringIO(written, newline="")))
        assert found[0] == ["a", "b"]
        assert [row[0] for row in found[1:]] == values
        assert [json.loads(row[1]) for row in found[1:]] == [[value] for value in values]

    def test_no_row_leaves_the_header(self):
        assert result_of(("a", I32, []), ("b", I32, [])).to_csv() == "a,b\n"


class TestKv:
    def test_rows_are_numbered_and_apart(self):
        assert result_of(*PEOPLE).to_kv() == (
            "2 rows from branch main via q\nrow 1\np.name: Ann\nage: 36\n\nrow 2\np.name: Bo\nage: null\n"
        )

    def test_no_row_says_so(self):
        assert result_of(("a", I32, []), info=AT_COMMIT).to_kv() == "0 rows from snapshot 01S via who\n(no rows)\n"

    def test_value_stays_on_its_line(self):
        assert result_of(("a", TEXT, ["x\nrow 2\x1b[2J"])).to_kv().splitlines()[2:] == ["a: x\\nrow 2\\x1b[2J"]


class TestTable:
    def test_cells_are_padded_and_ruled(self):
        assert result_of(*PEOPLE, info=AT_COMMIT).to_table() == (
            "2 rows from snapshot 01S via who\np.name | age \n-------+-----\nAnn    | 36  \nBo     | null\n"
        )

    def test_no_row_keeps_the_columns(self):
        assert result_of(("ab", I32, []), ("c", I32, [])).to_table() == (
            "0 rows from branch main via q\nab | c\n---+--\n"
        )

    def test_no_column_has_no_rows(self):
        assert result_of().to_table() == "0 rows from branch main via q\n(no rows)\n"

    @pytest.mark.parametrize("cap", [8, 3, 0, -1])
    def test_longer_cells_are_cut_at_the_cap_which_is_eight_at_least(self, cap: int):
        lines = result_of(("a", TEXT, ["12345678", "123456789"])).to_table(max_column_width=cap).splitlines()
        assert lines[2:] == ["--------", "12345678", "1234567…"]

    def test_cap_is_eighty_unless_it_is_told(self):
        lines = result_of(("a", TEXT, ["x" * 81])).to_table().splitlines()
        assert lines[2:] == ["-" * 80, "x" * 79 + "…"]

    def test_wrapped_cells_go_on_below_with_their_neighbours_empty(self):
        table = result_of(("a", TEXT, ["abcdefghijkl", "m"]), ("b", I32, [1, 2]))
        assert table.to_table(max_column_width=8, layout="wrap").splitlines()[1:] == [
            "a        | b",
            "---------+--",
            "abcdefgh | 1",
            "ijkl     |  ",
            "m        | 2",
        ]

    def test_long_column_names_obey_the_cap_too(self):
        table = result_of(("organisation", I32, [1]))
        assert table.to_table(max_column_width=8).splitlines()[1:] == ["organis…", "--------", "1       "]
        wrapped = table.to_table(max_column_width=8, layout="wrap").splitlines()
        assert wrapped[1:] == ["organisa", "tion    ", "--------", "1       "]

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("a\nb", "a\\nb"),
            ("a\r\tb", "a\\r\\tb"),
            ("\x1b[31mred", "\\x1b[31mred"),
            ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
            ("a\u202eb", "a\\u202eb"),
            ("a\u2028b", "a\\u2028b"),
            ("C:\\new", "C:\\new"),
        ],
    )
    def test_what_would_act_on_the_terminal_is_spelled_out(self, value: str, shown: str):
        assert result_of(("a", TEXT, [value])).to_table().splitlines()[3] == shown

    def test_columns_line_up_by_what_is_seen(self):
        table = result_of(("a", TEXT, ["グラフ", "e\u0301", "abc"]), ("b", I32, [1, 2, 3]))
        assert table.to_table().splitlines()[2:] == ["-------+--", "グラフ | 1", "e\u0301      | 2", "abc    | 3"]

    def test_wide_characters_are_not_cut_in_half(self):
        lines = result_of(("a", TEXT, ["グラフデータ"])).to_table(max_column_width=8).splitlines()
        assert lines[2:] == ["--------", "グラフ… "]
        wrapped = result_of(("a", TEXT, ["xグラフデータ"])).to_table(max_column_width=8, layout="wrap").splitlines()
        assert wrapped[3:] == ["xグラフ ", "データ  "]
