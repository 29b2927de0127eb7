"""The graphs that a process of Spark holds open for reading: workers and planners live longer than one call."""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph.engine.session import GraphSession
from omnigraph.store.location import Storage

_Key = tuple[str, tuple[tuple[str, str], ...]]

# Each has caches of its own, and a process serves one graph, rarely a second.
_KEPT = 2
_lock = threading.Lock()
_kept: OrderedDict[_Key, GraphSession] = OrderedDict()


def reading_session(storage: Storage) -> GraphSession:
    """Return this process's session of a graph, open for reading; whoever asks must not close it.

    Raises:
        GraphMissingError: there is no graph.
    """
    key = (storage.root, tuple(sorted(storage.options.items())))
    with _lock:
        session = _kept.get(key)
        if session is None:
            session = _kept[key] = GraphSession.open(storage, mode="read_only")
        _kept.move_to_end(key)
        while len(_kept) > _KEPT:
            _, oldest = _kept.popitem(last=False)
            oldest.close()
        return session
