"""Writers in processes of their own, left in peace, killed and frozen: the graph keeps every promise made to them.

These are short runs; ``make soak`` plays the same scenarios at full size.
"""

import pytest

from tests.marks import STORES
from tests.multiprocess.scenarios import Freezer, Killer, Scenario, run_scenario


@pytest.fixture(params=STORES)
def place(request, tmp_path):
    """A root and its storage options."""
    if request.param == "local":
        return str(tmp_path / "g"), {}
    endpoint = request.getfixturevalue("clean_s3_endpoint")
    return endpoint.fresh_prefix(), endpoint.storage_options


def test_every_acknowledged_commit_is_there_exactly_once(place, tmp_path):
    verdict = run_scenario(Scenario(workers=4, commits=8), *place, tmp_path / "run")
    assert verdict.findings == ()
    assert verdict.figures["commits"] >= 32
    assert verdict.figures["unanswered"] == 0


def test_killed_writers_lose_nothing_and_leave_nothing(place, tmp_path):
    scenario = Scenario(workers=4, commits=8, disturb=lambda: Killer(every_commits=3), blows=10, recoveries=1)
    verdict = run_scenario(scenario, *place, tmp_path / "run")
    assert verdict.findings == ()
    assert verdict.figures["commits"] >= 32
    assert verdict.figures["kills"] > 4
    assert verdict.figures["audit"]


@pytest.mark.more
def test_frozen_writers_that_wake_up_late_change_nothing(tmp_path):
    scenario = Scenario(
        workers=4,
        commits=8,
        disturb=lambda: Freezer(grace_s=1.0, every_s=1.5, longest_s=2.5),
        blows=4,
        recoveries=1,
        settings={"durability": "relaxed", "grace_s": 1.0},
    )
    verdict = run_scenario(scenario, str(tmp_path / "g"), {}, tmp_path / "run")
    assert verdict.findings == ()
    assert verdict.figures["commits"] >= 32
    assert verdict.figures["stops"] >= 4
    assert verdict.figures["audit"]
