"""``LocalBackend``: an open graph of this process, asked by requests.

The handler of an operation has the operation's name and stands in the module named like the one that declares its
request. Modules are imported with the first request that needs them: a read loads no part of the write path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from types import TracebackType
from typing import Any, NoReturn, Self, cast

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import ForkedProcessError
from omnigraph.operations.request import NOTHING, Attachments, Request, Response, check_request, not_pickled
from omnigraph.runtime.context import telling_commits
from omnigraph.txn.graph_store import OpenMode

Handler = Callable[[OpenGraph, Any, Attachments], Any]

_handlers: dict[type[Request[Any]], Handler] = {}


class LocalBackend:
    """Executes requests on an open graph. It stays with the process that opened the graph."""

    def __init__(self, engine: OpenGraph, mode: OpenMode) -> None:
        self.uri = engine.store.storage.root
        self.mode = mode
        self._engine = engine
        self._process_id = os.getpid()

    @property
    def engine(self) -> OpenGraph:
        """The open graph.

        Raises:
            ForkedProcessError: it was opened before this process was forked off.
        """
        # Looked at before any lock is taken: one that another thread held at the fork is never released here.
        if os.getpid() != self._process_id:
            raise ForkedProcessError("this graph was opened before the process was forked")
        return self._engine

    def figures(self) -> Mapping[str, float]:
        """Return what monitoring asks of an open graph: events since it was opened, waiting writes, bytes of caches.

        Of projections it tells what maintenance of this process last saw; nothing before it has looked.
        """
        seen = self._engine.projection_figures
        memory = self._engine.reads.memory
        cached = memory.topology.stats.size_bytes + memory.texts.private_bytes
        return {
            **self._engine.runtime.tally.counts(),
            "cache_bytes": cached,
            "mapped_bytes": memory.topology.stats.mapped_bytes,
            "writes_waiting": self._engine.store.waiting,
            **({} if seen is None else {"projection_bytes": seen.bytes, "projection_coverage": seen.share}),
        }

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request. It ends before the graph is closed.

        Raises:
            ForkedProcessError: the graph was opened before this process was forked off.
            UsageError, ValueFormatError: a field of the request holds a value of another type.
            GraphClosedError: the graph is closed, or about to be.
            OmnigraphError: whatever the operation raises.
            WriteInterruptedError: an interrupt came when a write could not be cancelled any more.
        """
        engine = self.engine
        check_request(request)
        handler = _handlers.get(type(request)) or find_handler(type(request))
        if engine.external_blobs is not None and request.operation.writes:
            handler = _taking_blobs(handler)
        with telling_commits() if request.operation.writes else nullcontext():
            return cast("Response", engine.calls.run(lambda: handler(engine, request, attached)))

    def close(self) -> None:
        """Finish what is under way and let go of everything; in a forked process there is nothing to let go of."""
        if os.getpid() == self._process_id:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise not_pickled(self.uri)


def _taking_blobs(handler: Handler) -> Handler:
    """Return a handler that takes in external blobs as the graph allows."""
    from omnigraph.engine.external_blobs import (  # noqa: PLC0415 - few graphs allow any
        BlobIntake,
        ExternalBlobs,
        taking_blobs,
    )

    def run(engine: OpenGraph, request: Any, attached: Attachments) -> Any:
        with taking_blobs(BlobIntake(engine.external_blobs or ExternalBlobs(), engine.store.storage.options)):
            return handler(engine, request, attached)

    return run


def find_handler(request: type[Request[Any]]) -> Handler:
    """Return what executes a kind of request."""
    declared = request.operation
    module = import_module(f"omnigraph.operations.local.{declared.group}")
    handler: Handler = getattr(module, declared.name)
    _handlers[request] = handler
    return handler
