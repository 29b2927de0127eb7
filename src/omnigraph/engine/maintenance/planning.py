"""What optimizing a branch has to do, table by table. Whoever executes it, here or elsewhere, works from this."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, Protocol

from omnigraph.catalog import Catalog, index_intents
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.maintenance.building import OpenTable, ProjectionJob, build_each
from omnigraph.engine.maintenance.outcomes import ProjectionOutcome
from omnigraph.engine.maintenance.projections import Check
from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.runtime import in_context
from omnigraph.store.location import Storage
from omnigraph.store.projections.keys import is_found_by_keys
from omnigraph.store.staging import BuiltIndex, IndexBuild
from omnigraph.store.staging.compaction import CompactionPolicy, plan_compaction
from omnigraph.store.staging.indexes import SkippedIndex, plan_index
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import (
    IndexWork,
    TableTicket,
    build_segment,
    fragment_sizes,
    index_work,
    merge_segments,
    run_compaction_task,
)
from omnigraph.store.tables.table import Table
from omnigraph.txn.recovery.classify import observe_table
from omnigraph.txn.services import BranchServices
from omnigraph.txn.snapshot import GraphSnapshot, unknown_type
from omnigraph.values import checked_names

SkipReason = Literal["inherited", "drift_needs_repair", "busy"]
IndexAction = Literal["built", "extended", "rebuilt", "removed", "skipped"]
ID_INDEX = "og_id_btree"
# Indexes that no query uses, unless the plan of the table asks for them: full-text and plain vector indexes, which
# earlier versions built, and indexes on ids.
_UNUSED = re.compile(r"og_p[0-9]+_(?P<kind>fulltext|vector)|og_id_(?P<order>btree)")


@record
class CompactionJob:
    """The pieces of compaction that one table needs, upon ``base``."""

    table_key: str
    base: TablePin
    tasks: tuple[str, ...]


@record
class IndexJob:
    """The indexes of one table that are missing or behind, upon ``base``."""

    table_key: str
    base: TablePin
    works: tuple[IndexWork, ...]


@record
class IndexOutcome:
    """What was done about one index; ``reason`` tells why it was left alone."""

    name: str
    column: str
    kind: str
    action: IndexAction
    reason: str | None = None


@record
class TableIndexPlan:
    """The index work of one table, and what becomes of each of its indexes by it."""

    job: IndexJob | None
    outcomes: tuple[IndexOutcome, ...]


def tables_of(snapshot: GraphSnapshot, types: Sequence[str] | None) -> tuple[str, ...]:
    """Return the keys of the wanted tables, all of them when none is named.

    Args:
        snapshot: the state to look at.
        types: names of types, ``Person`` or ``node:Person``.

    Raises:
        TypeMissingError: there is no such type.
    """
    known = tuple(snapshot.state.tables)
    if types is None:
        return known
    wanted = []
    for name in checked_names("types", types):
        found = [key for key in known if name in {key, key.partition(":")[2]}]
        if not found:
            raise unknown_type(name, known)
        wanted += found
    return tuple(dict.fromkeys(wanted))


def reason_to_skip(services: BranchServices, snapshot: GraphSnapshot, table_key: str) -> SkipReason | None:
    """Return why a table must be left alone, if it must.

    What a branch inherits is the business of the branch that owns it. A table that something else has changed is not
    touched before somebody has decided about that.
    """
    pin = snapshot.entry(table_key).pin
    if not services.line.owns(pin):
        return "inherited"
    seen = observe_table(table_key, pin, services.tables)
    return "drift_needs_repair" if seen.is_foreign else None


def plan_table_compaction(table_key: str, table: Table, policy: CompactionPolicy) -> CompactionJob | None:
    """Return the compaction that a table needs, or None."""
    tasks = plan_compaction(table, policy)
    return CompactionJob(table_key=table_key, base=table.pin, tasks=tasks) if tasks else None


def plan_table_indexes(
    table_key: str,
    table: Table,
    builds: Iterable[IndexBuild],
    *,
    group_rows: int,
    max_rows: int | None = None,
) -> TableIndexPlan:
    """Return the index work that a table needs.

    Args:
        table_key: the key of the table.
        table: the version to look at.
        builds: the indexes that it is to have.
        group_rows: rows of a group of fragments at least, for which one segment is built.
        max_rows: leave out indexes that would have to read more rows; None means no limit.
    """
    rows = dict(fragment_sizes(table))
    works: list[IndexWork] = []
    outcomes: list[IndexOutcome] = []
    for build in builds:
        if not table.fragments:
            outcomes.append(_outcome(table, build, None, "no rows"))
            continue
        plan = plan_index(table, build)
        work = None
        if not isinstance(plan, SkippedIndex):
            work = index_work(table, build, group_rows=group_rows, plan=plan)
        reason: str | None = plan.reason if isinstance(plan, SkippedIndex) else None
        if work is not None and max_rows is not None:
            read = sum(rows[number] for group in work.groups for number in group)
            work, reason = (work, None) if read <= max_rows else (None, "large")
        if work is not None:
            works.append(work)
        outcomes.append(_outcome(table, build, work, reason))
    job = None
    if works:
        job = IndexJob(table_key=table_key, base=table.pin, works=tuple(works))
    return TableIndexPlan(job=job, outcomes=tuple(outcomes))


def wanted_indexes(catalog: Catalog, table_key: str, table: Table) -> tuple[IndexBuild, ...]:
    """Return the indexes that a table is to have; none for a table that no type of the schema has.

    No index on ids is built where the keys projection answers lookups.
    """
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    owner = next((owner for owner in owners if owner.table_key == table_key), None)
    if owner is None:
        return ()
    needless = {ID_INDEX} if is_found_by_keys(table) else set[str]()
    return tuple(
        IndexBuild(column=intent.column, kind=intent.kind.value, name=intent.name)
        for intent in index_intents(owner)
        if intent.name not in needless
    )


def unused_indexes(table: Table, builds: Iterable[IndexBuild]) -> tuple[IndexOutcome, ...]:
    """Return the indexes of a table that nothing asks for any more, as removed; ``builds`` are those it is to have."""
    wanted = {build.name for build in builds}
    found = []
    for index in table.indexes():
        named = _UNUSED.fullmatch(index.name)
        if named is not None and index.name not in wanted:
            column = ", ".join(index.columns)
            found.append(
                IndexOutcome(name=index.name, column=column, kind=named["kind"] or named["order"], action="removed")
            )
    return tuple(found)


def is_conflict(error: OmnigraphError) -> str | None:
    """Return the table that stood in the way of a publish, if that is what an error says."""
    key = getattr(error.details, "table_key", None)
    return key if isinstance(key, str) else None


def _outcome(table: Table, build: IndexBuild, work: IndexWork | None, reason: str | None) -> IndexOutcome:
    action: IndexAction = "skipped"
    if work is not None:
        is_known = any(index.name == build.name for index in table.indexes())
        action = "built" if not is_known else "rebuilt" if work.rebuilds else "extended"
    return IndexOutcome(name=build.name, column=build.column, kind=build.kind, action=action, reason=reason)


# Lance lets nobody else use a handle while it builds an index, and handles are shared within a process.
_WORKING = threading.Lock()


class MaintenanceRunner(Protocol):
    """Who does the work. Results come in the order of the jobs."""

    group_rows: int

    def compact(self, jobs: Sequence[CompactionJob]) -> Sequence[tuple[str, ...]]:
        """Write the compacted fragments of every job and say what became of them."""

    def build(self, jobs: Sequence[IndexJob]) -> Sequence[tuple[BuiltIndex, ...]]:
        """Write the index segments of every job."""

    def project(
        self, jobs: Sequence[ProjectionJob], open_table: OpenTable, check: Check
    ) -> Iterable[tuple[ProjectionOutcome, ...]]:
        """Build the projections of every job; what cannot be built is told and raises nothing."""


class LocalRunner:
    """Does the work on threads of this process."""

    # Here nothing is gained by building an index in pieces.
    group_rows = 1 << 62

    def __init__(self, storage: Storage, threads: int) -> None:
        self._storage = storage
        self._threads = max(1, threads)

    def compact(self, jobs: Sequence[CompactionJob]) -> Sequence[tuple[str, ...]]:
        """Write the compacted fragments of every job and say what became of them."""
        with _WORKING, ThreadPoolExecutor(self._threads, thread_name_prefix="omnigraph-optimize") as pool:
            running = [
                [pool.submit(in_context(run_compaction_task), self._ticket(job.base), task) for task in job.tasks]
                for job in jobs
            ]
            return [tuple(piece.result() for piece in pieces) for pieces in running]

    def build(self, jobs: Sequence[IndexJob]) -> Sequence[tuple[BuiltIndex, ...]]:
        """Write the index segments of every job."""
        with _WORKING, ThreadPoolExecutor(self._threads, thread_name_prefix="omnigraph-optimize") as pool:
            running = [pool.submit(in_context(self._build_table), job) for job in jobs]
            return [table.result() for table in running]

    def project(
        self, jobs: Sequence[ProjectionJob], open_table: OpenTable, check: Check
    ) -> Iterable[tuple[ProjectionOutcome, ...]]:
        """Build the projections of every job, one after the other; those who ask share what the tables have open."""
        return build_each(jobs, open_table, check)

    def _build_table(self, job: IndexJob) -> tuple[BuiltIndex, ...]:
        return tuple(self._build_one(job.base, work) for work in job.works)

    def _build_one(self, pin: TablePin, work: IndexWork) -> BuiltIndex:
        ticket = self._ticket(pin)
        segments = [build_segment(ticket, work.build, group) for group in work.groups]
        merged = merge_segments(ticket, work.build, segments)
        return BuiltIndex(build=work.build, segments=(merged,), rebuilds=work.rebuilds)

    def _ticket(self, pin: TablePin) -> TableTicket:
        return TableTicket(storage=self._storage, pin=pin)
