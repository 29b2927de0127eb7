"""Graphs for agents, and a process that serves one of them; whoever writes gets a graph of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from mcp import StdioServerParameters
from omnigraph import Graph
from omnigraph.mcp.local import LocalHost
from omnigraph.mcp.server import agent_server
from tests.e2e.process import clean_environment
from tests.mcp.agent import Agent, Person, connect
from tests.server.process import ROOT

HARBOUR = ROOT / "examples" / "harbour"


def make_club(place: Path) -> Path:
    """Make the graph of the sailing club."""
    with omnigraph.init(place, HARBOUR / "schema.pg") as graph:
        graph.load(HARBOUR / "club.jsonl", mode="append")
    return place


def process_of(place: Path, *options: str) -> StdioServerParameters:
    """Return how a client starts the command."""
    environment = clean_environment(PYTHONPATH=str(ROOT / "src"), OMNIGRAPH_AUTO_MAINTENANCE="0")
    return StdioServerParameters(
        command=sys.executable, args=["-m", "omnigraph", "mcp", str(place), *options], env=environment
    )


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """The graph of the sailing club, open."""
    with omnigraph.open(make_club(tmp_path_factory.mktemp("club") / "club.omni")) as graph:
        yield graph


@pytest.fixture(scope="module")
def person() -> Person:
    """Who is asked."""
    return Person()


@pytest.fixture(scope="module")
def agent(club: Graph, person: Person) -> Iterator[Agent]:
    """An agent on that graph, with the newest version of the protocol."""
    with connect(agent_server(LocalHost(club.backend, actor="planner")), person=person) as connected:
        yield connected


@pytest.fixture(scope="module")
def old_agent(club: Graph) -> Iterator[Agent]:
    """An agent on that graph that speaks the version before, and can ask nobody."""
    with connect(agent_server(LocalHost(club.backend, actor="veteran")), mode="legacy") as connected:
        yield connected
