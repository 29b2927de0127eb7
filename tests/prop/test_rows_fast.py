"""The columnar reader and the exact decoder agree on every chunk: same rows, same problems, same lines."""

from __future__ import annotations

import json
import os

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.catalog import compile_schema
from omnigraph.engine.rows import ChunkDecoder
from omnigraph.lang.pg import parse_schema

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    born: Date?
    seen: DateTime?
    score: F32?
    ratio: F64
    big: U64?
    tags: [String]?
    days: [Date]?
    nums: [F32]?
    face: Vector(2)?
    photo: Blob?
    ok: Bool?
}
node Mark { note: String? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Pairs: Person -> Person { slot: I32 @key(src, dst, slot) }
"""
CATALOG = compile_schema(parse_schema(SCHEMA.encode(), "schema.pg"))

_texts = st.sampled_from(["a", "Ada", "é", '"', "\\", "}", "} {", ":", '":', "null", '"id"', "id", "\u0000", "💡", ""])
_numbers = st.sampled_from(
    [0, 1, -1, 36, 2**31, -(2**31), 2**63, 2**64, 10**30, 1.5, 30.0, -0.0, 3.5e38, 1e300, 16777217, 0.1]
)
_dates = st.sampled_from(
    [
        "2024-01-01",
        "2024-1-2",
        "20240101",
        "2024-02-30",
        "-0044-03-15",
        "2024-01-01T10:00:00Z",
        "2024-01-01T10:00:00.123Z",
        "2024-01-01T10:00:60Z",
        "2024-01-01T10:00",
        "2024-01-01 10:00:00+02:00",
        "0000-01-01",
        "9999-12-31T23:59:59Z",
        "x",
    ]
)
_scalars = st.one_of(st.none(), st.booleans(), _texts, _numbers, _dates)
_values = st.one_of(_scalars, st.lists(_scalars, max_size=3), st.just({"a": 1}), st.just("base64:aGk="))
_fitting = {
    "name": _texts,
    "age": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
    "born": st.one_of(st.none(), _dates, st.integers(-(2**31), 2**31 - 1)),
    "seen": st.one_of(st.none(), _dates, st.integers(-(2**63), 2**63 - 1)),
    "score": st.one_of(st.none(), st.floats(-3e38, 3e38), st.integers()),
    "ratio": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers()),
    "big": st.one_of(st.none(), st.integers(0, 2**64 - 1)),
    "tags": st.one_of(st.none(), st.lists(_texts, max_size=3)),
    "days": st.one_of(st.none(), st.lists(_dates, max_size=3), st.lists(st.integers(-9, 9), max_size=2)),
    "nums": st.one_of(st.none(), st.lists(_numbers, max_size=3)),
    "face": st.one_of(st.none(), st.lists(st.floats(-2, 2), min_size=2, max_size=2)),
    "photo": st.one_of(st.none(), st.sampled_from(["base64:", "base64:aGk=", "base64:@", "s3://a/b"])),
    "ok": st.one_of(st.none(), st.booleans()),
    "note": st.one_of(st.none(), _texts),
    "since": st.one_of(st.none(), _dates),
    "weight": st.one_of(st.none(), _numbers),
    "slot": st.integers(-5, 5),
}
_OWN = {
    "Person": ["age", "born", "seen", "score", "big", "tags", "days", "nums", "face", "photo", "ok"],
    "Mark": ["note"],
    "Knows": ["since", "weight"],
    "Pairs": [],
}
_NEEDED = {"Person": ["name", "ratio"], "Mark": [], "Knows": [], "Pairs": ["slot"]}


@st.composite
def _rows(draw):
    name = draw(st.sampled_from(list(_OWN)))
    own = draw(st.lists(st.sampled_from(_OWN[name]), max_size=4, unique=True)) if _OWN[name] else []
    data = {prop: draw(_fitting[prop]) for prop in [*_NEEDED[name], *own]}
    if draw(st.integers(0, 9)) == 0:
        data[draw(st.sampled_from([*data, "id", "nope", "src", "_rowid", "type"]))] = draw(_values)
    if draw(st.integers(0, 9)) == 0 and data:
        del data[draw(st.sampled_from(list(data)))]
    if draw(st.integers(0, 3)) == 0:
        data["id"] = draw(st.one_of(_texts, st.just(data.get("name", "x"))))
    row = {"type": name} if name in CATALOG.nodes else {"edge": name, "from": draw(_texts), "to": draw(_texts)}
    if data or draw(st.booleans()):
        row["data"] = data
    if draw(st.integers(0, 15)) == 0:
        row[draw(st.sampled_from(["from", "edge", "type", "extra", "data"]))] = draw(_values)
    return row


@st.composite
def _lines(draw):
    row = draw(_rows())
    text = json.dumps(
        row,
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])),
    ).encode()
    match draw(st.integers(0, 24)):
        case 0:
            at = draw(st.integers(0, len(text)))
            text = text[:at] + draw(st.binary(max_size=3)).replace(b"\n", b"") + text[at:]
        case 1:
            text = text[: draw(st.integers(0, len(text)))]
        case 2:
            text = text.replace(b'"data"', b'"data":{},"data"', 1)
        case 3:
            text = text.replace(b'{"name"', b'{"age":1,"age":2,"name"', 1)
        case 4:
            text = text + draw(st.sampled_from([b"null", b"{}", b" {}", b",", b"]", b" x", b"\x00", text]))
        case 5:
            text = draw(
                st.sampled_from([b"null", b"[]", b"1", b'"x"', b"", b"  ", b"\r", b"{}", b"\xef\xbb\xbf" + text])
            )
        case 6:
            text = text.replace(b"1.5", draw(st.sampled_from([b"NaN", b"Infinity", b"-Infinity", b"1e400", b"01"])))
        case 7:
            text = text.replace(b"name", b"n\\u0061me", 1)
        case _:
            pass
    return text + draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))


def _seen(chunk):
    types = {
        key: [
            {"line": line, **{name: str(value) for name, value in row.items()}}
            for line, row in zip(part.lines.to_pylist(), _plain(part.rows).to_pylist(), strict=True)
        ]
        for key, part in chunk.types.items()
        if part.rows.num_rows
    }
    flags = {
        key: part.given.to_pylist() for key, part in chunk.types.items() if part.given is not None and len(part.lines)
    }
    return types, flags, chunk.problems


def _plain(table):
    # The calendar of the standard library, in which Arrow prints, is too small for what a column holds.
    counts = {pa.date32(): pa.int32(), pa.date64(): pa.int64(), pa.list_(pa.date32()): pa.list_(pa.int32())}
    return table.cast(pa.schema([(field.name, counts.get(field.type, field.type)) for field in table.schema]))


@settings(max_examples=400 if LONG else 100, deadline=None)
@given(st.lists(_lines(), min_size=1, max_size=12), st.booleans())
@example([b'{"type":"Mark","data":{}}null{}\n', b'{"type":"Mark","data":null}\n'], False)
@example([b'{"type":"Mark","data":{"note":\n', b'"x"}}\n', b'{"type":"Mark"}{"type":"Mark"}\n'], False)
def test_columnar_reading_equals_reading_line_by_line(lines, is_patch):
    data = b"".join(lines)
    decoder = ChunkDecoder(CATALOG, is_patch=is_patch)
    fast, exact = decoder.decode(data, 5), decoder.decode_exactly(data, 5)
    assert _seen(fast) == _seen(exact)
    for key, part in fast.types.items():
        assert part.rows.schema.equals(exact.types[key].rows.schema) if part.rows.num_rows else True
        part.rows.validate(full=False)
