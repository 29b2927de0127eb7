"""``ClientSettings``: how a client waits for a server, and how often it tries."""

from __future__ import annotations

from omnigraph.records import record
from omnigraph.values import check_number, check_whole


@record
class ClientSettings:
    """How a client waits for a server.

    Args:
        connect_timeout_s: how long to wait for a connection.
        timeout_s: how long a server may be silent while it answers. A server that works on a request says so every 15
            seconds, so that this is no limit on how long an operation may take.
        attempts: how often a request is sent at most, if the error of an attempt says that it may be sent again.
        max_wait_s: how long to wait before an attempt at most; a server that asks for more is not asked again.
        connections: how many requests are under way at the same time at most; others wait.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    connect_timeout_s: float = 10.0
    timeout_s: float = 60.0
    attempts: int = 4
    max_wait_s: float = 10.0
    connections: int = 64

    def __post_init__(self) -> None:
        check_number("connect_timeout_s", self.connect_timeout_s, least=0.001)
        check_number("timeout_s", self.timeout_s, least=0.001)
        check_whole("attempts", self.attempts, least=1)
        check_number("max_wait_s", self.max_wait_s, least=0)
        check_whole("connections", self.connections, least=1)
