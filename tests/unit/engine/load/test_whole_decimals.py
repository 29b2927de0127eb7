"""Whole numbers that come as decimals, as Spark and many databases write unsigned 64-bit integers."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, make_graph

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.load import Source
from omnigraph.engine.load.reading.parquet import parse_array
from omnigraph.errors import BadRowsError

SCHEMA = """
node Item { name: String @key a: I32?  b: I64?  c: U32?  d: U64?  list: [U64]? }
edge Next: Item -> Item { weight: U64? }
"""
LIMITS = {
    "a": (-(1 << 31), (1 << 31) - 1),
    "b": (-(1 << 63), (1 << 63) - 1),
    "c": (0, (1 << 32) - 1),
    "d": (0, (1 << 64) - 1),
}


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def _load(graph, tmp_path, columns, type_name="Item"):
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    return load_files(graph, [Source(path=str(tmp_path / "rows.parquet"), type_name=type_name)], "append")


def _decimals(values, kind):
    return pa.array([None if value is None else Decimal(value) for value in values], kind)


@pytest.mark.parametrize("kind", [pa.decimal128(20, 0), pa.decimal128(38, 0), pa.decimal256(40, 0)], ids=str)
def test_decimals_without_a_fraction_are_whole_numbers(graph, tmp_path, kind):
    columns = {name: _decimals([low, high, None], kind) for name, (low, high) in LIMITS.items()}
    lists = pa.array([[Decimal(0), Decimal((1 << 64) - 1)], [], None], pa.list_(kind))
    _load(graph, tmp_path, {"name": ["x", "y", "z"], **columns, "list": lists})
    low, high, nothing = (row["data"] for row in export(graph))
    assert [low[name] for name in LIMITS] == [bounds[0] for bounds in LIMITS.values()]
    assert [high[name] for name in LIMITS] == [bounds[1] for bounds in LIMITS.values()]
    assert [nothing[name] for name in LIMITS] == [None] * 4
    assert (low["list"], high["list"], nothing["list"]) == ([0, (1 << 64) - 1], [], None)


def test_narrow_decimals_and_those_of_dictionaries_are_whole_numbers_too(graph, tmp_path):
    narrow = _decimals([7, None], pa.decimal32(5, 0))
    coded = _decimals([8, 8], pa.decimal128(20, 0)).dictionary_encode()
    _load(graph, tmp_path, {"name": ["x", "y"], "a": narrow, "d": coded})
    assert [(row["data"]["a"], row["data"]["d"]) for row in export(graph)] == [(7, 8), (None, 8)]


@pytest.mark.parametrize("name", list(LIMITS))
def test_a_decimal_out_of_range_is_named_with_its_row(graph, tmp_path, name):
    low, high = LIMITS[name]
    values = _decimals([low, high + 1, high, low - 1], pa.decimal128(38, 0))
    with pytest.raises(BadRowsError) as caught:
        _load(graph, tmp_path, {"name": list("wxyz"), name: values})
    found = caught.value.details.items
    assert [(item.line, item.property, item.value) for item in found] == [
        (2, name, str(high + 1)),
        (4, name, str(low - 1)),
    ]
    assert "exceeds" in found[0].message
    assert export(graph) == []


def test_an_item_out_of_range_is_named_with_its_place(graph, tmp_path):
    lists = pa.array([[Decimal(1)], [Decimal(1), Decimal(1 << 64)]], pa.list_(pa.decimal128(20, 0)))
    with pytest.raises(BadRowsError, match=rf"item at \[1\]: value {1 << 64} of property 'list' exceeds UInt64"):
        _load(graph, tmp_path, {"name": ["x", "y"], "list": lists})


def test_decimals_with_a_fraction_are_no_whole_numbers(graph, tmp_path):
    with pytest.raises(BadRowsError, match=r"property 'd' expects U64\?, got a column of decimal128\(20, 1\)"):
        _load(graph, tmp_path, {"name": ["x"], "d": _decimals([1], pa.decimal128(20, 1))})


def test_ids_may_come_as_decimals_like_any_whole_number(graph, tmp_path):
    _load(graph, tmp_path, {"name": _decimals([1, 2], pa.decimal128(20, 0))})
    ends = {"from": _decimals([1], pa.decimal128(20, 0)), "to": pa.array([2])}
    _load(graph, tmp_path, {**ends, "weight": _decimals([9], pa.decimal128(20, 0))}, "Next")
    edge = export(graph)[-1]
    assert (edge["from"], edge["to"], edge["data"]["weight"]) == ("1", "2", 9)


def test_decimals_at_any_address_come_where_storage_takes_them():
    """Spark hands over buffers at multiples of eight bytes, where storage does not take decimals."""
    kind = pa.decimal128(12, 2)
    plain = _decimals(["1.10", None, "3.30"], kind)
    room = pa.allocate_buffer(plain.buffers()[1].size + 8)
    np.frombuffer(room, np.uint8)[8:] = np.frombuffer(plain.buffers()[1], np.uint8)
    data = room.slice(8)
    moved = pa.Array.from_buffers(kind, 3, [plain.buffers()[0], data]).slice(1)
    assert moved.buffers()[1].address % 16 == 8
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), moved)
    digits = {"scalar": Scalar.DECIMAL, "precision": 12, "scale": 2}
    for given, of in ((moved, PropertyType(**digits)), (lists, PropertyType(**digits, is_list=True))):
        parsed, _, bad = parse_array(of, given)
        values = parsed.values if of.is_list else parsed
        assert bad is None
        assert values.buffers()[1].address % 16 == 0
        assert parsed.to_pylist() == given.to_pylist()
