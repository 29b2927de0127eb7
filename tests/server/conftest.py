"""One server for all tests of the folder, and a graph of its own for every module that writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import omnigraph
from tests.server.process import ROOT, RunningServer, run_server

PEOPLE = ROOT / "examples" / "people"


@pytest.fixture(scope="session")
def served_people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example graph, with its rows."""
    place = tmp_path_factory.mktemp("served") / "people.omni"
    with omnigraph.init(place, PEOPLE / "schema.pg") as graph:
        graph.load(PEOPLE / "staff.jsonl", mode="append")
    return place


@pytest.fixture(scope="session")
def server(served_people: Path) -> Iterator[RunningServer]:
    """A server of that graph, open to everybody on loopback."""
    command = ["omnigraph", "serve", str(served_people), "--bind", "127.0.0.1:0", "--unauthenticated"]
    command += ["--queries", str(PEOPLE / "queries.gq")]
    with run_server(command, served_people.with_suffix(".log")) as running:
        yield running


@pytest.fixture(scope="session")
def http(server: RunningServer) -> Iterator[httpx2.Client]:
    """A client of that server."""
    with server.client() as client:
        yield client
