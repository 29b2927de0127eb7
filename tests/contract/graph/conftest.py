"""Everything in this folder runs over every backend: what people hold must not show which one executes requests."""

from __future__ import annotations

import pytest

from omnigraph.graph import graph as graph_module
from omnigraph.operations.authorized import AuthorizedBackend
from omnigraph.operations.local import LocalBackend
from omnigraph.policy import Decision
from tests.contract.graph.json_backend import JsonBackend


class AuthorizedLocalBackend(AuthorizedBackend):
    """Asks a policy that allows everything: what people hold must not show that there is one."""

    def __init__(self, engine, mode):
        super().__init__(LocalBackend(engine, mode), AllowEverything(), None)


class AllowEverything:
    resource_id = "graph"

    def decide(self, actor, question):
        return Decision(allowed=True, message="as you like")


BACKENDS = (LocalBackend, JsonBackend, AuthorizedLocalBackend)


@pytest.fixture(autouse=True, scope="module", params=BACKENDS, ids=lambda one: one.__name__)
def backend(request):
    """The backend that ``init`` and ``open`` give to a graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "LocalBackend", request.param)
        yield request.param
