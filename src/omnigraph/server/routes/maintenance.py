"""Routes that keep a graph in shape, or say how it fares."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.operations.maintenance import CleanupRequest, MigrateRequest, OptimizeRequest, StatusRequest
from omnigraph.server.models import CleanupBody, MigrateBody, OptimizeBody
from omnigraph.server.routes.mutations import refuse_condition
from omnigraph.server.service import GraphCall, answer
from omnigraph.server.transport.bodies import branch_of, flag, single

router = APIRouter(prefix="/graphs/{graph_id}")


@router.get("/status")
async def get_status(request: Request) -> Response:
    """Say how a graph fares, and what to do about it."""
    call = GraphCall(request)
    asked = StatusRequest(branch=branch_of(single(request, "branch")), storage=flag(request, "storage"))
    return answer((await call.execute(asked)).to_json())


@router.post("/maintenance/optimize")
async def optimize(request: Request) -> Response:
    """Compact the tables of a branch and bring their indexes and projections up to date."""
    call = GraphCall(request)
    body = await call.json(OptimizeBody)
    refuse_condition(request)
    asked = OptimizeRequest(branch=branch_of(body.branch), types=body.types, actor=call.actor_name)
    call.require_without_export(asked.operation.action, branch=asked.branch)
    return answer((await call.execute(asked)).to_json())


@router.post("/maintenance/cleanup")
async def cleanup(request: Request) -> Response:
    """Give back the storage of old states; without ``confirm`` only say what would go."""
    call = GraphCall(request)
    body = await call.json(CleanupBody)
    refuse_condition(request)
    asked = CleanupRequest(keep=body.keep, older_than_s=body.older_than_seconds, confirm=bool(body.confirm))
    call.require_without_export(asked.operation.action, branch=None)
    return answer((await call.execute(asked)).to_json())


@router.post("/maintenance/migrate")
async def migrate(request: Request) -> Response:
    """Raise the storage format of every branch; with ``preview`` only say what would change."""
    call = GraphCall(request)
    body = await call.json(MigrateBody)
    refuse_condition(request)
    asked = MigrateRequest(preview=bool(body.preview), actor=call.actor_name, message=body.message)
    call.require_without_export(asked.operation.action, branch=None)
    return answer((await call.execute(asked)).to_json())
