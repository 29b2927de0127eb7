"""Everything in this folder runs over both backends: what people hold must not show which one executes requests."""

from __future__ import annotations

import pytest

from omnigraph.graph import graph as graph_module
from omnigraph.operations.local import LocalBackend
from tests.contract.graph.json_backend import JsonBackend


@pytest.fixture(autouse=True, scope="module", params=[LocalBackend, JsonBackend], ids=["local", "json"])
def backend(request):
    """The backend that ``init`` and ``open`` give to a graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "LocalBackend", request.param)
        yield request.param
