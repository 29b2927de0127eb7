"""The control API: how a test speaks to the endpoint's process, as JSON over HTTP."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from omnigraph.records import record
from omnigraph.testing.s3.calls import Call
from omnigraph.testing.s3.faults import Fault
from omnigraph.testing.s3.front import CONTROL_PATH, Front
from omnigraph.testing.s3.wire import Request, Response

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


async def answer_control(front: Front, request: Request) -> Response:
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
