"""The state as a write sees it, for the read engine: the snapshot with what is pending on top.

Tables that nothing has changed yet are read as they are stored. Of the others a copy is made when a read asks for
them, with what is pending in it, in a temporary folder. A copy serves until its table is changed again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from types import TracebackType
from typing import Protocol, Self, assert_never

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.query.context import ReadMemory
from omnigraph.engine.scratch import ScratchFolder
from omnigraph.ir.model import (
    AntiJoin,
    BlockValue,
    Expand,
    Filter,
    Narrow,
    NodeScan,
    Operator,
    OptionalJoin,
    ReadPlan,
    UnionScan,
    Unwind,
    Walk,
    Widen,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.tables.store import TableStore
from omnigraph.store.tables.table import Table
from omnigraph.txn.snapshot import GraphSnapshot


@record
class OverlaidState:
    """A snapshot some of whose tables are replaced by copies with what is pending in them."""

    snapshot: GraphSnapshot
    copies: Mapping[str, Table]

    @property
    def row_counts(self) -> dict[str, int]:
        """How many rows the tables have."""
        stored = {key: entry.row_count for key, entry in self.snapshot.state.tables.items()}
        return stored | {key: table.row_count for key, table in self.copies.items()}

    def table(self, table_key: str) -> Table:
        """Return a table as the read is to see it."""
        found = self.copies.get(table_key)
        return self.snapshot.table(table_key) if found is None else found

    def reading(self) -> AbstractContextManager[None]:
        """Let the block read tables of this state."""
        return self.snapshot.reading()

    def memory(self, shared: ReadMemory | None) -> ReadMemory:
        """Return what a read of this state may use of what the reads of the graph share."""
        if shared is None:
            return ReadMemory.empty()
        # What is made of copies is of no use to any other read.
        return ReadMemory.empty(shared.engines) if self.copies else shared


@record(kw_only=False)
class _Copy:
    """A copy, the revision of what was pending when it was made, and the name of its folder."""

    revision: int
    name: str
    table: Table


class SupportsPendingRows(Protocol):
    """A snapshot and what is pending on top of it, as copies are made of it."""

    @property
    def snapshot(self) -> GraphSnapshot:
        """The published state."""

    def depend_on(self, table_key: str) -> None:
        """Take down that every row of a table is read."""

    def has_changed(self, owner: NodeType | EdgeType) -> bool:
        """Whether anything is pending for a type."""

    def revision(self, owner: NodeType | EdgeType) -> int:
        """Return a number that is another one whenever something else is pending for a type."""

    def readable_parts(self, owner: NodeType | EdgeType) -> Iterable[pa.Table]:
        """Return what can be read of all entities of a type, in one or more parts with the same columns: no Blobs."""


class PendingCopies(AbstractContextManager["PendingCopies"]):
    """The copies of one write. They go when it ends, and a copy goes when it no longer holds what is pending."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._folder: ScratchFolder | None = None
        self._known: dict[str, _Copy] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove all copies; others can be made afterwards."""
        self._known.clear()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()

    def overlay(self, staging: SupportsPendingRows, types: Iterable[NodeType | EdgeType]) -> OverlaidState:
        """Return the state that a read of some types sees; the write depends on every row of each of them."""
        owners = {owner.table_key: owner for owner in types}
        for table_key in owners:
            staging.depend_on(table_key)
        changed = [owner for owner in owners.values() if staging.has_changed(owner)]
        return OverlaidState(
            snapshot=staging.snapshot, copies={owner.table_key: self._copy(staging, owner) for owner in changed}
        )

    def _copy(self, staging: SupportsPendingRows, owner: NodeType | EdgeType) -> Table:
        known, revision = self._known.get(owner.table_key), staging.revision(owner)
        if known is not None and known.revision == revision:
            return known.table
        if self._folder is None:
            self._folder = ScratchFolder.make("match")
        if known is not None:
            shutil.rmtree(self._folder.path / known.name, ignore_errors=True)
        datasets = DatasetStore(Storage.open(self._folder.path), self._runtime)
        # Whatever is kept of a table is kept by its name, so no two copies may ever have the same one.
        parts, name = iter(staging.readable_parts(owner)), f"copy-{self._runtime.ids.ulid()}"
        first = next(parts)
        made = datasets.create(name, first.schema, chain([first], parts), {})
        table = TableStore(datasets, datasets.control).open(made.pin)
        self._known[owner.table_key] = _Copy(revision, name, table)
        return table


def types_read(read: ReadPlan, catalog: Catalog) -> Iterator[NodeType | EdgeType]:
    """Yield every type that a read looks at: it depends on it, and sees what is pending in it."""
    stages = [*read.stages, *(stage for union in read.unions for stage in union.stages)]
    for operators in (read.operators, *(stage.operators for stage in stages)):
        yield from types_of(operators, catalog)


def types_of(operators: Iterable[Operator], catalog: Catalog) -> Iterator[NodeType | EdgeType]:
    """Yield every type that operators look at."""
    for operator in operators:
        match operator:
            case NodeScan():
                yield catalog.nodes[operator.type_name]
            case UnionScan():
                yield from (catalog.nodes[name] for name in operator.type_names)
            case Expand():
                yield from _walked([operator.edge], catalog)
            case Walk():
                yield from _walked(operator.edges, catalog)
            case AntiJoin() | OptionalJoin() | BlockValue():
                yield from types_of(operator.inner, catalog)
            case Narrow() | Widen() | Filter() | Unwind():
                pass
            case _:
                assert_never(operator)


def _walked(edges: Iterable[str], catalog: Catalog) -> Iterator[NodeType | EdgeType]:
    for name in edges:
        edge = catalog.edges[name]
        yield from (edge, catalog.nodes[edge.from_type], catalog.nodes[edge.to_type])
