"""Routes that read by a query."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.operations.reads import QueryRequest
from omnigraph.server.bodies import branch_of, decode_params, malformed
from omnigraph.server.models import QueryBody, ReadBody, read_document
from omnigraph.server.service import GraphCall

router = APIRouter(prefix="/graphs/{graph_id}")


@router.post("/query")
async def query(request: Request) -> Response:
    """Run a read and answer with its rows."""
    call = GraphCall(request)
    body = await call.json(QueryBody)
    return await _run_read(call, read_request(body))


def read_request(body: QueryBody | ReadBody) -> QueryRequest:
    """Return the read that a body asks for.

    Raises:
        RequestFormatError: branch and snapshot are given together, or are blank.
        QueryParameterError: the parameters are not an object.
    """
    if body.branch is not None and body.snapshot is not None:
        raise malformed("target", body.snapshot, "one of the two", "branch and snapshot cannot be combined")
    text, name = (body.query, body.name) if isinstance(body, QueryBody) else (body.query_source, body.query_name)
    return QueryRequest(
        text=text,
        name=name,
        params=decode_params(body.params),
        params_form="strict",
        branch=branch_of(body.branch),
        at=None if body.snapshot is None else branch_of(body.snapshot, "snapshot"),
    )


async def _run_read(call: GraphCall, asked: QueryRequest) -> Response:
    content = await call.run(lambda backend: read_document(backend.execute(asked)))
    return Response(content, media_type="application/json")
