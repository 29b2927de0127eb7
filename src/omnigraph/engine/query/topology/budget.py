"""A bounded shelf of things that cost time to make: least recently used out first, shared parts counted once."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar, cast

from omnigraph.records import record


class SupportsParts(Protocol):
    """Something that says what it keeps in memory, part by part; two things may share a part."""

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """Bytes of every part."""


V = TypeVar("V", bound=SupportsParts)


@record(kw_only=False)
class Key(Generic[V]):
    """Names a thing on the shelf, and tells the type checker which kind of thing that is."""

    kind: str
    of: Hashable


class ByteBudgetCache:
    """Keeps things while they fit. Safe to share between threads.

    A thing that leaves goes on living with whoever holds it; only the shelf forgets it.

    Args:
        capacity_bytes: how much everything together may take.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key[SupportsParts], tuple[SupportsParts, Mapping[Hashable, int]]] = OrderedDict()
        self._holders: Counter[Hashable] = Counter()
        self._making: dict[Key[SupportsParts], Future[SupportsParts]] = {}
        self._size_bytes = 0
        self._evictions = 0

    @property
    def size_bytes(self) -> int:
        """What everything on the shelf takes."""
        return self._size_bytes

    @property
    def evictions(self) -> int:
        """How many things had to leave."""
        return self._evictions

    def get(self, key: Key[V]) -> V | None:
        """Return a thing, which thereby becomes the most recently used one; None when it is not here."""
        with self._lock:
            found = self._kept.get(cast("Key[SupportsParts]", key))
            if found is None:
                return None
            self._kept.move_to_end(cast("Key[SupportsParts]", key))
            return cast("V", found[0])

    def all_of(self, kind: str) -> list[SupportsParts]:
        """Return the things of a kind, the most recently used one first."""
        with self._lock:
            return [value for key, (value, _) in reversed(self._kept.items()) if key.kind == kind]

    def get_or_make(self, key: Key[V], make: Callable[[], V]) -> V:
        """Return a thing; of several threads that ask for it at once, one makes it and all get the same."""
        plain = cast("Key[SupportsParts]", key)
        while True:
            known = self.get(key)
            if known is not None:
                return known
            with self._lock:
                under_way = self._making.get(plain)
                if under_way is None and plain not in self._kept:
                    mine: Future[SupportsParts] = Future()
                    self._making[plain] = mine
                    break
            # Whoever fails to make it may have been cancelled, which is no reason for the others to fail.
            if under_way is not None and under_way.exception() is None:
                return cast("V", under_way.result())
        try:
            made = make()
            self._put(plain, made)
            mine.set_result(made)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._making[plain]
        return made

    def _put(self, key: Key[SupportsParts], value: SupportsParts) -> None:
        parts = dict(value.parts)
        with self._lock:
            self._kept[key] = (value, parts)
            for part, size_bytes in parts.items():
                if not self._holders[part]:
                    self._size_bytes += size_bytes
                self._holders[part] += 1
            while self._size_bytes > self._capacity_bytes and self._kept:
                _, (_, gone) = self._kept.popitem(last=False)
                self._evictions += 1
                for part, size_bytes in gone.items():
                    self._holders[part] -= 1
                    if not self._holders[part]:
                        del self._holders[part]
                        self._size_bytes -= size_bytes
