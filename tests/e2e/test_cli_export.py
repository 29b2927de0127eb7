"""``omnigraph export`` as people and scripts meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.process import omnigraph

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: Date? }\n"
ROWS = (
    '{"type":"Person","data":{"name":"Bob"}}\n{"type":"Person","data":{"name":"Ada","age":36}}\n'
    '{"edge":"Knows","from":"Ada","to":"Bob","data":{"id":"k","since":"2020-05-01"}}\n'
)
LINES = (
    '{"edge":"Knows","from":"Ada","to":"Bob","data":{"id":"k","since":18383}}\n'
    '{"type":"Person","data":{"id":"Ada","name":"Ada","age":36}}\n'
    '{"type":"Person","data":{"id":"Bob","name":"Bob","age":null}}\n'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("export")
    (folder / "schema.pg").write_text(SCHEMA)
    (folder / "rows.jsonl").write_text(ROWS)
    assert omnigraph("init", "--schema", "schema.pg", "g", cwd=folder).code == 0
    assert omnigraph("load", "g", "--data", "rows.jsonl", "--mode", "append", cwd=folder).code == 0
    return folder


def test_a_folder_is_reported_and_loads_back(folder: Path, tmp_path: Path):
    done = omnigraph("export", "g", "--to", "out", "--format", "parquet", cwd=folder)
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first == "exported g to out as parquet: 3 entities across 1 node type and 1 edge type in 2 files"
    assert second.startswith("commit ")
    assert omnigraph("init", "--schema", "out/schema.pg", "copy", cwd=folder).code == 0
    loaded = omnigraph("load", "copy", "--data", "out", "--check-sums", "--mode", "append", cwd=folder)
    assert loaded.out == "loaded copy on branch main with append: 3 entities across 1 node type and 1 edge type\n"
    assert omnigraph("export", "copy", cwd=folder).out == LINES
