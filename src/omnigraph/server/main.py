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
from starlette.types import ASGIApp

from omnigraph.errors import BadValue, OmnigraphError, UsageError
from omnigraph.runtime import Runtime
from omnigraph.server.access.decisions import Access
from omnigraph.server.access.oidc import OPTIONS
from omnigraph.server.app import create_app, metrics_app
from omnigraph.server.cluster import ServedCluster, may_pass
from omnigraph.server.config import DEFAULT_PORT, LOOPBACK, ServerSettings, is_set, parse_bind
from omnigraph.server.control.control import Control
from omnigraph.server.control.lifecycle import Ending, Reloading, finish
from omnigraph.server.control.logs import Redaction, configure_logs
from omnigraph.server.control.settings import ControlSettings
from omnigraph.server.control.watching import RevisionWatch
from omnigraph.server.graphs import Graphs
from omnigraph.server.middleware import refusing
from omnigraph.server.service import Service
from omnigraph.server.transport.connections import HEAD_BYTES, Guard, room_for

# Found by supervisors by its beginning; nothing else is ever written to standard output.
LISTENING = "OMNIGRAPH_LISTEN_ADDR="
_log = logging.getLogger("omnigraph.server")
_BACKLOG = 2048
Load = Callable[[], ServerSettings]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run ``omnigraph-server`` and end the process with its exit code."""
    parser = argparse.ArgumentParser(prog="omnigraph-server", description="Serve the graphs of a cluster over HTTP.")
    parser.add_argument("--cluster", required=True, metavar="DIR|URI", help="the cluster to serve")
    parser.add_argument("--bind", default=f"{LOOPBACK}:{DEFAULT_PORT}", metavar="HOST:PORT", help="where to listen")
    parser.add_argument(
        "--unauthenticated", action="store_true", help="run without authentication: every client may do everything"
    )
    parser.add_argument(
        "--require-all-graphs", action="store_true", help="do not start unless all graphs can be served"
    )
    parser.add_argument("--no-mcp", action="store_true", help="do not serve MCP at /mcp")
    for option, (variable, text) in OPTIONS.items():
        parser.add_argument(option, dest=variable, metavar=variable.rpartition("OIDC_")[2], help=text)
    given = parser.parse_args(argv)
    cluster = ServedCluster(given.cluster)
    identity = {name: value for name, _ in OPTIONS.values() if (value := getattr(given, name)) is not None}

    def load() -> ServerSettings:
        host, port = parse_bind(given.bind)
        return replace(
            cluster.load(),
            host=host,
            port=port,
            unauthenticated=given.unauthenticated or is_set(os.environ, "OMNIGRAPH_UNAUTHENTICATED"),
            identity=identity,
            offers_agents=not given.no_mcp,
            requires_all_graphs=given.require_all_graphs or is_set(os.environ, "OMNIGRAPH_REQUIRE_ALL_GRAPHS"),
        )

    try:
        code = serve(load(), load, cluster)
    except OmnigraphError as error:
        sys.stderr.write(f"error: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        code = error.kind.exit_code
    sys.exit(code)


def serve(settings: ServerSettings, load: Load | None = None, cluster: ServedCluster | None = None) -> int:
    """Serve until a signal ends it, and return the exit code.

    Args:
        settings: what to serve.
        load: reads the configuration again when the process is told to; it stays the same when None.
        cluster: the cluster that the configuration comes from, to be watched for another revision.

    Raises:
        OmnigraphError: the server cannot start.
    """
    redaction = Redaction()
    configure_logs(redaction)
    redaction.hide(_places(settings))
    runtime = Runtime.system()
    found = ControlSettings.from_environment(os.environ)
    found = replace(found, connections=room_for(found.connections))
    control = Control(found, runtime.clock, redaction)

    def limited(settings: ServerSettings) -> ServerSettings:
        waits = found.connections
        limits = replace(settings.limits, body_seconds=waits.body_s, stalled_s=waits.stalled_s)
        return replace(settings, limits=limits)

    service = open_service(limited(settings), runtime, control)
    try:
        with listen(settings.host, settings.port) as listener:
            reloading = Reloading(
                lambda: reload_service(service, lambda: limited(settings if load is None else load()))
            )
            asyncio.run(_serve(service, listener, reloading, cluster))
    except BaseException:
        service.close()
        raise
    code = finish(control, service.close)
    if code:
        # A thread that does not end must not keep the process: what it wrote is recovered by the next writer.
        sys.stderr.flush()
        os._exit(code)
    return code


def open_service(settings: ServerSettings, runtime: Runtime | None = None, control: Control | None = None) -> Service:
    """Open the graphs and everything else that requests need.

    Raises:
        OmnigraphError: something of it cannot be opened.
    """
    graphs, access = _open(settings, None)
    return Service(settings, graphs, access, runtime or Runtime.system(), control)


def reload_service(service: Service, load: Load) -> str:
    """Put the configuration that ``load`` reads in place, and return what is served now.

    Raises:
        OmnigraphError: something of it makes no sense or cannot be opened; nothing has changed.
    """
    settings = load()
    service.control.redaction.hide(_places(settings))
    graphs, access = _open(settings, service.graphs)
    service.replace(settings, graphs, access)
    return f"{len(graphs.ready)} graphs served, {len(graphs.blocked)} blocked"


def _places(settings: ServerSettings) -> dict[str, str]:
    served = {graph.graph_id: graph.uri for graph in settings.graphs}
    return served | {graph.graph_id: graph.uri for graph in settings.blocked}


def _open(settings: ServerSettings, before: Graphs | None) -> tuple[Graphs, Access]:
    graphs = Graphs.open(settings, before)
    for blocked in graphs.blocked.values():
        _log.warning("graph '%s' is not served: %s", blocked.graph_id, blocked.reason)
    try:
        access = Access.from_settings(settings, graphs.policies, graph_ids=graphs.ready)
    except OmnigraphError:
        graphs.close(but=before)
        raise
    _log.info("access: %s, tokens: %s", access.state, ", ".join(access.token_sources) or "none")
    return graphs, access


async def _serve(
    service: Service, listener: socket.socket, reloading: Reloading, cluster: ServedCluster | None
) -> None:
    control, loop = service.control, asyncio.get_running_loop()
    app = create_app(service)
    guard = Guard(control.settings.connections, refusing(app))
    server = _server_of(app, control.settings.drain_s, guard)
    figures = _figures(service)
    ending = Ending(control, loop.call_later, server.stop, server.force)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.begin)
    loop.add_signal_handler(signal.SIGHUP, reloading.begin)
    _watch(control, reloading, cluster)
    control.transactions.keep_expiring()
    host, port = listener.getsockname()[:2]
    _log.info("listening on %s:%s, serving %s graphs", host, port, len(service.graphs.ready))
    shown = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"{LISTENING}{shown}:{port}\n")
    sys.stdout.flush()
    if figures is None:
        await server.serve(sockets=[listener])
        return
    beside, at = figures
    with at:
        serving = asyncio.create_task(beside.serve(sockets=[at]))
        await server.serve(sockets=[listener])
        beside.stop()
        await serving


def _watch(control: Control, reloading: Reloading, cluster: ServedCluster | None) -> None:
    if cluster is not None and control.settings.cluster_poll_ms:
        RevisionWatch(
            cluster.has_changed,
            reloading,
            look_again=cluster.look_again,
            may_pass=may_pass,
            every_ms=control.settings.cluster_poll_ms,
            stopping=control.stopping,
        ).begin()


def _server_of(app: ASGIApp, drain_s: int, guard: Guard) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=guard.protocol(),
            # A connection stays what it is, and who is at its other end is not what a header says.
            ws="none",
            proxy_headers=False,
            h11_max_incomplete_event_size=HEAD_BYTES,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=drain_s,
        ),
        guard,
    )


def _figures(service: Service) -> tuple[_Server, socket.socket] | None:
    """Return the server of the figures and its socket, if the operator wants one."""
    bind = service.control.settings.metrics_bind
    if bind is None:
        return None
    at = listen(*bind)
    _log.info("metrics on %s:%s", *at.getsockname()[:2])
    app = metrics_app(service)
    return _server_of(app, 1, Guard(service.control.settings.connections, refusing(app))), at


# The web server calls us ten times a second.
_TICKS = 10


class _Server(uvicorn.Server):
    """A server that ends in order when a signal comes, and does not raise the signal again."""

    def __init__(self, config: uvicorn.Config, guard: Guard) -> None:
        super().__init__(config)
        self._guard = guard

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections once a second."""
        if counter % _TICKS == 0:
            self._guard.look(self.server_state)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the event loop."""
        yield

    def stop(self) -> None:
        """Take no more connections, finish what is under way, and end."""
        self.should_exit = True

    def force(self) -> None:
        """End at once."""
        self.force_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that takes connections.

    Raises:
        UsageError: it cannot listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, because the event loop turns Nagle's algorithm off for sockets only that say they are TCP: without that,
    # every answer waits some 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # From here on connections wait, also those that come before the server takes the first.
        listener.listen(_BACKLOG)
    except OSError as problem:
        listener.close()
        why = (problem.strerror or str(problem)).lower()
        details = BadValue(what="bind", value=f"{host}:{port}", expected="a free address")
        raise UsageError(f"cannot listen on {host}:{port}: {why}", details=details) from problem
    return listener


if __name__ == "__main__":
    main()
