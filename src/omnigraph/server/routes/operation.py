"""Routes about running the server: whether it takes requests, and its figures."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import OmnigraphError
from omnigraph.server.control.metrics import CONTENT_TYPE
from omnigraph.server.service import Service, answer

router = APIRouter()


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Answer whether requests should be sent here: every graph is served, and the server is not about to end."""
    service: Service = request.app.state.service
    return readiness(service, shows_names=_is_known(service, request))


def readiness(service: Service, *, shows_names: bool) -> Response:
    """Return how many graphs are served; their names for those who may know them."""
    groups = {"ready": list(service.graphs.ready), "loading": [], "blocked": list(service.graphs.blocked)}
    is_ready = not (service.control.is_draining or groups["blocked"])
    status = "draining" if service.control.is_draining else "ready" if is_ready else "blocked"
    graphs: dict[str, Any] = groups if shows_names else {name: len(found) for name, found in groups.items()}
    return answer({"status": status, "graphs": graphs}, status=200 if is_ready else 503)


def _is_known(service: Service, request: Request) -> bool:
    authorization = request.headers.get("authorization")
    if authorization is None:
        return False
    try:
        return service.access.authenticate(authorization) is not None
    except OmnigraphError:
        return False


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Answer with the figures of the server, if the operator wants them here."""
    service: Service = request.app.state.service
    if not service.control.settings.shows_metrics:
        raise HTTPException(404)
    return Response(service.control.metrics.text(), media_type=CONTENT_TYPE)
