"""The indexes an open graph keeps: found again, extended, dropped for room, built once."""

import threading

import pytest
from tests.text_image import TextImage, no_limit

from omnigraph.engine.query.search import TextIndexes
from omnigraph.errors import BadValue, QueryCancelledError


def get(indexes, image, prop="title", check=no_limit):
    return indexes.get(image, prop, check)


def numbers(indexes):
    stats = indexes.stats
    return (stats.builds, stats.extensions, stats.hits, stats.evictions)


def stop(size_bytes):
    details = BadValue(what="query", value="cancelled", expected="running")
    raise QueryCancelledError("the query was cancelled", details=details)


def test_the_same_version_is_indexed_once():
    indexes, image = TextIndexes(), TextImage.of("graph")
    assert get(indexes, image) is get(indexes, image)
    assert image.loads == 1
    assert numbers(indexes) == (1, 0, 1, 0)


def test_an_index_answers_for_its_own_version_only():
    indexes = TextIndexes()
    first = TextImage.of("graph", "notes", version=1)
    second = TextImage.of("notes", "graph", "graph", version=2)
    for image, expected in [(first, [0]), (second, [1, 2]), (first, [0])]:
        assert get(indexes, image).matches("graph").tolist() == expected
    assert numbers(indexes) == (1, 1, 1, 0)


def test_an_older_version_can_be_reached_from_a_newer_one():
    indexes = TextIndexes()
    get(indexes, TextImage.of("notes", "graph", "graph", version=2))
    assert get(indexes, TextImage.of("graph", version=1)).matches("graph").tolist() == [0]


def test_properties_and_tables_are_kept_apart():
    indexes = TextIndexes()
    here, there = TextImage.of("graph"), TextImage.of("notes", location="nodes/2")
    assert get(indexes, here).matches("graph").tolist() == [0]
    assert get(indexes, there).matches("graph").tolist() == []
    get(indexes, here, prop="body")
    assert numbers(indexes) == (3, 0, 0, 0)


def test_the_index_used_longest_ago_leaves_first():
    images = [TextImage.of("graph notes", location=f"nodes/{number}") for number in range(3)]
    size_bytes = get(TextIndexes(), images[0]).size_bytes
    indexes = TextIndexes(capacity_bytes=2 * size_bytes)
    for image in (images[0], images[1], images[0], images[2]):
        get(indexes, image)
    assert indexes.size_bytes <= 2 * size_bytes
    get(indexes, images[0])
    assert numbers(indexes) == (3, 0, 2, 1)
    get(indexes, images[1])
    assert indexes.stats.builds == 4


def test_without_any_room_an_index_still_answers():
    indexes = TextIndexes(capacity_bytes=0)
    assert get(indexes, TextImage.of("graph")).matches("graph").tolist() == [0]
    assert indexes.size_bytes == 0


def test_threads_that_ask_at_once_share_one_build():
    indexes, image = TextIndexes(), TextImage.of(*(["graph notes"] * 50))
    together = threading.Barrier(4)
    found = []

    def ask():
        together.wait()
        found.append(get(indexes, image))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(index) for index in found}) == 1
    assert indexes.stats.builds == 1


def test_a_stopped_build_leaves_the_turn_to_the_next():
    indexes, image = TextIndexes(), TextImage.of("graph")
    with pytest.raises(QueryCancelledError):
        get(indexes, image, check=stop)
    assert get(indexes, image).matches("graph").tolist() == [0]


def test_a_query_that_waits_for_a_build_can_be_stopped():
    indexes, image = TextIndexes(), TextImage.of("graph")
    is_building, may_go_on = threading.Event(), threading.Event()

    def slow(size_bytes):
        is_building.set()
        may_go_on.wait()

    builder = threading.Thread(target=get, args=(indexes, image), kwargs={"check": slow})
    builder.start()
    is_building.wait()
    with pytest.raises(QueryCancelledError):
        get(indexes, image, check=stop)
    may_go_on.set()
    builder.join()
    assert indexes.stats.builds == 1
