"""How a graph fares: what its tables hold, how well indexes cover them, what could be given back, and what to do.

All of it but the storage is told by the graph's manifest, the pinned version of each table and the headers of
projections, so that it takes as many calls after a million commits as after the first. What is stored takes a look at
every file, when asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.building import ProjectionBounds, ProjectionListing, inputs_of
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.outcomes import named
from omnigraph.engine.maintenance.planning import reason_to_skip, wanted_indexes
from omnigraph.engine.maintenance.projections import wanted_projections
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.inventory import Inventory
from omnigraph.store.staging.compaction import plan_compaction
from omnigraph.store.tables.table import Table
from omnigraph.txn.claims.store import PendingClaim
from omnigraph.txn.claims.watch import OFFER_SUFFIX, RECOVERY_PREFIX, branch_of_key
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.codec import FormatChain
from omnigraph.txn.manifest.file import LOCATION
from omnigraph.txn.recovery.pending import DamagedClaims, pending_claims
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName
from omnigraph.values.counts import counted
from omnigraph.values.formats import STORAGE_FORMAT
from omnigraph.values.printable import Printable

_MANY_STATES = 1000
_MUCH_DEAD = 0.5
# Less than that is not worth a word, whatever part of a small graph it is.
_LITTLE_BYTES = 1 << 20


@record
class IndexStatus:
    """An index that the schema wants, and how many rows of the table it covers; ``is_built`` False: there is none."""

    name: str
    column: str
    kind: str
    is_built: bool
    covered_rows: int


@record
class ProjectionStatus:
    """A projection that a table is to have; ``is_built`` False: there is none that can be read.

    ``prop`` is the property that it is about, ``share`` the part of the published rows that it covers, and ``is_stale``
    tells whether it is far enough behind to be built anew.
    """

    kind: str
    prop: str
    is_built: bool
    bytes: int = 0
    share: float = 0.0
    age_s: float | None = None
    is_stale: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the projection as every result shows it."""
        return {
            "kind": self.kind,
            "property": self.prop or None,
            "built": self.is_built,
            "bytes": self.bytes,
            "covered_share": round(self.share, 4),
            "stale": self.is_stale,
            "age_seconds": None if self.age_s is None else round(self.age_s),
        }

    def __str__(self) -> str:
        name = named(self.kind, self.prop)
        if not self.is_built or self.age_s is None:
            return f"projection {name}: not built"
        # Rounded down: only what covers everything says so.
        covered = f"{math.floor(self.share * 100)}% of the rows"
        return f"projection {name}: {covered}, {self.bytes} bytes, {_aged(self.age_s)} old"


def _aged(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return counted(int(seconds // length), unit)
    return counted(max(0, int(seconds)), "second")


@record
class TableStatus:
    """One table as a branch has it. ``skipped`` says why optimizing would leave it alone.

    ``versions`` counts the stored ones; None unless storage was looked at.
    """

    table_key: str
    rows: int
    deleted_rows: int
    fragments: int
    versions: int | None
    indexes: tuple[IndexStatus, ...]
    can_compact: bool
    skipped: str | None
    projections: tuple[ProjectionStatus, ...] = ()

    def __str__(self) -> str:
        size = f"{counted(self.rows, 'row')}, {counted(self.fragments, 'fragment')}"
        current = sum(index.is_built and index.covered_rows == self.rows for index in self.indexes)
        return f"{self.table_key}: {size}, {current} of {counted(len(self.indexes), 'index', 'indexes')} current"

    def to_json(self) -> dict[str, Any]:
        """Return the table as every result shows it."""
        return {
            "type_key": self.table_key,
            "rows": self.rows,
            "deleted_rows": self.deleted_rows,
            "fragments": self.fragments,
            "versions": self.versions,
            "can_compact": self.can_compact,
            "skipped": self.skipped,
            "indexes": [
                {
                    "name": index.name,
                    "property": index.column,
                    "kind": index.kind,
                    "built": index.is_built,
                    "covered_rows": index.covered_rows,
                }
                for index in self.indexes
            ],
            "projections": [projection.to_json() for projection in self.projections],
        }


@record
class GraphStatus(Printable):
    """A graph at one moment, as one branch sees it.

    ``stored_bytes`` is everything below the root, ``dead_bytes`` what a cleanup that keeps only the newest states could
    remove, None when that cannot be told before a repair; both are None unless storage was looked at. ``pending`` are
    writes under way or waiting to be recovered, ``waiting`` how many writes other processes may publish, because those
    who made them wait, and ``oldest_wait_s`` for how long the first of them has waited. ``projection_bytes`` is what
    the projections of all branches and states take, those that newer ones have replaced too. ``format`` is the storage
    format of the branch.
    """

    branch: BranchName
    head: str
    manifest_version: int
    commits: int
    branches: int
    tags: int
    pending: tuple[str, ...]
    stored_bytes: int | None
    dead_bytes: int | None
    tables: tuple[TableStatus, ...]
    advice: tuple[str, ...]
    projection_bytes: int = 0
    format: int = STORAGE_FORMAT
    waiting: int = 0
    oldest_wait_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the status as every result shows it."""
        return {
            "branch": self.branch,
            "graph_commit_id": self.head,
            "graph_manifest_version": self.manifest_version,
            "internal_schema_version": self.format,
            "commits": self.commits,
            "branches": self.branches,
            "tags": self.tags,
            "pending": list(self.pending),
            "waiting": self.waiting,
            "oldest_wait_seconds": round(self.oldest_wait_s, 3),
            "stored_bytes": self.stored_bytes,
            "dead_bytes": self.dead_bytes,
            "projection_bytes": self.projection_bytes,
            "datasets": [table.to_json() for table in self.tables],
            "advice": list(self.advice),
        }

    def lines(self) -> Iterator[str]:
        """Yield how many commits there are, the state of each table, what is stored, and advice."""
        branches, tags = counted(self.branches, "branch", "branches"), counted(self.tags, "tag")
        yield f"branch {self.branch}: {counted(self.commits, 'commit')}, {branches}, {tags} in the graph"
        for table in self.tables:
            yield str(table)
            yield from (f"  {projection}" for projection in table.projections)
        if self.stored_bytes is not None:
            dead = "an unknown part" if self.dead_bytes is None else f"{self.dead_bytes} bytes"
            yield f"storage: {self.stored_bytes} bytes, {dead} of it in old states and leftovers"
        if self.pending:
            yield f"writes in progress: {len(self.pending)}"
        if self.waiting:
            yield f"queued writes: {self.waiting}, the oldest for {_aged(self.oldest_wait_s)}"
        for line in self.advice or ("no problems found",):
            yield f"advice: {line}" if self.advice else line


def read_status(
    store: GraphStore,
    branch: BranchName,
    catalog: Catalog,
    settings: MaintenanceSettings,
    runtime: Runtime,
    *,
    storage: bool = False,
) -> GraphStatus:
    """Look at a graph; nothing is written.

    Args:
        store: the graph.
        branch: as which branch sees it.
        catalog: the schema of that branch.
        settings: how much of a cleanup runs side by side.
        runtime: whose clock tells how old files are.
        storage: whether to look at every file, too.

    Raises:
        BranchMissingError: there is no such branch.
    """
    snapshot = store.snapshot(branch)
    inventory = Inventory(store.stores.control.list_objects(""), LOCATION) if storage else None
    listing = ProjectionListing(store.tables.datasets.projections)
    bounds = ProjectionBounds(least_rows=settings.projection_rows)
    now_ms = runtime.clock.now_ms()
    projections = partial(_projections, snapshot, catalog, listing, bounds, now_ms)
    tables = tuple(_tables(store, snapshot, catalog, inventory, projections))
    in_flight = store.stores.control.list_objects(RECOVERY_PREFIX)
    pending, told = _in_flight(store, tuple(item.key for item in in_flight if item.key.endswith(".json")))
    # An offer without bytes only keeps the place of one that never came.
    waits = [now_ms - item.modified_ms for item in in_flight if item.size and item.key.endswith(OFFER_SUFFIX)]
    stored = None if inventory is None else _stored_bytes(inventory)
    dead = None if inventory is None else _dead_bytes(store, settings, runtime)
    state = snapshot.state
    return GraphStatus(
        branch=branch,
        head=str(state.head.commit),
        manifest_version=state.version,
        commits=len(store.refs.line_of(snapshot)),
        branches=len(store.branch_names()),
        tags=len(store.tags.names()),
        pending=pending,
        stored_bytes=stored,
        dead_bytes=dead,
        tables=tables,
        advice=(
            *told,
            *_advice(tables),
            *_cleanup_advice(state.version - state.head.retention_floor, stored, dead),
            *_format_advice(store.formats, state.format),
        ),
        projection_bytes=listing.bytes,
        format=state.format,
        waiting=len(waits),
        oldest_wait_s=max([0, *waits]) / 1000,
    )


def _stored_bytes(inventory: Inventory) -> int:
    named = sum(file.object.size for line in inventory.lines.values() for file in line.files)
    return named + sum(item.size for item in inventory.others)


def _dead_bytes(store: GraphStore, settings: MaintenanceSettings, runtime: Runtime) -> int | None:
    try:
        return Cleanup(store, Retention(keep=1), settings, runtime).preview().bytes
    except OmnigraphError:
        # A table that has to be repaired keeps everything.
        return None


def _tables(
    store: GraphStore,
    snapshot: GraphSnapshot,
    catalog: Catalog,
    inventory: Inventory | None,
    projections: Callable[[str], Iterable[ProjectionStatus]],
) -> Iterator[TableStatus]:
    services = store.open_branches.branch_writer(snapshot.state.head.branch).services
    for table_key, entry in snapshot.state.tables.items():
        table = snapshot.table(table_key)
        line = None if inventory is None else inventory.lines.get((entry.pin.location, entry.pin.branch))
        versions = 0 if line is None else len(line.versions)
        skipped = reason_to_skip(services, snapshot, table_key)
        yield TableStatus(
            table_key=table_key,
            rows=table.row_count,
            deleted_rows=sum(item.metadata.physical_rows - item.row_count for item in table.fragments),
            fragments=len(table.fragments),
            versions=None if inventory is None else versions,
            indexes=tuple(_indexes(table, catalog, table_key)),
            can_compact=bool(plan_compaction(table)),
            skipped=skipped,
            projections=tuple(projections(table_key)),
        )


def _projections(
    snapshot: GraphSnapshot,
    catalog: Catalog,
    listing: ProjectionListing,
    bounds: ProjectionBounds,
    now_ms: int,
    table_key: str,
) -> Iterator[ProjectionStatus]:
    """Yield the projections of a table, those that are missing too unless it is too small to need any."""
    for wanted in wanted_projections(catalog, table_key):
        tables = inputs_of(snapshot, wanted)
        for kind in () if tables is None else wanted.kinds:
            found = None if tables is None else listing.best(wanted, kind, tables)
            if found is not None:
                yield ProjectionStatus(
                    kind=kind,
                    prop=wanted.prop,
                    is_built=True,
                    bytes=found.stored.size,
                    share=found.share,
                    age_s=max(0, now_ms - found.stored.modified_ms) / 1000,
                    is_stale=found.is_stale,
                )
            elif tables is not None and bounds.admit(wanted, tables):
                yield ProjectionStatus(kind=kind, prop=wanted.prop, is_built=False)


def _indexes(table: Table, catalog: Catalog, table_key: str) -> Iterator[IndexStatus]:
    known = {index.name: index for index in table.indexes()}
    for build in wanted_indexes(catalog, table_key, table):
        found = known.get(build.name)
        covered = frozenset[int]() if found is None else found.fragment_ids
        yield IndexStatus(
            name=build.name,
            column=build.column,
            kind=build.kind,
            is_built=found is not None,
            covered_rows=sum(item.row_count for item in table.fragments if item.metadata.id in covered),
        )


def _in_flight(store: GraphStore, keys: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys of claims that are in flight, and what is true of each.

    That is whose it is, and whether that process is known to be there; what is published already is not in flight.
    """
    pending: list[str] = []
    told: list[str] = []
    for name in sorted({branch_of_key(key)[0] for key in keys}):
        try:
            branch_writer = store.open_branches.branch_writer(BranchName(name))
            services = branch_writer.services
            claims = pending_claims(services, branch_writer.known())
            damaged = DamagedClaims(services).find()
        except OmnigraphError as error:
            told.append(f"a pending write of branch '{name}' cannot be read: {error.message}")
            pending += [key for key in keys if branch_of_key(key)[0] == name]
            continue
        pending += [services.claims.key(claim.version) for claim in claims] + [claim.file for claim in damaged]
        told += [_told(claim) for claim in claims]
        told += [f"run repair on branch '{name}', which rejects writes: {claim.problem}" for claim in damaged]
    return tuple(pending), tuple(told)


def _told(claim: PendingClaim) -> str:
    article = "an" if claim.kind[:1] in "aeiou" else "a"
    what = f"{article} {claim.kind}"
    told = f"{what} of '{claim.holder}' on branch '{claim.branch}'"
    match claim.state:
        case "alive":
            return f"{told} is in progress"
        case "dead":
            return f"{what} on branch '{claim.branch}' was interrupted; the next open for writing recovers it"
        case _:
            return f"{told} is pending and cannot be checked from this machine; repair ends it if it is abandoned"


def _advice(tables: tuple[TableStatus, ...]) -> Iterator[str]:
    drifted = [table.table_key for table in tables if table.skipped == "drift_needs_repair"]
    if drifted:
        yield f"run repair: {', '.join(drifted)} changed outside omnigraph"
    behind = [
        table.table_key
        for table in tables
        if table.skipped is None
        and (
            table.can_compact
            or any(projection.is_stale for projection in table.projections)
            or any(index.covered_rows < table.rows for index in table.indexes if index.kind not in {"vector", "ann"})
        )
    ]
    if behind:
        yield f"run optimize to read {', '.join(behind)} faster"


def _format_advice(formats: FormatChain, found: int) -> Iterator[str]:
    if formats.is_outdated(found):
        yield (
            f"run migrate: this branch has storage format {found}; with format {formats.newest}, older versions of"
            " omnigraph refuse the graph instead of misreading it"
        )


def _cleanup_advice(old_states: int, stored: int | None, dead: int | None) -> Iterator[str]:
    is_much = stored is not None and dead is not None and dead > max(_LITTLE_BYTES, stored * _MUCH_DEAD)
    if is_much:
        yield f"run cleanup: old states use up to {dead} of {stored} bytes"
    elif old_states > _MANY_STATES:
        yield f"run cleanup: this branch retains {old_states} old states"
