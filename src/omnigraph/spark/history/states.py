"""States and pairs of tables that tasks compare, as other processes open them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from omnigraph.history.diff.compare import OpenPair, TablePair, open_pair
from omnigraph.history.merge.planning import ComparedTable, Sides, find_compared
from omnigraph.history.merge.schemas import SettledSchemas
from omnigraph.records import record
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import stores_of
from omnigraph.store.tables.table import Table
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.txn.snapshot import GraphSnapshot

# Two versions of one table that are compared; None where it does not exist.
Versions = tuple[Table | None, Table | None]


@record
class PinnedState:
    """A published state, known by what its manifest says. It can be pickled."""

    storage: Storage
    state: ManifestState

    @classmethod
    def of(cls, storage: Storage, snapshot: GraphSnapshot) -> PinnedState:
        """Return a state without what only writers ask it about."""
        state = snapshot.state
        head = state.recent_commit(state.head.commit)
        return cls(
            storage=storage,
            state=replace(
                state,
                tables=dict(state.tables),
                tombstones=(),
                recent=() if head is None else (head,),
                batches={},
                feeds={},
            ),
        )

    def open(self) -> GraphSnapshot:
        """Return the state for reading in this process."""
        return _RemoteSnapshot(self)


class _RemoteSnapshot(GraphSnapshot):
    """A state in a task. What is missing is told as storage says it; the driver knows what that means."""

    def __init__(self, pinned: PinnedState) -> None:
        self._pinned = pinned
        self.is_past = False

    @property
    def state(self) -> ManifestState:
        """What the manifest says."""
        return self._pinned.state

    def table(self, table_key: str) -> Table:
        """Open a table at its pinned version."""
        return stores_of(self._pinned.storage).open(self.entry(table_key).pin)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let the block read tables of this state."""
        yield


@record
class PinnedSides:
    """The states that a merge is decided on."""

    base: PinnedState
    source: PinnedState
    target: PinnedState

    @classmethod
    def of(cls, storage: Storage, sides: Sides) -> PinnedSides:
        """Return the states of a merge."""
        base, source, target = (PinnedState.of(storage, side) for side in sides.by_name.values())
        return cls(base=base, source=source, target=target)

    def open(self) -> Sides:
        """Return the states for reading in this process."""
        return Sides(base=self.base.open(), source=self.source.open(), target=self.target.open())


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
