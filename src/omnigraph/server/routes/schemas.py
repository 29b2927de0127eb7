"""Routes about the schema of a graph, and the tables of a state."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.engine.accepted import catalog_of
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.operations.writes import ApplySchemaRequest
from omnigraph.policy import Action
from omnigraph.server.config import public_uri
from omnigraph.server.models import (
    SchemaApplyBody,
    catalog_document,
    optional_commit,
    snapshot_document,
)
from omnigraph.server.routes.mutations import refuse_condition
from omnigraph.server.service import GraphCall, answer
from omnigraph.server.transport.bodies import branch_of, single

router = APIRouter(prefix="/graphs/{graph_id}")


@router.get("/snapshot")
async def get_snapshot(request: Request) -> Response:
    """Show the tables of the newest state of a branch."""
    call = GraphCall(request)
    branch = branch_of(single(request, "branch"))
    state = (await call.execute(ReadStateRequest(branch=branch))).state
    return answer(snapshot_document(branch, state))


@router.get("/schema")
async def get_schema(request: Request) -> Response:
    """Show the text of the accepted schema."""
    call = GraphCall(request)
    call.require(Action.READ, branch=None)
    state = (await call.run(lambda backend: backend.execute(ReadStateRequest()), is_allowed=True)).state
    return answer({"schema_source": state.schema.source})


@router.get("/catalog")
async def get_catalog(request: Request) -> Response:
    """Show the compiled schema of a branch, with how many entities of each type there are."""
    call = GraphCall(request)
    state = (await call.execute(ReadStateRequest(branch=branch_of(single(request, "branch"))))).state
    return answer(await call.service.run(lambda: catalog_document(catalog_of(state.schema), state)))


@router.post("/schema/apply")
async def apply_schema(request: Request) -> Response:
    """Bring main to another schema, unless a cluster describes the graph."""
    call = GraphCall(request)
    body = await call.json(SchemaApplyBody)
    refuse_condition(request)
    call.require(Action.SCHEMA_APPLY, branch=None, target="main")
    call.service.exports.refuse_while_exporting(call.graph.graph_id)
    asked = ApplySchemaRequest(
        text=body.schema_source, allow_data_loss=bool(body.allow_data_loss), actor=call.actor_name
    )
    done = await call.execute(asked)
    return answer({"uri": public_uri(call.graph.graph_id), **done.to_json(), "commit": optional_commit(done.commit)})
