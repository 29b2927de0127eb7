"""The route that tells what became of a write."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import MissingThing, OutcomeMissingError
from omnigraph.operations.history import LogRequest
from omnigraph.server.errors import error_body, status_of
from omnigraph.server.service import GraphCall, answer, path_value
from omnigraph.values import MAIN

router = APIRouter(prefix="/graphs/{graph_id}/operations")
# How many of the newest commits are looked through for a request that this process does not remember.
_LOOKED_THROUGH = 256


@router.get("/{request_id}")
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
