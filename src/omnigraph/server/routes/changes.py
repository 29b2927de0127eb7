"""Routes that follow the changes of a branch: by polling, and as a stream of events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.operations.history import FeedRequest, PollChangesRequest
from omnigraph.policy.policy import log_decisions_once
from omnigraph.server.errors import error_body, is_internal, status_of
from omnigraph.server.middleware import log_internal
from omnigraph.server.models import block_document, feed_document
from omnigraph.server.routes.commits import FILTERS, change_filter, page_limits
from omnigraph.server.service import GraphCall, Standing, answer, encode
from omnigraph.server.transport.bodies import branch_of, malformed, refuse_others, single

_log = logging.getLogger("omnigraph.server")
router = APIRouter(prefix="/graphs/{graph_id}")
_PLACES = ("cursor", "start", "page_token")
# How long the feed sleeps when it is caught up, and how often a silent one says that it lives.
_INTERVAL_S = 0.2
_HEARTBEAT_S = 15.0
# Events may be pages of some megabytes each.
_BUFFERED = 4
_HEARTBEAT = b": heartbeat\n\n"
_ERROR = b"event: error"


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
    leave = call.service.control.admission.follow(call.actor_name)
    try:
        # Whatever is wrong with the request is answered before the stream begins.
        first = await call.execute(asked)
        events = _Events(call, replace(asked, start=first.token))
        await events.put(first)
    except BaseException:
        leave()
        raise
    return _EventStream(events, leave)


class _EventStream(StreamingResponse):
    """An answer of events; ``leave`` is called when it has ended, however far it came."""

    def __init__(self, events: _Events, leave: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events.read(), media_type="text/event-stream", headers=headers)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


class _Events:
    """The events of one client. What it has not taken yet is bounded; a client that falls behind is let go."""

    def __init__(self, call: GraphCall, asked: FeedRequest) -> None:
        self._call = call
        self._asked = asked
        self._standing = Standing(call, asked)
        self._decided: set[Hashable] = set()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        # Room for events; the one that says why the stream ends needs none, so that no other has to go for it.
        self._room = asyncio.Semaphore(_BUFFERED)
        # Since when the client takes an event, which it has not taken as a whole.
        self._taking_since: float | None = None

    async def put(self, batch: Any) -> None:
        """Add the event of a batch; the first one may be empty and says where the feed begins."""
        async with asyncio.timeout(self._stalled_s):
            await self._room.acquire()
        self._queue.put_nowait(_event("changes", batch.token, _batch_document(batch)))

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the events to the client."""
        filling = asyncio.ensure_future(self._fill())
        loop = asyncio.get_running_loop()
        try:
            while (event := await self._next()) is not None:
                if event is not _HEARTBEAT and not event.startswith(_ERROR):
                    try:
                        with log_decisions_once(self._decided):
                            await self._standing.renew()
                    except OmnigraphError as error:
                        yield self._refusal(error)
                        return
                self._taking_since = loop.time()
                yield event
                self._taking_since = None
        finally:
            filling.cancel()
            with suppress(asyncio.CancelledError):
                await filling

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(_HEARTBEAT_S):
                event = await self._queue.get()
        except TimeoutError:
            return _HEARTBEAT
        self._room.release()
        return event

    async def _fill(self) -> None:
        """Ask for further changes until something ends it; the last event says where to go on."""
        try:
            with log_decisions_once(self._decided):
                while not self._call.service.is_draining:
                    batch = await self._call.execute(self._asked)
                    if batch.blocks:
                        await self.put(batch)
                    self._asked = replace(self._asked, start=batch.token)
                    await self._standing.renew_if_due()
                    if batch.is_caught_up:
                        await asyncio.sleep(_INTERVAL_S)
                    self._check_reader()
            self._close({"error": "the server is shutting down", "resumable": True})
        except TimeoutError:
            _log.info("a stream of changes ended: its client takes events too slowly", extra=self._told)
            self._close({"error": "the client takes events too slowly", "resumable": True})
        except Exception as error:  # noqa: BLE001 - the client learns of it, and the log has it
            problem = error if isinstance(error, OmnigraphError) else None
            if problem is None:
                # Without an event the client would take heartbeats for a silent graph.
                problem = InternalError(f"unexpected {type(error).__name__}")
                problem.__cause__ = error
            if is_internal(problem):
                log_internal(problem, self._told["request_id"])
            self._queue.put_nowait(self._refusal(problem))
            self._queue.put_nowait(None)

    def _refusal(self, error: OmnigraphError) -> bytes:
        body = error_body(error, self._told["request_id"])
        return _event("error", None, {**body, "status": status_of(error), "resumable": status_of(error) >= 500})

    def _check_reader(self) -> None:
        """Return if the client goes on taking events.

        Raises:
            TimeoutError: it does not.
        """
        since = self._taking_since
        if since is not None and asyncio.get_running_loop().time() - since > self._stalled_s:
            raise TimeoutError

    def _close(self, body: dict[str, Any]) -> None:
        # What is still buffered stays: the id of the last event that arrives is where the client goes on.
        self._queue.put_nowait(_event("error", None, body))
        self._queue.put_nowait(None)

    @property
    def _stalled_s(self) -> float:
        return self._call.service.settings.limits.stalled_s

    @property
    def _told(self) -> dict[str, str]:
        return {"request_id": self._call.request.scope["omnigraph.request_id"], "graph": self._call.graph.graph_id}


def _batch_document(batch: Any) -> dict[str, Any]:
    return {"blocks": [block_document(block) for block in batch.blocks], "caught_up": batch.is_caught_up}


def _event(name: str, event_id: str | None, document: dict[str, Any]) -> bytes:
    told = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return told + b"event: " + name.encode() + b"\ndata: " + encode(document) + b"\n\n"
