"""The HTTP front of the endpoint: counts, waits, fails, and hands each request to the store.

Everything runs on one event loop. A request takes effect within one step of it, so effects have one order; waiting
(latency, a delay, a free place) is done between steps, so requests wait side by side as they would on a network.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Final

from omnigraph.testing.s3.calls import Call, CallLog, key_of, operation_of
from omnigraph.testing.s3.classes import classify_key
from omnigraph.testing.s3.faults import Fault, FaultRules
from omnigraph.testing.s3.slots import Slots
from omnigraph.testing.s3.wire import HEAD_LIMIT_BYTES, Request, Response, read_request

# No bucket can be called like this: a bucket's name holds no underscore.
CONTROL_PATH: Final = "/__control/"
# A run of tests leaves connections of many clients idle and opens further ones in bursts.
_BACKLOG: Final = 512
_ERROR_CODES: Final = {403: "AccessDenied", 404: "NoSuchKey", 409: "ConditionalRequestConflict", 503: "SlowDown"}
_ERROR_CODES_OTHERWISE: Final = {4: "InvalidRequest", 5: "InternalError"}

Control = Callable[["Front", Request], Awaitable[Response]]


class Front:
    """A counting, delaying, failing front before a store.

    Args:
        apply: carries out one request, without waiting.
        control: answers what is asked below :data:`CONTROL_PATH`; such requests are neither counted nor delayed.
    """

    def __init__(self, apply: Callable[[Request], Response], control: Control) -> None:
        self._apply = apply
        self._control = control
        self.log = CallLog()
        self.faults = FaultRules()
        self.slots = Slots()
        self.latency_ms = 0.0

    async def listen(self) -> asyncio.Server:
        """Accept connections on a free port of the loopback address."""
        return await asyncio.start_server(
            self._serve_connection, "127.0.0.1", 0, limit=HEAD_LIMIT_BYTES, backlog=_BACKLOG
        )

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while (request := await read_request(reader, writer)) is not None:
                response = await self._answer(request)
                if response is None:
                    break
                writer.write(response.encode(to_method=request.method))
                await writer.drain()
                if not request.keeps_alive:
                    break
        writer.close()

    async def _answer(self, request: Request) -> Response | None:
        if request.target.startswith(CONTROL_PATH):
            return await self._control(self, request)
        await self.slots.take()
        try:
            return await self._serve(request)
        finally:
            self.slots.give_back()

    async def _serve(self, request: Request) -> Response | None:
        clock = asyncio.get_running_loop().time
        sequence, started_s = self.log.next_sequence(), clock()
        operation = operation_of(request)
        key = key_of(request, operation)
        object_class = classify_key(key)
        hit = self.faults.hit(operation, object_class, key)
        delay_s = hit.fault.delay_ms / 1000 if hit else 0.0
        latency_s = self.latency_ms / 1000

        # Half of the latency is the way there and half the way back: a call takes effect in the middle of its time.
        # Moments are fixed from the start, so that our own work and a late wake-up are not added on top of it.
        await _wait_until(started_s + latency_s / 2 + (delay_s if hit and hit.fault.when == "before" else 0.0))
        response = self._take_effect(request, hit.fault if hit else None)
        await _wait_until(started_s + latency_s + delay_s)

        call = Call(
            sequence=sequence,
            method=request.method,
            operation=operation,
            key=key,
            object_class=object_class,
            status=response.status if response else 0,
            bytes_in=len(request.body),
            bytes_out=len(response.body) if response else 0,
            started_s=started_s,
            ended_s=clock(),
            fault=hit.fault_id if hit else None,
        )
        self.log.add(call)
        return response

    def _take_effect(self, request: Request, fault: Fault | None) -> Response | None:
        if fault is None or fault.action == "delay":
            return self._apply_or_confess(request)
        if fault.when == "after":
            self._apply_or_confess(request)
        return _error(fault.status) if fault.action == "error" else None

    def _apply_or_confess(self, request: Request) -> Response:
        try:
            return self._apply(request)
        except Exception:  # noqa: BLE001 - whatever the store trips over, the client must get an answer
            traceback.print_exc(file=sys.stderr)
            return _error(500)


async def _wait_until(moment_s: float) -> None:
    remaining_s = moment_s - asyncio.get_running_loop().time()
    if remaining_s > 0:
        await asyncio.sleep(remaining_s)


def _error(status: int) -> Response:
    code = _ERROR_CODES.get(status) or _ERROR_CODES_OTHERWISE[status // 100]
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>injected fault</Message></Error>'
    )
    return Response(status=status, headers=(("Content-Type", "application/xml"),), body=body.encode())
