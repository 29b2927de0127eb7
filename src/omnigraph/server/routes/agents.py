"""Routes for agents: the Model Context Protocol, one message to a request."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.distribution import pip_install
from omnigraph.engine.results.frames import library
from omnigraph.server.access.origins import check_origin
from omnigraph.server.errors import plain_body
from omnigraph.server.openapi import knows_additions
from omnigraph.server.service import Service, answer, path_value
from omnigraph.server.transport.bodies import read_body

router = APIRouter()
INSTALL = f"where the server runs, install it with `{pip_install('mcp')}`"


@router.post("/mcp")
async def all_graphs(request: Request) -> Response:
    """Answer a message about the only graph, or about the one that a tool is asked for."""
    return await _answer(request)


@router.post("/graphs/{graph_id}/mcp")
async def one_graph(request: Request) -> Response:
    """Answer a message about one graph."""
    service: Service = request.app.state.service
    service.graphs.get(path_value(request, "graph_id"), tells_blocked=knows_additions(request.headers))
    return await _answer(request)


async def _answer(request: Request) -> Response:
    service: Service = request.app.state.service
    settings, agents = service.settings, service.control.settings.agents
    if not (settings.offers_agents and agents.is_on):
        # As if there were no such path.
        return answer(plain_body(404, "no such path", request.scope["omnigraph.request_id"]), status=404)
    headers = request.headers
    check_origin(headers.get("host"), headers.get("origin"), bind=settings.host, hosts=agents.hosts)
    library("mcp", hint=INSTALL, what="route")
    limits = settings.limits
    # The protocol's library takes messages apart on the event loop: longer ones would keep others waiting.
    return _Exchange(service, await read_body(request, limits.body, seconds=limits.body_seconds))


class _Exchange(Response):
    """What the protocol answers to a message."""

    def __init__(self, service: Service, message: bytes) -> None:
        super().__init__()
        self._service = service
        self._message = message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        from omnigraph.server.agents import exchange  # noqa: PLC0415 - the SDK is an extra, and takes time to load

        await exchange(self._service, self._message, scope, receive, send)
