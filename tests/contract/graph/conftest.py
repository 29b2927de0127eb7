"""Everything in this folder runs over all backends: what people hold must not show which one executes requests."""

from __future__ import annotations

import pytest

from omnigraph.graph import graph as graph_module
from omnigraph.operations.local import LocalBackend
from tests.contract.graph.json_backend import JsonBackend
from tests.contract.graph.served_backend import ServedBackend
from tests.server.process import run_server


@pytest.fixture(scope="session")
def graph_server(tmp_path_factory):
    """A server of every graph that is named in a folder: its address, and the folder."""
    folder = tmp_path_factory.mktemp("served")
    command = ["tests.contract.graph.any_graph_server", str(folder)]
    with run_server(command, tmp_path_factory.mktemp("log") / "server.log") as running:
        yield running.url, folder


@pytest.fixture(
    autouse=True, scope="module", params=[LocalBackend, JsonBackend, ServedBackend], ids=["local", "json", "remote"]
)
def backend(request):
    """The backend that ``init`` and ``open`` give to a graph."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param is ServedBackend:
            address, folder = request.getfixturevalue("graph_server")
            patch.setattr(ServedBackend, "server", address)
            patch.setattr(ServedBackend, "folder", folder)
        patch.setattr(graph_module, "LocalBackend", request.param)
        yield request.param
