"""Routes that stream every entity of a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from omnigraph.operations.history import BaselineRequest
from omnigraph.operations.reads import ExportStreamRequest
from omnigraph.operations.request import Attachments
from omnigraph.operations.request import Request as Operation
from omnigraph.server.models import BaselineBody, ExportBody
from omnigraph.server.service import GraphCall, Standing, encode
from omnigraph.server.transport.bodies import branch_of
from omnigraph.server.transport.streams import ByteStream, write_lines

router = APIRouter(prefix="/graphs/{graph_id}")
_NDJSON = "application/x-ndjson; charset=utf-8"


@router.post("/export")
async def export(request: Request) -> Response:
    """Stream the entities of a branch, edges first, each type by id."""
    call = GraphCall(request)
    body = await call.json(ExportBody)
    asked = ExportStreamRequest(branch=branch_of(body.branch), types=body.type_names)
    backend = call.backend
    return await _stream(
        call,
        asked,
        lambda sink: backend.execute(asked, Attachments(sink=sink, cancel=sink.cancelled)),
    )


@router.post("/changes/baseline")
async def capture_change_baseline(request: Request) -> Response:
    """Stream the entities of a branch and, last, the cursor from which its changes go on."""
    call = GraphCall(request)
    body = await call.json(BaselineBody)
    asked = BaselineRequest(
        branch=branch_of(body.branch), kinds=body.kind or (), types=body.type or (), ops=body.op or ()
    )
    backend = call.backend

    def write(sink: ByteStream) -> None:
        records = backend.execute(asked)
        write_lines(sink, map(encode, records))

    return await _stream(call, asked, write)


async def _stream(call: GraphCall, asked: Operation[Any], produce: Callable[[ByteStream], object]) -> Response:
    leave = await call.service.run(lambda: call.service.exports.take(call.graph.graph_id))
    stream = ByteStream(call.service.settings.limits)

    def run(sink: ByteStream) -> None:
        produce(sink)

    stream.start("export", run, ended=leave)
    first = await stream.first()
    return StreamingResponse(Standing(call, asked).guard(stream.rest(first)), headers={"content-type": _NDJSON})
