"""Blob columns: bytes come back as they went in, whatever Lance keeps them as."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.staging import stage_change, stage_compaction, stage_create, stage_overwrite
from omnigraph.store.tables.store import TableStore
from omnigraph.store.tables.writing import blob_columns, iter_blob_files, plain_schema

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("body", pa.large_binary(), metadata={b"lance-encoding:blob": b"true", b"omnigraph.x": b"7"}),
        pa.field("n", pa.int32()),
    ]
)
# Lance keeps the first in the data file, the second in a packed file beside it, the third in a file of its own.
SIZES = {"small": 10, "packed": 70_000, "large": 5_000_000}


def rows(values, n=0):
    return pa.table({"id": list(values), "body": list(values.values()), "n": [n] * len(values)}, schema=SCHEMA)


class Tables:
    """One table of a fresh or reopened store, moved from version to version."""

    def __init__(self, root, pin=None):
        self.runtime = Runtime.seeded(5)
        datasets = DatasetStore(Storage.open(str(root)), self.runtime)
        self.store = TableStore(datasets, datasets.control)
        if pin is None:
            pin = self.land(stage_create(datasets, "t", SCHEMA, operation_id="op", runtime=self.runtime))
        self.pin = pin

    def land(self, staged):
        self.pin = self.store.commit(staged)
        return self.pin

    @property
    def table(self):
        return self.store.open(self.pin)

    def change(self, upserts=None, deletes=(), **options):
        upserts = None if upserts is None else rows(upserts)
        options = {"operation_id": "op", "runtime": self.runtime, **options}
        self.land(stage_change(self.table, upserts=upserts, deletes=deletes, **options))

    def read(self):
        found = self.table.read()
        return dict(zip(found["id"].to_pylist(), found["body"].to_pylist(), strict=True))


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path)


def test_columns_look_the_same_before_and_after_the_first_row(tables):
    assert tables.table.schema.equals(SCHEMA, check_metadata=True)
    tables.change({"a": b"x"})
    assert tables.table.schema.equals(SCHEMA, check_metadata=True)
    assert tables.table.blobs == blob_columns(SCHEMA) == {"body"}
    # What this module is for: the day Lance reports the column as it was written, it can go.
    assert tables.table.handle.schema.field("body").type != pa.large_binary()
    assert plain_schema(tables.table.handle.schema).equals(SCHEMA, check_metadata=True)


def test_a_table_created_with_rows_keeps_the_columns_behind_a_blob(tmp_path):
    runtime = Runtime.seeded(5)
    datasets = DatasetStore(Storage.open(str(tmp_path)), runtime)
    store = TableStore(datasets, datasets.control)
    staged = stage_create(datasets, "t", SCHEMA, rows({"a": b"x"}, n=7), operation_id="op", runtime=runtime)
    table = store.open(store.commit(staged))
    assert table.read(["id", "n"]).to_pylist() == [{"id": "a", "n": 7}]
    assert table.schema.equals(SCHEMA, check_metadata=True)


def test_blobs_of_every_size_null_and_empty_come_back(tables, tmp_path):
    values = {name: name[:1].encode() * size for name, size in SIZES.items()} | {"empty": b"", "null": None}
    tables.change({"first": b"1"})
    tables.change(values)
    expected = {"first": b"1", **values}
    assert tables.read() == expected
    assert Tables(tmp_path, tables.pin).read() == expected


def test_lookup_gives_bytes_in_this_process_and_in_another(tables, tmp_path):
    tables.change({"a": b"x", "b": None})
    tables.change({"c": b"y" * 70_000})
    for each in (tables, Tables(tmp_path, tables.pin)):
        found = each.table.lookup(["a", "c"], ["body"])
        assert dict(zip(found["id"].to_pylist(), found["body"].to_pylist(), strict=True)) == {
            "a": b"x",
            "c": b"y" * 70_000,
        }
        assert each.table.lookup(["b"], ["n"])["n"].to_pylist() == [0]


@pytest.mark.parametrize("is_cold", [False, True])
def test_blobs_survive_folds_and_compaction(tables, tmp_path, is_cold):
    expected = {}
    for number in range(8):
        each = Tables(tmp_path, tables.pin) if is_cold else tables
        each.change({f"k{number}": bytes([number]) * 10}, deletes=["k3"] if number == 6 else (), tail_limit=3)
        tables.pin = each.pin
        expected[f"k{number}"] = bytes([number]) * 10
    del expected["k3"]
    assert tables.read() == expected
    staged = stage_compaction(tables.table, operation_id="op", runtime=tables.runtime)
    if staged is not None:
        tables.land(staged)
    assert tables.read() == expected


def test_replaced_table_holds_the_blobs_it_was_given(tables):
    tables.change({"a": b"x"})
    options = {"operation_id": "op", "runtime": tables.runtime}
    tables.land(stage_overwrite(tables.table, rows({"b": b"y", "c": None}), **options))
    assert tables.read() == {"b": b"y", "c": None}


def test_every_file_that_holds_blobs_is_found_for_syncing(tables, tmp_path):
    tables.change({name: b"z" * size for name, size in SIZES.items()})
    data = tmp_path / "t" / "data"
    found = [Path(path) for file in data.glob("*.lance") for path in iter_blob_files(str(file))]
    assert sorted(found) == sorted(data.glob("*/*"))
    assert sum(path.stat().st_size for path in found) >= SIZES["packed"] + SIZES["large"]
