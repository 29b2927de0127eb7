"""The newest version of a dataset, told by the folder of its versions, is never an older one."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from lance import LanceDataset

from omnigraph.runtime import Counters, counting
from omnigraph.store import newest
from omnigraph.store.handles import Handles
from omnigraph.store.location import Storage
from omnigraph.store.newest import NewestVersions, file_system_of

LOCATION = "things"


@pytest.fixture
def storage(tmp_path):
    return Storage.open(tmp_path / "g")


@pytest.fixture
def settled(monkeypatch):
    """Trust folders however short ago they changed, on whatever file system the tests run."""
    monkeypatch.setattr(newest, "_SETTLED_MS", -(1 << 50))
    monkeypatch.setattr(NewestVersions, "_is_own", lambda *_: True)


@pytest.fixture
def asked(monkeypatch):
    """Return which times Lance was asked for the newest version."""
    calls, real = [], LanceDataset.latest_version.fget

    def noted(handle):
        calls.append(handle.uri)
        return real(handle)

    monkeypatch.setattr(LanceDataset, "latest_version", property(noted))
    return calls


def write(storage, value):
    import lance  # noqa: PLC0415 - as another process would

    uri = storage.uri(LOCATION)
    mode = "append" if storage.path(LOCATION).exists() else "create"
    lance.write_dataset(pa.table({"value": [value]}), uri, mode=mode)


def versions_folder(storage):
    return storage.path(f"{LOCATION}/_versions")


def test_lance_is_asked_once_while_nothing_changes(storage, settled, asked):
    write(storage, 1)
    handles = Handles(storage)
    handles.open_latest(LOCATION, None)
    assert [handles.latest_version(LOCATION, None) for _ in range(5)] == [1] * 5
    assert len(asked) == 1


def test_every_version_is_seen_at_once(storage, settled, asked):
    handles = Handles(storage)
    for number in range(1, 8):
        write(storage, number)
        assert handles.latest_version(LOCATION, None) == number
        assert handles.latest_version(LOCATION, None) == number
    # The first was told by opening it.
    assert len(asked) == 6


def test_a_look_counts_as_one_round_trip_like_the_call_that_it_spares(storage, settled):
    write(storage, 1)
    handles = Handles(storage)
    handles.open_latest(LOCATION, None)
    costs = []
    for _ in range(2):
        counters = Counters()
        with counting(counters):
            handles.latest_version(LOCATION, None)
        costs.append(counters.cost())
    assert costs[0] == costs[1]


def test_a_folder_that_just_changed_is_not_trusted(storage, asked, monkeypatch):
    monkeypatch.setattr(NewestVersions, "_is_own", lambda *_: True)
    monkeypatch.setattr(newest, "_SETTLED_MS", 1 << 50)
    write(storage, 1)
    handles = Handles(storage)
    handles.open_latest(LOCATION, None)
    assert [handles.latest_version(LOCATION, None) for _ in range(3)] == [1] * 3
    assert len(asked) == 3


def test_a_file_system_that_is_not_known_to_belong_to_this_machine_is_not_trusted(storage, asked, monkeypatch):
    monkeypatch.setattr(newest, "_SETTLED_MS", -(1 << 50))
    monkeypatch.setattr(newest, "file_system_of", lambda _: "nfs4")
    write(storage, 1)
    handles = Handles(storage)
    handles.open_latest(LOCATION, None)
    assert [handles.latest_version(LOCATION, None) for _ in range(3)] == [1] * 3
    assert len(asked) == 3


def test_the_next_version_is_seen_even_if_the_folder_looks_as_before(storage, settled, monkeypatch):
    write(storage, 1)
    handles = Handles(storage)
    handles.open_latest(LOCATION, None)
    assert handles.latest_version(LOCATION, None) == 1
    mark = newest._mark(str(versions_folder(storage)))
    monkeypatch.setattr(newest, "_mark", lambda _: mark)
    write(storage, 2)
    assert handles.latest_version(LOCATION, None) == 2


def test_a_time_that_somebody_put_back_does_not_hide_a_version(storage, settled):
    write(storage, 1)
    handles = Handles(storage)
    handles.open_latest(LOCATION, None)
    assert handles.latest_version(LOCATION, None) == 1
    folder = versions_folder(storage)
    before = folder.stat()
    for number in (2, 3):
        write(storage, number)
    # As a cleanup would, of a version that nobody needs any more.
    os.remove(folder / f"{(1 << 64) - 1 - 2:020d}.manifest")  # noqa: PTH107 - the name is all there is
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert handles.latest_version(LOCATION, None) == 3


def test_a_dataset_that_goes_and_comes_back_is_asked_for_again(storage, settled, asked):
    import shutil  # noqa: PLC0415 - one test needs it

    write(storage, 1)
    write(storage, 2)
    handles = Handles(storage)
    assert handles.latest_version(LOCATION, None) == 2
    shutil.rmtree(storage.path(LOCATION))
    write(storage, 1)
    handles.forget(LOCATION)
    assert handles.latest_version(LOCATION, None) == 1


def test_the_kind_of_a_file_system_is_read_from_the_mounts(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 0:45 / /mnt/share\\040one rw shared:9 master:1 - nfs4 server:/x rw\n"
        "31 22 0:46 / /tmp rw - tmpfs tmpfs rw\n"
        "a line that means nothing\n"
    )
    found = [file_system_of(os.makedev(*device), mounts) for device in ((8, 1), (0, 45), (0, 46), (0, 99))]
    assert found == ["ext4", "nfs4", "tmpfs", None]
    assert file_system_of(os.makedev(8, 1), tmp_path / "nothing") is None
