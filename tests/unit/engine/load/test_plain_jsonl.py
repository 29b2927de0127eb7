"""Plain JSONL: lines that are rows of one type; columns and the exact decoder agree about every one of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.load_graph import export, load_files, make_graph

from omnigraph.engine.load import Dialect, LoadSettings, Source
from omnigraph.engine.load.reading.plain import PlainDecoder
from omnigraph.engine.rows.changes import DELETE
from omnigraph.errors import BadRowsError, TypeMissingError

SCHEMA = """
node Person {
    name: String @key  age: I32?  ok: Bool?  born: Date?  seen: DateTime?  pay: F64?  sum: Decimal(8, 2)?
    tags: [String]?  origin: String @default("raw")  note: String?
}
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def _source(tmp_path, rows, *, type_name="Person", columns=None, **settings):
    path = tmp_path / f"{type_name}-rows.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    return Source(path=str(path), type_name=type_name, columns=columns or {}, dialect=Dialect(**settings))


def _people(graph, *names):
    return [tuple(row["data"][name] for name in names) for row in export(graph) if "type" in row]


def test_members_are_columns(graph, tmp_path):
    rows = [
        {"name": "ada", "age": 36, "ok": True, "born": "1815-12-10", "pay": 1.5, "tags": ["a"], "sum": 1.25},
        {"name": "bo"},
        "",
        {"name": "cy", "origin": "x", "seen": "2024-01-01T00:00:00Z", "age": None},
    ]
    done = load_files(graph, [_source(tmp_path, rows)], "append")
    assert done.nodes_loaded == {"Person": 3}
    assert _people(graph, "name", "age", "origin") == [("ada", 36, "raw"), ("bo", None, "raw"), ("cy", None, "x")]


def test_edges_name_their_ends(graph, tmp_path):
    people = _source(tmp_path, [{"name": 1}, {"name": 2}, {"name": "3"}])
    knows = _source(tmp_path, [{"from": 1, "to": 2}, {"src": "2", "dst": "3"}], type_name="Knows")
    load_files(graph, [people, knows], "append")
    assert sorted((row["from"], row["to"]) for row in export(graph) if "edge" in row) == [("1", "2"), ("2", "3")]


def test_columns_of_any_name_are_mapped(graph, tmp_path):
    rows = [{"id": 7, "type": "x", "from": "2024-01-02"}]
    columns = {"name": "id", "note": "type", "born": "from"}
    load_files(graph, [_source(tmp_path, rows, columns=columns)], "append")
    assert _people(graph, "name", "note", "born") == [("7", "x", 19724)]


def test_whatever_loses_nothing_is_converted(graph, tmp_path):
    rows = [
        {"name": 1, "ok": 1, "born": "31.01.2024", "note": " NULL "},
        {"name": 2, "ok": "no", "born": 19753, "note": ""},
        {"name": "3", "ok": False, "born": "2024/1/31", "note": "x"},
    ]
    load_files(graph, [_source(tmp_path, rows, trim=True, null=["NULL"])], "append")
    assert _people(graph, "name", "ok", "born", "note") == [
        ("1", True, 19753, None),
        ("2", False, 19753, ""),
        ("3", False, 19753, "x"),
    ]


def test_a_marker_of_null_is_a_null_that_was_written(graph, tmp_path):
    load_files(graph, [_source(tmp_path, [{"name": "ada", "age": 3, "note": "x"}])], "append")
    patch = _source(tmp_path, [{"name": "ada", "note": "NULL"}], null=["NULL"])
    load_files(graph, [patch], "merge", patch=True)
    assert _people(graph, "name", "age", "note") == [("ada", 3, None)]
    with pytest.raises(BadRowsError, match="non-nullable property 'origin'"):
        load_files(graph, [_source(tmp_path, [{"name": "bo", "origin": "NULL"}], null=["NULL"])], "append")


def test_everything_that_is_wrong_with_a_row_is_told(graph, tmp_path):
    rows = [
        {"name": "a", "age": "x", "nme": 1, "ok": 2},
        {"name": "b"},
        {"age": 1.5},
        "{",
        {"name": "c", "age": "y"},
    ]
    with pytest.raises(BadRowsError) as caught:
        load_files(graph, [_source(tmp_path, rows)], "append")
    assert [(item.line, item.rule, item.property) for item in caught.value.details.items] == [
        (1, "field", "nme"),
        (1, "type", "age"),
        (1, "type", "ok"),
        (3, "required", "name"),
        (3, "type", "age"),
        (4, "json", None),
        (5, "type", "age"),
    ]
    assert [(one.sample.property, one.count) for one in caught.value.details.groups if one.count > 1] == [("age", 2)]


def test_extra_members_are_ignored_on_request(graph, tmp_path):
    rows = [{"name": "ada", "what": {"deep": [1]}, "more": None}]
    load_files(graph, [_source(tmp_path, rows, ignore_extra_columns=True)], "append")
    assert _people(graph, "name") == [("ada",)]


def test_a_mapping_to_no_property_is_refused_before_any_row(graph, tmp_path):
    source = _source(tmp_path, [{"name": "ada"}] * 3, columns={"nme": "name", "agee": "x"})
    with pytest.raises(BadRowsError) as caught:
        load_files(graph, [source], "append")
    assert [item.property for item in caught.value.details.items] == ["nme", "agee"]
    with pytest.raises(TypeMissingError):
        load_files(graph, [_source(tmp_path, [], type_name="Persn")], "append")


VALUES = {
    "name": ["a", 7, -1, None, 1.5, True, "", 2**70],
    "age": [1, "1", 1.0, 2**31, None, True],
    "ok": [True, 0, 1, 2, "yes", "maybe", None],
    "born": ["2024-01-31", "31.01.2024", 19753, "x", None, 1.5, 2**40, "2024-02-30"],
    "seen": ["2024-01-31T10:00:00Z", "2024-01-31 10:00", 5, "2024-01-31T10:00:00.123456Z", None],
    "pay": [1, 1.5, "1.5", None, 1e400],
    "sum": [1, 1.25, "1.25", 1.255, None, "x", 123456789],
    "tags": [["a"], [], [None], "a", None, [1]],
    "origin": ["x", None, 3, "NULL"],
    "note": ["x", " NULL ", "", None, 3],
}


@pytest.mark.parametrize("settings", [{}, {"trim": True, "null": ["NULL"]}, {"ignore_extra_columns": True}])
@pytest.mark.parametrize("kind", ["rows", "patches", "changes"])
def test_columns_give_what_the_exact_decoder_gives(graph, tmp_path, monkeypatch, settings, kind):
    is_patch = kind == "patches"
    rows = [{"name": "z"}, {"name": "z", "other": 1}, {"id": "z", "name": "z"}, {"id": None, "name": "z"}]
    rows += [{"name": "z", name: value} for name, values in VALUES.items() for value in values]
    rows += [{"name": "z", "_op": op} for op in ("upsert", "patch", "delete", "insert", None, 3)]
    rows += [{"name": "z", "_seq": seq} for seq in (7, "7", "2024-01-01T00:00:00Z", None, "x", 1.5)]
    source = replace(_source(tmp_path, rows, **settings), takes_changes=kind == "changes")
    data = (tmp_path / "Person-rows.jsonl").read_bytes()
    for chunk in (data, *(line + b"\n" for line in data.splitlines())):
        fast = PlainDecoder(source, graph.catalog(), is_patch=is_patch).decode(chunk, 1)
        with monkeypatch.context() as patched:
            patched.setattr(PlainDecoder, "_read", lambda *_: None)
            exact = PlainDecoder(source, graph.catalog(), is_patch=is_patch).decode(chunk, 1)
        assert fast.problems == exact.problems
        assert fast.types.keys() == exact.types.keys() or not fast.types["node:Person"].rows.num_rows
        for key, part in exact.types.items():
            found = fast.types[key]
            assert found.lines.equals(part.lines)
            assert found.marks == part.marks
            assert found.rows.column("id").equals(part.rows.column("id"))
            # What a delete has beside its id is not looked at.
            is_kept = [True] * part.rows.num_rows if part.marks is None else pc.not_equal(part.marks["op"], DELETE)
            kept = pc.indices_nonzero(pa.array(is_kept) if isinstance(is_kept, list) else is_kept)
            assert found.rows.take(kept).equals(part.rows.take(kept))
            assert (found.given is None) == (part.given is None)
            assert part.given is None or found.given.take(kept).equals(part.given.take(kept))


def test_lines_are_read_in_columns_wherever_they_can(graph, tmp_path, monkeypatch):
    rows = [{"name": number, "age": number, "born": "31.01.2024"} for number in range(1000)]
    monkeypatch.setattr(PlainDecoder, "_decode", lambda *_: pytest.fail("read one by one"))
    settings = LoadSettings(chunk_bytes=5000, threads=2)
    load_files(graph, [_source(tmp_path, rows)], "append", settings=settings)
    assert len(_people(graph, "name")) == 1000
