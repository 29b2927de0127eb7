"""Local commits are synced, files before the folders that name them; other stores and relaxed graphs are left alone."""

import os
import uuid
from pathlib import Path

import pytest
from tests.unit.store.test_datasets import SCHEMA, rows

from omnigraph.errors import OmnigraphError
from omnigraph.store.control import ControlObjects
from omnigraph.store.durability import DiskSync
from omnigraph.store.staging import IndexBuild, stage_indexes


@pytest.fixture
def synced(monkeypatch):
    """Paths in the order in which they were synced, for real."""
    paths = []
    real = os.fsync

    def spy(descriptor):
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    return paths


@pytest.fixture
def disk_of():
    """Return a function that makes the syncer of a bench's storage."""
    made = []

    def make(bench, durability="full"):
        made.append(DiskSync(bench.storage, durability))
        return made[-1]

    yield make
    for disk in made:
        disk.close()


def _land(bench, disk, staged):
    """Land a commit as a writer does: its files first, then the version that names them."""
    disk.sync_files(staged.files)
    pin = bench.commit(staged)
    disk.sync_version(staged.after)
    return pin


def test_a_commit_is_synced_with_everything_it_brought(local, disk_of, synced):
    pin = local.create("a", "b")
    staged = local.stage(pin, upserts=["a"])
    _land(local, disk_of(local), staged)
    root = local.storage.path()
    files = [path for path in synced if path.is_file()]
    assert {path.suffix for path in files} == {".lance", ".arrow", ".manifest"}
    assert set(map(root.joinpath, staged.files)) < set(files)
    folders = [path for path in synced if path.is_dir()]
    # What a version names is durable before the version is, and every file before the folder that names it.
    assert files[-1].suffix == ".manifest"
    assert all(max(_places(synced, path)) < max(_places(synced, path.parent)) for path in files)
    assert synced[-1] == folders[-1] == root
    assert {path.parent for path in files} < set(folders)


def _places(synced, path):
    return [place for place, found in enumerate(synced) if found == path]


def test_the_way_to_a_folder_is_synced_once_and_the_folder_itself_every_time(local, disk_of, synced):
    disk = disk_of(local)
    pin = local.create("a", "b")
    for key in ("c", "d"):
        staged = local.stage(pin, upserts=[key])
        synced.clear()
        pin = _land(local, disk, staged)
    table = local.storage.path("nodes/1")
    assert {path for path in synced if path.is_dir()} == {table / "data", table / "_versions"}
    # The first deletion makes a folder that its parent does not durably name yet.
    staged = local.stage(pin, deletes=["a"])
    synced.clear()
    _land(local, disk, staged)
    assert {table / "_deletions", table, local.storage.path()} < set(synced)


def test_an_index_and_a_fork_are_synced_too(local, disk_of, synced):
    fork = local.tables.fork(local.create("a", "b"), "draft")
    build = IndexBuild(column="text", kind="fulltext", name="t")
    staged = stage_indexes(local.open(fork), [build], **local.origin).commit
    _land(local, disk_of(local), staged)
    assert len([path for path in synced if "_indices" in path.parts and path.is_file()]) == len(staged.files) > 0


def test_the_beginning_of_a_fork_is_synced_with_its_ref(local, disk_of, synced):
    fork = local.tables.fork(local.create("a", "b"), "draft")
    disk_of(local).sync_branch(fork)
    assert sorted(path.suffix for path in synced if path.is_file()) == [".json", ".manifest"]
    assert {path.parent for path in synced if path.is_file()} < {path for path in synced if path.is_dir()}


def test_a_control_object_has_its_name_when_its_bytes_are_on_the_disk(local, monkeypatch):
    """The other way round a power failure leaves a name with nothing behind it."""
    control, seen = ControlObjects(local.storage), []
    real, path = os.fsync, local.storage.path("a/b.json")

    def spy(descriptor):
        found = Path(f"/proc/self/fd/{descriptor}").readlink()
        seen.append((found.is_dir(), path.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    assert control.put_if_absent("a/b.json", b"1", sync=True)
    assert seen[0] == (False, False)
    assert [is_dir for is_dir, _ in seen[1:]] == [True, True]
    assert not control.put_if_absent("a/b.json", b"2", sync=True)
    seen.clear()
    control.put("a/b.json", b"3", sync=True)
    assert (seen[0], control.get("a/b.json")) == ((False, True), b"3")
    assert control.list_keys("a") == ("a/b.json",)
    assert [found.name for found in path.parent.iterdir()] == ["b.json"]


def test_a_dataset_version_is_synced(local, disk_of, synced):
    made = local.datasets.create("__manifest", SCHEMA, [rows("a")], {})
    staged = local.datasets.stage_fragment(made, rows("b"))
    identity = str(uuid.uuid4())
    disk = disk_of(local)
    disk.sync_data(made.pin, staged.files)
    landed = local.datasets.replace(made, [staged], SCHEMA, {}, identity)
    disk.sync_version(landed.pin)
    assert sorted(path.suffix for path in synced if path.is_file()) == [".lance", ".manifest"]


def test_a_relaxed_graph_and_an_object_store_are_not_synced(local, on_s3, disk_of, synced):
    staged = local.stage(local.create("a"), upserts=["b"])
    _land(local, disk_of(local, "relaxed"), staged)
    disk_of(on_s3).sync_files(["nodes/1/data/x"])
    disk_of(local).sync_files([])
    assert synced == []


def test_a_file_that_cannot_be_synced_is_an_error_of_ours(local, disk_of):
    local.create("a")
    with pytest.raises(OmnigraphError):
        disk_of(local).sync_files(["nodes/1/data/not-there", "nodes/1/data/nor-this"])
