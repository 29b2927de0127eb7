"""The full-text indexes in memory, one set per open graph."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.engine.query.search.index import SupportsTexts, TextIndex
from omnigraph.store.tables.pins import TablePin

_CAPACITY_BYTES = 512 << 20
# How long a query that waits for another one's build goes without looking at its own limits.
_PATIENCE_S = 0.05


@dataclass(slots=True, kw_only=True)
class TextIndexStats:
    """How often an index was built from nothing, extended from another version, found, and dropped for room."""

    builds: int = 0
    extensions: int = 0
    hits: int = 0
    evictions: int = 0


class TextIndexes:
    """Indexes by version and property, least recently used out first. Safe to share between threads.

    An index answers for its own version only. When a table advances, the index of the version used last is extended.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        self.stats = TextIndexStats()
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._indexes: OrderedDict[tuple[TablePin, str], TextIndex] = OrderedDict()
        self._builders: dict[tuple[TablePin, str], _Builder] = {}

    @property
    def size_bytes(self) -> int:
        """What all indexes keep in memory; what several of them share is counted for each."""
        with self._lock:
            return self._size_bytes()

    def get(self, image: SupportsTexts, prop: str, check: Callable[[int], None]) -> TextIndex:
        """Return the index of a property; of threads that ask for the same one at once, one builds it.

        Args:
            image: the version of the table.
            prop: which property, a String.
            check: called with the bytes about to be taken, often enough to stop a build; it stops it by raising.
        """
        key = (image.pin, prop)
        found = self._find(key)
        if found is not None:
            return found
        with self._building(key, check):
            found = self._find(key)
            if found is None:
                texts = image.column(prop)
                relative = self._relative(key)
                if relative is None:
                    found = TextIndex.build(image, texts, check)
                else:
                    found = relative.extend(image, texts, check)
                self._put(key, found, is_extension=relative is not None)
            return found

    def _find(self, key: tuple[TablePin, str]) -> TextIndex | None:
        with self._lock:
            found = self._indexes.get(key)
            if found is not None:
                self._indexes.move_to_end(key)
                self.stats.hits += 1
            return found

    def _relative(self, key: tuple[TablePin, str]) -> TextIndex | None:
        pin, prop = key
        with self._lock:
            for other, name in reversed(self._indexes):
                if (other.location, name) == (pin.location, prop):
                    return self._indexes[other, name]
        return None

    def _put(self, key: tuple[TablePin, str], index: TextIndex, *, is_extension: bool) -> None:
        with self._lock:
            self.stats.builds += not is_extension
            self.stats.extensions += is_extension
            self._indexes[key] = index
            while self._size_bytes() > self._capacity_bytes:
                self._indexes.popitem(last=False)
                self.stats.evictions += 1

    def _size_bytes(self) -> int:
        return sum(index.size_bytes for index in self._indexes.values())

    @contextmanager
    def _building(self, key: tuple[TablePin, str], check: Callable[[int], None]) -> Iterator[None]:
        """Hold the turn to build one index."""
        with self._lock:
            builder = self._builders.setdefault(key, _Builder(lock=threading.Lock()))
            builder.users += 1
        try:
            while not builder.lock.acquire(timeout=_PATIENCE_S):
                check(0)
            try:
                yield
            finally:
                builder.lock.release()
        finally:
            with self._lock:
                builder.users -= 1
                if not builder.users:
                    del self._builders[key]


@dataclass(slots=True, kw_only=True)
class _Builder:
    lock: threading.Lock
    users: int = 0
