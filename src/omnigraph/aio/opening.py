"""Opening graphs for an event loop; ``omnigraph.graph.opening`` is its twin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from omnigraph.aio.backend import AsyncBackend, AsyncLocalBackend
from omnigraph.client import ClientSettings, GraphAddress
from omnigraph.engine.results.frames import library
from omnigraph.graph import opening
from omnigraph.graph.arguments.values import NamedText
from omnigraph.graph.opening import INSTALL, check_server_arguments, refuse_given
from omnigraph.txn.graph_store import OpenMode

__all__ = ["check_server_arguments", "connect", "create_local", "open_local", "refuse_given"]


async def create_local(uri: str | Path, schema: NamedText, options: Mapping[str, str] | None, **how: Any) -> None:
    """Create a graph in a thread; takes what :func:`omnigraph.graph.opening.create_local` does."""
    await asyncio.to_thread(partial(opening.create_local, uri, schema, options, **how))


async def open_local(uri: str | Path, options: Mapping[str, str] | None, *, mode: OpenMode, **how: Any) -> AsyncBackend:
    """Open a graph in a thread; takes what :func:`omnigraph.graph.opening.open_local` does."""
    return AsyncLocalBackend(await asyncio.to_thread(partial(opening.open_local, uri, options, mode=mode, **how)))


async def connect(uri: str, *, token: str | None, mode: OpenMode, settings: ClientSettings | None) -> AsyncBackend:
    """Return a backend that asks a server; takes what :func:`omnigraph.graph.opening.connect` does."""
    library("httpx2", hint=INSTALL)
    from omnigraph.client._async.backend import AsyncRemoteBackend  # noqa: PLC0415 - needs a library that few have

    backend = AsyncRemoteBackend(GraphAddress.parse(uri), token=token, mode=mode, settings=settings)
    try:
        await backend.connect()
    except BaseException:
        await backend.close()
        raise
    return backend
