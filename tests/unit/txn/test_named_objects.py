"""Named records: each life of a name has a number, and ending one never ends another."""

import pytest

from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.txn.branches.records import Generations, NamedObjects


@pytest.fixture
def objects(tmp_path):
    return NamedObjects(ControlObjects(Storage.open(tmp_path)), "__things", is_durable=False)


def lives(objects, name):
    return objects.survey().get(name, Generations())


def begin(objects, name, data=b"x"):
    number = lives(objects, name).next_number
    assert objects.create(name, number, data)
    return number


def end(objects, name, number):
    objects.end(name, number)
    objects.sweep(name, number)


def test_a_name_lives_ends_and_lives_again_under_the_next_number(objects):
    assert objects.find("a/b") is None
    first = begin(objects, "a/b", b"one")
    assert objects.find("a/b").data == b"one"
    end(objects, "a/b", first)
    assert objects.find("a/b") is None
    second = begin(objects, "a/b", b"two")
    assert (first, second) == (1, 2)
    assert objects.find("a/b").data == b"two"


def test_of_two_creators_of_one_number_one_wins_and_a_repeated_put_is_its_own(objects):
    assert objects.create("a", 1, b"mine")
    assert objects.create("a", 1, b"mine")
    assert not objects.create("a", 1, b"theirs")


def test_ending_an_earlier_life_does_not_end_the_present_one(objects):
    first = begin(objects, "a")
    end(objects, "a", first)
    second = begin(objects, "a")
    end(objects, "a", first)
    assert lives(objects, "a").live == second


def test_a_creator_that_comes_too_late_is_dead_on_arrival(objects):
    for _ in range(3):
        end(objects, "a", begin(objects, "a"))
    # It saw only the first life, whose number is free again.
    assert objects.create("a", 2, b"late")
    assert lives(objects, "a").live is None
    assert lives(objects, "a").next_number == 4


def test_what_an_interrupted_end_leaves_is_found(objects):
    number = begin(objects, "a", b"left")
    objects.end("a", number)
    (found,) = objects.remains("a")
    assert (found.number, found.data) == (number, b"left")
    objects.sweep("a", number)
    assert objects.remains("a") == ()


def test_only_the_last_end_of_a_name_is_remembered(objects, tmp_path):
    for _ in range(5):
        end(objects, "a", begin(objects, "a"))
    assert [path.name for path in (tmp_path / "__things" / "a").iterdir()] == ["5.gone"]


def test_foreign_files_are_not_taken_for_records(objects, tmp_path):
    begin(objects, "a")
    (tmp_path / "__things" / "a" / "notes.txt").write_text("x", encoding="utf-8")
    (tmp_path / "__things" / "stray.json").write_text("x", encoding="utf-8")
    assert set(objects.survey()) == {"a"}


def test_a_life_that_ends_between_listing_and_reading_hides_no_later_one(tmp_path):
    class Slow(ControlObjects):
        """Lets somebody end the life that was listed and begin another before it is read."""

        def get(self, key):
            if key.endswith("/1.json") and lives(others, "a").live == 1:
                end(others, "a", 1)
                begin(others, "a", b"two")
            return super().get(key)

    storage = Storage.open(tmp_path)
    others = NamedObjects(ControlObjects(storage), "__things", is_durable=False)
    begin(others, "a", b"one")
    assert NamedObjects(Slow(storage), "__things", is_durable=False).find("a").data == b"two"
