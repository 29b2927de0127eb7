"""The exact decoder where the corpus cannot reach: order of problems, odd but legal lines, long values."""

from __future__ import annotations

import json

import pytest

from omnigraph.catalog import compile_schema
from omnigraph.engine.rows import ChunkDecoder, DecodedRow, RowDecoder, RowProblem
from omnigraph.lang.pg import parse_schema

SCHEMA = b"""
node Person { name: String @key  age: I32?  note: String?  nums: [I32]?  _tombstone: String? }
edge Knows: Person -> Person { since: Date? }
"""
CATALOG = compile_schema(parse_schema(SCHEMA, "schema.pg"))


def decode(text, **options):
    return RowDecoder(CATALOG, **options).decode(text if isinstance(text, bytes) else text.encode(), 7)


def test_row_keeps_what_was_given_and_nothing_else():
    row = decode('{"type":"Person","data":{"name":"Ada","age":null}}')
    assert isinstance(row, DecodedRow)
    assert (row.id, row.line, dict(row.values)) == ("Ada", 7, {"name": "Ada", "age": None})


@pytest.mark.parametrize(
    "note",
    [": in a text", '\\"note\\":1', '{\\"a\\":1,\\"a\\":2}', "\\\\", '\\\\\\\\\\"', "}{", '","note":"', "\\u0022:"],
)
def test_colons_and_quotes_inside_of_texts_are_no_members(note):
    line = f'{{"type":"Person","data":{{"name":"Ada","note":"{note}"}}}}'
    try:
        json.loads(line, object_pairs_hook=_unique)
    except ValueError:
        assert isinstance(decode(line), RowProblem)
    else:
        assert isinstance(decode(line), DecodedRow)


def _unique(pairs):
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError
    return dict(pairs)


@pytest.mark.parametrize("spelling", ['"age" :1,"age"\t: 2', '"age":1,"\\u0061ge":2', '"note":":","note":"::"'])
def test_member_named_twice_is_found_however_it_is_spelt(spelling):
    problem = decode(f'{{"type":"Person","data":{{"name":"Ada",{spelling}}}}}')
    assert problem.message.startswith("duplicate JSON member '")


def test_declared_physical_name_is_refused_as_input():
    assert decode('{"type":"Person","data":{"name":"Ada","_tombstone":"x"}}').message.endswith(
        "reserved physical state"
    )
    chunk = ChunkDecoder(CATALOG).decode(b'{"type":"Person","data":{"name":"Ada","_tombstone":"x"}}\n', 1)
    assert [problem.rule for problem in chunk.problems] == ["field"]


def test_first_problem_of_a_row_follows_the_order_of_the_envelope():
    lines = {
        '{"type":"Nope","data":1,"extra":1}': "unknown node type",
        '{"edge":"Knows","extra":1,"from":1}': "unknown top-level",
        '{"edge":"Knows","from":1,"data":1}': "field 'from' must be a string",
        '{"type":"Person","data":{"nope":1,"age":"x"}}': "unknown input field",
        '{"type":"Person","data":{"id":1,"age":"x"}}': "non-nullable property 'name'",
        '{"type":"Person","data":{"id":1,"name":"a","age":"x"}}': "property 'age' expects",
        '{"type":"Person","data":{"id":1,"name":"a"}}': "'id' must be a string",
    }
    for line, fragment in lines.items():
        assert fragment in decode(line).message


def test_problem_shows_a_short_value_however_long_the_real_one_is():
    problem = decode(json.dumps({"type": "Person", "data": {"name": "a", "age": "x" * 1_000_000}}))
    assert len(problem.value) < 100
    problem = decode(json.dumps({"type": "x" * 1_000_000}))
    assert len(problem.message) < 200


def test_patch_may_leave_out_what_is_required_but_not_the_key():
    catalog = compile_schema(parse_schema(b"node City { name: String @key  size: I32 }", "schema.pg"))
    patch = RowDecoder(catalog, is_patch=True)
    assert isinstance(patch.decode(b'{"type":"City","data":{"name":"Rome"}}', 1), DecodedRow)
    assert "'size'" in patch.decode(b'{"type":"City","data":{"name":"Rome","size":null}}', 1).message
    assert "'name'" in patch.decode(b'{"type":"City","data":{"size":1}}', 1).message


def test_plain_lines_are_read_in_columns_and_only_the_odd_one_by_one(monkeypatch):
    seen = []
    exact = RowDecoder.decode
    monkeypatch.setattr(
        RowDecoder, "decode", lambda self, line, number: seen.append(number) or exact(self, line, number)
    )
    lines = [json.dumps({"type": "Person", "data": {"name": f"p{number}", "age": number}}) for number in range(50)]
    lines[20] = lines[20].replace("p20", "a}b")
    lines[30] = '{"data":{"name":"last"},"type":"Person"}'
    lines.insert(40, "")
    chunk = ChunkDecoder(CATALOG).decode("\n".join([*lines, ""]).encode(), 1)
    assert seen == [21, 31]
    rows = chunk.types["node:Person"]
    assert rows.lines.to_pylist() == [*range(1, 41), *range(42, 52)]
    assert rows.rows["name"].to_pylist()[19:22] == ["p19", "a}b", "p21"]


def test_dates_as_counts_are_read_in_columns_too(monkeypatch):
    monkeypatch.setattr(RowDecoder, "decode", lambda self, line, number: pytest.fail("not in columns"))
    decoder = ChunkDecoder(CATALOG)
    for dates in (["2024-01-01", "2024-01-02"], [19723, 19724], ["2024-01-01", None]):
        lines = [json.dumps({"edge": "knows", "from": "a", "to": "b", "data": {"since": date}}) for date in dates]
        chunk = decoder.decode("\n".join([*lines, ""]).encode(), 1)
        assert chunk.types["edge:Knows"].rows["since"].cast("int32").to_pylist()[0] == 19723


def test_rows_that_say_their_id_are_read_in_columns_whenever_they_come(monkeypatch):
    monkeypatch.setattr(RowDecoder, "decode", lambda self, line, number: pytest.fail("not in columns"))
    decoder = ChunkDecoder(CATALOG)
    for data in ([{}, {}], [{}, {"id": "k1"}], [{}, {}], [{"id": "k2"}, {"id": "k3"}]):
        lines = [json.dumps({"edge": "Knows", "from": "a", "to": "b", "data": item}) for item in data]
        chunk = decoder.decode("\n".join([*lines, ""]).encode(), 1)
        assert chunk.types["edge:Knows"].rows["id"].to_pylist() == [item.get("id") for item in data]


@pytest.mark.parametrize("spelling", ["id", "\\u0069d"])
def test_an_id_that_is_null_is_refused_among_rows_without_one(spelling):
    lines = [
        '{"edge":"Knows","from":"a","to":"b"}',
        f'{{"edge":"Knows","from":"a","to":"b","data":{{"{spelling}":null}}}}',
    ]
    chunk = ChunkDecoder(CATALOG).decode("\n".join([*lines, ""]).encode(), 1)
    assert [problem.line for problem in chunk.problems] == [2]
    assert chunk.types["edge:Knows"].lines.to_pylist() == [1]


@pytest.mark.parametrize("odd", ["}", "{}}", '{"a":1} {"a":2}', '{"a":"}"}'])
def test_braces_anywhere_but_at_the_end_of_a_line_are_read_exactly(odd):
    plain = '{"type":"Person","data":{"name":"a"}}'
    data = "\n".join([odd, plain, odd.replace('"a":', '"type":'), plain.replace("a", "b"), ""]).encode()
    decoder = ChunkDecoder(CATALOG)
    fast, exact = decoder.decode(data, 1), decoder.decode_exactly(data, 1)
    assert fast.problems == exact.problems
    assert {key: rows.rows.to_pylist() for key, rows in fast.types.items()} == {
        key: rows.rows.to_pylist() for key, rows in exact.types.items()
    }
