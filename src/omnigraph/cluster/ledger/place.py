"""Where a cluster is stored: the root of its graphs, its ledger and everything beside it."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.cluster.declaration import graph_uri
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.store.swapping import SwapObjects
from omnigraph.values.temporal import format_datetime

FOLDER = "__cluster"
STATE = f"{FOLDER}/state.json"
LOCK = f"{FOLDER}/lock.json"
RESOURCES = f"{FOLDER}/resources"
RECOVERIES = f"{FOLDER}/recoveries"
APPROVALS = f"{FOLDER}/approvals"


class ClusterPlace:
    """The storage root of a cluster. Opening it touches nothing.

    Args:
        root: a directory, or ``s3://bucket/prefix``.
        options: how to reach a bucket; the environment says so when it is None.
        runtime: clock, ids and failpoints.
    """

    def __init__(self, root: str, options: Mapping[str, str] | None = None, runtime: Runtime | None = None) -> None:
        self.runtime = runtime or Runtime.system()
        self.storage = Storage.open(root, options)
        self.objects = SwapObjects(self.storage, self.runtime.ids)

    def graph_key(self, graph_id: str) -> str:
        """Return the folder of a graph below the root."""
        return f"graphs/{graph_id}.omni"

    def graph_storage(self, graph_id: str) -> Storage:
        """Return the storage of a graph."""
        return Storage.open(graph_uri(self.storage.root, graph_id), self.storage.options)

    def shown(self, key: str) -> str:
        """Return how findings name a stored object."""
        return self.storage.uri(key)

    def now(self) -> str:
        """Return this moment as stored documents write it."""
        return format_datetime(self.runtime.clock.now_ms())
