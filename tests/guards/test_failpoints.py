"""The failpoint catalogue, the places in the source and the crash matrix know the same names."""

import re

from omnigraph.runtime import FAILPOINTS
from tests.crash import cluster_scenes, merge_matrix, offer_scenes, session_matrix
from tests.crash.matrix import CHOSEN_CRASHES, CHOSEN_RECOVERIES, OTHER_POINTS
from tests.crash.merge_kinds import MERGE_KINDS
from tests.crash.session_kinds import SESSION_KINDS
from tests.guards.layout import SOURCE

_HIT = re.compile(r"\bhit\(\s*\"([a-z_.]+)\"\s*\)")


def _names_in_source():
    return {name for path in SOURCE.rglob("*.py") for name in _HIT.findall(path.read_text(encoding="utf-8"))}


def test_the_source_hits_exactly_the_names_of_the_catalogue():
    assert _names_in_source() == set(FAILPOINTS)


def test_every_failpoint_kills_some_writer_or_recoverer():
    killed = {crash.point for crashes in CHOSEN_CRASHES.values() for crash in crashes}
    killed |= {point for cases in CHOSEN_RECOVERIES.values() for broken in cases for point, _ in broken.points}
    killed |= {load.point for load in session_matrix.CHOSEN_LOADS}
    killed |= {crash.point for crashes in session_matrix.CHOSEN_CRASHES.values() for crash in crashes}
    killed |= {crash.point for crashes in merge_matrix.CHOSEN_CRASHES.values() for crash in crashes}
    killed |= {
        *offer_scenes.OWNER_POINTS,
        *offer_scenes.GIVING_UP_POINTS,
        *offer_scenes.HOLDER_POINTS,
        *offer_scenes.PUBLISHED_POINTS,
    }
    killed |= {crash.point for crash in cluster_scenes.CHOSEN_CRASHES["local"]}
    assert set(FAILPOINTS) - killed - set(OTHER_POINTS) == set()
    assert set(OTHER_POINTS) <= set(FAILPOINTS)


def test_every_write_of_a_session_is_killed_and_at_every_point_of_a_writer():
    chosen = session_matrix.CHOSEN_CRASHES["local"]
    assert {crash.kind for crash in chosen} == set(SESSION_KINDS)
    assert {crash.point for crash in chosen} == {*session_matrix.POINTS, session_matrix.AFTER_SEQUENCES}


def test_every_merge_and_revert_is_killed_and_at_every_point_of_a_writer():
    chosen = merge_matrix.CHOSEN_CRASHES["local"]
    assert {crash.kind for crash in chosen} == set(MERGE_KINDS)
    assert {crash.point for crash in chosen} == set(merge_matrix.POINTS)
