"""The two ends of every edge as codes: found by id once, then carried from version to version."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.topology.image import Codes, TableImage
from omnigraph.engine.query.topology.links import code_width
from omnigraph.engine.query.topology.mapping import CodeMap, map_codes
from omnigraph.runtime import Counters, run_both
from omnigraph.store.table import KEY, ROW_ID

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


def find_ends(
    edges: TableImage, sources: TableImage, targets: TableImage, counters: Counters, check: Check
) -> EdgeEnds:
    """Find both ends of every edge by id."""
    found = EdgeEnds(
        edges=edges,
        sources=sources,
        targets=targets,
        source_codes=np.full(edges.row_count, -1, dtype=code_width(sources.row_count)),
        target_codes=np.full(edges.row_count, -1, dtype=code_width(targets.row_count)),
        content=object(),
    )
    _resolve(found, np.arange(edges.row_count), counters, check)
    return found


def extend_ends(
    base: EdgeEnds, edges: TableImage, sources: TableImage, targets: TableImage, counters: Counters, check: Check
) -> EdgeEnds:
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
    _resolve(extended, unknown, counters, check)
    return extended


def _carried(codes: EndCodes, edge_map: CodeMap, node_map: CodeMap) -> EndCodes:
    of = code_width(node_map.later_count)
    moved = codes if node_map.is_identity else node_map.table(of)[codes]
    carried = np.full(edge_map.later_count, -1, dtype=of)
    edge_map.carry(moved, carried)
    return carried


def _resolve(ends: EdgeEnds, unknown: Codes, counters: Counters, check: Check) -> None:
    """Fill in the ends of these edges, ascending, by looking for the ids that they name."""
    if not len(unknown):
        return
    edges = ends.edges
    source_ids = ends.sources.column(KEY, counters)
    target_ids = source_ids if ends.is_same_type else ends.targets.column(KEY, counters)
    bounds = np.searchsorted(unknown, edges.starts)
    counts, sizes = np.diff(bounds), np.diff(edges.starts)
    is_whole = counts * _FETCHED_SHARE >= sizes
    for group in _grouped(np.flatnonzero(is_whole & (counts > 0)), sizes):
        check(_EDGE_BYTES * int(sizes[group].sum()))
        rows = edges.read_segments(group, (SOURCE, TARGET), counters).combine_chunks()
        codes = np.concatenate([np.arange(edges.starts[index], edges.starts[index + 1]) for index in group])
        wanted = np.concatenate([unknown[bounds[index] : bounds[index + 1]] for index in group])
        if len(wanted) < len(codes):
            rows = rows.take(pa.array(np.searchsorted(codes, wanted)))
        _fill(ends, wanted, rows, (source_ids, target_ids))
    few = np.flatnonzero(~is_whole & (counts > 0))
    if len(few):
        check(0)
        wanted = np.concatenate([unknown[bounds[index] : bounds[index + 1]] for index in few])
        rows = edges.table.take(edges.row_ids[wanted], (SOURCE, TARGET), counters)
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
