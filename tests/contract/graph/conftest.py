"""Everything in this folder runs over every backend: what people hold must not show which one executes requests.

``authorized`` asks a policy first, ``remote`` asks a real server process, and ``async`` and ``async-remote`` are the
twin for event loops, over this process and over the server. ``make test`` has ``local`` and ``remote``, and the twin,
which is made from the same code, for the story of all verbs; ``make test-more`` has the others. What reaches no graph
runs once.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

import pytest

import omnigraph
from omnigraph.aio import bridge
from omnigraph.graph import opening
from omnigraph.operations import registry
from omnigraph.operations.authorized import AuthorizedBackend
from omnigraph.operations.local import LocalBackend
from omnigraph.policy import Decision
from tests.contract.graph.async_facade import Loop, entrances
from tests.contract.graph.served_backend import ServedBackend, open_served, store_queries
from tests.server.process import run_server


class AuthorizedLocalBackend(AuthorizedBackend):
    """Asks a policy that allows everything: what people hold must not show that there is one."""

    def __init__(self, engine, mode):
        super().__init__(LocalBackend(engine, mode), AllowEverything(), None)


class AllowEverything:
    resource_id = "graph"

    def decide(self, actor, question):
        return Decision(allowed=True, message="as you like")


REPLACED = {"authorized": AuthorizedLocalBackend, "remote": ServedBackend}
BACKENDS = ("local", *REPLACED, "async", "async-remote")
# Arguments are checked by the same code for both remote ones; requests are data, and no objects of anybody.
LEFT_OUT = {
    "test_arguments": {"authorized", "async", "async-remote"},
    "test_requests": {"async", "async-remote"},
}
IN_EVERY_RUN = {"local", "remote"}
TWIN_IN_EVERY_RUN = "test_verbs"
# Where callers are; a server of theirs is in UTC. Nothing that is shown or stored may depend on it.
ZONES = {"local": "America/New_York", "remote": "Asia/Kolkata"}


def pytest_generate_tests(metafunc):
    name = metafunc.module.__name__.rpartition(".")[2]
    left_out = LEFT_OUT.get(name, set())
    if metafunc.definition.get_closest_marker("reads_when_shown"):
        left_out = {"async", "async-remote"}
    given = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark.args[0])}
    if set(metafunc.fixturenames) <= given | {"backend", "request", "monkeypatch"}:
        left_out = {*BACKENDS} - {"local"}
    every_run = IN_EVERY_RUN | ({"async"} if name == TWIN_IN_EVERY_RUN else set())
    chosen = [
        one if one in every_run else pytest.param(one, marks=pytest.mark.more)
        for one in BACKENDS
        if one not in left_out
    ]
    metafunc.parametrize("backend", chosen, indirect=True, scope="module")


def _names(given):
    return given.replace(" ", "").split(",") if isinstance(given, str) else given


@pytest.fixture(scope="session")
def graph_server(tmp_path_factory):
    """A server of every graph that is named in a folder: its address, and the folder."""
    folder = tmp_path_factory.mktemp("served")
    command = ["tests.contract.graph.any_graph_server", str(folder)]
    with run_server(command, tmp_path_factory.mktemp("log") / "server.log") as running:
        yield running.url, folder


def open_bridged(_, opened):
    return bridge.BridgedBackend(bridge.wait(open_served(*opened.args, **opened.keywords)))


@contextmanager
def zone(name):
    """Let the clock of this process be that of a place."""
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = name
        time.tzset()
        yield
    finally:
        os.environ.pop("TZ")
        os.environ.update({} if before is None else {"TZ": before})
        time.tzset()


@pytest.fixture(autouse=True, scope="module")
def backend(request):
    """How ``init`` and ``open`` reach a graph: one of the words above."""
    name = request.param
    with pytest.MonkeyPatch.context() as patch, zone(ZONES.get(name, "UTC")):
        if name.endswith("remote"):
            address, folder = request.getfixturevalue("graph_server")
            patch.setattr(ServedBackend, "server", address)
            patch.setattr(ServedBackend, "folder", folder)
            patch.setattr(registry, "RegistryBackend", store_queries)
        if name in REPLACED:
            patch.setattr(opening, "LocalBackend", REPLACED[name])
        if name == "async-remote":
            patch.setattr(type(bridge.MANNER), "open_local", open_bridged)
        if not name.startswith("async"):
            yield name
            return
        loop = Loop()
        for entrance, function in entrances(loop).items():
            patch.setattr(omnigraph, entrance, function, raising=False)
        yield name
        loop.close()
