"""What every request of a server shares, and the call that a route makes on a graph."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Scope

from omnigraph.errors import TokenInvalidError
from omnigraph.operations.authorized import AuthorizedBackend
from omnigraph.operations.registry import RegistryBackend
from omnigraph.operations.request import NOTHING, Attachments, Backend, Request
from omnigraph.policy import Action, Actor
from omnigraph.runtime import Runtime
from omnigraph.server.access.decisions import Access
from omnigraph.server.config import ServerSettings
from omnigraph.server.control.control import Control
from omnigraph.server.control.served import GuardedSchema, ServedBackend, ServedRequest
from omnigraph.server.control.settings import ControlSettings, RequestLimits
from omnigraph.server.graphs import Graphs, ReadyGraph
from omnigraph.server.openapi import knows_additions
from omnigraph.server.transport.bodies import BodyMemory, malformed, read_json
from omnigraph.server.transport.running import RunningCalls
from omnigraph.server.transport.streams import ExportSlots, StreamSlots

Answer = TypeVar("Answer")
Shape = TypeVar("Shape")
# A slash inside a segment of a path, while the segments are told apart.
INNER_SLASH = "\x00"


class Service:
    """A server without its sockets: settings, graphs, who may do what, and the threads that operations run in."""

    def __init__(
        self,
        settings: ServerSettings,
        graphs: Graphs,
        access: Access,
        runtime: Runtime,
        control: Control | None = None,
    ) -> None:
        self.settings = settings
        self.graphs = graphs
        self.access = access
        self.runtime = runtime
        self.control = control or Control(ControlSettings(), runtime.clock)
        self.exports = ExportSlots(settings.limits, runtime.clock)
        self.bodies = BodyMemory(settings.limits.body_memory)
        self.streams = StreamSlots(settings.limits.streams)
        self.running = RunningCalls()
        # What speaks with agents; made for the first of them, because its library is an extra.
        self.agents: Any = None
        self._show()
        self._reads: anyio.CapacityLimiter | None = None
        self._writes: anyio.CapacityLimiter | None = None
        # Each is there for as long as a read of its actor has it.
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, work: Callable[[], Answer], *, is_write: bool = False, actor: str | None = None) -> Answer:
        """Run an operation in a thread. Once it has begun it ends, also when the client has gone away.

        Writes mostly wait for each other, so that they have threads of their own: as many as are admitted, and some
        to refuse further ones. Of the threads for reads one actor gets three quarters at most: a reader that takes
        its answer slowly holds one of them.
        """
        if is_write or actor is None:
            return await self._run(work, is_write=is_write)
        share = self._shares.setdefault(actor, asyncio.Semaphore(max(1, self.settings.limits.threads * 3 // 4)))
        async with share:
            return await self._run(work, is_write=False)

    async def _run(self, work: Callable[[], Answer], *, is_write: bool) -> Answer:
        threads = self.settings.limits.threads
        if self._reads is None or self._writes is None:
            # They belong to the event loop, which is not there before the first request.
            self._reads = anyio.CapacityLimiter(threads)
            self._writes = anyio.CapacityLimiter(threads + self.control.settings.admission.all_writes)
        return await anyio.to_thread.run_sync(work, limiter=self._writes if is_write else self._reads)

    async def authenticate(self, scope: Scope) -> Actor | None:
        """Return who sends a request, by its header and by the identities of this moment.

        Raises:
            TokenMissingError, TokenInvalidError: callers must say who they are, and this one does not.
        """
        found = [value for name, value in scope["headers"] if name == b"authorization"]
        header = found[0].decode("latin-1") if len(found) == 1 else None
        return await self.access.identify(header)

    @property
    def is_draining(self) -> bool:
        """Whether the server is about to end."""
        return self.control.is_draining

    def replace(self, settings: ServerSettings, graphs: Graphs, access: Access) -> None:
        """Serve by another configuration from now on. Requests under way go on with the old one.

        Graphs that are not served any more are closed when the last operation on them has ended.
        """
        before = self.graphs
        self.settings, self.graphs, self.access = settings, graphs, access
        self._show()
        before.close(but=graphs)

    def close(self) -> None:
        """Let go of the graphs."""
        self.graphs.close()

    def _show(self) -> None:
        ready = self.graphs.ready
        places = {name: graph.uri for graphs in (ready, self.graphs.blocked) for name, graph in graphs.items()}
        self.control.redaction.hide(places)
        self.control.metrics.show({name: graph.backend for name, graph in ready.items()})


class GraphCall:
    """One HTTP request on one graph, by one actor.

    Args:
        request: the request.
        graph_id: the graph, where the path does not name it.
        write_key: the key and the digest of a write that may be sent again, where no header has them.

    Raises:
        RequestFormatError: nothing can have the id of the graph.
        GraphMissingError: the graph is not being served.
        GraphBlockedError: it is blocked, and the caller knows of blocked graphs.
    """

    def __init__(
        self, request: HttpRequest, graph_id: str | None = None, write_key: tuple[str, str] | None = None
    ) -> None:
        self.request = request
        self.write_key = write_key
        self.service: Service = request.app.state.service
        named = path_value(request, "graph_id") if graph_id is None else graph_id
        self.graph: ReadyGraph = self.service.graphs.get(named, tells_blocked=knows_additions(request.headers))
        self.actor: Actor | None = request.scope.get("omnigraph.actor")
        # Set when the client has gone away.
        self.gone = threading.Event()

    @property
    def backend(self) -> Backend:
        """What executes the requests of this actor."""
        return self.service.access.backend(self.graph.graph_id, self.allowed, self.actor)

    @property
    def allowed(self) -> Backend:
        """The backend of requests that a route itself has asked the policy about, within the same limits."""
        graph, is_managed = self.graph, self.service.settings.is_cluster
        guarded = GuardedSchema(graph.backend, graph.graph_id, graph.queries, is_managed=is_managed)
        return ServedBackend(RegistryBackend(guarded, graph.queries), self.service.control, served_request(self))

    @property
    def actor_name(self) -> str | None:
        """Who commits."""
        return None if self.actor is None else self.actor.name

    def require(self, action: Action, *, branch: str | None, target: str | None = None) -> None:
        """Return if the actor may do something, for routes that must know before they read the body.

        Raises:
            OmnigraphError: it may not.
        """
        self.service.access.require(self.graph.graph_id, self.actor, action, branch=branch, target=target)

    def require_without_export(self, action: Action, *, branch: str | None, target: str | None = None) -> None:
        """Return if the actor may do something that has to wait while entities are exported, and none are.

        Who may not do it does not learn of exports.

        Raises:
            StreamCapacityError: an export is running.
            OmnigraphError: they may not.
        """
        self.require(action, branch=branch, target=target)
        self.service.exports.refuse_while_exporting(self.graph.graph_id)

    async def json(self, shape: type[Shape], *, limit: int | None = None, needs_type: bool = True) -> Shape:
        """Return the JSON body as a record."""
        limits = self.service.settings.limits
        most = limits.body if limit is None else limit
        return await read_json(self.request, shape, most, seconds=limits.body_seconds, needs_type=needs_type)

    async def execute(self, request: Request[Answer], attached: Attachments = NOTHING) -> Answer:
        """Execute a request in a thread."""
        backend = self.backend
        return await self._run(lambda: backend.execute(request, attached), is_write=request.operation.writes)

    async def run(
        self, work: Callable[[Backend], Answer], *, is_write: bool = False, is_allowed: bool = False
    ) -> Answer:
        """Do something with the backend in a thread, such as executing a request and encoding what it gives.

        With ``is_allowed`` the route has asked the policy.
        """
        backend = self.allowed if is_allowed else self.backend
        return await self._run(lambda: work(backend), is_write=is_write)

    async def _run(self, work: Callable[[], Answer], *, is_write: bool) -> Answer:
        """Run an operation in a thread; what it reads ends when the client goes away, what it publishes does not."""
        watching = asyncio.ensure_future(self._watch())
        try:
            return await self.service.run(work, is_write=is_write, actor=self.actor_name)
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.gone.set()


class Standing:
    """The permission that a stream goes on with: identity and policy are asked again while it lasts.

    Args:
        call: the request that the stream answers.
        asked: what is executed for it.
    """

    EVERY_S = 5.0

    def __init__(self, call: GraphCall, asked: Request[Any]) -> None:
        self._call = call
        self._asked = asked
        self._clock = call.service.control.clock
        self._since_s = self._clock.monotonic_s()

    async def renew(self) -> None:
        """Ask whether the sender is still who they were, and may still do this.

        Raises:
            OmnigraphError: they are not, or may not.
        """
        call = self._call
        actor = await call.service.authenticate(call.request.scope)
        if (actor and actor.name) != call.actor_name:
            raise TokenInvalidError("the bearer token now belongs to another actor")
        call.actor = actor
        backend = call.backend
        if isinstance(backend, AuthorizedBackend):
            # Not in a thread for reads: all of these may wait for streams.
            await anyio.to_thread.run_sync(backend.authorize, self._asked)
        self._since_s = self._clock.monotonic_s()

    async def renew_if_due(self) -> None:
        """Ask again if that was not done for some seconds; raises what :meth:`renew` does."""
        if self._clock.monotonic_s() - self._since_s >= self.EVERY_S:
            await self.renew()

    async def guard(self, pieces: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
        """Yield pieces of an answer for as long as the permission stands."""
        async with aclosing(pieces):
            async for piece in pieces:
                await self.renew_if_due()
                yield piece


# What a request may ask for, by its header.
_LIMITS = {
    "omnigraph-timeout-ms": "query_ms",
    "omnigraph-max-rows": "rows",
    "omnigraph-memory-bytes": "memory_bytes",
    "omnigraph-max-affected": "affected",
}
_LONGEST_KEY = 255
_LONGEST_NUMBER = 18


def served_request(call: GraphCall) -> ServedRequest:
    """Return what the headers of a request say about how it is executed.

    Raises:
        RequestFormatError: the idempotency key or a limit makes no sense.
    """
    headers, scope = call.request.headers, call.request.scope
    key = headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        expected = f"1 to {_LONGEST_KEY} printable characters"
        raise malformed("Idempotency-Key", key, expected, f"invalid Idempotency-Key: expected {expected}")
    asked = {}
    for header, name in _LIMITS.items():
        text = headers.get(header)
        if text is not None:
            if not (text.isascii() and text.isdigit() and 0 < len(text) <= _LONGEST_NUMBER):
                raise malformed(header, text, "a whole number", f"invalid {header}: expected a whole number")
            asked[name] = int(text)
    digest = scope.get("omnigraph.digest")
    payload = "" if digest is None else digest.hexdigest()
    key, payload = call.write_key or (key, payload)
    return ServedRequest(
        graph_id=call.graph.graph_id,
        actor=call.actor_name,
        request_id=scope["omnigraph.request_id"],
        idempotency_key=key,
        payload_digest=payload,
        body_bytes=scope.get("omnigraph.body_bytes", 0),
        limits=RequestLimits(**asked),
        gone=call.gone,
    )


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
    try:
        return _ENCODER.encode(document)
    except UnicodeEncodeError:
        # JSON can bring half of a surrogate pair, which UTF-8 cannot hold; what echoes it is escaped as it came.
        return json.dumps(document, default=_plain).encode()


def answer(document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer that is a JSON document."""
    return Response(encode(document), status_code=status, headers=headers, media_type="application/json")
