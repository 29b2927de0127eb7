"""Backends that ask a real server process, which serves every graph that a test makes."""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from pathlib import Path

from omnigraph.client import ClientSettings, GraphAddress
from omnigraph.client._async.backend import AsyncRemoteBackend
from omnigraph.client._sync.backend import RemoteBackend
from omnigraph.graph import opening

# Errors that say "try again" are what tests look for, so they are not waited for.
AT_ONCE = ClientSettings(attempts=1)


class ServedBackend(RemoteBackend):
    """Opens the graph in the server instead of in this process."""

    server = ""
    folder = Path()

    def __init__(self, engine, mode):
        root = engine.store.storage.root
        engine.close()
        super().__init__(address_of(root), mode=mode, settings=AT_ONCE)
        self.connect()
        # Tests make names of files of it.
        self.uri = root


def address_of(root):
    """Have the graph at a place served, and return its address."""
    graph_id = hashlib.sha256(root.encode()).hexdigest()[:32]
    (ServedBackend.folder / graph_id).write_text(root)
    return GraphAddress(server=ServedBackend.server, graph_id=graph_id)


def store_queries(backend, queries):
    """Have the server of a graph know stored queries, and return the backend that asks it."""
    texts = {one.source_name: one.text for one in queries}
    (ServedBackend.folder / f"{address_of(backend.uri).graph_id}.gq").write_text("\n".join(texts.values()))
    return backend


async def open_served(uri, options, *, mode, **how):
    """Open a graph in the server, for an event loop."""
    found = await asyncio.to_thread(partial(opening.open_local, uri, options, mode=mode, **how))
    await asyncio.to_thread(found.close)
    backend = AsyncRemoteBackend(address_of(found.uri), mode=mode, settings=AT_ONCE)
    await backend.connect()
    backend.uri = found.uri
    return backend
