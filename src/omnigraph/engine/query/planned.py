"""Plans that are kept: a read that is asked again is planned again only when the sizes of its tables say so.

Plans are made from row counts in steps of about a tenth, and two states whose counts are the same in these steps share
one. So a plan follows from what it was made from and from nothing else, and a write hardly ever makes one anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.query.explain import Trace, start_trace
from omnigraph.engine.query.planner import Facts, plan_read
from omnigraph.engine.query.run import pattern_of, result_schema
from omnigraph.engine.query.steps import QueryPlan
from omnigraph.engine.results.info import ResultPattern
from omnigraph.ir import CompiledQuery
from omnigraph.ir.model import ReadPlan
from omnigraph.records import record
from omnigraph.runtime import Counters, LRUCache
from omnigraph.txn.manifest.file import LoadedManifest

_PLANS = 256
_PLACES = 16
# Counts of so many bits are told apart one by one; larger ones by their first bits.
_EXACT_BITS = 4


def in_steps(count: int) -> int:
    """Return a count in steps of at most an eighth of it: what plans are made from.

    >>> [in_steps(count) for count in (0, 7, 15, 16, 17, 18, 1_000_000, 1_000_001)]
    [0, 7, 15, 16, 16, 18, 983040, 983040]
    """
    cut = max(0, count.bit_length() - _EXACT_BITS)
    return count >> cut << cut


class SupportsRowCount(Protocol):
    """What a state says of a table."""

    @property
    def row_count(self) -> int:
        """How many rows it has."""


class RowCounts(Mapping[str, int]):
    """The row counts of the tables of a state; a table is looked at only when its count is asked for."""

    def __init__(self, tables: Mapping[str, SupportsRowCount]) -> None:
        self._tables = tables

    def __getitem__(self, table_key: str) -> int:
        return self._tables[table_key].row_count

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


class _Asked(Mapping[str, int]):
    """Row counts in steps, which take note of the tables that a plan depends on."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self.tables: dict[str, None] = {}

    def __getitem__(self, table_key: str) -> int:
        self.tables[table_key] = None
        return in_steps(self._counts[table_key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)


@record
class PlannedRead:
    """What is known of a read before it is run.

    Args:
        plan: its plan.
        catalog: the schema that it was planned with.
        schema: the columns of its result.
        pattern: the nodes and edges among them.
        trace: that of a run that has done nothing; its estimates are those of the state that was planned first.
    """

    plan: QueryPlan
    catalog: Catalog
    schema: pa.Schema
    pattern: ResultPattern
    trace: Trace


class PlannedReads:
    """Plans by what they were made from. Threads may share it."""

    def __init__(self) -> None:
        self._plans: LRUCache[Hashable, PlannedRead] = LRUCache(_PLANS)
        # The tables whose sizes the plan of a read depends on, by the read.
        self._tables: LRUCache[Hashable, tuple[str, ...]] = LRUCache(_PLANS)

    def get(self, read: ReadPlan, facts: Facts, rules_off: frozenset[str]) -> PlannedRead:
        """Return the plan of a read; it keeps the read alive, so that the read's identity names no other one."""
        asked = (id(read), id(facts.catalog), rules_off)
        tables = self._tables.get(asked)
        if tables is not None:
            planned = self._plans.get((asked, _sizes(tables, facts)))
            if planned is not None and planned.plan.read is read and planned.catalog is facts.catalog:
                return planned
        counts = _Asked(facts.row_counts)
        plan = plan_read(read, Facts(catalog=facts.catalog, row_counts=counts), rules_off)
        planned = PlannedRead(
            plan=plan,
            catalog=facts.catalog,
            schema=result_schema(read),
            pattern=pattern_of(read),
            trace=start_trace(plan, facts, Counters()),
        )
        # What a plan asks for may depend on the sizes that it met, so what any plan has asked for counts.
        tables = tuple(dict.fromkeys((*(tables or ()), *counts.tables)))
        self._tables.put(asked, tables)
        self._plans.put((asked, _sizes(tables, facts)), planned)
        return planned


@record
class AskedRead:
    """A read of one state, compiled and planned: all of it that does not depend on its parameters."""

    query: CompiledQuery
    facts: Facts
    planned: PlannedRead


class AskedReads:
    """The reads that were asked of the state that a branch, or a reference, last led to. Threads may share it.

    Asking one of them again costs a look into a dictionary: nothing is compared but the text and the state itself.
    """

    def __init__(self) -> None:
        self._places: LRUCache[Hashable, tuple[LoadedManifest, dict[Hashable, AskedRead]]] = LRUCache(_PLACES)

    def get(self, where: Hashable, manifest: LoadedManifest, key: Hashable) -> AskedRead | None:
        """Return a read that was asked of a state before."""
        found = self._places.get(where)
        return found[1].get(key) if found is not None and found[0] is manifest else None

    def put(self, where: Hashable, manifest: LoadedManifest, key: Hashable, asked: AskedRead) -> None:
        """Remember a read; those of another state in its place are forgotten, and so are all when they are many."""
        found = self._places.get(where)
        if found is None or found[0] is not manifest or len(found[1]) >= _PLANS:
            found = (manifest, {})
            self._places.put(where, found)
        found[1][key] = asked


def _sizes(tables: Iterable[str], facts: Facts) -> tuple[int, ...]:
    counts = facts.row_counts
    return tuple([in_steps(counts.get(table, 0)) for table in tables])
