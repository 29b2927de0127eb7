"""Tables cut by their keys: nothing is lost, equal keys stay together, and no part is much larger than a piece."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.query.output.ordering import PIECE_ROWS, parts_by_key

ROWS = 3 * PIECE_ROWS + 17


def numbers(below):
    return np.random.default_rng(3).integers(0, below, ROWS)


def with_nulls(values):
    return pa.array(values, mask=np.arange(ROWS) % 5 == 0)


COLUMNS = {
    "integers": pa.array(numbers(90_000)),
    "negative integers": pa.array(-numbers(90_000), pa.int32()),
    "unsigned integers": pa.array(numbers(90_000).astype(np.uint64) + (1 << 63)),
    "floats": pa.array(np.where(numbers(70_000) < 9, np.nan, numbers(70_000) / 7).astype(np.float32)),
    "texts": pa.array([f"name {number}" for number in numbers(90_000).tolist()]),
    "empty texts": pa.array(["" if number % 3 else str(number) for number in numbers(90_000).tolist()]),
    "bytes": pa.array([number.to_bytes(4, "little") for number in numbers(90_000).tolist()], pa.binary()),
    "sometimes null": with_nulls(numbers(90_000)),
    "texts, sometimes null": with_nulls([str(number) for number in numbers(90_000).tolist()]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_equal_keys_are_in_one_part_and_every_row_is_in_some(column):
    rows = pa.table({"key": column, "row": np.arange(ROWS)})
    parts = list(parts_by_key(rows, ["key"]))
    assert len(parts) > 3
    assert np.array_equal(np.sort(np.concatenate([part["row"].to_numpy() for part in parts])), np.arange(ROWS))
    groups = [len(part.group_by("key").aggregate([])) for part in parts]
    assert sum(groups) == len(rows.group_by("key").aggregate([]))


@pytest.mark.parametrize("name", ["integers", "texts", "bytes"])
def test_parts_are_about_as_large_as_a_piece(name):
    rows = pa.table({"key": COLUMNS[name]})
    assert max(part.num_rows for part in parts_by_key(rows, ["key"])) <= PIECE_ROWS


def test_keys_of_several_columns_are_told_apart():
    rows = pa.table({"a": numbers(2), "b": numbers(90_000) % 50_000, "row": np.arange(ROWS)})
    parts = list(parts_by_key(rows, ["a", "b"]))
    groups = [len(part.group_by(["a", "b"]).aggregate([])) for part in parts]
    assert sum(groups) == len(rows.group_by(["a", "b"]).aggregate([]))


def test_a_slice_is_cut_by_its_own_values():
    rows = pa.table({"key": COLUMNS["texts, sometimes null"], "row": np.arange(ROWS)}).slice(100, 2 * PIECE_ROWS)
    groups = [len(part.group_by("key").aggregate([])) for part in parts_by_key(rows, ["key"])]
    assert sum(groups) == len(rows.group_by("key").aggregate([]))


def test_rows_of_a_part_keep_their_order():
    rows = pa.table({"key": COLUMNS["integers"], "row": np.arange(ROWS)})
    for part in parts_by_key(rows, ["key"]):
        assert (np.diff(part["row"].to_numpy()) > 0).all()


def test_a_small_table_is_one_part():
    rows = pa.table({"key": [2, 1, 2]})
    assert list(parts_by_key(rows, ["key"])) == [rows]
