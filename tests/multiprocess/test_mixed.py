"""Processes that do everything to one graph at once find what they must, and leave a graph that an auditor accepts.

This is a short run; ``make soak`` plays it for minutes, on both stores, with and without servers and kills.
"""

import pytest

from tests.multiprocess.mixed import Mixed, run_mixed


# Of all that it does at once, tests of this folder have a part each.
@pytest.mark.more
@pytest.mark.long
def test_servers_and_embedded_processes_do_everything_to_one_graph_while_both_are_killed(tmp_path):
    mixed = Mixed(processes=3, servers=2, deeds=26, seed=11, kill_one_in=20, kill_server_every_s=5.0, server_kills=2)
    verdict = run_mixed(mixed, str(tmp_path / "g"), {}, tmp_path / "run")
    assert verdict.findings == ()
    assert verdict.figures["commits"] > 40
    assert verdict.figures["server_kills"] >= 2
    # The first process does each of them once.
    assert verdict.figures["by_kind"].keys() >= {"append", "cleanup", "export", "optimize", "tag"}
