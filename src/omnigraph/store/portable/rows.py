"""Rows of a table, uploaded, rewritten and read by whichever process has them; no head moves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import Effect, InternalError
from omnigraph.runtime import Counters
from omnigraph.store.fragments import data_paths, fragment_from_json, fragment_to_json
from omnigraph.store.portable.ticket import TableTicket
from omnigraph.store.process import stores_of
from omnigraph.store.staging.change import carry_row_ids
from omnigraph.store.table import ROW_ADDRESS, ROW_ID, Table
from omnigraph.store.translate import translating
from omnigraph.store.versions import dataset_folder
from omnigraph.store.writing import fit, write_into

_MAX_ROWS = 1 << 20


def write_fragments_for(
    ticket: TableTicket, batches: Iterable[pa.RecordBatch] | pa.Table, *, max_rows: int = _MAX_ROWS
) -> list[str]:
    """Upload rows beside a table, as they come, and return their fragments as JSON texts; none for no rows.

    Args:
        ticket: the table, at the version or fork that the rows are meant for.
        batches: whole rows; columns are brought into the order and types of the table. What they raise comes out.
        max_rows: rows per fragment at most.
    """
    table = ticket.open()
    stream = _Stream(table.schema, batches.to_batches() if isinstance(batches, pa.Table) else batches)
    if stream.is_empty:
        return []
    try:
        with translating("write a fragment", table.pin.location, effect=Effect.STAGED):
            written: list[FragmentMetadata] = write_fragments(
                pa.RecordBatchReader.from_batches(table.schema, stream),
                table.handle,
                schema=table.schema,
                max_rows_per_file=max_rows,
            )
    except Exception:
        # Lance hands on no more than the text of what the rows themselves failed with.
        if stream.failure is not None:
            raise stream.failure from None
        raise
    return [_text(fragment) for fragment in written]


def carried_fragments(ticket: TableTicket, rows: pa.Table, row_ids: npt.NDArray[np.uint64]) -> list[str]:
    """Upload rows of which the leading ones replace stored rows and keep their row ids.

    Args:
        ticket: the version that the row ids were looked up in.
        rows: the rows that replace others, in the order of ``row_ids``, then those that are added.
        row_ids: the row ids of the leading rows.
    """
    table = ticket.open()
    if len(row_ids) > rows.num_rows:
        raise InternalError(f"more row ids than rows location={table.pin.location}")
    carried = np.asarray(row_ids, dtype=np.uint64)
    if carried.size > 1 and not np.all(carried[:-1] <= carried[1:]):
        # Ascending row ids are stored as ranges, which keeps the table's manifest small.
        order = np.argsort(carried, kind="stable")
        leading = rows.slice(0, carried.size).take(pa.array(order))
        rows, carried = pa.concat_tables([leading, rows.slice(carried.size)]), carried[order]
    written = write_into(table.handle, rows, table.pin.location, Counters())
    return [_text(fragment) for fragment in carry_row_ids(written, carried)]


def shrink_fragment(ticket: TableTicket, fragment_id: int, offsets: npt.NDArray[np.uint32]) -> str | None:
    """Upload the deletion list of a fragment that loses the rows at ``offsets``; None when it loses all of them."""
    table = ticket.open()
    with translating("write a deletion list", table.pin.location, effect=Effect.STAGED):
        fragment = table.handle.get_fragment(fragment_id)
        if fragment is None:
            raise InternalError(f"no such fragment location={table.pin.location} fragment={fragment_id}")
        shrunk = fragment.delete_rows(offsets.tolist())
    return None if shrunk is None else _text(shrunk)


def read_fragments(
    ticket: TableTicket,
    fragment_ids: Sequence[int] | None,
    columns: Sequence[str] | None,
    *,
    filter: str | None = None,  # noqa: A002 - the word that Arrow and Lance use for it
    with_row_id: bool = False,
    with_row_address: bool = False,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Stream rows of some fragments, of all when none are named.

    Args:
        ticket: the version to read.
        fragment_ids: which fragments.
        columns: which columns, all of them when not given.
        filter: a Lance SQL predicate.
        with_row_id: add the row id.
        with_row_address: add the row address: fragment in the upper, offset in the lower half.
        batch_rows: rows per batch at most.
    """
    if fragment_ids is not None and not fragment_ids:
        return
    table = ticket.open()
    names = list(table.schema.names if columns is None else columns)
    names += [ROW_ID] if with_row_id else []
    names += [ROW_ADDRESS] if with_row_address else []
    yield from table.scan(names, filter, counters=Counters(), fragment_ids=fragment_ids, batch_size=batch_rows)


def fragment_sizes(table: Table) -> list[tuple[int, int]]:
    """Return the number of each fragment and how many live rows it has."""
    return [(fragment.metadata.id, fragment.row_count) for fragment in table.fragments]


def discard_fragments(ticket: TableTicket, fragments: Sequence[str]) -> None:
    """Remove the files of fragments that were uploaded and that no commit will ever name.

    Args:
        ticket: where they were uploaded to.
        fragments: their JSON texts.
    """
    control, root = stores_of(ticket.storage).control, dataset_folder(ticket.pin)
    for fragment in fragments:
        for name in data_paths(fragment_from_json(json.loads(fragment))):
            control.delete(f"{root}/data/{name}", Counters())


def fragment_rows(fragment: str) -> int:
    """Return how many live rows the fragment of a JSON text has."""
    return int(fragment_from_json(json.loads(fragment)).num_rows)


class _Stream:
    """Batches in the shape of a table; remembers what drawing them failed with."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = iter(batches)
        self._first = self._next_filled()
        self.failure: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return self._first is None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            batch = self._first
            while batch is not None:
                yield from fit(pa.Table.from_batches([batch]), self._schema).to_batches()
                batch = self._next_filled()
        except Exception as error:
            self.failure = error
            raise

    def _next_filled(self) -> pa.RecordBatch | None:
        return next((batch for batch in self._batches if batch.num_rows), None)


def _text(fragment: FragmentMetadata) -> str:
    return json.dumps(fragment_to_json(fragment))
