"""Parts that are made when they are first asked for, by one thread, without looking for garbage."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.runtime import late_property, loading


class Owner:
    """Something with a part that takes long to make."""

    def __init__(self) -> None:
        self.made = 0
        self.started = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    @late_property
    def part(self) -> object:
        """What takes long."""
        self.made += 1
        self.started.set()
        assert self.may_end.wait(300)
        assert not gc.isenabled()
        return object()

    @late_property
    def whole(self) -> tuple[object, int]:
        """What needs another part."""
        return self.part, self.made


def test_a_part_is_made_once_and_is_an_attribute_from_then_on():
    owner = Owner()
    assert "part" not in vars(owner)
    first = owner.part
    assert vars(owner)["part"] is first is owner.part
    assert owner.made == 1
    assert Owner().part is not first
    assert Owner.part.__doc__ == "What takes long."


def test_a_part_may_need_another_one():
    owner = Owner()
    assert owner.whole == (owner.part, 1)


def test_threads_that_ask_at_once_get_the_same_part():
    owner = Owner()
    owner.may_end.clear()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(lambda: owner.part) for _ in range(4)]
        assert owner.started.wait(300)
        owner.may_end.set()
        assert len({id(one.result(60)) for one in asked}) == 1
    assert owner.made == 1


def test_a_part_that_could_not_be_made_is_made_by_the_next_who_asks():
    class Failing:
        tries = 0

        @late_property
        def part(self) -> int:
            self.tries += 1
            if self.tries == 1:
                raise OSError("not yet")
            return self.tries

    owner = Failing()
    with pytest.raises(OSError, match="not yet"):
        _ = owner.part
    assert gc.isenabled()
    assert owner.part == 2


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        with loading():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
