"""The topology of an open graph: images and adjacencies, made on demand and kept within a budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from weakref import WeakValueDictionary

from omnigraph.engine.query.topology.added_edges import resolved_cache
from omnigraph.engine.query.topology.adjacency import Adjacency
from omnigraph.engine.query.topology.budget import ByteBudgetCache, Key, V
from omnigraph.engine.query.topology.edge_base import KINDS, SIDES, EdgeBase, Side, shared_edges
from omnigraph.engine.query.topology.ends import Check, find_ends
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.layers import LayeredEdges
from omnigraph.engine.query.topology.segments import SegmentPool
from omnigraph.ir.model import Direction
from omnigraph.records import record
from omnigraph.store.projections.files import Projection
from omnigraph.store.projections.format import CoveredTable
from omnigraph.store.projections.kinds import LEAST_EDGES
from omnigraph.store.tables.table import Table

DEFAULT_CAPACITY_BYTES = 1 << 30

_BASE = "base"
# More than the edge tables of most graphs; the oldest is mapped again when it is asked for.
_OPEN_BASES = 256
# While what is in memory lacks no more than this share of a version's edges, no file is looked for.
_FEW_FRESH = 10


@record
class TopologyStats:
    """What a cache has done.

    Args:
        builds: edge tables whose ends were all found by id.
        extensions: versions of edge tables that began with another version.
        maps: edge tables that were found sorted in a file.
        hits: images and adjacencies that were there.
        evictions: things that left to make room.
        size_bytes: what is held.
        mapped_bytes: what is mapped from files, and takes no memory of this process alone.
    """

    builds: int
    extensions: int
    maps: int
    hits: int
    evictions: int
    size_bytes: int
    mapped_bytes: int


class TopologyCache:
    """Images and adjacencies by the physical versions they belong to, so that branches share what they share on disk.

    Nothing is ever used for another version than its own. Safe to share between threads: what several ask for at once
    is made once.

    Args:
        capacity_bytes: how much may be held; the least recently used leaves first.
    """

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._shelf = ByteBudgetCache(capacity_bytes)
        self._pool = SegmentPool()
        self._lock = threading.Lock()
        self._builds = 0
        self._extensions = 0
        self._maps = 0
        self._hits = 0
        self._resolved = resolved_cache()
        # The version of every edge table that was made last, by table and branch: the next one is made from it.
        self._latest: WeakValueDictionary[Hashable, LayeredEdges] = WeakValueDictionary()
        # Bases that files hold, by the names of these; what they map is no memory of this process.
        self._stored: dict[Hashable, EdgeBase] = {}

    @property
    def stats(self) -> TopologyStats:
        """What was done until this moment."""
        return TopologyStats(
            builds=self._builds,
            extensions=self._extensions,
            maps=self._maps,
            hits=self._hits,
            evictions=self._shelf.evictions,
            size_bytes=self._shelf.size_bytes,
            mapped_bytes=sum(base.mapped_bytes for base in list(self._stored.values())),
        )

    def known_image(self, table: Table) -> TableImage | None:
        """Return the image of a table if it is in memory."""
        return self._shelf.get(_image_key(table))

    def unknown_rows(self, table: Table) -> int:
        """Return how many rows would have to be read for an image; none of those that another version has in memory."""
        return self._pool.unknown_rows(table)

    def image(self, table: Table) -> TableImage:
        """Return the image of a table; reads no column, and of storage only deletion files that are not known yet."""
        return self._counted(_image_key(table), lambda: self._make_image(table))

    def known_adjacency(self, edges: Table, sources: Table, targets: Table, direction: Direction) -> Adjacency | None:
        """Return an adjacency if it is in memory."""
        return self._shelf.get(_adjacency_key(edges, sources, targets, direction))

    def adjacency(
        self, edges: Table, sources: Table, targets: Table, direction: Direction, check: Check | None = None
    ) -> Adjacency:
        """Return the adjacency of an edge table.

        Args:
            edges: the edge table.
            sources: the table of the type that edges start at.
            targets: the table of the type that they lead to.
            direction: ``out`` walks from source to target, ``in`` back, ``both`` either way, for which the two types
                must be one.
            check: called with the bytes that a step of the work is about to take; raises to stop it. Others who wait
                for the same adjacency then make it themselves.
        """

        def make() -> Adjacency:
            checked = check or _go_on
            return self._layers_over(edges, sources, targets, direction, checked).adjacency(direction, checked)

        return self._counted(_adjacency_key(edges, sources, targets, direction), make)

    def layers(
        self, edges: Table, sources: Table, targets: Table, direction: Direction, check: Check
    ) -> LayeredEdges | None:
        """Return the edges of a version as what another one has sorted and what changed since; None without one.

        The arguments are those of :meth:`adjacency`; the direction is the one that is asked for first.
        """
        key = _layers_key(edges, sources, targets)
        known = self._shelf.get(key)
        if known is not None:
            return known
        base = self._base_of(edges, sources, targets, _side(direction))
        return (
            None
            if base is None
            else self._shelf.get_or_make(key, lambda: self._over(base, edges, sources, targets, check))
        )

    def _layers_over(
        self, edges: Table, sources: Table, targets: Table, direction: Direction, check: Check
    ) -> LayeredEdges:
        def make() -> LayeredEdges:
            base = self._base_of(edges, sources, targets, _side(direction))
            if base is None:
                base = self._build(edges, sources, targets, _side(direction), check)
                return self._make_layers(base, edges, sources, targets, check, None)
            return self._over(base, edges, sources, targets, check)

        return self._shelf.get_or_make(_layers_key(edges, sources, targets), make)

    def _over(self, base: EdgeBase, edges: Table, sources: Table, targets: Table, check: Check) -> LayeredEdges:
        line = _line(edges, sources, targets)
        before = self._latest.get(line)
        found = self._make_layers(base, edges, sources, targets, check, before)
        with self._lock:
            self._extensions += 1
            self._latest[line] = found
        return found

    def _build(self, edges: Table, sources: Table, targets: Table, side: Side, check: Check) -> EdgeBase:
        base = EdgeBase.of(find_ends(*self._images(edges, sources, targets), check), side)
        with self._lock:
            self._builds += 1
        # The nodes may be a copy with what is pending, which no other process has.
        is_stored = edges.datasets is sources.datasets and edges.datasets is targets.datasets
        if is_stored and edges.row_count >= LEAST_EDGES:
            base.save(edges.datasets.projections, side)
        key: Key[EdgeBase] = Key(_BASE, (edges.pin, sources.pin, targets.pin))
        return self._shelf.get_or_make(key, lambda: base)

    def _make_layers(
        self,
        base: EdgeBase,
        edges: Table,
        sources: Table,
        targets: Table,
        check: Check,
        before: LayeredEdges | None,
    ) -> LayeredEdges:
        made = LayeredEdges(base, *self._images(edges, sources, targets), self._resolved, check, before)
        if edges.datasets.runtime.checks_memory:
            from omnigraph.engine.query.checking import check_layers  # noqa: PLC0415 - debug runs alone

            check_layers(made)
        return made

    def _make_image(self, table: Table) -> TableImage:
        made = TableImage(table, self._pool.segments_of(table), self._shelf)
        if table.datasets.runtime.checks_memory:
            from omnigraph.engine.query.checking import check_image  # noqa: PLC0415 - debug runs alone

            check_image(made)
        return made

    def _images(self, edges: Table, sources: Table, targets: Table) -> tuple[TableImage, TableImage, TableImage]:
        return self.image(edges), self.image(sources), self.image(targets)

    def _base_of(self, edges: Table, sources: Table, targets: Table, side: Side) -> EdgeBase | None:
        """Return what to start from: that of the version before while it has most edges, else the best there is."""
        before = self._latest.get(_line(edges, sources, targets))
        if before is not None and before.base.covers(edges) * _FEW_FRESH >= edges.row_count * (_FEW_FRESH - 1):
            return before.base
        return self._best_base(edges, sources, targets, side)

    def _best_base(self, edges: Table, sources: Table, targets: Table, side: Side) -> EdgeBase | None:
        """Return the base that shares most edges with a version; None when none shares any."""
        locations = edges.pin.location, sources.pin.location, targets.pin.location

        def shared(tables: Sequence[CoveredTable]) -> int:
            if tuple(table.location for table in tables) != locations:
                return 0
            return shared_edges(tables[0], edges)

        held = [base for base in self._shelf.all_of(_BASE) if isinstance(base, EdgeBase)]
        held += list(self._stored.values())
        offers: list[tuple[int, EdgeBase | dict[Side, Projection]]] = [(shared(base.tables), base) for base in held]
        if max((count for count, _ in offers), default=0) * _FEW_FRESH < edges.row_count * (_FEW_FRESH - 1):
            offers += [(shared(next(iter(files.values())).tables), files) for files in _files_of(edges)]
        for count, offer in sorted(offers, key=lambda item: -item[0]):
            if count:
                found = offer if isinstance(offer, EdgeBase) else self._open_base(offer, side)
                if found is not None:
                    return found
        return None

    def _open_base(self, files: dict[Side, Projection], side: Side) -> EdgeBase | None:
        key = frozenset(file.key for file in files.values())
        with self._lock:
            known = self._stored.get(key)
        if known is not None:
            return known
        found = EdgeBase.stored(files, side)
        with self._lock:
            if found is not None:
                self._maps += 1
                found = self._stored.setdefault(key, found)
                while len(self._stored) > _OPEN_BASES:
                    self._stored.pop(next(iter(self._stored)))
        return found

    def _counted(self, key: Key[V], make: Callable[[], V]) -> V:
        known = self._shelf.get(key)
        if known is None:
            return self._shelf.get_or_make(key, make)
        with self._lock:
            self._hits += 1
        return known


def _files_of(edges: Table) -> list[dict[Side, Projection]]:
    """Return the files that hold edges of a table, those of the same rows together, the newest first."""
    if edges.row_count < LEAST_EDGES:
        return []
    found: list[dict[Side, Projection]] = []
    for side in SIDES:
        # Another process may have sorted what this one is about to sort; one look finds both sides.
        stored = edges.datasets.projections.find(edges.pin.location, KINDS[side], refresh=side == SIDES[0])
        for file in stored:
            twin = next((files for files in found if file.tables == next(iter(files.values())).tables), None)
            if twin is None:
                found.append({side: file})
            else:
                twin.setdefault(side, file)
    return found


def _go_on(_: int) -> None:
    """Let work go on, whatever it takes."""


def _side(direction: Direction) -> Side:
    return "in" if direction == "in" else "out"


def _image_key(table: Table) -> Key[TableImage]:
    return Key("image", table.pin)


def _adjacency_key(edges: Table, sources: Table, targets: Table, direction: Direction) -> Key[Adjacency]:
    return Key("adjacency", (edges.pin, sources.pin, targets.pin, direction))


def _line(edges: Table, sources: Table, targets: Table) -> Hashable:
    """Return what versions have in common whose row ids mean the same."""
    return tuple((table.pin.location, table.pin.branch) for table in (edges, sources, targets))


def _layers_key(edges: Table, sources: Table, targets: Table) -> Key[LayeredEdges]:
    return Key("layers", (edges.pin, sources.pin, targets.pin))
