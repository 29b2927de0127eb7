"""For how long a writer waits for those whose writes it has published, so that their next ones can go along."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from omnigraph.runtime.environment import ManualClock
from omnigraph.txn.offers.guests import Company

WINDOW_S = 0.06


class Line:
    """The line of a machine on which offers are announced at set times."""

    def __init__(self, clock, times):
        self._clock, self._times = clock, times

    def announced(self):
        now_s = self._clock.monotonic_s()
        return tuple(f"{number}.offer" for number, at_s in enumerate(self._times) if at_s <= now_s)


@pytest.fixture
def waited():
    """Returns how long a writer waits upon version 7, in hundredths of the time that a version takes."""

    def measure(times, *, published=7, carried=3, is_local=False, came_s=0.0):
        clock = ManualClock()
        services = SimpleNamespace(
            runtime=SimpleNamespace(clock=clock),
            stores=SimpleNamespace(control=SimpleNamespace(storage=SimpleNamespace(is_local=is_local))),
        )
        company = Company(services, Line(clock, times))
        company.published(published, carried, WINDOW_S)
        clock.sleep(came_s)
        company.gather(SimpleNamespace(state=SimpleNamespace(version=7)))
        return round((clock.monotonic_s() - came_s) / WINDOW_S * 100)

    return measure


def test_it_goes_on_when_all_are_there(waited):
    assert waited([0.012, 0.03, 0.024]) == 50


def test_those_who_had_offers_all_along_are_not_taken_for_those_who_come_back(waited):
    assert waited([0.0, 0.012, 0.03, 0.024]) == 50


def test_one_that_does_not_come_back_is_waited_for_so_long_and_no_longer(waited):
    assert waited([0.012, 0.03]) == pytest.approx(250, abs=2)
    assert waited([0.012, 0.03], is_local=True) == pytest.approx(150, abs=2)


def test_the_wait_is_counted_from_the_version_and_not_from_the_next_write(waited):
    assert waited([], came_s=2 * WINDOW_S) == pytest.approx(50, abs=2)
    assert waited([], came_s=3 * WINDOW_S) == 0


def test_one_alone_is_not_waited_for(waited):
    assert waited([], carried=1) == 0


def test_nobody_is_waited_for_upon_the_version_of_another_process(waited):
    assert waited([], published=6) == 0
