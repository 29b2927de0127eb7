"""The process of a server: its socket, the line that says where it listens, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from omnigraph.errors import BadValue, OmnigraphError, UsageError
from omnigraph.runtime import Runtime
from omnigraph.server.access import Access
from omnigraph.server.app import create_app
from omnigraph.server.config import ServerSettings
from omnigraph.server.graphs import Graphs
from omnigraph.server.service import Service

# Found by supervisors by its beginning; nothing else is ever written to standard output.
LISTENING = "OMNIGRAPH_LISTEN_ADDR="
# What clients of this run put into their environment.
OWNER_TOKEN = "OMNIGRAPH_BEARER_TOKEN="  # noqa: S105 - the name of a variable
_log = logging.getLogger("omnigraph.server")
_DRAIN_S = 30


def serve(settings: ServerSettings) -> int:
    """Serve until a signal ends it, and return the exit code.

    Raises:
        OmnigraphError: the server cannot start.
    """
    _configure_logs()
    service = open_service(settings)
    try:
        with _listen(settings) as listener:
            asyncio.run(_serve(service, listener))
    finally:
        service.close()
    return 0


def open_service(settings: ServerSettings) -> Service:
    """Open the graphs and everything else that requests need.

    Raises:
        OmnigraphError: something of it cannot be opened.
    """
    graphs = Graphs.open(settings)
    for blocked in graphs.blocked.values():
        _log.warning("graph '%s' is not served: %s", blocked.graph_id, blocked.reason)
    try:
        access = Access.from_settings(settings, graphs.policies)
    except OmnigraphError:
        graphs.close()
        raise
    _log.info("access is %s, tokens from %s", access.state, ", ".join(access.token_sources) or "nowhere")
    return Service(settings, graphs, access, Runtime.system())


async def _serve(service: Service, listener: socket.socket) -> None:
    config = uvicorn.Config(
        create_app(service),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    host, port = listener.getsockname()[:2]
    _log.info("listening on %s:%s, serving %s graphs", host, port, len(service.graphs.ready))
    shown = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"{LISTENING}{shown}:{port}\n")
    sys.stdout.flush()
    if service.settings.owner_token is not None:
        sys.stderr.write(f"{OWNER_TOKEN}{service.settings.owner_token}\n")
        sys.stderr.flush()
    await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends in order when a signal comes, and does not raise the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the event loop."""
        yield

    def stop(self) -> None:
        """Take no more connections, finish what is under way, and end; the second time at once."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        # Before the address is told: who reads it may connect at once.
        listener.listen()
    except OSError as problem:
        listener.close()
        why = (problem.strerror or str(problem)).lower()
        details = BadValue(what="bind", value=f"{settings.host}:{settings.port}", expected="a free address")
        raise UsageError(f"cannot listen on {settings.host}:{settings.port}: {why}", details=details) from problem
    return listener


def _configure_logs() -> None:
    level = logging.getLevelNamesMapping().get(os.environ.get("OMNIGRAPH_LOG", "info").upper(), logging.INFO)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    log = logging.getLogger("omnigraph")
    log.handlers[:] = [handler]
    log.setLevel(level)
    log.propagate = False
