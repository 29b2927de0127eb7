"""Stored rows as the rules compare them, read by whichever process needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import INTEGERS, EdgeType, NodeType
from omnigraph.engine.constraints.tuples import column_type, tuple_parts, tuples_of
from omnigraph.engine.constraints.uniqueness import narrowest
from omnigraph.engine.predicates import comparable, one_of
from omnigraph.runtime import Counters
from omnigraph.spark.rules.engine import StoredRows
from omnigraph.store.matching import rows_matching
from omnigraph.store.portable import TableTicket, read_fragments
from omnigraph.store.table import Table


def stored_schema(wanted: StoredRows) -> pa.Schema:
    """Return the columns of what the functions of this module give."""
    return pa.schema([pa.field(name, pa.string()) for name in wanted.names])


def scan_stored(ticket: TableTicket, wanted: StoredRows, fragments: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
    """Stream the rows of some fragments, of all when none are named; ``wanted.wanted`` is not looked at."""
    return _shaped(wanted, read_fragments(ticket, fragments, wanted.reads))


def look_up_stored(table: Table, wanted: StoredRows, values: pa.Array) -> Iterator[pa.RecordBatch] | None:
    """Return the rows that hold one of a few values, through an index if there is one; None if only a scan can tell.

    Args:
        table: where to look.
        wanted: which rows; more of them may come.
        values: what ``wanted.near`` has to hold one of.
    """
    if wanted.near == "id":
        found = table.lookup(values, list(wanted.reads), Counters())
        return _shaped(wanted, found.select(list(wanted.reads)).to_batches())
    column, plain = _plain(wanted, values)
    predicate = None if plain is None else one_of(column, plain)
    if plain is None or predicate is None:
        return None
    asked = comparable(plain)
    found = rows_matching(
        table,
        column,
        predicate,
        lambda stored: pc.is_in(stored.cast(plain.type), value_set=asked),
        wanted.reads,
        Counters(),
    )
    return _shaped(wanted, found.to_batches())


def _plain(wanted: StoredRows, values: pa.Array) -> tuple[str, pa.Array | None]:
    """Return a column to ask for, and its values as the table holds them; None for those that a text does not give."""
    if wanted.near != "value":
        return wanted.near, values
    column = narrowest(wanted.type, wanted.tuple_of)
    at = wanted.tuple_of.index(column)
    parts = {tuple_parts(text, len(wanted.tuple_of))[at] for text in values.to_pylist()}
    return column, _typed(wanted.type, column, sorted(parts))


def _typed(owner: NodeType | EdgeType, column: str, parts: Sequence[str]) -> pa.Array | None:
    kind = column_type(owner, column)
    if kind.is_text:
        return pa.array(parts, pa.string())
    if kind.scalar in INTEGERS:
        return pa.array([int(part) for part in parts], arrow_type(kind))
    return None


def _shaped(wanted: StoredRows, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = stored_schema(wanted)
    for batch in batches:
        if wanted.tuple_of:
            rows = tuples_of(wanted.type, pa.Table.from_batches([batch]), wanted.tuple_of)
            yield from rows.select(list(wanted.names)).to_batches()
        else:
            yield batch.select(list(wanted.names)).cast(schema)
