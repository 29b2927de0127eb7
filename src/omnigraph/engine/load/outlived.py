"""Deletes of nodes that edges have outlived.

A log is the history of one graph: an edge says that its nodes were there at its sequence. So a node whose last row is a
delete below that was written again since, by a row that has still to come; it stays as it was until that row comes.
Otherwise calls that bring the delete first could never be applied, although the whole log can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.load.change_log import Numbers, StoredEdges, StoredRows, edge_ends
from omnigraph.engine.load.intake import MARK
from omnigraph.engine.load.sequences import NEVER, FreshRows, SequenceReader
from omnigraph.engine.rows.changes import DELETE
from omnigraph.records import record

# The columns of a log that tell of which nodes its edges are, and since when.
EDGE_COLUMNS = ("src", "dst", f"{MARK}op", f"{MARK}seq", f"{MARK}kind")


@record
class NewestEdges:
    """Finds the highest sequence of the edges at nodes of a type, stored ones and those of the log.

    Args:
        node: the type.
        edges: the edge types of the schema.
        reader: the sequences that earlier calls have applied.
        edges_at: finds stored edges by their nodes.
        stored_rows: finds stored edges by their ids.
        rows_of: the rows of the log about edges of a type, in batches with :data:`EDGE_COLUMNS`.
    """

    node: NodeType
    edges: Mapping[str, EdgeType]
    reader: SequenceReader
    edges_at: StoredEdges
    stored_rows: StoredRows
    rows_of: Callable[[EdgeType], Iterable[pa.Table]]

    def at(self, kind: int, ids: pa.Array) -> Numbers:
        """Return the highest sequence of a kind for each node; ``NEVER`` where no edge has one."""
        newest = np.full(len(ids), NEVER, dtype=np.int64)
        for edge in self.edges.values():
            columns = [column for column, name in edge_ends(edge) if name == self.node.name]
            if not columns:
                continue
            found = pc.unique(self.edges_at(edge, self.node, ids).column("id"))
            # Edges without a sequence are older than any delete.
            since = self.reader.known(edge.table_key, kind, found).seqs
            found = found.filter(pa.array(since != NEVER))
            if len(found):
                stored = self.stored_rows(edge, found, ["id", "src", "dst"])
                since = self.reader.known(edge.table_key, kind, one_array(stored.column("id"))).seqs
                _raise_to(newest, ids, stored, columns, since)
            for rows in self.rows_of(edge):
                is_there = pc.not_equal(rows.column(f"{MARK}op"), DELETE)
                given = rows.filter(pc.and_(is_there, pc.equal(rows.column(f"{MARK}kind"), kind)))
                _raise_to(newest, ids, given, columns, given.column(f"{MARK}seq").to_numpy())
        return newest


def without_outlived(fresh: FreshRows, edges: NewestEdges) -> FreshRows:
    """Return the rows of a node type less the deletes that edges have outlived, which count as late ones do."""
    rows = fresh.rows
    is_delete = rows.column(f"{MARK}op").to_numpy() == DELETE
    if not is_delete.any():
        return fresh
    ids, seqs = one_array(rows.column("id")), rows.column(f"{MARK}seq").to_numpy()
    encoded = ids.dictionary_encode()
    codes: Numbers = encoded.indices.to_numpy().astype(np.int64)
    order = np.lexsort((np.arange(len(codes)), seqs, codes))
    # Where each row stands among all, and the last row of each node that is no delete.
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    written = np.full(len(encoded.dictionary), -1, dtype=np.int64)
    np.maximum.at(written, codes[~is_delete], places[~is_delete])
    is_last = is_delete & (places > written[codes])
    asked = np.unique(codes[is_last])
    if not len(asked):
        return fresh
    newest = np.full(len(encoded.dictionary), NEVER, dtype=np.int64)
    kind = int(rows.column(f"{MARK}kind")[0].as_py())
    newest[asked] = edges.at(kind, encoded.dictionary.take(pa.array(asked)))
    goes = is_last & (seqs < newest[codes])
    return replace(fresh, rows=rows.filter(pa.array(~goes)), late=fresh.late + int(goes.sum()))


def _raise_to(newest: Numbers, ids: pa.Array, rows: pa.Table, columns: Iterable[str], seqs: Numbers) -> None:
    """Let the sequences of edges count for those of some nodes that they name in columns."""
    for column in columns:
        places = pc.index_in(one_array(rows.column(column)), value_set=ids)
        at = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        np.maximum.at(newest, places.drop_null().to_numpy(), seqs[at])
