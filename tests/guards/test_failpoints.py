"""The failpoint catalogue, the places in the source and the crash matrix know the same names."""

import re

from omnigraph.runtime import FAILPOINTS
from tests.crash.matrix import CHOSEN_CRASHES, CHOSEN_RECOVERIES, OTHER_POINTS
from tests.guards.layout import SOURCE

_HIT = re.compile(r"\bhit\(\s*\"([a-z_.]+)\"\s*\)")


def _names_in_source():
    return {name for path in SOURCE.rglob("*.py") for name in _HIT.findall(path.read_text(encoding="utf-8"))}


def test_the_source_hits_exactly_the_names_of_the_catalogue():
    assert _names_in_source() == set(FAILPOINTS)


def test_every_failpoint_kills_some_writer_or_recoverer():
    killed = {crash.point for crashes in CHOSEN_CRASHES.values() for crash in crashes}
    killed |= {point for cases in CHOSEN_RECOVERIES.values() for broken in cases for point, _ in broken.points}
    assert set(FAILPOINTS) - killed - set(OTHER_POINTS) == set()
    assert set(OTHER_POINTS) <= set(FAILPOINTS)
