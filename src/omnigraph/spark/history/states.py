"""States and pairs of tables that tasks compare, as other processes open them."""

from __future__ import annotations

from typing import Protocol

from omnigraph.history.diff.compare import OpenPair, TablePair, open_pair
from omnigraph.history.merge.planning import ComparedTable, Sides, find_compared
from omnigraph.history.merge.schemas import SettledSchemas
from omnigraph.records import record
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.store.location import Storage
from omnigraph.store.tables.table import Table
from omnigraph.txn.manifest.shared import OwnRows

# Two versions of one table that are compared; None where it does not exist.
Versions = tuple[Table | None, Table | None]


@record
class PinnedSides:
    """The states that a merge is decided on, and which of the rows that differ are meant."""

    base: PinnedState
    source: PinnedState
    target: PinnedState
    rows: OwnRows | None = None

    @classmethod
    def of(cls, storage: Storage, sides: Sides) -> PinnedSides:
        """Return the states of a merge."""
        base, source, target = (PinnedState.of(storage, side) for side in sides.by_name.values())
        return cls(base=base, source=source, target=target, rows=sides.rows)

    def open(self) -> Sides:
        """Return the states for reading in this process."""
        return Sides(base=self.base.open(), source=self.source.open(), target=self.target.open(), rows=self.rows)


class Compared(Protocol):
    """Something whose differing rows are cut into ranges of ids. It can be pickled."""

    def versions(self, table_key: str) -> list[Versions]:
        """Return the versions to compare: first those whose ids decide where ranges begin."""
        ...


@record
class MergedStates:
    """The states of a merge, and how their schemas became one."""

    sides: PinnedSides
    schemas: SettledSchemas | None

    def find(self, table_key: str) -> ComparedTable | None:
        """Return what has to be compared of a table."""
        return find_compared(self.sides.open(), table_key, self.schemas)

    def versions(self, table_key: str) -> list[Versions]:
        """Return base and source and, if the target is compared at all, base and target."""
        found = self.find(table_key)
        return [] if found is None else merge_versions(found)


def merge_versions(table: ComparedTable) -> list[Versions]:
    """Return the versions of a table that a merge compares."""
    first: Versions = table.base, table.source
    return [first] if table.target is None else [first, (table.base, table.target)]


@record
class ComparedStates:
    """Two states, and the tables in which they can differ, each under the number of its pair."""

    before: PinnedState
    after: PinnedState
    pairs: tuple[TablePair, ...]

    def open_pair(self, table_key: str) -> OpenPair:
        """Return a pair with its tables opened, in the columns of the newer schema."""
        return open_pair(self.pairs[int(table_key)], self.before.open(), self.after.open())

    def versions(self, table_key: str) -> list[Versions]:
        """Return the two versions of a table."""
        opened = self.open_pair(table_key)
        return [(opened.before, opened.after)]
