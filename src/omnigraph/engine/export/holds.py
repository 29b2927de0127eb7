"""Holds: an export of a graph of a cluster says that it is running, so that the graph is not deleted meanwhile.

A graph of its own is deleted by nobody but its owner, and its exports announce nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from omnigraph.errors import OmnigraphError, StorageCorruptError, StorageDeniedError
from omnigraph.runtime import Runtime
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.stored_json import StoredCodec
from omnigraph.values.temporal import format_datetime

HOLDS = "__cluster/exports"
_LEDGER = "__cluster/state.json"
_GRAPHS, _SUFFIX = "/graphs/", ".omni"


class ExportHold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An export that is running."""

    version: int
    export_id: str
    started_at: str
    writer: WriterIdentity


_CODEC = StoredCodec(ExportHold, subject="export hold", expected="the hold of an export", error=StorageCorruptError)


@contextmanager
def holding_graph(graph: Storage, runtime: Runtime) -> Iterator[None]:
    """Say that an export of a graph is running while the block runs, if the graph belongs to a cluster.

    Who may only read exports without a hold.
    """
    found = _cluster_of(graph)
    if found is None:
        yield
        return
    objects, graph_id = found
    hold = ExportHold(
        version=1,
        export_id=str(runtime.ids.ulid()),
        started_at=format_datetime(runtime.clock.now_ms()),
        writer=WriterIdentity.of_this_process(),
    )
    key = f"{HOLDS}/{graph_id}/{hold.export_id}.json"
    with suppress(StorageDeniedError):
        objects.put(key, _CODEC.encode(hold), sync=True)
    try:
        yield
    finally:
        with suppress(OmnigraphError):
            objects.delete_keys([key])


def running_exports(cluster: Storage, graph_id: str) -> dict[str, ExportHold | None]:
    """Return the exports of a graph of a cluster that may be running, by key; None for one that cannot be read.

    Those of processes that are surely gone are left out.
    """
    objects = ControlObjects(cluster)
    found: dict[str, ExportHold | None] = {}
    for key in objects.list_keys(f"{HOLDS}/{graph_id}"):
        data = objects.get(key)
        if data is None:
            continue
        try:
            hold = _CODEC.decode(data, key)
        except StorageCorruptError:
            found[key] = None
        else:
            if not hold.writer.is_surely_dead(is_disk_local=cluster.is_local):
                found[key] = hold
    return found


def _cluster_of(graph: Storage) -> tuple[ControlObjects, str] | None:
    """Return the objects of the cluster that a graph belongs to, and its id there; None if it belongs to none."""
    root, separator, name = graph.root.rpartition(_GRAPHS)
    if not separator or not root or "/" in name or not name.endswith(_SUFFIX):
        return None
    objects = ControlObjects(Storage.open(root, graph.options))
    return (objects, name.removesuffix(_SUFFIX)) if objects.exists(_LEDGER) else None
