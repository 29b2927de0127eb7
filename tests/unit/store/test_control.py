"""Control objects: one creator per key, keys that come back as they were given, harmless repetition."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import Effect, StorageUnavailableError, TableMissingError
from omnigraph.runtime import Counters
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.testing.s3 import FOREVER, Fault


def test_only_the_first_creator_wins(bench):
    assert bench.control.put_if_absent("__recovery/main~1/7.json", b"a", bench.counters, sync=True)
    assert not bench.control.put_if_absent("__recovery/main~1/7.json", b"b", bench.counters)
    assert bench.control.get("__recovery/main~1/7.json", bench.counters) == b"a"


def test_one_of_many_simultaneous_creators_wins(bench):
    def create(number):
        return ControlObjects(bench.storage).put_if_absent("race", b"%d" % number, Counters())

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(create, range(8)))
    assert outcomes.count(True) == 1
    assert bench.control.get("race", bench.counters) == b"%d" % outcomes.index(True)


@pytest.mark.parametrize("key", ["a/main~01H/7.json", "a/team,x~1/é ü.json", "a/100%25.json", "a/x+y=z&w@:!$'();.txt"])
def test_keys_come_back_as_they_were_given(bench, key):
    bench.control.put(key, b"x", bench.counters)
    assert bench.control.list_keys("a", bench.counters) == (key,)
    assert bench.control.get(key, bench.counters) == b"x"
    assert bench.control.exists(key, bench.counters)
    bench.control.delete(key, bench.counters)
    assert bench.control.list_keys("a", bench.counters) == ()
    assert not bench.control.exists(key, bench.counters)


def test_a_listing_is_sorted_and_stays_inside_its_folder(bench):
    for key in ("r/b/2", "r/a/1", "r/b/10", "rr/x"):
        bench.control.put(key, b"", bench.counters)
    assert bench.control.list_keys("r", bench.counters) == ("r/a/1", "r/b/10", "r/b/2")
    assert bench.control.list_keys("r/b", bench.counters) == ("r/b/10", "r/b/2")


def test_put_replaces_and_delete_can_be_repeated(bench):
    bench.control.put("k", b"1", bench.counters, sync=True)
    bench.control.put("k", b"2", bench.counters)
    assert bench.control.get("k", bench.counters) == b"2"
    bench.control.delete("k", bench.counters)
    bench.control.delete("k", bench.counters)
    assert bench.control.get("k", bench.counters) is None


def test_deleting_a_folder_leaves_its_neighbours(bench):
    for key in ("t/a/1", "t/a/b/2", "t/ab/3"):
        bench.control.put(key, b"", bench.counters)
    bench.control.delete_prefix("t/a", bench.counters)
    bench.control.delete_prefix("t/a", bench.counters)
    assert bench.control.list_keys("t", bench.counters) == ("t/ab/3",)


def test_looking_at_a_graph_that_does_not_exist_creates_nothing(local):
    assert local.control.get("x", local.counters) is None
    assert local.control.list_keys("x", local.counters) == ()
    assert not local.control.exists("x", local.counters)
    local.control.delete("x", local.counters)
    assert not local.storage.path().exists()


def test_calls_are_counted_by_class(bench):
    counters = Counters()
    bench.control.put_if_absent("k", b"abc", counters)
    bench.control.get("k", counters)
    bench.control.list_keys("z", counters)
    bench.control.delete("k", counters)
    cost = counters.cost()
    assert cost.calls == {"control.put": 1, "control.get": 1, "control.list": 1, "control.delete": 1}
    assert (cost.serial_stages, cost.bytes_written, cost.bytes_read) == (4, 3, 3)


def test_a_missing_bucket_is_not_an_absent_object(clean_s3_endpoint):
    control = ControlObjects(Storage.open("s3://no-such-bucket/g", clean_s3_endpoint.storage_options))
    with pytest.raises(TableMissingError):
        control.get("k", Counters())


def test_a_put_that_got_no_answer_may_have_happened(on_s3, clean_s3_endpoint):
    clean_s3_endpoint.add_fault(Fault(action="error", status=503, operation="PUT", times=FOREVER))
    with pytest.raises(StorageUnavailableError) as caught:
        on_s3.control.put_if_absent("k", b"1", on_s3.counters)
    assert caught.value.effect is Effect.UNKNOWN
    assert "http" not in caught.value.details.reason
