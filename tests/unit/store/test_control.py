"""Control objects: one creator per key, keys that come back as they were given, harmless repetition."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import Effect, StorageUnavailableError, TableMissingError
from omnigraph.runtime import counting
from omnigraph.store.control import ControlObjects, open_s3
from omnigraph.store.location import Storage
from omnigraph.testing.s3 import FOREVER, Fault


def test_only_the_first_creator_wins(bench):
    assert bench.control.put_if_absent("__recovery/main~1/7.json", b"a", sync=True)
    assert not bench.control.put_if_absent("__recovery/main~1/7.json", b"b")
    assert bench.control.get("__recovery/main~1/7.json") == b"a"


def test_one_of_many_simultaneous_creators_wins(bench):
    def create(number):
        return ControlObjects(bench.storage).put_if_absent("race", b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(create, range(8)))
    assert outcomes.count(True) == 1
    assert bench.control.get("race") == b"%d" % outcomes.index(True)


@pytest.mark.parametrize("key", ["a/main~01H/7.json", "a/team,x~1/é ü.json", "a/100%25.json", "a/x+y=z&w@:!$'();.txt"])
def test_keys_come_back_as_they_were_given(bench, key):
    bench.control.put(key, b"x")
    assert bench.control.list_keys("a") == (key,)
    assert bench.control.get(key) == b"x"
    assert bench.control.exists(key)
    bench.control.delete(key)
    assert bench.control.list_keys("a") == ()
    assert not bench.control.exists(key)


def test_a_listing_is_sorted_and_stays_inside_its_folder(bench):
    for key in ("r/b/2", "r/a/1", "r/b/10", "rr/x"):
        bench.control.put(key, b"")
    assert bench.control.list_keys("r") == ("r/a/1", "r/b/10", "r/b/2")
    assert bench.control.list_keys("r/b") == ("r/b/10", "r/b/2")


def test_put_replaces_and_delete_can_be_repeated(bench):
    bench.control.put("k", b"1", sync=True)
    bench.control.put("k", b"2")
    assert bench.control.get("k") == b"2"
    bench.control.delete("k")
    bench.control.delete("k")
    assert bench.control.get("k") is None


def test_deleting_a_folder_leaves_its_neighbours(bench):
    for key in ("t/a/1", "t/a/b/2", "t/ab/3"):
        bench.control.put(key, b"")
    bench.control.delete_prefix("t/a")
    bench.control.delete_prefix("t/a")
    assert bench.control.list_keys("t") == ("t/ab/3",)


def test_looking_at_a_graph_that_does_not_exist_creates_nothing(local):
    assert local.control.get("x") is None
    assert local.control.list_keys("x") == ()
    assert not local.control.exists("x")
    local.control.delete("x")
    assert not local.storage.path().exists()


def test_calls_are_counted_by_class(bench):
    with counting() as counters:
        bench.control.put_if_absent("k", b"abc")
        bench.control.get("k")
        bench.control.list_keys("z")
        bench.control.delete("k")
    cost = counters.cost()
    assert cost.calls == {"control.put": 1, "control.get": 1, "control.list": 1, "control.delete": 1}
    assert (cost.serial_stages, cost.bytes_written, cost.bytes_read) == (4, 3, 3)


def test_a_missing_bucket_is_not_an_absent_object(clean_s3_endpoint):
    control = ControlObjects(Storage.open("s3://no-such-bucket/g", clean_s3_endpoint.storage_options))
    with pytest.raises(TableMissingError):
        control.get("k")


@pytest.mark.parametrize("read", [ControlObjects.get, lambda control, key: control.get_start(key, 9)])
def test_an_object_that_is_deleted_while_it_is_read_is_absent(clean_s3_endpoint, read):
    """The connection breaks in the middle, and the client finds nothing when it asks for the rest."""
    control = ControlObjects(Storage.open(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options))
    control.put("a/b.json", b"0123456789")
    clean_s3_endpoint.add_fault(Fault(action="cut", operation="GET"))
    clean_s3_endpoint.add_fault(Fault(action="error", status=404, operation="GET", nth=2))
    assert read(control, "a/b.json") is None
    assert [call.status for call in clean_s3_endpoint.calls()] == [200, 200 if read is ControlObjects.get else 206, 404]


def test_an_object_that_is_replaced_while_it_is_read_is_read_again(clean_s3_endpoint):
    control = ControlObjects(Storage.open(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options))
    control.put("a/b.json", b"0123456789")
    clean_s3_endpoint.add_fault(Fault(action="cut", operation="GET"))
    clean_s3_endpoint.add_fault(Fault(action="error", status=412, operation="GET", nth=2))
    assert control.get("a/b.json") == b"0123456789"
    assert [call.status for call in clean_s3_endpoint.calls()] == [200, 200, 412, 200]


def test_an_object_that_is_replaced_again_and_again_is_unavailable(clean_s3_endpoint):
    control = ControlObjects(Storage.open(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options))
    control.put("a", b"0123456789")
    clean_s3_endpoint.add_fault(Fault(action="error", status=412, operation="GET", times=FOREVER))
    with pytest.raises(StorageUnavailableError):
        control.get("a")


def test_a_put_that_got_no_answer_may_have_happened(on_s3, clean_s3_endpoint):
    clean_s3_endpoint.add_fault(Fault(action="error", status=503, operation="PUT", times=FOREVER))
    with pytest.raises(StorageUnavailableError) as caught:
        on_s3.control.put_if_absent("k", b"1")
    assert caught.value.effect is Effect.UNKNOWN
    assert "http" not in caught.value.details.reason


def test_one_client_serves_all_that_a_process_does_at_a_root(monkeypatch):
    options = {"endpoint": "http://127.0.0.1:9", "access_key_id": "a", "secret_access_key": "s"}
    storage = Storage.open("s3://b/g", options)
    client = open_s3(storage)
    assert open_s3(Storage.open("s3://b/g/", dict(reversed(options.items())))) is client
    assert open_s3(Storage.open("s3://b/x", options)) is not client
    assert open_s3(Storage.open("s3://b/g", {**options, "access_key_id": "another"})) is not client
    monkeypatch.setenv("AWS_REGION", "elsewhere")
    assert open_s3(storage) is not client
