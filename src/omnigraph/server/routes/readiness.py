"""Routes about running the server: whether it takes requests, its figures, and what became of writes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import MissingThing, OmnigraphError, OutcomeMissingError
from omnigraph.operations.history import LogRequest
from omnigraph.server.control.metrics import CONTENT_TYPE
from omnigraph.server.errors import error_body, status_of
from omnigraph.server.service import GraphCall, Service, answer, path_value
from omnigraph.values import MAIN

router = APIRouter()
# How many of the newest commits are looked through for a request that this process does not remember.
_LOOKED_THROUGH = 256


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Answer whether requests should be sent here: every graph is served, and the server is not about to end."""
    service: Service = request.app.state.service
    return answer_readiness(service, shows_names=await _is_known(service, request))


def answer_readiness(service: Service, *, shows_names: bool) -> Response:
    """Return how many graphs are served; their names for those who may know them."""
    groups = {"ready": list(service.graphs.ready), "loading": [], "blocked": list(service.graphs.blocked)}
    is_ready = not (service.control.is_draining or groups["blocked"])
    status = "draining" if service.control.is_draining else "ready" if is_ready else "blocked"
    graphs: dict[str, Any] = groups if shows_names else {name: len(found) for name, found in groups.items()}
    return answer({"status": status, "graphs": graphs}, status=200 if is_ready else 503)


async def _is_known(service: Service, request: Request) -> bool:
    authorization = request.headers.get("authorization")
    if authorization is None:
        return False
    try:
        return await service.access.identify(authorization) is not None
    except OmnigraphError:
        return False


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Answer with the figures of the server, if the operator wants them here."""
    service: Service = request.app.state.service
    if not service.control.settings.shows_metrics:
        raise HTTPException(404)
    return Response(service.control.metrics.text(), media_type=CONTENT_TYPE)


@router.get("/graphs/{graph_id}/operations/{request_id}")
async def outcome(request: Request, request_id: str) -> Response:
    """Answer what became of a write of this caller: for an hour by this process, later and elsewhere by its commit."""
    del request_id  # as the path has it; a slash inside it is decoded below
    call = GraphCall(request)
    graph_id, wanted = call.graph.graph_id, path_value(request, "request_id")
    found = call.service.control.outcomes.find(graph_id, call.actor_name, wanted)
    if found is not None:
        failure: dict[str, Any] = {}
        if found.error is not None:
            failure = {"status": status_of(found.error), **error_body(found.error)}
        return answer({**found.to_json(), "error": failure or None})
    branch = request.query_params.get("branch", MAIN)
    page = await call.execute(LogRequest(branch=branch, limit=_LOOKED_THROUGH))
    for commit in page.commits:
        if commit.request_id == wanted and commit.actor == call.actor_name:
            return answer(
                {
                    "request_id": wanted,
                    "operation": commit.operation,
                    "state": "succeeded",
                    "actor_id": commit.actor,
                    "began_at": None,
                    "ended_at": commit.to_json()["published_at"],
                    "graph_commit_id": commit.id,
                    "error": None,
                }
            )
    details = MissingThing(what="operation", name=wanted)
    raise OutcomeMissingError(f"operation '{wanted}' not found", details=details)
