"""The two ends of every edge as codes: found by id once, then carried from version to version."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.topology.adjacency import code_width
from omnigraph.engine.query.topology.image import Codes, FragmentSegment, Mask, TableImage
from omnigraph.records import record
from omnigraph.runtime import run_both
from omnigraph.store.tables.pinned import KEY, ROW_ID


@record
class Run:
    """Rows that stay together: ``count`` codes from ``start`` on are found again from ``to`` on.

    Args:
        start: the first code in the older image.
        count: how many rows the older image has there.
        to: the first code in the later image.
        kept: which of the rows stay; None when all do.
        places: where those that stay are, counted from ``to``; None when they follow one another.
    """

    start: int
    count: int
    to: int
    kept: Mask | None = None
    places: Codes | None = None

    def pick(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what an array by older code holds for the rows that stay."""
        part = values[self.start : self.start + self.count]
        return part if self.kept is None else part[self.kept]

    def into(self) -> slice | Codes:
        """Return the later codes of the rows that stay."""
        if self.places is not None:
            return self.places + self.to
        stays = self.count if self.kept is None else int(np.count_nonzero(self.kept))
        return slice(self.to, self.to + stays)


@record
class CodeMap:
    """What became of an image's rows.

    Args:
        older_count: how many rows the older image has.
        later_count: how many rows the later image has.
        runs: rows of the same files, in the order of their older codes.
        moved: rows that were written again: their older and their later codes.
    """

    older_count: int
    later_count: int
    runs: tuple[Run, ...]
    moved: tuple[Codes, Codes]

    @property
    def is_identity(self) -> bool:
        """Whether no row left or moved, so that later rows only follow."""
        stays = sum(run.count for run in self.runs if run.kept is None and run.places is None and run.start == run.to)
        return stays == self.older_count

    @property
    def is_complete(self) -> bool:
        """Whether every later row was there before."""
        return not len(self.fresh())

    @property
    def is_ascending(self) -> bool:
        """Whether rows that stay keep their order."""
        starts = [run.to for run in self.runs]
        return not len(self.moved[0]) and starts == sorted(starts)

    def fresh(self) -> Codes:
        """Return the later codes that no older row has become, ascending."""
        is_fresh = np.ones(self.later_count, dtype=np.bool_)
        for run in self.runs:
            is_fresh[run.into()] = False
        is_fresh[self.moved[1]] = False
        return np.flatnonzero(is_fresh)

    def carry(self, values: npt.NDArray[Any], into: npt.NDArray[Any]) -> None:
        """Copy values by older code to the places of their rows in an array by later code."""
        for run in self.runs:
            into[run.into()] = run.pick(values)
        into[self.moved[1]] = values[self.moved[0]]

    def table(self, of: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
        """Return the later code of every older one, -1 where the row left; so is the last, which -1 refers to."""
        table = np.full(self.older_count + 1, -1, dtype=of)
        every = np.arange(self.later_count, dtype=of)
        for run in self.runs:
            mine = table[run.start : run.start + run.count]
            mine[slice(None) if run.kept is None else run.kept] = every[run.into()]
        table[self.moved[0]] = self.moved[1]
        return table


def map_codes(older: TableImage, later: TableImage, *, by_row_id: bool) -> CodeMap:
    """Map codes: rows of the same files by their place there, and others by row id if asked for.

    Rows of the same files hold the same values. A row that was written again keeps its row id and its id, but may
    hold other values elsewhere; and row ids mean the same only on one branch of a table.
    """
    nothing = np.zeros(0, dtype=np.int64)
    mapped = CodeMap(
        older_count=older.row_count,
        later_count=later.row_count,
        runs=tuple(_runs(older, later)),
        moved=(nothing, nothing),
    )
    if not by_row_id or (older.pin.location, older.pin.branch) != (later.pin.location, later.pin.branch):
        return mapped
    moved = _match_row_ids(older, later, _uncovered(mapped.runs, older.row_count), mapped.fresh())
    return CodeMap(older_count=older.row_count, later_count=later.row_count, runs=mapped.runs, moved=moved)


def _runs(older: TableImage, later: TableImage) -> Iterator[Run]:
    places = {segment.files: index for index, segment in enumerate(later.segments)}
    for index, segment in enumerate(older.segments):
        found = places.get(segment.files)
        if found is None:
            continue
        into, start, to = later.segments[found], int(older.starts[index]), int(later.starts[found])
        if into is segment or into.key == segment.key:
            yield Run(start=start, count=segment.row_count, to=to)
        else:
            yield _partial_run(segment, into, start, to)


def _partial_run(segment: FragmentSegment, into: FragmentSegment, start: int, to: int) -> Run:
    kept = segment.shared_with(into)
    follows = int(np.count_nonzero(kept)) == into.row_count
    places = None if follows else np.flatnonzero(into.shared_with(segment))
    return Run(start=start, count=segment.row_count, to=to, kept=kept, places=places)


def _uncovered(runs: Sequence[Run], count: int) -> Codes:
    is_gone = np.ones(count, dtype=np.bool_)
    for run in runs:
        mine = is_gone[run.start : run.start + run.count]
        mine[:] = False if run.kept is None else ~run.kept
    return np.flatnonzero(is_gone)


def _match_row_ids(older: TableImage, later: TableImage, gone: Codes, fresh: Codes) -> tuple[Codes, Codes]:
    _, at_gone, at_fresh = np.intersect1d(
        older.row_ids[gone], later.row_ids[fresh], assume_unique=True, return_indices=True
    )
    return gone[at_gone], fresh[at_fresh]


SOURCE = "src"
TARGET = "dst"

# Ids are resolved about so many edges at a time, which bounds the text in memory and the time until the next check.
_EDGES_AT_ONCE = 1 << 20
# Fewer ids than this are not worth a second thread.
_SHARED_WORK = 50_000
# What an edge takes at most while its ends are looked for: two ids as text, and their places.
_EDGE_BYTES = 128
# Up to this share of a segment's edges is fetched one by one instead of reading the segment.
_FETCHED_SHARE = 64

EndCodes = npt.NDArray[np.int32 | np.int64]
Check = Callable[[int], None]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Since:
    """What changed between two versions whose nodes have the same codes.

    Args:
        content: the content of the ends that it began with.
        edge_map: what became of their edges.
        found: codes of the edges, ascending, whose ends were not carried over.
    """

    content: object
    edge_map: CodeMap
    found: Codes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EdgeEnds:
    """Both ends of every edge of an edge table, by the edge's code; -1 where no node has that id.

    Args:
        edges: the edge table.
        sources: the nodes that edges start at.
        targets: the nodes that they lead to.
        source_codes: where each edge starts.
        target_codes: where each edge leads to.
        content: equal for ends that are the same numbers, whichever versions they belong to.
        since: how they came about from other ends, if all nodes have kept their codes.
    """

    edges: TableImage
    sources: TableImage
    targets: TableImage
    source_codes: EndCodes
    target_codes: EndCodes
    content: object
    since: Since | None = None

    @property
    def is_same_type(self) -> bool:
        """Whether edges start and end at nodes of one table."""
        return self.sources.pin == self.targets.pin

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What the ends take in memory, with the images that they keep alive."""
        mine: Mapping[Hashable, int] = {self.content: self.source_codes.nbytes + self.target_codes.nbytes}
        return {**self.edges.parts, **self.sources.parts, **self.targets.parts, **mine}


def find_ends(edges: TableImage, sources: TableImage, targets: TableImage, check: Check) -> EdgeEnds:
    """Find both ends of every edge by id."""
    found = EdgeEnds(
        edges=edges,
        sources=sources,
        targets=targets,
        source_codes=np.full(edges.row_count, -1, dtype=code_width(sources.row_count)),
        target_codes=np.full(edges.row_count, -1, dtype=code_width(targets.row_count)),
        content=object(),
    )
    _resolve(found, np.arange(edges.row_count), check)
    return found


def extend_ends(base: EdgeEnds, edges: TableImage, sources: TableImage, targets: TableImage, check: Check) -> EdgeEnds:
    """Find both ends of every edge, knowing those of other versions of the same tables.

    Edges in files that the base has too keep their ends as far as the nodes are still there. What is left to find by
    id are edges in other files, and edges whose node left while others came that may have the same id.
    """
    edge_map = map_codes(base.edges, edges, by_row_id=False)
    source_map = map_codes(base.sources, sources, by_row_id=True)
    same_nodes = base.is_same_type and sources.pin == targets.pin
    target_map = source_map if same_nodes else map_codes(base.targets, targets, by_row_id=True)
    maps = (edge_map, source_map, target_map)
    if all(item.is_identity and item.older_count == item.later_count for item in maps):
        return replace(base, edges=edges, sources=sources, targets=targets)
    source_codes = _carried(base.source_codes, edge_map, source_map)
    target_codes = _carried(base.target_codes, edge_map, target_map)
    unknown = edge_map.fresh()
    if not source_map.is_complete or not target_map.is_complete:
        unknown = np.flatnonzero((source_codes < 0) | (target_codes < 0))
    keeps_nodes = source_map.is_identity and target_map.is_identity
    extended = EdgeEnds(
        edges=edges,
        sources=sources,
        targets=targets,
        source_codes=source_codes,
        target_codes=target_codes,
        content=object(),
        since=Since(content=base.content, edge_map=edge_map, found=unknown) if keeps_nodes else None,
    )
    _resolve(extended, unknown, check)
    return extended


def _carried(codes: EndCodes, edge_map: CodeMap, node_map: CodeMap) -> EndCodes:
    of = code_width(node_map.later_count)
    moved = codes if node_map.is_identity else node_map.table(of)[codes]
    carried = np.full(edge_map.later_count, -1, dtype=of)
    edge_map.carry(moved, carried)
    return carried


def _resolve(ends: EdgeEnds, unknown: Codes, check: Check) -> None:
    """Fill in the ends of these edges, ascending, by looking for the ids that they name."""
    if not len(unknown):
        return
    edges = ends.edges
    source_ids = ends.sources.column(KEY)
    target_ids = source_ids if ends.is_same_type else ends.targets.column(KEY)
    bounds = np.searchsorted(unknown, edges.starts)
    counts, sizes = np.diff(bounds), np.diff(edges.starts)
    is_whole = counts * _FETCHED_SHARE >= sizes
    for group in _grouped(np.flatnonzero(is_whole & (counts > 0)), sizes):
        check(_EDGE_BYTES * int(sizes[group].sum()))
        rows = edges.read_segments(group, (SOURCE, TARGET)).combine_chunks()
        codes = np.concatenate([np.arange(edges.starts[index], edges.starts[index + 1]) for index in group])
        wanted = np.concatenate([unknown[bounds[index] : bounds[index + 1]] for index in group])
        if len(wanted) < len(codes):
            rows = rows.take(pa.array(np.searchsorted(codes, wanted)))
        _fill(ends, wanted, rows, (source_ids, target_ids))
    few = np.flatnonzero(~is_whole & (counts > 0))
    if len(few):
        check(0)
        wanted = np.concatenate([unknown[bounds[index] : bounds[index + 1]] for index in few])
        rows = edges.table.take(edges.row_ids[wanted], (SOURCE, TARGET))
        _fill(ends, edges.codes_of(rows.column(ROW_ID).to_numpy()), rows, (source_ids, target_ids))


def _fill(ends: EdgeEnds, codes: Codes, rows: pa.Table, ids: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> None:
    source_ids, target_ids = ids
    if len(codes) < _SHARED_WORK:
        ends.source_codes[codes] = _codes_by_id(rows.column(SOURCE), source_ids)
        ends.target_codes[codes] = _codes_by_id(rows.column(TARGET), target_ids)
        return
    ends.target_codes[codes], ends.source_codes[codes] = run_both(
        "edge-ends",
        lambda: _codes_by_id(rows.column(TARGET), target_ids),
        lambda: _codes_by_id(rows.column(SOURCE), source_ids),
    )


def _grouped(indexes: npt.NDArray[np.intp], sizes: npt.NDArray[np.int64]) -> list[list[int]]:
    groups: list[list[int]] = []
    room = 0
    for index in indexes.tolist():
        if not groups or sizes[index] > room:
            groups.append([])
            room = _EDGES_AT_ONCE
        groups[-1].append(index)
        room -= int(sizes[index])
    return groups


def _codes_by_id(wanted: pa.ChunkedArray, ids: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the place of each wanted id among ``ids``, -1 where it is not there."""
    if len(wanted) >= len(ids):
        return _index_in(wanted, ids)
    # The hash table is the costly part, so it is made of the fewer ids.
    distinct = pc.unique(wanted)
    places = _index_in(ids, distinct)
    hits = np.flatnonzero(places >= 0)
    by_distinct = np.full(len(distinct), -1, dtype=np.int64)
    by_distinct[places[hits]] = hits
    return by_distinct[_index_in(wanted, distinct)]


def _index_in(values: pa.ChunkedArray, value_set: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    if not len(value_set):
        return np.full(len(values), -1, dtype=np.int32)
    found = pc.index_in(values, value_set=value_set)
    filled = pc.fill_null(found, -1) if found.null_count else found
    places: npt.NDArray[np.int32] = filled.to_numpy()
    return places


def best_base(
    known: Sequence[EdgeEnds], edges: TableImage, sources: TableImage, targets: TableImage
) -> EdgeEnds | None:
    """Return the ends of the version that shares most edges with this one; None when nothing is shared."""
    files = {segment.files: segment.row_count for segment in edges.segments}
    best, most = None, 0
    for ends in known:
        theirs = (ends.edges.pin.location, ends.sources.pin.location, ends.targets.pin.location)
        if theirs != (edges.pin.location, sources.pin.location, targets.pin.location):
            continue
        shared = sum(files.get(segment.files, 0) for segment in ends.edges.segments)
        if shared > most:
            best, most = ends, shared
    return best
