"""Tables as one state of the graph has them, for processes that have no snapshot of it.

Workers load this and little else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import GoneState, HistoryGoneError, VersionMissingError
from omnigraph.records import record
from omnigraph.store.location import Storage
from omnigraph.store.portable import TableTicket, read_fragments

if TYPE_CHECKING:
    from omnigraph.txn.snapshot import Snapshot


@record
class StateTable:
    """A table at the version that a state pins, and what there is to say when a cleanup has reclaimed that state.

    It can be pickled.
    """

    ticket: TableTicket
    state: GoneState

    @classmethod
    def of(cls, storage: Storage, snapshot: Snapshot, table_key: str) -> StateTable:
        """Return a table of a snapshot."""
        head = snapshot.state.head
        return cls(
            ticket=TableTicket(storage=storage, pin=snapshot.entry(table_key).pin),
            state=GoneState(commit_id=head.commit, branch=head.branch, table_key=table_key),
        )

    def read(
        self,
        fragment_ids: Sequence[int],
        columns: Sequence[str] | None,
        *,
        filter: str | None = None,  # noqa: A002 - the word that Arrow and Lance use for it
        batch_rows: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows of some fragments; see :func:`omnigraph.store.portable.read_fragments`.

        Raises:
            HistoryGoneError: the state was reclaimed, at the latest while it was read.
        """
        try:
            yield from read_fragments(self.ticket, fragment_ids, columns, filter=filter, batch_rows=batch_rows)
        except VersionMissingError as error:
            gone = self.state
            raise HistoryGoneError(
                f"the state of commit '{gone.commit_id}' was reclaimed table={gone.table_key}", details=gone
            ) from error
