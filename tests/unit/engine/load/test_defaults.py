"""A property that a row does not mention gets its default; a null that is written stays one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, load_lines, make_graph

from omnigraph.errors import BadRowsError

SCHEMA = """
node T {
    k: String @key
    n: I32 @default(7)
    s: String? @default("x")
    at: DateTime? @default("2026-01-31T12:00:00.5Z")
    f: F32 @default(0.1)
    flag: Bool? @default(false)
}
edge E: T -> T { w: I64? @default(-1) }
"""
AT = 1769860800500
WHOLE = {"n": 7, "s": "x", "at": AT, "f": 0.1, "flag": False}


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def stored(graph):
    rows = {row["data"].pop("id"): row["data"] for row in export(graph) if row.get("type") == "T"}
    return {name: {**row, "f": round(row["f"], 6)} for name, row in rows.items()}


def test_lines_that_leave_a_property_out_get_its_default(graph, tmp_path):
    lines = [
        '{"type": "T", "data": {"k": "a"}}',
        '{"type": "T", "data": {"k": "b", "s": null, "at": null, "n": 1}}',
        '{"type": "T", "data": {"k": "null", "flag": true}}',
        '{"edge": "E", "from": "a", "to": "b"}',
    ]
    load_lines(graph, tmp_path / "data.jsonl", "\n".join(lines), "append")
    assert stored(graph) == {
        "a": {"k": "a", **WHOLE},
        "b": {"k": "b", **WHOLE, "s": None, "at": None, "n": 1},
        "null": {"k": "null", **WHOLE, "flag": True},
    }
    assert [row["data"]["w"] for row in export(graph) if row.get("edge")] == [-1]
    with pytest.raises(BadRowsError, match="'n' of T has null or invalid values: it is null"):
        load_lines(graph, tmp_path / "data.jsonl", '{"type": "T", "data": {"k": "c", "n": null}}', "append")


def test_a_patch_fills_rows_that_it_creates_and_no_others(graph, tmp_path):
    load_lines(graph, tmp_path / "data.jsonl", '{"type": "T", "data": {"k": "a", "s": null, "n": 1}}', "append")
    lines = ['{"type": "T", "data": {"k": "a", "flag": true}}', '{"type": "T", "data": {"k": "b"}}']
    load_lines(graph, tmp_path / "data.jsonl", "\n".join(lines), "merge", patch=True)
    assert stored(graph) == {"a": {"k": "a", **WHOLE, "s": None, "n": 1, "flag": True}, "b": {"k": "b", **WHOLE}}


def test_columns_that_a_table_does_not_have_get_defaults_and_its_empty_cells_are_null(graph, tmp_path):
    (tmp_path / "T.csv").write_text("k,s\na,\nb,y\n")
    load_files(graph, [str(tmp_path / "T.csv")], "append")
    table = pa.table({"k": ["c", "d"], "flag": pa.array([None, True], pa.bool_())})
    pq.write_table(table, tmp_path / "T.parquet")
    load_files(graph, [str(tmp_path / "T.parquet")], "append")
    assert stored(graph) == {
        "a": {"k": "a", **WHOLE, "s": None},
        "b": {"k": "b", **WHOLE, "s": "y"},
        "c": {"k": "c", **WHOLE, "flag": None},
        "d": {"k": "d", **WHOLE, "flag": True},
    }
    (tmp_path / "T.csv").write_text("k,n\ne,\n")
    with pytest.raises(BadRowsError, match="it is null"):
        load_files(graph, [str(tmp_path / "T.csv")], "append")
