"""How many requests are served at once."""

from __future__ import annotations

import asyncio
from collections import deque


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
