"""The process of a server: its socket, the line that says where it listens, and how it ends."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

import uvicorn

from omnigraph.errors import BadValue, OmnigraphError, UsageError
from omnigraph.runtime import Runtime
from omnigraph.server.access import Access
from omnigraph.server.app import create_app
from omnigraph.server.cluster import cluster_settings
from omnigraph.server.config import DEFAULT_PORT, LOOPBACK, ServerSettings, is_set, parse_bind
from omnigraph.server.graphs import Graphs
from omnigraph.server.identity import Identities
from omnigraph.server.service import Service

# Found by supervisors by its beginning; nothing else is ever written to standard output.
LISTENING = "OMNIGRAPH_LISTEN_ADDR="
_log = logging.getLogger("omnigraph.server")
_DRAIN_S = 30


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run ``omnigraph-server`` and end the process with its exit code."""
    parser = argparse.ArgumentParser(prog="omnigraph-server", description="Serve the graphs of a cluster over HTTP.")
    parser.add_argument("--cluster", required=True, metavar="DIR|URI", help="the cluster to serve")
    parser.add_argument("--bind", default=f"{LOOPBACK}:{DEFAULT_PORT}", metavar="HOST:PORT", help="where to listen")
    parser.add_argument("--unauthenticated", action="store_true", help="serve every caller, without tokens")
    parser.add_argument("--require-all-graphs", action="store_true", help="refuse to start without one of the graphs")
    given = parser.parse_args(argv)
    try:
        host, port = parse_bind(given.bind)
        settings = replace(
            cluster_settings(given.cluster),
            host=host,
            port=port,
            unauthenticated=given.unauthenticated or is_set(os.environ, "OMNIGRAPH_UNAUTHENTICATED"),
            requires_all_graphs=given.require_all_graphs or is_set(os.environ, "OMNIGRAPH_REQUIRE_ALL_GRAPHS"),
        )
        code = serve(settings)
    except OmnigraphError as error:
        sys.stderr.write(f"error: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        code = error.kind.exit_code
    sys.exit(code)


def serve(
    settings: ServerSettings, identities: Identities | None = None, *, listening: Callable[[str], None] | None = None
) -> int:
    """Serve until a signal ends it, and return the exit code; the environment names the tokens where none are given.

    ``listening`` is called with the address once the server listens.

    Raises:
        OmnigraphError: the server cannot start.
    """
    _configure_logs()
    service = open_service(settings, identities or Identities.from_environment(os.environ))
    try:
        with _listen(settings) as listener:
            asyncio.run(_serve(service, listener, listening))
    finally:
        service.close()
    return 0


def open_service(settings: ServerSettings, identities: Identities) -> Service:
    """Open the graphs and everything else that requests need.

    Raises:
        OmnigraphError: something of it cannot be opened.
    """
    access = Access.load(settings, identities)
    _log.info("access is %s, tokens from %s", access.state.value, ", ".join(identities.sources) or "nowhere")
    graphs = Graphs.open(settings)
    for blocked in graphs.blocked.values():
        _log.warning("graph '%s' is not served: %s", blocked.graph_id, blocked.reason)
    return Service(settings, graphs, access, Runtime.system())


async def _serve(service: Service, listener: socket.socket, listening: Callable[[str], None] | None = None) -> None:
    config = uvicorn.Config(
        create_app(service),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server = _Server(config, service.drain)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    host, port = listener.getsockname()[:2]
    _log.info("listening on %s:%s, serving %s graphs", host, port, len(service.graphs.ready))
    shown = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"{LISTENING}{shown}:{port}\n")
    sys.stdout.flush()
    if listening is not None:
        listening(f"http://{shown}:{port}")
    await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends in order when a signal comes, and does not raise the signal again."""

    def __init__(self, config: uvicorn.Config, draining: Callable[[], None]) -> None:
        super().__init__(config)
        self._draining = draining

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the event loop."""
        yield

    def stop(self) -> None:
        """Take no more connections, finish what is under way, and end; the second time at once."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self._draining()


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
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
    # It tells of every stream that was broken off, with a traceback; ours says what is to know.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


if __name__ == "__main__":
    main()
