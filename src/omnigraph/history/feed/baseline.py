"""The baseline of a feed: every entity of one state, and where the feed goes on behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.diff.change import NO_FILTER, ChangeFilter, EntityKind, iter_images
from omnigraph.history.diff.selection import Selection
from omnigraph.history.feed.reader import feed_cursor
from omnigraph.runtime import current_call, drawn_in_call
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS
from omnigraph.store.tables.table import Table
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName

# Rows that are in memory at once; their ids are there for the whole table.
_CHUNK_ROWS = 8_192
_CHUNK_BLOB_ROWS = 64


def capture_baseline(
    store: GraphStore, branch: str = MAIN, *, wanted: ChangeFilter = NO_FILTER
) -> Iterator[dict[str, Any]]:
    """Return the records of the newest state and, behind the last of them, the record with the cursor.

    The state is pinned at once, however late its records are asked for. Kinds and type names choose records and
    cursor, operations only bind the cursor. An answer without its last record is incomplete and names no cursor.

    Raises:
        BranchMissingError: there is no such branch.
        HistoryGoneError: a cleanup reclaimed the state meanwhile.
    """
    return drawn_in_call(_capture(store.snapshot(BranchName.parse(branch)), wanted), current_call())


def _capture(head: GraphSnapshot, wanted: ChangeFilter) -> Iterator[dict[str, Any]]:
    yield from export_records(head, wanted)
    resume = feed_cursor(head, wanted)
    yield {"baseline": {"snapshot_commit_id": str(head.state.head.commit), "resume_cursor": resume}}


def export_records(snapshot: GraphSnapshot, wanted: ChangeFilter) -> Iterator[dict[str, Any]]:
    """Yield every entity of a state as an export writes it: by table key, edges first, then by id."""
    for table_key in sorted(snapshot.state.tables):
        kind, _, name = table_key.partition(":")
        is_edge = kind == "edge"
        shown: EntityKind = "edge" if is_edge else "node"
        if wanted.wants_type(shown, name):
            with snapshot.reading():
                for rows in _by_id(snapshot.table(table_key)):
                    yield from _records(rows, name, is_edge=is_edge)


def _by_id(table: Table) -> Iterator[pa.Table]:
    """Yield all rows by id, a bounded number at a time."""
    if not table.row_count:
        return
    keys = table.read([KEY, ROW_ADDRESS])
    addresses = keys.column(ROW_ADDRESS).to_numpy()[pc.sort_indices(keys.column(KEY)).to_numpy()]
    none = Selection(table=table, whole=(), picked=np.zeros(0, dtype=np.uint64))
    size = _CHUNK_BLOB_ROWS if table.blobs else _CHUNK_ROWS
    for start in range(0, len(addresses), size):
        rows = none.only(addresses[start : start + size]).read(table.schema.names)
        yield rows.take(pc.sort_indices(rows.column(KEY)))


def _records(rows: pa.Table, name: str, *, is_edge: bool) -> Iterator[dict[str, Any]]:
    for entity_id, image in zip(rows.column(KEY).to_pylist(), iter_images(rows, is_edge=is_edge), strict=True):
        data = {"id": entity_id, **image.properties}
        if image.endpoints is None:
            yield {"type": name, "data": data}
        else:
            yield {"edge": name, **image.endpoints.to_json(), "data": data}
