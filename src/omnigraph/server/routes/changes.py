"""Routes that follow the changes of a branch: by polling, and as a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from omnigraph.errors import OmnigraphError
from omnigraph.operations.history import FeedRequest, PollChangesRequest
from omnigraph.server.errors import error_body, status_of
from omnigraph.server.models import block_document, feed_document
from omnigraph.server.routes.commits import FILTERS, change_filter, page_limits
from omnigraph.server.service import GraphCall, answer, encode
from omnigraph.server.transport.bodies import branch_of, malformed, refuse_others, single

router = APIRouter(prefix="/graphs/{graph_id}")
_PLACES = ("cursor", "start", "page_token")
# How long the feed sleeps when it is caught up, and how often a silent one says that it lives.
_INTERVAL_S = 0.2
_HEARTBEAT_S = 15.0
_BUFFERED = 16
_HEARTBEAT = b": heartbeat\n\n"


@router.get("/changes")
async def poll_changes(request: Request) -> Response:
    """Return the next commits of a branch with what they changed, oldest first."""
    call = GraphCall(request)
    refuse_others(request, {"branch", "limit", *_PLACES, *FILTERS})
    places = {name: single(request, name) for name in _PLACES}
    given = [name for name, value in places.items() if value is not None]
    if len(given) > 1:
        raise malformed(given[1], "", "one of the three", f"{given[0]} and {given[1]} cannot be combined")
    asked = PollChangesRequest(
        branch=branch_of(single(request, "branch")),
        start=places["start"] if given else "now",
        cursor=places["cursor"],
        page_token=places["page_token"],
        limits=page_limits(request),
        **change_filter(request),
    )
    return answer(feed_document(await call.execute(asked)))


@router.get("/changes/stream")
async def stream_changes(request: Request) -> Response:
    """Send the changes of a branch as events, until the client goes away.

    The id of an event is where the feed goes on: a client that comes back with ``Last-Event-ID`` misses nothing.
    """
    call = GraphCall(request)
    refuse_others(request, {"branch", "start", "cursor", "limit", *FILTERS})
    asked = FeedRequest(
        start=request.headers.get("last-event-id") or single(request, "cursor") or single(request, "start") or "now",
        branch=branch_of(single(request, "branch")),
        limits=page_limits(request),
        **change_filter(request),
    )
    # Whatever is wrong with the request is answered before the stream begins.
    first = await call.execute(asked)
    events = _Events(call, replace(asked, start=first.token))
    events.put(first)
    return StreamingResponse(
        events.read(), media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )


class _Events:
    """The events of one client. What it has not taken yet is bounded; a client that falls behind is let go."""

    def __init__(self, call: GraphCall, asked: FeedRequest) -> None:
        self._call = call
        self._asked = asked
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BUFFERED)
        self._sent = asked.start

    def put(self, batch: Any) -> None:
        """Add the event of a batch; the first one may be empty and says where the feed begins."""
        self._queue.put_nowait(_event("changes", batch.token, _batch_document(batch)))

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the events to the client."""
        filling = asyncio.ensure_future(self._fill())
        try:
            while (event := await self._next()) is not None:
                yield event
        finally:
            filling.cancel()
            with suppress(asyncio.CancelledError):
                await filling

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(_HEARTBEAT_S):
                return await self._queue.get()
        except TimeoutError:
            return _HEARTBEAT

    async def _fill(self) -> None:
        """Ask for further changes until something ends it; the last event says where to go on."""
        try:
            while not self._call.service.is_draining:
                batch = await self._call.execute(self._asked)
                if batch.blocks:
                    async with asyncio.timeout(self._call.service.settings.limits.stalled_s):
                        await self._queue.put(_event("changes", batch.token, _batch_document(batch)))
                self._asked = replace(self._asked, start=batch.token)
                if batch.is_caught_up:
                    await asyncio.sleep(_INTERVAL_S)
            self._close({"error": "the server is shutting down", "resumable": True})
        except TimeoutError:
            self._close({"error": "the client takes events too slowly", "resumable": True})
        except OmnigraphError as error:
            request_id = self._call.request.scope["omnigraph.request_id"]
            body = error_body(error, request_id)
            self._close({**body, "status": status_of(error), "resumable": status_of(error) >= 500})

    def _close(self, body: dict[str, Any]) -> None:
        # What is still buffered stays: the id of the last event that arrives is where the client goes on.
        while self._queue.qsize() > _BUFFERED - 2:
            self._queue.get_nowait()
        self._queue.put_nowait(_event("error", None, body))
        self._queue.put_nowait(None)


def _batch_document(batch: Any) -> dict[str, Any]:
    return {"blocks": [block_document(block) for block in batch.blocks], "caught_up": batch.is_caught_up}


def _event(name: str, event_id: str | None, document: dict[str, Any]) -> bytes:
    told = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return told + b"event: " + name.encode() + b"\ndata: " + encode(document) + b"\n\n"
