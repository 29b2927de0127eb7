"""Compare and set on both stores: of those who read the same object one replaces it, and everybody is told."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import Effect, StorageUnavailableError
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.store.swapping import SwapObjects
from omnigraph.testing.s3 import FOREVER, Fault

KEY = "__cluster/state.json"


@pytest.fixture
def objects(bench):
    return SwapObjects(bench.storage, Runtime.system().ids)


def test_an_object_is_created_once(objects):
    assert objects.read_tagged(KEY) is None
    assert objects.create(KEY, b"a")
    assert not objects.create(KEY, b"b")
    assert objects.read_tagged(KEY).data == b"a"


def test_an_object_is_replaced_by_who_has_read_it_last(objects):
    objects.create(KEY, b"a")
    first = objects.read_tagged(KEY)
    assert objects.replace(KEY, b"b", first.tag)
    assert not objects.replace(KEY, b"c", first.tag)
    second = objects.read_tagged(KEY)
    assert second.data == b"b"
    assert objects.replace(KEY, b"c", second.tag)
    assert objects.read_tagged(KEY).data == b"c"


def test_two_who_write_the_same_do_not_both_win(objects):
    objects.create(KEY, b"a")
    tag = objects.read_tagged(KEY).tag
    assert [objects.replace(KEY, b"b", tag), objects.replace(KEY, b"b", tag)] == [True, False]


def test_what_is_gone_cannot_be_replaced(objects):
    objects.create(KEY, b"a")
    tag = objects.read_tagged(KEY).tag
    objects.delete(KEY)
    assert not objects.replace(KEY, b"b", tag)
    assert objects.read_tagged(KEY) is None


def test_one_of_many_who_replace_at_once_wins(bench, objects):
    objects.create(KEY, b"start")
    tag = objects.read_tagged(KEY).tag

    def replace(number):
        return SwapObjects(bench.storage, Runtime.system().ids).replace(KEY, b"%d" % number, tag)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(replace, range(8)))
    assert outcomes.count(True) == 1
    assert objects.read_tagged(KEY).data == b"%d" % outcomes.index(True)


def test_nothing_is_left_beside_a_replaced_file(local):
    objects = SwapObjects(local.storage, Runtime.system().ids)
    objects.create(KEY, b"a")
    objects.replace(KEY, b"b", objects.read_tagged(KEY).tag)
    assert [path.name for path in local.storage.path("__cluster").iterdir()] == ["state.json"]


def test_a_replaced_file_is_synced_before_its_name_and_its_folder_after(local, monkeypatch):
    objects = SwapObjects(local.storage, Runtime.system().ids)
    objects.create(KEY, b"a")
    tag = objects.read_tagged(KEY).tag
    steps = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (steps.append("sync"), sync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("rename"), rename(*names)))
    assert objects.replace(KEY, b"b", tag)
    assert steps == ["sync", "rename", "sync"]


@pytest.mark.parametrize("action", ["error", "drop"])
@pytest.mark.parametrize("operation", ["create", "replace"])
def test_a_lost_answer_is_looked_up(clean_s3_endpoint, on_s3, action, operation):
    objects = SwapObjects(on_s3.storage, Runtime.system().ids)
    tag = ""
    if operation == "replace":
        objects.create(KEY, b"a")
        tag = objects.read_tagged(KEY).tag
    clean_s3_endpoint.add_fault(Fault(action=action, when="after", operation="PUT", key="state.json"))
    done = objects.create(KEY, b"b") if operation == "create" else objects.replace(KEY, b"b", tag)
    assert done
    assert objects.read_tagged(KEY).data == b"b"


def test_a_put_that_is_sent_again_by_the_client_is_not_taken_for_that_of_another(clean_s3_endpoint):
    storage = Storage.open(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options)
    objects = SwapObjects(storage, Runtime.system().ids)
    clean_s3_endpoint.add_fault(Fault(action="error", when="after", operation="PUT", key="state.json"))
    assert objects.create(KEY, b"a")
    clean_s3_endpoint.clear_faults()
    tag = objects.read_tagged(KEY).tag
    clean_s3_endpoint.add_fault(Fault(action="error", when="after", operation="PUT", key="state.json"))
    assert objects.replace(KEY, b"b", tag)


def test_an_outcome_that_cannot_be_told_is_an_error(clean_s3_endpoint, on_s3):
    objects = SwapObjects(on_s3.storage, Runtime.system().ids)
    objects.create(KEY, b"a")
    tag = objects.read_tagged(KEY).tag
    clean_s3_endpoint.add_fault(Fault(action="error", key="state.json", times=FOREVER))
    with pytest.raises(StorageUnavailableError, match=r"could not replace") as caught:
        objects.replace(KEY, b"b", tag)
    assert caught.value.effect is Effect.UNKNOWN
    clean_s3_endpoint.clear_faults()
    assert objects.read_tagged(KEY).data == b"a"


def test_a_tag_on_disk_is_that_of_the_bytes(local):
    objects = SwapObjects(local.storage, Runtime.system().ids)
    objects.create(KEY, b"a")
    assert objects.read_tagged(KEY).tag == hashlib.sha256(b"a").hexdigest()
