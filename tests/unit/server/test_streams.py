"""Streams from a thread to a client: what they hold is given back whatever happens."""

from __future__ import annotations

import asyncio

import pytest

from omnigraph.server.config import ServerLimits
from omnigraph.server.transport import streams


def test_a_slot_is_given_back_when_there_is_no_thread_left(monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def export() -> None:
        slots = streams.ExportSlots(ServerLimits())
        leave = slots.take("g")
        with pytest.raises(RuntimeError):
            streams.ByteStream(ServerLimits()).start("export", lambda _: None, ended=leave)
        slots.refuse_while_exporting("g")
        slots.take("g")()

    monkeypatch.setattr(streams, "start_thread", refuse)
    asyncio.run(export())
