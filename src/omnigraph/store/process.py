"""The stores that a process keeps for graphs that it only works for: opened once, shared by all of its tasks."""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph.runtime import World
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.handles import CacheSizes
from omnigraph.store.location import Storage
from omnigraph.store.tables import TableStore

_Key = tuple[str, tuple[tuple[str, str], ...]]

# Each holds a session with caches of its own; a worker serves one graph, rarely a second.
_KEPT = 4
# What works on whole tables meets each page once, and a version seldom again.
_CACHES = CacheSizes(index_bytes=16 << 20, metadata_bytes=8 << 20, versions=16)
_lock = threading.Lock()
_kept: OrderedDict[_Key, TableStore] = OrderedDict()


def stores_of(storage: Storage) -> TableStore:
    """Return this process's stores of a graph.

    Raises:
        ForkedProcessError: they were opened before this process was forked off.
    """
    key = (storage.root, tuple(sorted(storage.options.items())))
    with _lock:
        stores = _kept.get(key)
        if stores is None:
            datasets = DatasetStore(storage, World.system(), _CACHES)
            stores = _kept[key] = TableStore(datasets, datasets.control)
        _kept.move_to_end(key)
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    stores.datasets.handles.check_process()
    return stores
