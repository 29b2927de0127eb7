"""A root is normalised once; nothing below it can climb out; credentials are never shown."""

from pathlib import Path

import msgspec
import pytest
from tests.txn_graph import PERSON, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import Kind, UsageError, ValueFormatError
from omnigraph.store.location import Storage
from omnigraph.store.tables.pins import TablePin


def test_a_relative_path_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = Storage.open("graph")
    assert storage.is_local
    assert storage.root == str(tmp_path / "graph")
    assert storage.path("a/b") == tmp_path / "graph" / "a" / "b"


def test_a_file_address_is_the_path_it_names():
    assert Storage.open("file:///data/my%20graph").path() == Path("/data/my graph")


def test_an_s3_address_loses_stray_slashes():
    storage = Storage.open("s3://bucket//a/b/")
    assert storage.root == "s3://bucket/a/b"
    assert (storage.bucket, storage.prefix, storage.is_local) == ("bucket", "a/b", False)
    assert storage.uri("nodes/1") == "s3://bucket/a/b/nodes/1"
    assert Storage.open("s3://bucket").uri("x") == "s3://bucket/x"


@pytest.mark.parametrize("root", ["", "gs://bucket/x", "s3://", "s3:///x", "s3://b/x?sig=1", "file://host/x"])
def test_other_roots_are_refused(root):
    with pytest.raises(ValueFormatError, match="not a valid graph location"):
        Storage.open(root)


@pytest.mark.parametrize("key", ["/abs", "a/../b", "..", "a//b", "a/", "./a"])
def test_a_key_cannot_leave_the_root(key, tmp_path):
    storage = Storage.open(tmp_path)
    with pytest.raises(ValueFormatError, match="below the graph's root"):
        storage.uri(key)
    with pytest.raises(ValueFormatError, match="below the graph's root"):
        storage.path(key)


def test_only_local_storage_has_paths():
    with pytest.raises(UsageError, match="only local storage has paths"):
        Storage.open("s3://bucket/x").path("a")


def test_credentials_are_never_shown():
    storage = Storage.open("s3://bucket/x", {"aws_secret_access_key": "hush"})
    assert "hush" not in repr(storage)
    assert storage.options["aws_secret_access_key"] == "hush"  # noqa: S105 - no secret of anybody


def test_a_pin_survives_json():
    pin = TablePin(location="nodes/1", branch="b", version=7)
    assert msgspec.json.decode(msgspec.json.encode(pin), type=TablePin) == pin


@pytest.mark.parametrize(
    "root",
    [
        "a\0b",
        "a\nb",
        "file:///a%00b",
        "s3://bucket/a\nb",
        "../" * 60 + "x",
        "n" * 256,
        "n/" * 2000,
        "a\ud800",
        b"a",
        7,
        None,
    ],
)
def test_an_address_that_no_store_takes_is_invalid(root):
    with pytest.raises(ValueFormatError) as refused:
        Storage.open(root)
    assert refused.value.kind is Kind.INVALID


@pytest.mark.parametrize(
    "name", ["Permission denied", "not found", "a%20b", "a#b", "a?b", "ä ö", "a'b\"c", "a:b", "a,b"]
)
def test_odd_names_of_folders_are_fine(tmp_path, name):
    storage = init_graph(tmp_path / name)
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["p"]))
        assert read_ids(graph, PERSON) == ["p"]
    assert [path.name for path in tmp_path.iterdir()] == [name]
