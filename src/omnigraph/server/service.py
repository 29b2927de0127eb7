"""What every request of a server shares, and the call that a route makes on a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from omnigraph.operations.request import NOTHING, Attachments, Backend, Request
from omnigraph.policy import Action, Actor
from omnigraph.runtime import Runtime
from omnigraph.server.access import Access
from omnigraph.server.bodies import read_json
from omnigraph.server.config import ServerSettings
from omnigraph.server.graphs import Graphs, ReadyGraph
from omnigraph.server.running import RunningCalls
from omnigraph.server.streams import ExportSlots, StreamSlots

Answer = TypeVar("Answer")
Shape = TypeVar("Shape")
# A slash inside a segment of a path, while the segments are told apart.
INNER_SLASH = "\x00"


class Service:
    """A server without its sockets: settings, graphs, who may do what, and the threads that operations run in."""

    def __init__(self, settings: ServerSettings, graphs: Graphs, access: Access, runtime: Runtime) -> None:
        self.settings = settings
        self.graphs = graphs
        self.access = access
        self.runtime = runtime
        self.exports = ExportSlots(settings.limits)
        self.streams = StreamSlots(settings.limits.streams)
        self.is_draining = False
        self.running = RunningCalls()
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Run an operation in a thread. Once it has begun it ends, also when the client has gone away."""
        if self._limiter is None:
            # Belongs to the event loop, which is not there before the first request.
            self._limiter = anyio.CapacityLimiter(self.settings.limits.threads)
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    def drain(self) -> None:
        """Let streams that would never end come to their end."""
        self.is_draining = True

    def close(self) -> None:
        """Let go of the graphs."""
        self.graphs.close()


class GraphCall:
    """One HTTP request on one graph, by one actor.

    Raises:
        RequestFormatError: nothing can have the id of the graph.
        GraphMissingError: the graph is not being served.
    """

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.service: Service = request.app.state.service
        self.graph: ReadyGraph = self.service.graphs.get(path_value(request, "graph_id"))
        self.actor: Actor | None = request.scope.get("omnigraph.actor")

    @property
    def backend(self) -> Backend:
        """What executes the requests of this actor."""
        return self.service.access.backend(self.graph.graph_id, self.graph.backend, self.actor)

    @property
    def actor_name(self) -> str | None:
        """Who commits."""
        return None if self.actor is None else self.actor.name

    def require(self, action: Action | str, *, branch: str | None, target: str | None = None) -> None:
        """Return if the actor may do something, for routes that must know before they read the body.

        Raises:
            OmnigraphError: it may not.
        """
        self.service.access.require(self.graph.graph_id, self.actor, action, branch=branch, target=target)

    async def json(self, shape: type[Shape], *, limit: int | None = None, needs_type: bool = True) -> Shape:
        """Return the JSON body as a record."""
        limits = self.service.settings.limits
        most = limits.body if limit is None else limit
        return await read_json(self.request, shape, most, seconds=limits.body_seconds, needs_type=needs_type)

    async def execute(self, request: Request[Answer], attached: Attachments = NOTHING) -> Answer:
        """Execute a request in a thread."""
        backend = self.backend
        return await self.service.run(lambda: backend.execute(request, attached))

    async def run(self, work: Callable[[Backend], Answer]) -> Answer:
        """Do something with the backend in a thread, such as executing a request and encoding what it gives."""
        backend = self.backend
        return await self.service.run(lambda: work(backend))


def path_value(request: HttpRequest, name: str) -> str:
    """Return a segment of the path, decoded."""
    return str(request.path_params[name]).replace(INNER_SLASH, "/")


def _plain(value: object) -> object:
    # Names and ids of ours are texts with a type.
    if isinstance(value, str):
        return str(value)
    raise TypeError(type(value).__name__)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def encode(document: Any) -> bytes:
    """Return a document as JSON."""
    return _ENCODER.encode(document)


def answer(document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer that is a JSON document."""
    return Response(encode(document), status_code=status, headers=headers, media_type="application/json")
