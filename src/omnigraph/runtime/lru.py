"""``LRUCache``: what is kept because it costs time to make again, bounded by number and by size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """Values by key; the least recently used leave when there are too many, or too much. Threads may share it.

    Args:
        max_entries: how many values it holds at most.
        max_size: how much they may take together; a value that is larger alone is not kept.
        size_of: what one value takes, asked once.
        on_drop: told of every value that left to make room.
    """

    def __init__(
        self,
        max_entries: int | None = None,
        *,
        max_size: int | None = None,
        size_of: Callable[[V], int] | None = None,
        on_drop: Callable[[V], None] | None = None,
    ) -> None:
        self._max_entries = max_entries
        self._max_size = max_size
        self._size_of = size_of
        self._on_drop = on_drop
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """What all values take together."""
        return self._size

    def get(self, key: K) -> V | None:
        """Return a value and mark it as used, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of the one that has the key."""
        size = 0 if self._size_of is None else self._size_of(value)
        with self._lock:
            self._remove(key)
            if self._max_size is None or size <= self._max_size:
                self._entries[key] = (value, size)
                self._size += size
            dropped = self._make_room()
        if self._on_drop is not None:
            for one in dropped:
                self._on_drop(one)

    def remove(self, key: K) -> None:
        """Forget a value; harmless when there is none."""
        with self._lock:
            self._remove(key)

    def _remove(self, key: K) -> None:
        known = self._entries.pop(key, None)
        if known is not None:
            self._size -= known[1]

    def _make_room(self) -> list[V]:
        dropped = []
        while self._is_too_full():
            _, (value, size) = self._entries.popitem(last=False)
            self._size -= size
            dropped.append(value)
        return dropped

    def _is_too_full(self) -> bool:
        too_many = self._max_entries is not None and len(self._entries) > self._max_entries
        return too_many or (self._max_size is not None and self._size > self._max_size)
