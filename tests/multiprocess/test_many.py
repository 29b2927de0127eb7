"""Processes that make every kind of write on one branch, killed and frozen: each write happens once or not at all.

This is a short run; ``make many`` plays it with 16 processes of 500 commits.
"""

import pytest

from tests.marks import STORES
from tests.multiprocess.many import Many, run_many


@pytest.fixture(params=STORES)
def place(request, tmp_path):
    """A root and its storage options."""
    if request.param == "local":
        return str(tmp_path / "g"), {}
    endpoint = request.getfixturevalue("clean_s3_endpoint")
    return endpoint.fresh_prefix(), endpoint.storage_options


def test_many_writers_of_one_branch_lose_nothing_and_double_nothing_though_they_are_killed(place, tmp_path):
    many = Many(
        processes=4,
        commits=25,
        kill_every=12,
        stop_every=15,
        stop_for=4,
        settings={"durability": "relaxed", "grace_s": 1.0},
    )
    verdict = run_many(many, *place, tmp_path / "run")
    assert verdict.findings == ()
    assert verdict.figures["commits"] >= 100
    assert verdict.figures["kills"] >= 4
    assert verdict.figures["stops"] >= 2
