"""A ticket: all that another process needs to work on one version of a table."""

from __future__ import annotations

from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.location import Storage
from omnigraph.store.pins import TablePin
from omnigraph.store.process import stores_of
from omnigraph.store.table import Table


@record
class TableTicket:
    """Names a version of a table and how to reach it. It can be pickled, credentials included, and shows none."""

    storage: Storage
    pin: TablePin

    def open(self) -> Table:
        """Return the table; each process opens it once.

        Raises:
            TableMissingError: no such table or branch.
            VersionMissingError: the table is there, the version is not.
        """
        return stores_of(self.storage).open(self.pin, Counters())
