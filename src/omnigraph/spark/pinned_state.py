"""A published state as tasks open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.records import record
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import stores_of
from omnigraph.store.tables.table import Table
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.txn.snapshot import GraphSnapshot


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
                sequences={},
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
