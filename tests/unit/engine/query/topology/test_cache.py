"""The cache: its budget, its threads, and that no version is ever taken for another."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from omnigraph.engine.query.topology import TopologyCache
from omnigraph.engine.query.topology import cache as cache_module
from omnigraph.engine.query.topology.budget import ByteBudgetCache, Key


@dataclass(frozen=True)
class Thing:
    """Something of which the shelf only knows how large it is."""

    parts: dict


def put(shelf, name, **parts):
    return shelf.get_or_make(Key("thing", name), lambda: Thing(parts))


def test_the_least_recently_used_leaves_first():
    shelf = ByteBudgetCache(30)
    for name in "abc":
        put(shelf, name, **{name: 10})
    shelf.get(Key("thing", "a"))
    put(shelf, "d", d=10)
    assert [name for name in "abcd" if shelf.get(Key("thing", name))] == ["a", "c", "d"]
    assert (shelf.size_bytes, shelf.evictions) == (30, 1)


def test_a_shared_part_counts_once_and_until_its_last_holder_leaves():
    shelf = ByteBudgetCache(40)
    put(shelf, "a", shared=20, own=5)
    put(shelf, "b", shared=20)
    assert shelf.size_bytes == 25
    put(shelf, "c", other=18)
    assert (shelf.size_bytes, shelf.evictions) == (38, 1)
    put(shelf, "d", more=10)
    assert (shelf.size_bytes, shelf.evictions) == (28, 2)


def test_what_is_larger_than_the_shelf_is_handed_out_but_not_kept():
    shelf = ByteBudgetCache(10)
    assert put(shelf, "big", big=11).parts == {"big": 11}
    assert shelf.get(Key("thing", "big")) is None
    assert shelf.size_bytes == 0


def test_threads_that_ask_for_the_same_thing_make_it_once():
    shelf, made, ready = ByteBudgetCache(100), [], threading.Barrier(8)

    def ask():
        ready.wait()
        return shelf.get_or_make(Key("thing", "a"), make)

    def make():
        made.append(1)
        return Thing({"a": 1})

    with ThreadPoolExecutor(max_workers=8) as pool:
        found = [item.result() for item in [pool.submit(ask) for _ in range(8)]]
    assert len(made) == 1
    assert all(item is found[0] for item in found)


def test_who_waits_for_a_maker_that_fails_makes_it_itself():
    shelf, begun, fail = ByteBudgetCache(100), threading.Event(), threading.Event()

    def broken():
        begun.set()
        fail.wait()
        raise KeyboardInterrupt

    with ThreadPoolExecutor(max_workers=2) as pool:
        first = pool.submit(shelf.get_or_make, Key("thing", "a"), broken)
        begun.wait()
        second = pool.submit(put, shelf, "a", a=1)
        fail.set()
        with pytest.raises(KeyboardInterrupt):
            first.result()
        assert second.result().parts == {"a": 1}
    assert shelf.get(Key("thing", "a")) is second.result()


def test_concurrent_readers_build_an_adjacency_once(graph):
    cache, ready = TopologyCache(), threading.Barrier(6)

    def ask(direction):
        ready.wait()
        return graph.adjacency(cache, direction)

    with ThreadPoolExecutor(max_workers=6) as pool:
        asked = [pool.submit(ask, direction) for direction in ("out", "in", "both") * 2]
        found = [item.result() for item in asked]
    assert cache.stats.builds == 1
    assert [found[index] is found[index + 3] for index in range(3)] == [True, True, True]
    for direction in ("out", "in", "both"):
        assert graph.walked(cache, direction) == graph.expected(direction)


def test_readers_at_many_versions_at_once_each_see_their_own(graph):
    versions = []
    for number in range(6):
        graph.change("e", {f"v{number}": ("eli", "dee")}, deletes=[f"v{number - 2}"])
        graph.change("a", {f"v{number}": number, "bo": number}, deletes=[f"v{number - 1}"])
        versions.append((dict(graph.pins), {name: dict(rows) for name, rows in graph.rows.items()}))
    cache = TopologyCache(capacity_bytes=20_000)

    def check(version):
        reader = graph.another_process()
        reader.pins, reader.rows = version
        for direction in ("both", "out"):
            assert reader.walked(cache, direction) == reader.expected(direction)

    with ThreadPoolExecutor(max_workers=4) as pool:
        for item in [pool.submit(check, version) for version in versions * 5]:
            item.result()
    assert cache.stats.extensions > 0


def test_a_build_that_is_stopped_leaves_nothing_and_can_be_made_again(graph):
    cache = TopologyCache()
    tables = graph.table("e"), graph.table("a"), graph.table("a")

    def stop(_):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        cache.adjacency(*tables, "out", stop)
    assert cache.known_adjacency(*tables, "out") is None
    assert graph.walked(cache, "out") == graph.expected("out")


def test_a_version_asked_for_again_is_a_hit(graph):
    cache = TopologyCache()
    first = graph.adjacency(cache, "out")
    hits = cache.stats.hits
    assert graph.adjacency(cache, "out") is first
    assert cache.stats.hits == hits + 1


def test_what_is_not_in_memory_is_not_known(graph):
    cache = TopologyCache()
    tables = graph.table("e"), graph.table("a"), graph.table("a")
    assert cache.known_image(graph.table("a")) is None
    assert cache.known_adjacency(*tables, "out") is None
    made = graph.adjacency(cache, "out")
    assert cache.known_image(graph.table("a")) is not None
    assert cache.known_adjacency(*tables, "out") is made
    assert cache.known_adjacency(*tables, "in") is None
    graph.change("a", {"ann": 2})
    assert cache.known_image(graph.table("a")) is None
    assert cache.known_adjacency(graph.table("e"), graph.table("a"), graph.table("a"), "out") is None


@pytest.mark.parametrize("capacity_bytes", [0, 200, 2_000])
def test_answers_stay_right_when_nothing_fits(graph, capacity_bytes):
    cache = TopologyCache(capacity_bytes)
    for number in range(4):
        graph.change("e", {f"v{number}": ("eli", "dee")})
        assert graph.walked(cache, "both") == graph.expected("both")
        assert cache.stats.size_bytes <= capacity_bytes
    assert cache.stats.evictions > 0


def test_the_default_budget_is_one_gibibyte():
    assert cache_module.DEFAULT_CAPACITY_BYTES == 1 << 30
