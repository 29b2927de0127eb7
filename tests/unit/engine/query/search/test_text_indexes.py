"""The indexes an open graph keeps: found again, extended, dropped for room, built once."""

import threading

import pytest
from tests.text_tables import TextTable, answers, no_limit

from omnigraph.engine.query.search import TextIndexes
from omnigraph.errors import BadValue, QueryCancelledError


@pytest.fixture
def texts(tmp_path):
    def make(*texts, location="nodes/1"):
        return TextTable.of(tmp_path / "graph", *texts, location=location)

    return make


def get(indexes, image, prop="title", check=no_limit):
    return indexes.get(image, prop, check)


def numbers(indexes):
    stats = indexes.stats
    return (stats.builds, stats.extensions, stats.hits, stats.evictions)


def stop(size_bytes):
    details = BadValue(what="query", value="cancelled", expected="running")
    raise QueryCancelledError("the query was cancelled", details=details)


def test_the_same_version_is_indexed_once(texts):
    indexes, image = TextIndexes(), texts("graph").image
    assert get(indexes, image) is get(indexes, image)
    assert numbers(indexes) == (1, 0, 1, 0)
    assert indexes.stats.analysed_rows == 1


def test_an_index_answers_for_its_own_version_only(texts):
    indexes, stored = TextIndexes(), texts("graph", "notes")
    first = stored.image
    stored.put({"r000": "notes", "r001": "graph", "r002": "graph"})
    second = stored.image
    for image, expected in [(first, ["r000"]), (second, ["r001", "r002"]), (first, ["r000"])]:
        codes = get(indexes, image).matches("graph")
        assert sorted(image.column("id").take(codes).to_pylist()) == expected
    assert numbers(indexes) == (1, 1, 1, 0)


def test_an_older_version_can_be_reached_from_a_newer_one(texts):
    indexes, stored = TextIndexes(), texts("graph", "notes")
    older = stored.image
    stored.put({"r002": "graph"})
    stored.delete("r000")
    get(indexes, stored.image)
    assert get(indexes, older).matches("graph").tolist() == [0]
    assert numbers(indexes) == (1, 1, 0, 0)


def test_one_write_costs_the_analysis_of_its_rows(texts):
    indexes, stored = TextIndexes(), texts(*(f"text number{number}" for number in range(100)))
    get(indexes, stored.image)
    assert indexes.stats.analysed_rows == 100
    for step in range(40):
        stored.put({f"s{step:03}": f"text step{step}", f"r{step:03}": "changed"})
        index = get(indexes, stored.image)
        assert indexes.stats.analysed_rows == 100 + 2 * (step + 1)
        assert len(index.parts) <= 7
        assert (len(index.matches("text")), len(index.matches("changed"))) == (100, step + 1)
    assert answers(index, ["text", "step39 number50"]) == answers(stored.fresh_index(), ["text", "step39 number50"])


def test_properties_and_tables_are_kept_apart(texts):
    indexes = TextIndexes()
    here, there = texts("graph"), texts("notes", location="nodes/2")
    assert get(indexes, here.image).matches("graph").tolist() == [0]
    assert get(indexes, there.image).matches("graph").tolist() == []
    get(indexes, here.image, prop="id")
    assert numbers(indexes) == (3, 0, 0, 0)


def test_the_index_used_longest_ago_leaves_first(texts):
    images = [texts("graph notes " * 200, location=f"nodes/{number}").image for number in range(3)]
    alone = TextIndexes()
    get(alone, images[0])
    size_bytes = alone.private_bytes
    assert size_bytes > 0
    assert alone.mapped_bytes == 0
    indexes = TextIndexes(capacity_bytes=2 * size_bytes)
    for image in (images[0], images[1], images[0], images[2]):
        get(indexes, image)
    assert indexes.private_bytes <= 2 * size_bytes
    get(indexes, images[0])
    assert numbers(indexes) == (3, 0, 2, 1)
    get(indexes, images[1])
    assert indexes.stats.builds == 4


def test_without_any_room_an_index_still_answers(texts):
    indexes = TextIndexes(capacity_bytes=0)
    assert get(indexes, texts("graph").image).matches("graph").tolist() == [0]
    assert indexes.private_bytes == 0


def test_what_versions_share_counts_once(texts):
    indexes, stored = TextIndexes(), texts(*(f"text number{number}" for number in range(200)))
    get(indexes, stored.image)
    before = indexes.private_bytes
    stored.put({"r500": "one more"})
    get(indexes, stored.image)
    assert before < indexes.private_bytes < before + 4096


def test_threads_that_ask_at_once_share_one_build(texts):
    indexes, image = TextIndexes(), texts(*(["graph notes"] * 50)).image
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


def test_a_stopped_build_leaves_the_turn_to_the_next(texts):
    indexes, image = TextIndexes(), texts("graph").image
    with pytest.raises(QueryCancelledError):
        get(indexes, image, check=stop)
    assert get(indexes, image).matches("graph").tolist() == [0]


def test_a_query_that_waits_for_a_build_can_be_stopped(texts):
    indexes, image = TextIndexes(), texts("graph").image
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
