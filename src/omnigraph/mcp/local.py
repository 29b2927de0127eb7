"""One graph for one agent, which talks over standard input and output."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from omnigraph.errors import OmnigraphError
from omnigraph.mcp.access import DEFAULT_QUERY_TOOLS, AgentGraph, WriteKey
from omnigraph.mcp.server import agent_server
from omnigraph.operations.authorized import AuthorizedBackend
from omnigraph.operations.request import NOTHING, Attachments, Backend, BackendWrapper, Request, Response
from omnigraph.policy import Actor
from omnigraph.runtime import CallContext, calling
from omnigraph.values import MAIN

_Answer = TypeVar("_Answer")
_KEY_BYTES = 16


class LocalHost:
    """A host of one graph.

    Args:
        backend: what executes requests: the engine of this process, or a server.
        actor: who commits; None where a server knows that itself.
        branch: where tools read unless they name a branch, and where fresh branches begin.
        is_read_only: whether the tools that write are hidden.
        query_tools: how many stored queries become tools of their own at most.
        asks: whether a person is asked before main, or ``branch``, is written to or merged into.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        actor: str | None = None,
        branch: str = MAIN,
        is_read_only: bool = False,
        query_tools: int = DEFAULT_QUERY_TOOLS,
        asks: bool = True,
    ) -> None:
        self._backend = backend if actor is None else AuthorizedBackend(backend, None, Actor(name=actor))
        self._actor = actor
        self._branch = branch
        self._protected = frozenset({MAIN, branch}) if asks else frozenset[str]()
        self.is_read_only = is_read_only
        self.query_tools = query_tools

    def graphs(self, request: Any) -> None:
        """Return nothing: there is one graph, and nobody has to name it."""
        del request

    def open(self, request: Any, graph_id: str | None, key: WriteKey | None = None) -> AgentGraph:
        """Return the graph."""
        del request, graph_id
        return AgentGraph(
            backend=self._backend if key is None else KeyedBackend(self._backend, key),
            actor=self._actor,
            branch=self._branch,
            protected=self._protected,
            guarded=self._protected,
            is_read_only=self.is_read_only,
        )

    def run(self, work: Callable[[], _Answer], *, is_write: bool = False) -> Awaitable[_Answer]:
        """Do something in a thread."""
        del is_write
        return anyio.to_thread.run_sync(work)

    def shown(self, error: OmnigraphError, request: Any) -> OmnigraphError:
        """Return the error: it is the operator's own graph."""
        del request
        return error


class KeyedBackend(BackendWrapper):
    """A graph whose writes may be sent again under a key.

    A tool may need several writes, such as a branch and what is written to it. Each has a key of its own, which follows
    from that of the call, because a server tells payloads under one key apart.
    """

    def __init__(self, inner: Backend, key: WriteKey) -> None:
        super().__init__(inner)
        self._key = key

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request; a write is done once under its key."""
        if not request.operation.writes:
            return self._inner.execute(request, attached)
        named = f"{request.operation.name}:{self._key.key}".encode()
        key = hashlib.blake2b(named, digest_size=_KEY_BYTES).hexdigest()
        with calling(CallContext(idempotency_key=key, payload_digest=self._key.digest)):
            return self._inner.execute(request, attached)


def serve_stdio(host: LocalHost) -> None:
    """Serve an agent over standard input and output until it closes them."""
    anyio.run(_serve, host)


async def _serve(host: LocalHost) -> None:
    server = agent_server(host)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
