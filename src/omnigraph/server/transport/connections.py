"""Connections: how many there may be, and how long one may keep the server waiting.

The web server has a limit for idle connections that have had an answer, and none for those that send nothing, send
slowly, or do not read. Each second :meth:`Guard.look` goes through the open ones and ends those that took too long.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from dataclasses import replace
from typing import Any

import h11
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from omnigraph.server.control.settings import ConnectionLimits

_log = logging.getLogger("omnigraph.server")
# The longest head of a request, and of it the longest address. A head that has not ended by then is not read further.
HEAD_BYTES = 32 << 10
TARGET_BYTES = 16 << 10
# No process needs more descriptors than so many, whatever the system would give.
_DESCRIPTORS = 65_536
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class Guard:
    """What the connections of one server share.

    Args:
        limits: how many, and how long.
        refuse: answers the requests of connections beyond the limit.
    """

    def __init__(self, limits: ConnectionLimits, refuse: ASGIApp) -> None:
        self.limits = limits
        self.refuse = refuse
        self.refused = 0
        self.unheard = 0

    def look(self, state: ServerState) -> None:
        """End the connections that have kept the server waiting for too long."""
        now = asyncio.get_running_loop().time()
        for connection in tuple(state.connections):
            if isinstance(connection, GuardedProtocol):
                connection.look(now)
        if self.refused:
            # One line for all of them: a flood of connections is none of lines.
            text = "refused %s above the limit of %s connections, %s of them without an answer"
            _log.warning(text, self.refused, self.limits.most, self.unheard)
            self.refused = self.unheard = 0

    def protocol(self) -> type[GuardedProtocol]:
        """Return the class of this server's connections."""
        return type("BoundProtocol", (GuardedProtocol,), {"guard": self})


class GuardedProtocol(H11Protocol):
    """One connection, with deadlines for the head of a request and for a reader that takes nothing."""

    guard: Guard

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # Since when it waits for the head of a request that has not come, and after which request.
        self._waits_since: float | None = None
        self._waits_after: object = None
        # Since when the client has not taken what was written.
        self._stuck_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base has it
        """Take a connection, or one too many, which is told so when it has sent its request."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        most, number = self.guard.limits.most, len(self.connections)
        if number > most:
            self.guard.refused += 1
            self.app = self.guard.refuse
        if number > 2 * most:
            # There would soon be no descriptor left to refuse with.
            self.guard.unheard += 1
            transport.abort()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._stuck_since = None
        super().resume_writing()

    def look(self, now: float) -> None:
        """End the connection if it has kept the server waiting for too long."""
        limits = self.guard.limits
        request = self._request
        has_ended = request is None or request.response_complete
        if not (has_ended and self.timeout_keep_alive_task is None):
            # A request is under way, or there is none and the web server counts the seconds itself.
            self._waits_since = None
        elif self._waits_since is None or self._waits_after is not request:
            self._waits_since, self._waits_after = now, request
        elif now - self._waits_since > limits.head_s and not self.transport.is_closing():
            has_begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
            self._break_off(408 if has_begun else None, "the request did not arrive in time")
        is_stuck = self.flow.write_paused or (has_ended and self.transport.get_write_buffer_size() > 0)
        if not is_stuck:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since > limits.reader_s:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer to bytes that are no request, if nothing else is being answered, and end the connection."""
        is_long = self.conn.their_state is h11.ERROR and len(self.conn.trailing_data[0]) > HEAD_BYTES
        request = self._request
        if request is not None and not request.response_complete:
            # The one who handles the request is told that its client is gone, and its answer goes nowhere.
            has_answered = request.response_started
            request.disconnected = True
            request.message_event.set()
        else:
            has_answered = self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}
        self._break_off(None if has_answered else 431 if is_long else 400, msg)

    @property
    def _request(self) -> RequestResponseCycle | None:
        """The newest request, if there was one."""
        return self.cycle

    def _break_off(self, status: int | None, message: str) -> None:
        if status is not None:
            body = message.encode()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s" % (status, _REASONS[status], len(body), body)
            )
        self.transport.close()


def room_for(limits: ConnectionLimits) -> ConnectionLimits:
    """Return limits that the descriptors of this process suffice for, after asking the system for more of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    # Half of them for connections, where twice the limit may be open for a moment; the rest for files.
    most = limits.most if soft == resource.RLIM_INFINITY else max(1, min(limits.most, soft // 4))
    if most < limits.most:
        _log.warning("at most %s connections: the process can open %s file descriptors", most, soft)
    return replace(limits, most=most)
