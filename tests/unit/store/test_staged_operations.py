"""Operations of Lance are written exactly like this into plans, which another process may have to run."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Index, IndexFile
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.errors import StorageCorruptError
from omnigraph.store.staging.codec import operation_from_json, operation_to_json

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())], metadata={"k": "v"})


def fragment(number):
    described = {
        "id": number,
        "files": [
            {
                "path": f"{number}.lance",
                "fields": [0, 1],
                "column_indices": [0, 1],
                "file_major_version": 2,
                "file_minor_version": 1,
                "file_size_bytes": 1234,
                "base_id": None,
            }
        ],
        "deletion_file": None,
        "row_id_meta": {"Inline": [1, 2, 255]},
        "physical_rows": 3,
        "created_at_version_meta": None,
        "last_updated_at_version_meta": None,
    }
    return FragmentMetadata.from_json(json.dumps(described))


def index(name, **parts):
    usual = {
        "uuid": "00000000-0000-0000-0000-00000000000a",
        "name": name,
        "fields": [0],
        "dataset_version": 4,
        "fragment_ids": Bitmap([3, 1]),
        "index_version": 2,
        "created_at": None,
        "base_id": None,
        "files": None,
        "index_details": None,
        "covering_fields": [],
    }
    return Index(**{**usual, **parts})


LANCE_SCHEMA = LanceSchema.from_pyarrow(SCHEMA)
OPERATIONS = {
    "update": LanceOperation.Update(
        removed_fragment_ids=[4],
        updated_fragments=[fragment(1)],
        new_fragments=[fragment(0)],
        fields_for_preserving_frag_bitmap=[1],
        update_mode="rewrite_rows",
    ),
    "overwrite": LanceOperation.Overwrite(SCHEMA, [fragment(0)]),
    "project": LanceOperation.Project(LANCE_SCHEMA, preserves_nullability=True),
    "merge": LanceOperation.Merge([fragment(1)], LANCE_SCHEMA),
    "create-index": LanceOperation.CreateIndex(
        [
            index(
                "id_btree",
                created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                files=[IndexFile("page.lance", 77)],
                index_details=("/lance.table.BTreeIndexDetails", b"\x01\xff"),
                covering_fields=[1],
            )
        ],
        [index("old")],
    ),
    "rewrite": LanceOperation.Rewrite([LanceOperation.RewriteGroup([fragment(1), fragment(2)], [fragment(0)])], []),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_written_field_by_field(name):
    written = json.dumps(operation_to_json(OPERATIONS[name]), separators=(",", ":"))
    assert written + "\n" == (GOLDEN / f"operation-{name}.json").read_text(encoding="utf-8")
    again = operation_from_json(json.loads(written))
    assert type(again) is type(OPERATIONS[name])
    assert operation_to_json(again) == json.loads(written)


def _damaged():
    for name, operation in OPERATIONS.items():
        whole = operation_to_json(operation)
        for part in whole:
            yield pytest.param({key: value for key, value in whole.items() if key != part}, id=f"{name} without {part}")
            yield pytest.param({**whole, part: 7}, id=f"{name} with another {part}")


@pytest.mark.parametrize("data", list(_damaged()))
def test_an_operation_that_lacks_a_part_is_corrupt(data):
    with pytest.raises(StorageCorruptError):
        operation_from_json(data)
