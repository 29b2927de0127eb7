"""A record is what ``dataclass`` makes, with the words that it is given, whatever a class says of its parts."""

from __future__ import annotations

import copy
import functools
import pickle
import typing
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from inspect import signature
from typing import Any, Generic, TypeVar

import pytest

from omnigraph.records import record

T = TypeVar("T")
by_hand = dataclass(frozen=True, slots=True, kw_only=True)


def _classes(decorate: Callable[[type[Any]], type[Any]]) -> dict[str, Any]:
    @decorate
    class Point:
        """Two numbers."""

        x: int
        y: int = 2

    @decorate
    class Named(Point):
        """With parts that are compared, shown and made in their own way."""

        name: str = field(default="n", compare=False)
        tags: list[str] = field(default_factory=list, hash=False)
        secret: str = field(default="s", repr=False, hash=False)

    @decorate
    class Counted:
        """With a part that nobody gives."""

        items: tuple[int, ...]
        limit: int = field(default=9, init=False)
        total: int = field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", sum(self.items))

    @decorate
    class Box(Generic[T]):
        """Of anything."""

        content: T

    @decorate
    class Empty:
        """Without parts."""

    @decorate
    class Spoken:
        """With words of its own."""

        word: str

        def __repr__(self) -> str:
            return f"<{self.word}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, str) and other == self.word

        def __hash__(self) -> int:
            return 7

    made = [Point, Named, Counted, Box, Empty, Spoken]
    return {cls.__name__: cls for cls in made}


RECORDS, DATACLASSES = _classes(record), _classes(by_hand)
VALUES: list[tuple[str, dict[str, Any]]] = [
    ("Point", {"x": 1}),
    ("Point", {"x": 1, "y": 3}),
    ("Named", {"x": 1, "tags": ["a"]}),
    ("Named", {"x": 1, "tags": ["a"], "name": "other", "secret": "t"}),
    ("Counted", {"items": (1, 2)}),
    ("Box", {"content": (1, "two")}),
    ("Empty", {}),
    ("Spoken", {"word": "hm"}),
]


@record
class Kept:
    """What another process can be sent."""

    name: str
    parts: tuple[int, ...] = ()


@pytest.mark.parametrize(("name", "given"), VALUES)
def test_a_value_looks_compares_and_hashes_like_that_of_a_dataclass(name: str, given: dict[str, Any]) -> None:
    ours, theirs = RECORDS[name](**given), DATACLASSES[name](**given)
    assert repr(ours) == repr(theirs)
    assert hash(ours) == hash(theirs)
    assert asdict(ours) == asdict(theirs)
    for other, changed in VALUES:
        expected = theirs == DATACLASSES[other](**changed)
        assert (ours == RECORDS[other](**changed)) is expected, (name, other)
    assert (ours == "hm") is (theirs == "hm")


@pytest.mark.parametrize("name", RECORDS)
def test_a_class_tells_the_same_of_itself_as_a_dataclass(name: str) -> None:
    ours, theirs = RECORDS[name], DATACLASSES[name]
    assert str(signature(ours)) == str(signature(theirs))
    assert [(one.name, one.type, one.init) for one in fields(ours)] == [
        (one.name, one.type, one.init) for one in fields(theirs)
    ]
    assert ours.__slots__ == theirs.__slots__
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__doc__ == theirs.__doc__


@pytest.mark.parametrize("given", [{}, {"x": 1, "z": 2}, {"y": 2}])
def test_parts_that_are_missing_or_unknown_are_refused_like_those_of_a_function(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as theirs:
        DATACLASSES["Point"](**given)
    # The first value of a class writes its __init__; what is refused before and after that is the same.
    fresh = _classes(record)["Point"]
    for _ in range(2):
        with pytest.raises(TypeError) as ours:
            fresh(**given)
        assert str(ours.value) == str(theirs.value)


def test_parts_have_no_order_by_which_they_could_be_given() -> None:
    with pytest.raises(TypeError, match="positional"):
        RECORDS["Point"](1)


def test_a_value_cannot_change_nor_can_it_get_parts() -> None:
    point = RECORDS["Point"](x=1)
    with pytest.raises(FrozenInstanceError, match=r"'x' of .*Point"):
        point.x = 2
    with pytest.raises(FrozenInstanceError):
        point.z = 2
    with pytest.raises(FrozenInstanceError):
        del point.x
    assert replace(point, y=5) == RECORDS["Point"](x=1, y=5)
    assert point == RECORDS["Point"](x=1)


def test_lists_made_by_default_are_not_shared() -> None:
    one, other = RECORDS["Named"](x=1), RECORDS["Named"](x=1)
    assert one.tags is not other.tags


def test_a_value_survives_a_copy_and_a_journey_to_another_process() -> None:
    kept = Kept(name="k", parts=(1, 2))
    assert pickle.loads(pickle.dumps(kept)) == kept  # noqa: S301 - our own bytes
    assert copy.deepcopy(kept) == kept


def test_a_value_that_contains_itself_can_be_shown() -> None:
    held: list[Any] = []
    named = RECORDS["Named"](x=1, tags=held)
    held.append(named)
    assert "tags=[...]" in repr(named)


# The words by which records differ from what is ordinary, and those that dataclass needs for the same.
WORDS: list[tuple[dict[str, bool], dict[str, bool]]] = [
    ({}, {"frozen": True, "slots": True, "kw_only": True}),
    ({"kw_only": False}, {"frozen": True, "slots": True}),
    ({"kw_only": False, "slots": False}, {"frozen": True}),
    ({"slots": False, "eq": False, "repr": False}, {"frozen": True, "kw_only": True, "eq": False, "repr": False}),
    ({"frozen": False}, {"slots": True, "kw_only": True}),
    ({"frozen": False, "kw_only": False}, {"slots": True}),
    ({"frozen": False, "kw_only": False, "slots": False}, {}),
    (
        {"eq": False, "weakref_slot": True},
        {"frozen": True, "slots": True, "kw_only": True, "eq": False, "weakref_slot": True},
    ),
    ({"order": True}, {"frozen": True, "slots": True, "kw_only": True, "order": True}),
]


def _worded(decorate: Callable[[type[Any]], type[Any]]) -> Any:
    @decorate
    class Base:
        """Something to build upon."""

        first: int
        second: list[int] = field(default_factory=list, repr=False)

    @decorate
    class Built(Base):
        """With more parts."""

        kind: typing.ClassVar[str] = "built"
        third: str = "t"
        fourth: int = field(default=4, kw_only=True, compare=False)

    return Built


@pytest.mark.parametrize(("ours", "theirs"), WORDS)
def test_words_of_a_dataclass_mean_the_same(ours: dict[str, bool], theirs: dict[str, bool]) -> None:
    made, expected = _worded(record(**ours)), _worded(dataclass(**theirs))
    assert str(signature(made)) == str(signature(expected))
    assert made.__match_args__ == expected.__match_args__
    assert made.__dict__.get("__slots__") == expected.__dict__.get("__slots__")
    assert [(one.name, one.kw_only, one.compare) for one in fields(made)] == [
        (one.name, one.kw_only, one.compare) for one in fields(expected)
    ]
    told = []
    for cls in (made, expected):
        one, same, other = cls(first=1), cls(first=1, fourth=5), cls(first=2, second=[3], third="u")
        told.append(
            (
                *(one == same, one == other, one.second, other.second, one.third, same.fourth, asdict(other)),
                *(_outcome(act, one, other) for act in (_hash_all, _order, _change, _add, _remove, _refer, _send)),
                _outcome(lambda one, _: repr(one).rpartition(" at 0x")[0] or repr(one), one, other),
            )
        )
    assert told[0] == told[1]


def _outcome(act: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Return what comes of it; the library has two classes of errors for what a frozen value refuses."""
    try:
        return act(one, other)
    except (AttributeError, TypeError):
        return "refused"


def _hash_all(one: Any, other: Any) -> bool:
    return hash(replace(one, second=())) != hash(replace(other, second=()))


def _order(one: Any, other: Any) -> tuple[bool, ...]:
    return (one < other, one <= other, one > other, other >= one)


def _change(one: Any, _: Any) -> Any:
    one.first = 9
    return one.first


def _add(one: Any, _: Any) -> Any:
    one.fifth = 5
    return one.fifth


def _remove(_: Any, other: Any) -> bool:
    del other.third
    return hasattr(other, "third")


def _refer(one: Any, _: Any) -> bool:
    return weakref.ref(one)() is one


def _send(one: Any, _: Any) -> Any:
    return asdict(copy.deepcopy(one))


@pytest.mark.parametrize(
    ("args", "given"),
    [((1,), {}), ((1, [2]), {"third": "u"}), ((1, [2], "u"), {"fourth": 9}), ((1, 2, 3, 4), {}), ((1,), {"first": 2})],
)
def test_parts_with_an_order_are_given_by_it(args: tuple[Any, ...], given: dict[str, Any]) -> None:
    # The first values of a class are made in another way than those after them.
    made, expected = _worded(record(kw_only=False)), _worded(dataclass(frozen=True, slots=True))
    told = [_outcome(lambda one, _: asdict(one(*args, **given)), cls, None) for cls in (*([made] * 40), expected)]
    assert told == [told[-1]] * 41


def test_the_parts_of_a_class_that_stays_as_it_is_have_their_defaults() -> None:
    @record(slots=False)
    class Loose:
        given: int = 3
        made: list[int] = field(default_factory=list)
        told: int = field(default=4, repr=False)

        @functools.cached_property
        def sum(self) -> int:
            return self.given + self.told

    assert (Loose.given, Loose.told, hasattr(Loose, "made")) == (3, 4, False)
    assert Loose(given=5).sum == 9


def test_making_a_class_describes_none_of_its_parts() -> None:
    made = _worded(record)
    assert "every" not in vars(vars(made)["__dataclass_fields__"])
    assert is_dataclass(made)
    assert [one.name for one in fields(made)] == ["first", "second", "third", "fourth"]
    assert isinstance(vars(made)["__dataclass_fields__"], dict)


def test_what_its_parts_are_can_be_asked_for() -> None:
    assert typing.get_type_hints(Kept) == {"name": str, "parts": tuple[int, ...]}
    match Kept(name="k", parts=(3,)):
        case Kept(name=name, parts=(part,)):
            assert (name, part) == ("k", 3)
        case _:
            pytest.fail("a record is matched by its parts")
