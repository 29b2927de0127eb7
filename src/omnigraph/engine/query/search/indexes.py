"""The full-text indexes in memory, one set per open graph."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from omnigraph.engine.query.search.index import TextIndex
from omnigraph.engine.query.search.stored import find_text, make_text
from omnigraph.engine.query.search.versions import FittedParts, SupportsTexts, fit, index_of, with_base, with_rest
from omnigraph.records import record
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.table import Table

_CAPACITY_BYTES = 512 << 20
_MOST_INDEXES = 256
# What an index takes beside its arrays.
_INDEX_BYTES = 1 << 10
# How long a query that waits for another one's build goes without looking at its own limits.
_PATIENCE_S = 0.05
# Other versions that are tried as a beginning.
_TRIED_RELATIVES = 4
# Postings of fewer rows are built about as soon as files are found.
SAVED_ROWS = 20_000
# A much smaller share of them is analysed before anybody looks for files.
_LOOKED_FOR_SHARE = 20

Key = tuple[TablePin, str]
Origin = Literal["built", "extended", "opened"]


@record(frozen=False)
class TextIndexStats:
    """How often an index was built from nothing, extended from another version, found, and dropped for room.

    Args:
        builds: every text was analysed.
        extensions: what another version in memory had was used.
        opened: what is kept beside the table was used.
        hits: it was there.
        evictions: one left.
        analysed_rows: how many texts were analysed in all.
    """

    builds: int = 0
    extensions: int = 0
    opened: int = 0
    hits: int = 0
    evictions: int = 0
    analysed_rows: int = 0


class TextIndexes:
    """Indexes by version and property, least recently used out first. Safe to share between threads.

    An index answers for its own version only. A new one begins with what another version in memory has, or with what is
    kept beside the table, and analyses the texts of fragments that those do not have.

    Args:
        capacity_bytes: how much may be held in the memory of this process.
        saved_rows: from how many rows on postings that had to be built are kept beside the table.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES, *, saved_rows: int = SAVED_ROWS) -> None:
        self.stats = TextIndexStats()
        self._capacity_bytes = capacity_bytes
        self._saved_rows = saved_rows
        self._lock = threading.Lock()
        self._indexes: OrderedDict[Key, TextIndex] = OrderedDict()
        self._builders: dict[Key, _Builder] = {}

    @property
    def private_bytes(self) -> int:
        """What all indexes keep in the memory of this process; what several of them share counts once."""
        with self._lock:
            return _private_bytes(self._indexes.values())

    @property
    def mapped_bytes(self) -> int:
        """What they use of files that are mapped."""
        with self._lock:
            found = {part.projection for index in self._indexes.values() for part in index.parts}
        return sum(projection.mapped_bytes for projection in found if projection is not None)

    def get(self, image: SupportsTexts, prop: str, check: Callable[[int], None]) -> TextIndex:
        """Return the index of a property; of threads that ask for the same one at once, one makes it.

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
                found, origin, analysed_rows = self._make(image, prop, check)
                if image.table.datasets.runtime.checks_memory:
                    from omnigraph.engine.query.checking import check_texts  # noqa: PLC0415 - debug runs alone

                    check_texts(found, image.table.read([prop]).column(prop))
                self._put(key, found, origin, analysed_rows)
            return found

    def _make(self, image: SupportsTexts, prop: str, check: Callable[[int], None]) -> tuple[TextIndex, Origin, int]:
        table = image.table
        if table.stored_column(prop) is None:
            texts = image.read_segments(range(len(table.fragments)), [prop]).column(prop)
            return TextIndex.build(texts, check), "built", table.row_count
        fitted, origin = self._begin(table, prop)
        fresh_rows = fitted.uncovered_rows(table)
        if fresh_rows >= self._saved_rows and 2 * fresh_rows >= table.row_count:
            made = make_text(table, prop, check)
            origin = "built" if made.analysed_rows == table.row_count else "opened"
            return index_of(fit([made.part], table, prop), image, prop, check), origin, made.analysed_rows
        return index_of(with_rest(fitted, image, prop, check), image, prop, check), origin, fresh_rows

    def _begin(self, table: Table, prop: str) -> tuple[FittedParts, Origin]:
        """Return the best that is known of a version before a text is analysed."""
        relatives = self._relatives(table, prop)
        fitted = min(relatives, key=lambda one: one.uncovered_rows(table), default=None) or fit((), table, prop)
        origin: Origin = "extended" if relatives else "built"
        if table.row_count - fitted.stored_rows > self._saved_rows // _LOOKED_FOR_SHARE:
            base = find_text(table, prop)
            if base is not None:
                with_stored = with_base(base, fitted, table, prop)
                if with_stored.stored_rows > fitted.stored_rows:
                    return with_stored, "opened"
        return fitted, origin

    def _relatives(self, table: Table, prop: str) -> list[FittedParts]:
        """Return what indexes in memory have of a version, those used last first, up to one that has nearly all."""
        with self._lock:
            keys = [key for key in reversed(self._indexes) if (key[0].location, key[1]) == (table.pin.location, prop)]
            known = [self._indexes[key] for key in keys[:_TRIED_RELATIVES]]
        found = list[FittedParts]()
        for index in known:
            found.append(fit(index.parts, table, prop))
            if 10 * found[-1].uncovered_rows(table) <= table.row_count:
                break
        return found

    def _find(self, key: Key) -> TextIndex | None:
        with self._lock:
            found = self._indexes.get(key)
            if found is not None:
                self._indexes.move_to_end(key)
                self.stats.hits += 1
            return found

    def _put(self, key: Key, index: TextIndex, origin: Origin, analysed_rows: int) -> None:
        with self._lock:
            self.stats.builds += origin == "built"
            self.stats.extensions += origin == "extended"
            self.stats.opened += origin == "opened"
            self.stats.analysed_rows += analysed_rows
            self._indexes[key] = index
            while self._indexes and (
                len(self._indexes) > _MOST_INDEXES or _private_bytes(self._indexes.values()) > self._capacity_bytes
            ):
                self._indexes.popitem(last=False)
                self.stats.evictions += 1

    @contextmanager
    def _building(self, key: Key, check: Callable[[int], None]) -> Iterator[None]:
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


def _private_bytes(indexes: Iterable[TextIndex]) -> int:
    size, parts = 0, dict[int, int]()
    for index in indexes:
        size += _INDEX_BYTES + index.moves.size_bytes
        parts |= {id(part.postings): part.private_bytes for part in index.parts}
    return size + sum(parts.values())


@record(frozen=False)
class _Builder:
    lock: threading.Lock
    users: int = 0
