"""Ids from key values: the same text one by one and in columns."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog import PropertyType, Scalar, compile_schema
from omnigraph.catalog.entity_ids import canonical_text, canonical_texts, entity_id, entity_ids
from omnigraph.errors import UsageError, ValueFormatError
from omnigraph.lang.pg import parse_schema


def _node(body: str):
    return compile_schema(parse_schema(f"node A {{ {body} }}")).nodes["A"]


@pytest.mark.parametrize(
    ("scalar", "value", "text"),
    [
        (Scalar.STRING, "per-self", "per-self"),
        (Scalar.STRING, "", ""),
        (Scalar.STRING, " É ", " É "),
        (Scalar.BOOL, True, "true"),
        (Scalar.BOOL, False, "false"),
        (Scalar.I32, -7, "-7"),
        (Scalar.U64, 18446744073709551615, "18446744073709551615"),
        (Scalar.F32, 1.23456789, "1.2345679"),
        (Scalar.F32, 16777217, "16777216"),
        (Scalar.F64, 1.0, "1"),
        (Scalar.F64, 0.0, "0"),
        (Scalar.F64, -0.0, "0"),
        (Scalar.F64, 1e21, "1000000000000000000000"),
        (Scalar.F64, 5e-324, "0." + "0" * 323 + "5"),
        (Scalar.F64, -1.5e-7, "-0.00000015"),
        (Scalar.DATE, 19723, "19723"),
        (Scalar.DATETIME, 1704067200000, "1704067200000"),
    ],
)
def test_canonical_texts(scalar, value, text):
    assert canonical_text(scalar, value) == text


@pytest.mark.parametrize("scalar", [Scalar.F32, Scalar.F64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 10**400])
def test_non_finite_floats_have_no_text(scalar, value):
    with pytest.raises(ValueFormatError, match="non-finite"):
        canonical_text(scalar, value)


def test_a_number_beyond_32_bit_floats_is_non_finite_there():
    with pytest.raises(ValueFormatError, match="non-finite"):
        canonical_text(Scalar.F32, 1e39)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        (Scalar.STRING, None),
        (Scalar.STRING, 5),
        (Scalar.BOOL, 1),
        (Scalar.I32, True),
        (Scalar.I32, 1 << 31),
        (Scalar.U32, -1),
        (Scalar.I64, 1.0),
        (Scalar.F64, True),
        (Scalar.F64, "1"),
        (Scalar.DATE, "2024-01-01"),
        (Scalar.BLOB, b""),
        (Scalar.VECTOR, [1.0]),
    ],
)
def test_values_of_another_type_have_no_text(scalar, value):
    with pytest.raises(ValueFormatError):
        canonical_text(scalar, value)


@pytest.mark.parametrize(
    ("body", "row", "expected"),
    [
        ("slug: String @key", {"slug": "pat-x"}, "pat-x"),
        ("seq: U64 @key", {"seq": 42}, "42"),
        ("day: Date @key", {"day": 19723}, "19723"),
        ("w: F32 @key", {"w": 16777217.0}, "16777216"),
        ("tenant: String  slot: U32  @key(tenant, slot)", {"tenant": "acme", "slot": 7}, '["acme","7"]'),
        ("a: String  b: String  @key(b, a)", {"a": 'x"y', "b": "é"}, '["é","x\\"y"]'),
        (
            "a: String  b: Bool  @key(b, a)",
            {"a": "\x00\x1f\\\n\x7f", "b": True},
            '["true","\\u0000\\u001f\\\\\\n\x7f"]',
        ),
    ],
)
def test_ids_of_rows(body, row, expected):
    node = _node(body)
    assert entity_id(node, row) == expected


def test_ids_of_keyed_edges_join_ends_and_properties_in_written_order():
    text = "node A {}  edge E: A -> A { day: Date  @key(dst, day, src) }"
    edge = compile_schema(parse_schema(text)).edges["E"]
    columns = {
        "src": pa.array(["a", "a,b"]),
        "dst": pa.array(['["7","acme"]', "é"]),
        "day": pa.array([1, -1], pa.int32()).view(pa.date32()),
    }
    expected = ['["[\\"7\\",\\"acme\\"]","1","a"]', '["é","-1","a,b"]']
    assert entity_ids(edge, columns).to_pylist() == expected
    rows = [{"src": "a", "dst": '["7","acme"]', "day": 1}, {"src": "a,b", "dst": "é", "day": -1}]
    assert [entity_id(edge, row) for row in rows] == expected


def test_types_without_a_key_have_no_derived_ids():
    node = _node("a: String")
    with pytest.raises(UsageError, match="no @key"):
        entity_id(node, {"a": "x"})
    with pytest.raises(UsageError, match="no @key"):
        entity_ids(node, {"a": pa.array(["x"])})


def test_missing_and_null_key_values_are_refused():
    node = _node("a: String  b: I32  @key(a, b)")
    with pytest.raises(ValueFormatError):
        entity_id(node, {"a": "x"})
    with pytest.raises(ValueFormatError):
        entity_ids(node, {"a": pa.array(["x"])})
    with pytest.raises(ValueFormatError):
        entity_ids(node, {"a": pa.array(["x", None]), "b": pa.array([1, 2], pa.int32())})


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (PropertyType(scalar=Scalar.I32), pa.array([1], pa.int64())),
        (PropertyType(scalar=Scalar.DATETIME), pa.array([1], pa.timestamp("ms"))),
        (PropertyType(scalar=Scalar.F32), pa.array([1.0], pa.float64())),
        (PropertyType(scalar=Scalar.STRING), pa.array([1], pa.int64())),
        (PropertyType(scalar=Scalar.STRING, is_list=True), pa.array([["a"]])),
        (PropertyType(scalar=Scalar.BLOB), pa.array([b"a"], pa.large_binary())),
        (PropertyType(scalar=Scalar.VECTOR, dimension=1), pa.array([[1.0]], pa.list_(pa.float32(), 1))),
    ],
)
def test_columns_of_another_type_are_refused(kind, column):
    with pytest.raises(ValueFormatError):
        canonical_texts(kind, column)


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_is_read_in_every_layout_and_in_chunks(arrow):
    column = pa.chunked_array([pa.array(["b", "a"]).cast(arrow), pa.array(["b"]).cast(arrow)])
    found = canonical_texts(PropertyType(scalar=Scalar.STRING), column)
    assert found.type == pa.string()
    assert found.to_pylist() == ["b", "a", "b"]


def test_the_time_of_day_stays_in_the_text():
    column = pa.array([1704067200123, -1], pa.int64()).view(pa.date64())
    assert canonical_texts(PropertyType(scalar=Scalar.DATETIME), column).to_pylist() == ["1704067200123", "-1"]


def test_empty_columns_give_no_ids():
    node = _node("a: String  w: F64  @key(w, a)")
    ids = entity_ids(node, {"a": pa.array([], pa.string()), "w": pa.array([], pa.float64())})
    assert (len(ids), ids.type) == (0, pa.string())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_non_finite_float_in_a_column_is_refused(value):
    with pytest.raises(ValueFormatError, match="non-finite"):
        canonical_texts(PropertyType(scalar=Scalar.F64), pa.array([1.0, value]))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_columns_of_wide_floats_agree_with_single_values(values):
    found = canonical_texts(PropertyType(scalar=Scalar.F64), pa.array(values, pa.float64())).to_pylist()
    assert found == [canonical_text(Scalar.F64, value) for value in values]
    assert [float(text) for text in found] == values
    assert not any("e" in text for text in found)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_columns_of_narrow_floats_agree_with_single_values(values):
    found = canonical_texts(PropertyType(scalar=Scalar.F32), pa.array(values, pa.float32())).to_pylist()
    assert found == [canonical_text(Scalar.F32, value) for value in values]
    assert [np.float32(text) for text in found] == values


@given(st.lists(st.tuples(st.text(), st.integers(0, 2**32 - 1), st.booleans())))
def test_composite_ids_are_the_json_of_their_texts(rows):
    node = _node("t: String  n: U32  b: Bool  @key(t, n, b)")
    columns = {
        "t": pa.array([row[0] for row in rows], pa.string()),
        "n": pa.array([row[1] for row in rows], pa.uint32()),
        "b": pa.array([row[2] for row in rows], pa.bool_()),
    }
    found = entity_ids(node, columns).to_pylist()
    assert found == [entity_id(node, dict(zip("tnb", row, strict=True))) for row in rows]
    assert [json.loads(text) for text in found] == [[t, str(n), str(b).lower()] for t, n, b in rows]
