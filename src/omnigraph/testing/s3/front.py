"""The HTTP front of the endpoint: counts, waits, fails, and hands each request to the store.

Everything runs on one event loop. A request takes effect within one step of it, so effects have one order; waiting
(latency, a delay, a free place) is done between steps, so requests wait side by side as they would on a network.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from omnigraph.records import record
from omnigraph.testing.s3.calls import (
    HEAD_LIMIT_BYTES,
    Call,
    CallLog,
    HttpRequest,
    Response,
    classify_key,
    key_of,
    operation_of,
    read_request,
)
from omnigraph.testing.s3.faults import Fault, FaultRules


class Slots:
    """Places for requests in service, without limit unless one is set; who waits is served in order of arrival."""

    def __init__(self) -> None:
        self._limit: int | None = None
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._watching_idle: list[asyncio.Future[None]] = []

    @property
    def limit(self) -> int | None:
        """How many requests may be in service at once."""
        return self._limit

    def set_limit(self, limit: int | None) -> None:
        """Allow ``limit`` requests at once, or any number; requests already in service stay."""
        self._limit = limit
        self._admit()

    async def take(self) -> None:
        """Wait for a free place and take it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        await turn

    def give_back(self) -> None:
        """Free a place that was taken."""
        self._busy -= 1
        self._admit()
        if self._busy == 0:
            for watcher in self._watching_idle:
                watcher.set_result(None)
            self._watching_idle.clear()

    async def wait_idle(self) -> None:
        """Wait until no request is in service."""
        if self._busy:
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watching_idle.append(watcher)
            await watcher

    def _admit(self) -> None:
        while self._waiting and (self._limit is None or self._busy < self._limit):
            self._busy += 1
            self._waiting.popleft().set_result(None)


# No bucket can be called like this: a bucket's name holds no underscore.
CONTROL_PATH: Final = "/__control/"
# A run of tests leaves connections of many clients idle and opens further ones in bursts.
_BACKLOG: Final = 512
_ERROR_CODES: Final = {403: "AccessDenied", 404: "NoSuchKey", 409: "ConditionalRequestConflict", 503: "SlowDown"}
_ERROR_CODES_OTHERWISE: Final = {4: "InvalidRequest", 5: "InternalError"}

Control = Callable[["Front", HttpRequest], Awaitable[Response]]


class Front:
    """A counting, delaying, failing front before a store.

    Args:
        apply: carries out one request, without waiting.
        control: answers what is asked below :data:`CONTROL_PATH`; such requests are neither counted nor delayed.
    """

    def __init__(self, apply: Callable[[HttpRequest], Response], control: Control) -> None:
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
                if not request.keeps_alive or response.is_cut:
                    break
        writer.close()

    async def _answer(self, request: HttpRequest) -> Response | None:
        if request.target.startswith(CONTROL_PATH):
            return await self._control(self, request)
        await self.slots.take()
        try:
            return await self._serve(request)
        finally:
            self.slots.give_back()

    async def _serve(self, request: HttpRequest) -> Response | None:
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

    def _take_effect(self, request: HttpRequest, fault: Fault | None) -> Response | None:
        if fault is None or fault.action == "delay":
            return self._apply_or_confess(request)
        if fault.action == "cut":
            return self._apply_or_confess(request).cut()
        if fault.when == "after":
            self._apply_or_confess(request)
        return _error(fault.status) if fault.action == "error" else None

    def _apply_or_confess(self, request: HttpRequest) -> Response:
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


IDLE_TIMEOUT_S: Final = 30.0
_UNKNOWN: Final = object()


@record
class Settings:
    """How the endpoint serves."""

    latency_ms: float = 0.0
    concurrency: int | None = None


@record
class CallsQuery:
    """Which calls to report: those numbered above ``since``, after waiting for calls in service if so asked."""

    since: int = 0
    wait_idle: bool = False


@record
class CallsAnswer:
    """The calls asked for, and the number handed out last."""

    calls: tuple[Call, ...]
    last_sequence: int


@record
class FaultAdded:
    """The id under which a fault appears in the calls it hits."""

    fault_id: int


async def answer_control(front: Front, request: HttpRequest) -> Response:
    """Answer one control request; a malformed one gets status 400 and changes nothing."""
    try:
        answer = await _dispatch(front, request.raw_path.removeprefix(CONTROL_PATH), request.body)
    except (msgspec.DecodeError, TimeoutError) as error:
        return Response(status=400, body=msgspec.json.encode(f"{type(error).__name__}: {error}"))
    if answer is _UNKNOWN:
        return Response(status=404, body=msgspec.json.encode("no such control request"))
    return Response(status=200, headers=(("Content-Type", "application/json"),), body=msgspec.json.encode(answer))


async def _dispatch(front: Front, name: str, body: bytes) -> object:
    match name:
        case "calls":
            query = msgspec.json.decode(body, type=CallsQuery)
            if query.wait_idle:
                await asyncio.wait_for(front.slots.wait_idle(), IDLE_TIMEOUT_S)
            return CallsAnswer(calls=tuple(front.log.since(query.since)), last_sequence=front.log.last_sequence)
        case "reset_calls":
            front.log.reset()
        case "settings":
            return Settings(latency_ms=front.latency_ms, concurrency=front.slots.limit)
        case "set_settings":
            settings = msgspec.json.decode(body, type=Settings)
            front.latency_ms = settings.latency_ms
            front.slots.set_limit(settings.concurrency)
        case "add_fault":
            return FaultAdded(fault_id=front.faults.add(msgspec.json.decode(body, type=Fault)))
        case "clear_faults":
            front.faults.clear()
        case _:
            return _UNKNOWN
    return None
