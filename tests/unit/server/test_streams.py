"""Streams from a thread to a client: what they hold is given back whatever happens."""

from __future__ import annotations

import asyncio

import pytest

from omnigraph.errors import StreamCapacityError
from omnigraph.runtime import ManualClock, SystemClock
from omnigraph.server.config import ServerLimits
from omnigraph.server.transport import streams


def test_a_slot_is_given_back_when_there_is_no_thread_left(monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def export() -> None:
        slots = streams.ExportSlots(ServerLimits(), SystemClock())
        leave = slots.take("g")
        with pytest.raises(RuntimeError):
            streams.ByteStream(ServerLimits()).start("export", lambda _: None, ended=leave)
        slots.refuse_while_exporting("g")
        slots.take("g")()

    monkeypatch.setattr(streams, "start_thread", refuse)
    asyncio.run(export())


def test_one_actor_leaves_result_streams_to_others():
    slots = streams.StreamSlots(8)
    taken = [slots.take("mira") for _ in range(6)]
    with pytest.raises(StreamCapacityError):
        slots.take("mira")
    slots.take("jon")
    slots.take("ann")
    with pytest.raises(StreamCapacityError):
        slots.take("jon")
    taken.pop()()
    slots.take("jon")
    anonymous = streams.StreamSlots(8)
    assert len([anonymous.take(None) for _ in range(8)]) == 8
    with pytest.raises(StreamCapacityError):
        anonymous.take(None)


def test_a_slow_export_does_not_keep_branches_from_being_made_for_ever():
    clock = ManualClock()
    slots = streams.ExportSlots(ServerLimits(), clock)
    leave = slots.take("g")
    clock.sleep(ServerLimits().export_hold_s - 1)
    with pytest.raises(StreamCapacityError):
        slots.refuse_while_exporting("g")
    clock.sleep(1)
    slots.refuse_while_exporting("g")
    # It is still running.
    with pytest.raises(StreamCapacityError):
        slots.take("g")
    leave()
    slots.take("g")()
