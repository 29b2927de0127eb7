"""The edges of a table at one version, sorted by either end: what is kept in files, and what other versions start from.

Rows are named by their *places*, counted over all rows of the fragments that were there, deleted ones too. A place
means the same row for as long as its file exists, so what is sorted by places stays sorted whatever is deleted later.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.adjacency import Entries, Integers, Links, code_width, first_entries, sorted_links
from omnigraph.engine.query.topology.budget import ByteBudgetCache
from omnigraph.engine.query.topology.ends import Check, EdgeEnds, find_ends
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.segments import SOURCE, TARGET, SegmentPool
from omnigraph.records import record
from omnigraph.store.projections.coverage import Match, cover, match
from omnigraph.store.projections.files import Projection, ProjectionStore
from omnigraph.store.projections.format import Arrays, CoveredTable
from omnigraph.store.projections.kinds import ADJACENCY_IN, ADJACENCY_OUT
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.row_ids import RowIds
from omnigraph.store.tables.table import Table

Side = Literal["out", "in"]
SIDES: tuple[Side, Side] = ("out", "in")
KINDS: Mapping[Side, str] = {"out": ADJACENCY_OUT, "in": ADJACENCY_IN}

EDGE_COLUMNS = (SOURCE, TARGET)
NODE_COLUMNS = (KEY,)

Places = npt.NDArray[np.int64]


@record
class BaseLinks:
    """The entries of one side: those of the node at place ``n`` stand together, by target and then by edge.

    Args:
        links: where they lead to, as places.
        edges: the place of each entry's edge.
        repeats: which entries lead where the one before them leads, ascending.
        loops: the nodes with an edge to themselves, ascending; of no meaning between two tables.
    """

    links: Links
    edges: Integers
    repeats: Places
    loops: Places

    @property
    def nbytes(self) -> int:
        """What the arrays take."""
        arrays = (self.links.offsets, self.links.targets, self.edges, self.repeats, self.loops)
        return sum(array.nbytes for array in arrays)

    def entries(self) -> Entries:
        """Return the entries one by one, walked from where they lead to."""
        counts = np.diff(self.links.offsets)
        nodes = np.repeat(np.arange(len(counts), dtype=code_width(len(counts))), counts)
        return Entries(sources=self.links.targets, targets=nodes, edges=self.edges)


class EdgeBase:
    """One version of an edge table and of the tables at its ends. Safe to share between threads.

    Args:
        tables: what it covers: edges, the nodes that they start at, the nodes that they lead to.
        branches: the branches that the rows of the two node tables were numbered on.
        row_ids: the row ids of the two node tables by place, in runs.
        loose: the places of edges that lacked an end, ascending.
        known: the sides that are there.
        files: where to find sides that are not.
    """

    def __init__(
        self,
        *,
        tables: tuple[CoveredTable, CoveredTable, CoveredTable],
        branches: tuple[str | None, str | None],
        row_ids: tuple[RowRuns, RowRuns],
        loose: Places,
        known: Mapping[Side, BaseLinks],
        files: Mapping[Side, Projection],
    ) -> None:
        self.tables = tables
        self.edges, self.sources, self.targets = tables
        self.branches = branches
        self.row_ids = row_ids
        self.loose = loose
        self._known = dict(known)
        self._files = dict(files)
        self._lock = threading.Lock()
        self._matched: tuple[Table | None, Match | None] = None, None

    @classmethod
    def of(cls, ends: EdgeEnds, side: Side) -> EdgeBase:
        """Return the base of the version whose ends were found."""
        images = (ends.edges, ends.sources, ends.targets)
        edges, sources, targets = (_places_of(image) for image in images)
        found = (ends.source_codes >= 0) & (ends.target_codes >= 0)
        codes = np.flatnonzero(found)
        covered = (
            cover(ends.edges.table, EDGE_COLUMNS),
            cover(ends.sources.table, NODE_COLUMNS),
            cover(ends.targets.table, NODE_COLUMNS),
        )
        near, far = (_at(sources, ends.source_codes[codes]), _at(targets, ends.target_codes[codes]))
        counts = covered[1].row_count, covered[2].row_count
        if side == "in":
            near, far, counts = far, near, counts[::-1]
        entries = Entries(
            sources=near.astype(code_width(counts[0])),
            targets=far.astype(code_width(counts[1])),
            edges=_at(edges, codes),
        )
        return cls(
            tables=covered,
            branches=(ends.sources.pin.branch, ends.targets.pin.branch),
            row_ids=(_runs_of(ends.sources), _runs_of(ends.targets)),
            loose=_at(edges, np.flatnonzero(~found)),
            known={side: _sorted(entries, counts, covered[0].row_count, is_same_type=_is_same(covered))},
            files={},
        )

    @classmethod
    def stored(cls, files: Mapping[Side, Projection], side: Side) -> EdgeBase | None:
        """Return the base that files of the same rows hold, with one side read; None when all are damaged."""
        for first in sorted(files, key=lambda other: other != side):
            arrays = files[first].load()
            if arrays is not None:
                edges, sources, targets = files[first].tables
                branches = files[first].facts["branches"]
                return cls(
                    tables=(edges, sources, targets),
                    branches=(branches[0], branches[1]),
                    row_ids=(RowRuns.unpack(arrays, "source"), RowRuns.unpack(arrays, "target")),
                    loose=arrays["loose"],
                    known={first: _unpacked(arrays)},
                    files=files,
                )
        return None

    @property
    def is_same_type(self) -> bool:
        """Whether edges start and end in one table."""
        return _is_same((self.edges, self.sources, self.targets))

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What it takes of this process's own memory."""
        own = [links for links in self._known.values() if not isinstance(_root(links.edges), np.memmap)]
        return {id(self): sum(links.nbytes for links in own)}

    @property
    def mapped_bytes(self) -> int:
        """What it maps from files."""
        return sum(links.nbytes for links in self._known.values() if isinstance(_root(links.edges), np.memmap))

    def match(self, edges: Table) -> Match:
        """Return its edges at a version; that of the version that was asked for last is kept."""
        version, known = self._matched
        if known is None or version is not edges:
            known = match(self.edges, edges, EDGE_COLUMNS, takes_back=True)
            self._matched = edges, known
        return known

    def covers(self, edges: Table) -> int:
        """Return how many edges of a version it has."""
        return sum(edges.fragments[piece.index].row_count for piece in self.match(edges).pieces)

    def links(self, side: Side) -> BaseLinks:
        """Return the entries of a side: those that are there, those of a file, or the other side's, sorted anew."""
        with self._lock:
            found = self._known.get(side)
            if found is None:
                file = self._files.get(side)
                arrays = None if file is None else file.load()
                found = self._turned(side) if arrays is None else _unpacked(arrays)
                self._known[side] = found
            return found

    def save(self, store: ProjectionStore, side: Side) -> Projection | None:
        """Keep a side in a file."""
        links = self.links(side)
        arrays = {
            "offsets": links.links.offsets.astype(code_width(len(links.edges) + 1), copy=False),
            "targets": links.links.targets,
            "edges": links.edges,
            "repeats": links.repeats,
            "loops": links.loops,
            "loose": self.loose,
            **self.row_ids[0].pack("source"),
            **self.row_ids[1].pack("target"),
        }
        tables = (self.edges, self.sources, self.targets)
        return store.save(KINDS[side], "", tables, arrays, {"branches": list(self.branches)})

    def _turned(self, side: Side) -> BaseLinks:
        ((_, other),) = self._known.items()
        counts = self.sources.row_count, self.targets.row_count
        return _sorted(
            other.entries(),
            counts if side == "out" else counts[::-1],
            self.edges.row_count,
            is_same_type=self.is_same_type,
        )


def shared_edges(covered: CoveredTable, edges: Table) -> int:
    """Return how many edges of a version stand in files that are covered."""
    pieces = match(covered, edges, EDGE_COLUMNS, takes_back=True).pieces
    return sum(edges.fragments[piece.index].row_count for piece in pieces)


@record
class RowRuns:
    """Row ids by place, as runs of ids that follow one another."""

    starts: Places
    firsts: RowIds
    count: int

    @classmethod
    def of(cls, row_ids: RowIds) -> RowRuns:
        """Return the runs of row ids.

        >>> RowRuns.of(np.array([5, 6, 7, 2, 3], dtype=np.uint64)).starts.tolist()
        [0, 3]
        """
        jumps = np.flatnonzero(row_ids[1:] - row_ids[:-1] != np.uint64(1)) + 1
        starts = np.concatenate([np.zeros(min(1, len(row_ids)), dtype=np.int64), jumps])
        return cls(starts=starts, firsts=row_ids[starts], count=len(row_ids))

    def listed(self, start: int, stop: int) -> RowIds:
        """Return the row ids at some places."""
        places = np.arange(start, stop)
        run = np.searchsorted(self.starts, places, side="right") - 1
        found: RowIds = self.firsts[run] + (places - self.starts[run]).astype(np.uint64)
        return found

    def pack(self, name: str) -> Arrays:
        """Return it as arrays of a file."""
        return {f"{name}_starts": np.append(self.starts, self.count), f"{name}_firsts": self.firsts}

    @classmethod
    def unpack(cls, arrays: Arrays, name: str) -> RowRuns:
        """Rebuild what :meth:`pack` gave."""
        bounds = arrays[f"{name}_starts"]
        return cls(starts=bounds[:-1], firsts=arrays[f"{name}_firsts"], count=int(bounds[-1]))


def _runs_of(image: TableImage) -> RowRuns:
    listed = (segment.row_ids_at(np.arange(segment.place_count)) for segment in image.segments)
    return RowRuns.of(np.concatenate([np.zeros(0, dtype=np.uint64), *listed]))


def _places_of(image: TableImage) -> Places | None:
    """Return the place of every row by code; None when codes are places."""
    if not any(len(segment.deleted) for segment in image.segments):
        return None
    is_live = [np.ones(segment.fragment.metadata.physical_rows, dtype=np.bool_) for segment in image.segments]
    for live, segment in zip(is_live, image.segments, strict=True):
        live[segment.deleted] = False
    return np.flatnonzero(np.concatenate(is_live))


def _at(places: Places | None, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return codes if places is None else places[codes]


def _sorted(entries: Entries, counts: tuple[int, int], edge_count: int, *, is_same_type: bool) -> BaseLinks:
    links, edges = sorted_links(entries, node_count=counts[0], target_count=counts[1], edge_count=edge_count)
    is_repeat = np.ones(len(edges), dtype=np.bool_)
    is_repeat[first_entries(links)] = False
    loops = np.zeros(0, dtype=np.int64)
    if is_same_type:
        nodes = np.repeat(np.arange(counts[0]), np.diff(links.offsets))
        loops = np.unique(nodes[nodes == links.targets])
    return BaseLinks(links=links, edges=edges, repeats=np.flatnonzero(is_repeat), loops=loops)


def _unpacked(arrays: Arrays) -> BaseLinks:
    return BaseLinks(
        # Stored as narrow as they can be; sums of them need the room.
        links=Links(offsets=arrays["offsets"].astype(np.int64, copy=False), targets=arrays["targets"]),
        edges=arrays["edges"],
        repeats=arrays["repeats"],
        loops=arrays["loops"],
    )


def _is_same(tables: tuple[CoveredTable, ...]) -> bool:
    return tables[1] == tables[2]


def _root(array: npt.NDArray[Any]) -> object:
    found: Any = array
    while isinstance(found, np.ndarray) and not isinstance(found, np.memmap) and found.base is not None:
        found = found.base
    return found


# Ids of nodes, which every edge is looked up in.
_COLUMNS_BYTES = 4 << 30


def build_adjacency(edges: Table, sources: Table, targets: Table, check: Check) -> tuple[Projection, ...]:
    """Sort the edges of a version by either end and keep both; fewer when they cannot be written.

    Args:
        edges: the edge table.
        sources: the table of the type that edges start at.
        targets: the table of the type that they lead to.
        check: called with the bytes that a step of the work is about to take; raises to stop it.
    """
    pool, shelf = SegmentPool(), ByteBudgetCache(_COLUMNS_BYTES)
    near = TableImage(sources, pool.segments_of(sources), shelf)
    far = near if sources.pin == targets.pin else TableImage(targets, pool.segments_of(targets), shelf)
    base = EdgeBase.of(find_ends(TableImage(edges, pool.segments_of(edges), shelf), near, far, check), "out")
    saved = (base.save(edges.datasets.projections, side) for side in SIDES)
    return tuple(projection for projection in saved if projection is not None)
