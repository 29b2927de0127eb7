"""The two ends of every edge of a table, found by id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.topology.adjacency import code_width
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.segments import SOURCE, TARGET, Codes
from omnigraph.records import record
from omnigraph.runtime import run_both
from omnigraph.store.tables.pinned import KEY

# Ids are resolved about so many edges at a time, which bounds the text in memory and the time until the next check.
_EDGES_AT_ONCE = 1 << 20
# Fewer ids than this are not worth a second thread.
_SHARED_WORK = 50_000
# What an edge takes at most while its ends are looked for: two ids as text, and their places.
_EDGE_BYTES = 128
EndCodes = npt.NDArray[np.int32 | np.int64]
Check = Callable[[int], None]


@record(eq=False)
class EdgeEnds:
    """Both ends of every edge of an edge table, by the edge's code; -1 where no node has that id.

    Args:
        edges: the edge table.
        sources: the nodes that edges start at.
        targets: the nodes that they lead to.
        source_codes: where each edge starts.
        target_codes: where each edge leads to.
    """

    edges: TableImage
    sources: TableImage
    targets: TableImage
    source_codes: EndCodes
    target_codes: EndCodes


def find_ends(edges: TableImage, sources: TableImage, targets: TableImage, check: Check) -> EdgeEnds:
    """Find both ends of every edge by id."""
    found = EdgeEnds(
        edges=edges,
        sources=sources,
        targets=targets,
        source_codes=np.full(edges.row_count, -1, dtype=code_width(sources.row_count)),
        target_codes=np.full(edges.row_count, -1, dtype=code_width(targets.row_count)),
    )
    source_ids = sources.column(KEY)
    target_ids = source_ids if sources.pin == targets.pin else targets.column(KEY)
    sizes = np.diff(edges.starts)
    for group in _grouped(np.flatnonzero(sizes), sizes):
        check(_EDGE_BYTES * int(sizes[group].sum()))
        rows = edges.read_segments(group, (SOURCE, TARGET)).combine_chunks()
        codes = np.concatenate([np.arange(edges.starts[index], edges.starts[index + 1]) for index in group])
        _fill(found, codes, rows, (source_ids, target_ids))
    return found


def _fill(ends: EdgeEnds, codes: Codes, rows: pa.Table, ids: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> None:
    source_ids, target_ids = ids
    if len(codes) < _SHARED_WORK:
        ends.source_codes[codes] = codes_by_id(rows.column(SOURCE), source_ids)
        ends.target_codes[codes] = codes_by_id(rows.column(TARGET), target_ids)
        return
    ends.target_codes[codes], ends.source_codes[codes] = run_both(
        "edge-ends",
        lambda: codes_by_id(rows.column(TARGET), target_ids),
        lambda: codes_by_id(rows.column(SOURCE), source_ids),
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


def codes_by_id(wanted: pa.ChunkedArray, ids: pa.ChunkedArray) -> npt.NDArray[Any]:
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
