"""Routes about the server itself: whether it lives, what it offers, and which graphs it serves."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.distribution import VERSION
from omnigraph.policy import Action
from omnigraph.server.config import public_uri
from omnigraph.server.openapi import BASE_LEVEL, FULL_LEVEL, knows_additions, served_document
from omnigraph.server.service import Service, answer
from omnigraph.values.formats import STORAGE_FORMAT

router = APIRouter()


@router.get("/healthz")
async def health(request: Request) -> Response:
    """Answer that the process lives."""
    del request
    return answer({"status": "ok", "version": VERSION, "internal_schema_version": STORAGE_FORMAT})


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """Answer with the description of the routes."""
    service: Service = request.app.state.service
    level = FULL_LEVEL if request.query_params.get("level") == FULL_LEVEL else BASE_LEVEL
    return Response(served_document(has_auth=not service.access.is_open, level=level), media_type="application/json")


@router.get("/graphs")
async def list_graphs(request: Request) -> Response:
    """List the graphs that are served, by id; blocked ones too, with the reason, for callers that know of them."""
    service: Service = request.app.state.service
    service.access.require(None, request.scope.get("omnigraph.actor"), Action.GRAPH_LIST, branch=None)
    graphs = service.graphs
    found = [{"graph_id": graph.graph_id, "uri": public_uri(graph.graph_id)} for graph in graphs.ready.values()]
    if not knows_additions(request.headers):
        return answer({"graphs": found})
    clean = service.control.redaction.clean
    blocked = [
        {
            "graph_id": graph.graph_id,
            "uri": public_uri(graph.graph_id),
            "state": "blocked",
            "reason": clean(graph.reason),
        }
        for graph in graphs.blocked.values()
    ]
    listed = [*({**graph, "state": "ready"} for graph in found), *blocked]
    return answer({"graphs": sorted(listed, key=lambda graph: graph["graph_id"])})
