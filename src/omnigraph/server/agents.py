"""The graphs of a server as agents see them: the same actors, policies, admission and limits as on every route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request as HttpRequest
from starlette.types import Message, Receive, Scope, Send

from omnigraph.errors import BadValue, OmnigraphError, UsageError
from omnigraph.mcp.access import AgentGraph, WriteKey
from omnigraph.mcp.server import agent_server
from omnigraph.policy import Action
from omnigraph.policy.policy import BundlePolicy, Policy
from omnigraph.server.errors import is_internal, outside
from omnigraph.server.middleware import log_internal
from omnigraph.server.service import GraphCall, Service
from omnigraph.values import MAIN

_Answer = TypeVar("_Answer")


class ServedHost:
    """The graphs of a service: the one that the path names, the only one, or one that a tool is asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def is_read_only(self) -> bool:
        """Whether the tools that write are hidden."""
        return self._service.control.settings.agents.is_read_only

    @property
    def query_tools(self) -> int:
        """How many stored queries become tools of their own at most."""
        return self._service.control.settings.agents.query_tools

    def graphs(self, request: HttpRequest) -> tuple[str, ...] | None:
        """Return the ids that a tool may be asked for, if the caller may list them; None where there is one graph."""
        ready = self._service.graphs.ready
        if "graph_id" in request.path_params or len(ready) == 1:
            return None
        try:
            self._service.access.require(None, request.scope.get("omnigraph.actor"), Action.GRAPH_LIST, branch=None)
        except OmnigraphError:
            return ()
        return tuple(ready)

    def open(self, request: HttpRequest, graph_id: str | None, key: WriteKey | None = None) -> AgentGraph:
        """Return a graph as the sender of a request sees it.

        Raises:
            UsageError: several graphs are served and none is named, or nothing can have that id.
            GraphMissingError, GraphBlockedError: it is not being served.
        """
        named = graph_id
        if "graph_id" not in request.path_params and named is None:
            ready = tuple(self._service.graphs.ready)
            if len(ready) != 1:
                details = BadValue(what="graph", value="", expected="the id of a graph")
                raise UsageError("no graph is named", details=details, hint="name it with the argument graph")
            named = ready[0]
        call = GraphCall(request, named, None if key is None else (key.key, key.digest))
        return AgentGraph(
            backend=call.backend,
            actor=call.actor_name,
            protected=_protected(call.graph.policy),
            is_read_only=self.is_read_only,
            require=call.require,
        )

    def run(self, work: Callable[[], _Answer], *, is_write: bool = False) -> Awaitable[_Answer]:
        """Do something in one of the threads of operations."""
        return self._service.run(work, is_write=is_write)

    def shown(self, error: OmnigraphError, request: HttpRequest) -> OmnigraphError:
        """Return an error without what belongs into the log alone."""
        if is_internal(error):
            log_internal(error, request.scope["omnigraph.request_id"])
        return outside(error)


def _protected(policy: Policy | None) -> frozenset[str]:
    named = policy.bundle.protected_branches if isinstance(policy, BundlePolicy) else frozenset[str]()
    return named | {MAIN}


async def exchange(service: Service, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one message. Nothing is kept for the next: whichever process gets it, by whichever actor, can answer."""
    if service.agents is None:
        service.agents = agent_server(ServedHost(service))
    manager = StreamableHTTPSessionManager(service.agents, json_response=True, stateless=True)
    is_read = False

    async def replay() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async with manager.run():
        await manager.handle_request(scope, replay, send)
