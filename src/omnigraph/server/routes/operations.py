"""The uniform route of our own clients: any declared operation, its request as JSON and its response as frames."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from omnigraph.errors import FormatMismatch, OmnigraphError, ServerIncompatibleError
from omnigraph.operations import all_operations
from omnigraph.operations.json_form import request_from_json
from omnigraph.operations.request import Request
from omnigraph.operations.wire import MEDIA_TYPE, WIRE_VERSION, ResponseWriter, UploadFolder, answer_request, from_bytes
from omnigraph.server.errors import error_body, error_headers, is_internal, outside, status_of
from omnigraph.server.middleware import log_internal
from omnigraph.server.routes.mutations import refuse_condition
from omnigraph.server.service import GraphCall, Standing, answer, path_value
from omnigraph.server.transport.bodies import JSON_TYPE, malformed, media_type, read_body
from omnigraph.server.transport.frames import CANCELLED_HEADER, PROGRESS_HEADER, WIRE_HEADER, FramesResponse
from omnigraph.server.transport.uploads import read_upload

router = APIRouter(prefix="/graphs/{graph_id}/operations")
# What is parsed at once; a longer document would hold up the requests of others, and goes to a thread.
_SMALL_BYTES = 64 << 10


@router.get("")
async def describe(request: HttpRequest) -> Response:
    """Say which versions of the wire format are spoken, and which operations there are."""
    GraphCall(request)
    return answer({"wire": [WIRE_VERSION], "idempotency": True, "operations": sorted(all_operations())})


@router.post("/{operation}")
async def execute(request: HttpRequest) -> Response:
    """Execute a declared operation. A write that has begun is finished, also when the client goes away."""
    call = GraphCall(request)
    _check_version(request)
    refuse_condition(request)
    folder, stop = UploadFolder(), threading.Event()
    if request.headers.get(CANCELLED_HEADER) == "true":
        # The caller had stopped it before it was sent.
        stop.set()
    request_id = request.scope["omnigraph.request_id"]
    try:
        asked = await _read_request(call, folder)
        backend = call.backend
    except BaseException:
        folder.close()
        raise

    def shown(error: OmnigraphError) -> OmnigraphError:
        if is_internal(error):
            log_internal(error, request_id)
        return outside(error)

    def produce(write: Callable[[bytes], None]) -> OmnigraphError | None:
        try:
            with call.service.running.entered(request_id, call.actor_name, stop):
                return answer_request(
                    backend,
                    asked,
                    ResponseWriter(write),
                    folder,
                    shown=shown,
                    wants_progress=request.headers.get(PROGRESS_HEADER) == "true",
                    cancel=stop,
                )
        finally:
            folder.close()

    def refuse(error: OmnigraphError) -> Response:
        body = error_body(error, request_id, whole=True)
        return answer(body, status=status_of(error), headers=error_headers(error))

    run = partial(call.service.run, is_write=asked.operation.writes, actor=call.actor_name)
    return FramesResponse(
        produce, run, refuse, must_finish=asked.operation.writes, stop=stop, renew=Standing(call, asked).renew_if_due
    )


@router.post("/{request_id}/cancel")
async def cancel(request: HttpRequest) -> Response:
    """Stop a read that the same actor has sent under a request id; nothing happens when it has ended."""
    call = GraphCall(request)
    return answer({"cancelled": call.service.running.stop(path_value(request, "request_id"), call.actor_name)})


def _check_version(request: HttpRequest) -> None:
    given = request.headers.get(WIRE_HEADER)
    if given is None:
        raise malformed(WIRE_HEADER, "", str(WIRE_VERSION), f"the header {WIRE_HEADER} is missing")
    if given != str(WIRE_VERSION):
        details = FormatMismatch(what="wire format", expected=str(WIRE_VERSION), found=str(given)[:20])
        raise ServerIncompatibleError(f"the server speaks version {WIRE_VERSION} of the wire format", details=details)


async def _read_request(call: GraphCall, folder: UploadFolder) -> Request[Any]:
    """Return the request of a body.

    Raises:
        RequestFormatError, UsageError, ValueFormatError: it is none.
        RemoteUnsupportedError: it names a source that is no file sent with it.
        BodyTooLargeError, BodyTimeoutError: the body is too long, or does not arrive.
    """
    limits = call.service.settings.limits
    name = path_value(call.request, "operation")
    kind = media_type(call.request)
    if kind == MEDIA_TYPE:
        document = await read_upload(call.request, folder, limits.upload, limits.body_seconds, call.service.run)
    elif kind == JSON_TYPE:
        body = await read_body(call.request, limits.load_body, seconds=limits.body_seconds)
        if len(body) <= _SMALL_BYTES:
            return _parse(body, name)
        return await call.service.run(lambda: _parse(body, name))
    else:
        raise malformed("content-type", kind, f"{JSON_TYPE} or {MEDIA_TYPE}")
    return await call.service.run(lambda: _checked(document, name))


def _parse(body: bytes, name: str) -> Request[Any]:
    try:
        document = from_bytes(body)
    except ServerIncompatibleError:
        raise malformed("body", "", "JSON", "the body is not JSON") from None
    return _checked(document, name)


def _checked(document: Any, name: str) -> Request[Any]:
    if not isinstance(document, dict) or document.get("operation") != name:
        raise malformed(
            "body", "", f"a request of the operation '{name}'", "the body is not a request of the operation"
        )
    return request_from_json(document)
