"""A program that ends without closing its graph ends well, whatever runs in the background."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.session_graph import create_graph

COMMITS = 40
SCHEMA = "node Person { name: String @key }"
PROGRAM = """
import pathlib
import sys
import omnigraph

graph = omnigraph.open(sys.argv[1])
for number in range(int(sys.argv[2])):
    graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": f"n{number}"})
while not pathlib.Path(sys.argv[3]).exists():
    pass
"""


def test_a_program_that_never_closes_its_graph_waits_for_what_runs_in_the_background(tmp_path):
    """A thread that is inside a library when the interpreter ends takes the process down."""
    create_graph(tmp_path / "graph", SCHEMA)
    gate = tmp_path / "gate"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "graph"), str(COMMITS), f"{gate}.reached"],
        # The first claim behind those of the commits is that of the background.
        env={
            **os.environ,
            "OMNIGRAPH_AUTO_MAINTENANCE": str(COMMITS),
            "OMNIGRAPH_FAILPOINTS": f"txn.claim.before_put=pause:{gate}@{COMMITS + 1}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not gate.with_name("gate.reached").exists():
        assert program.poll() is None, "it has ended beside its background"
    # The program itself has nothing left to do by now; only what it waits for keeps it.
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(2)
    gate.touch()
    told = program.communicate(timeout=300)
    assert (program.returncode, *told) == (0, "", "")
