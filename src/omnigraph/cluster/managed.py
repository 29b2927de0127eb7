"""Graphs that belong to a cluster, which alone makes them and changes their schemas."""

from __future__ import annotations

from pathlib import PurePath

from omnigraph.cluster.ledger.place import STATE
from omnigraph.errors import BadValue, SchemaManagedError
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage

_GRAPHS, _SUFFIX = "graphs", ".omni"


def refuse_managed(storage: Storage, doing: str) -> None:
    """Refuse to make a graph, or to change its schema, where a cluster does that: below the root of one.

    Raises:
        SchemaManagedError: the storage is ``graphs/<id>.omni`` of a cluster that has a ledger.
    """
    path = PurePath(storage.root)
    if path.parent.name != _GRAPHS or path.suffix != _SUFFIX:
        return
    root = storage.root.removesuffix("/").rsplit("/", 2)[0]
    if ControlObjects(Storage.open(root, storage.options)).exists(STATE):
        details = BadValue(what="graph", value=path.stem, expected="a graph outside of a cluster")
        message = f"cannot {doing}: graph '{path.stem}' belongs to a cluster"
        raise SchemaManagedError(message, details=details)
