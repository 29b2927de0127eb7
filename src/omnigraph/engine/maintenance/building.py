"""Building projections: which are missing or too far behind, and making those.

A projection is derived: building one makes no commit, changes no answer, and what it cannot do it leaves. A base that
covers all but a tenth of the published rows serves readers well enough, as they add the rest by themselves.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from omnigraph.catalog import Catalog
from omnigraph.engine.maintenance.outcomes import ProjectionFigures, ProjectionOutcome
from omnigraph.engine.maintenance.projections import Check, WantedProjection, builder_of, wanted_projections
from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.store.projections.coverage import match
from omnigraph.store.projections.files import ProjectionStore, StoredProjection
from omnigraph.store.projections.format import Header
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.store import TableStore
from omnigraph.store.tables.table import Table
from omnigraph.txn.snapshot import GraphSnapshot

# A base that differs by more than this part of it from what is published is built anew.
STALE_SHARE = 0.1
_NOT_KEPT = "could not be written"
_log = logging.getLogger(__name__)

OpenTable = Callable[[TablePin], Table]


@record
class ProjectionBounds:
    """Which tables get projections: those of ``least_rows``, as smaller ones are read as quickly without.

    ``most_rows`` is how many rows may be read for one, ``most_bytes`` how much memory may be taken for one; None means
    no limit.
    """

    least_rows: int
    most_rows: int | None = None
    most_bytes: int | None = None

    def admit(self, wanted: WantedProjection, tables: Sequence[Table]) -> bool:
        """Whether a projection is made from these tables, its own first."""
        if tables[0].row_count < max(1, self.least_rows, wanted.least_rows):
            return False
        rows = sum(table.row_count for table in tables)
        if self.most_bytes is not None and rows * wanted.row_bytes > self.most_bytes:
            return False
        return self.most_rows is None or rows <= self.most_rows


@record
class ProjectionJob:
    """A projection to build, and the versions of the tables that it is made from."""

    wanted: WantedProjection
    pins: tuple[TablePin, ...]


@record
class KnownProjection:
    """A stored projection beside a version of its tables.

    Args:
        stored: its file.
        header: what it says about itself.
        share: the part of the version's rows that it covers; the least of its tables.
        change: how much a reader has to add and to hide, as a part of what it covers; the most of its tables.
    """

    stored: StoredProjection
    header: Header
    share: float
    change: float

    @property
    def is_stale(self) -> bool:
        """Whether it is far enough behind to be built anew."""
        return self.change > STALE_SHARE


class ProjectionListing:
    """The projections of a graph at one moment: one listing, and the headers of those that are asked for."""

    def __init__(self, store: ProjectionStore) -> None:
        self._store = store
        self._found: dict[tuple[str, str, str], list[StoredProjection]] = defaultdict(list)
        for item in store.list_all():
            self._found[item.location, item.kind, item.of].append(item)

    @property
    def bytes(self) -> int:
        """What all files take."""
        return sum(item.size for items in self._found.values() for item in items)

    def best(self, wanted: WantedProjection, kind: str, tables: Sequence[Table]) -> KnownProjection | None:
        """Return the stored projection that is nearest to a version; None when there is none that can be read.

        Args:
            wanted: what it is made from.
            kind: which structure.
            tables: the version of each of its inputs.
        """
        items = self._found.get((tables[0].pin.location, kind, wanted.of(tables[0])), [])
        newest = sorted(items, key=lambda item: (-item.modified_ms, item.key))
        known = [found for item in newest if (found := self._compare(item, wanted, tables)) is not None]
        return min(known, key=lambda found: found.change, default=None)

    def _compare(
        self, item: StoredProjection, wanted: WantedProjection, tables: Sequence[Table]
    ) -> KnownProjection | None:
        header = self._store.header_of(item)
        if header is None or not builder_of(wanted).is_usable(header.facts):
            return None
        if [one.location for one in header.tables] != [one.pin.location for one in tables]:
            return None
        shares, changes = [], []
        for covered, needed, table in zip(header.tables, wanted.inputs, tables, strict=True):
            found = match(covered, table, needed.columns)
            added = sum(table.fragments[index].row_count for index in found.uncovered)
            lost = sum(stop - start for start, stop in found.lost)
            hidden = lost if needed.holds_deleted else len(found.gone_places)
            shares.append(1.0 - added / table.row_count if table.row_count else 1.0)
            changes.append((added + hidden) / max(1, covered.row_count))
            if needed.most_uncovered is not None and added > needed.most_uncovered:
                changes.append(math.inf)
        return KnownProjection(stored=item, header=header, share=min(shares), change=max(changes))


def inputs_of(snapshot: GraphSnapshot, wanted: WantedProjection) -> tuple[Table, ...] | None:
    """Return the tables that a projection is made from, as a state has them; None when one of them is not there."""
    keys = [needed.table_key for needed in wanted.inputs]
    if any(snapshot.state.table(key) is None for key in keys):
        return None
    return tuple(snapshot.table(key) for key in keys)


def plan_projections(
    catalog: Catalog,
    snapshot: GraphSnapshot,
    table_keys: Iterable[str],
    store: ProjectionStore,
    bounds: ProjectionBounds,
) -> tuple[ProjectionJob, ...]:
    """Return what has to be built for tables of a state: what is missing, or covers too little of it.

    Args:
        catalog: the schema of the state.
        snapshot: the state.
        table_keys: which tables.
        store: what there is.
        bounds: tables of how many rows are looked at.

    Raises:
        OmnigraphError: the store cannot be read.
    """
    wanted = [one for key in table_keys for one in wanted_projections(catalog, key)]
    if not wanted:
        return ()
    listing = ProjectionListing(store)
    jobs = []
    for one in wanted:
        tables = inputs_of(snapshot, one)
        if tables is None or not bounds.admit(one, tables):
            continue
        known = [listing.best(one, kind, tables) for kind in one.kinds]
        if any(found is None or found.is_stale for found in known):
            jobs.append(ProjectionJob(wanted=one, pins=tuple(table.pin for table in tables)))
    return tuple(jobs)


def measure_projections(
    catalog: Catalog, snapshot: GraphSnapshot, store: ProjectionStore, bounds: ProjectionBounds
) -> ProjectionFigures:
    """Return what the projections of a graph take, and how well they cover a state.

    Raises:
        OmnigraphError: the store cannot be read.
    """
    listing, shares = ProjectionListing(store), [1.0]
    for one in (one for key in snapshot.state.tables for one in wanted_projections(catalog, key)):
        tables = inputs_of(snapshot, one)
        if tables is not None and bounds.admit(one, tables):
            known = (listing.best(one, kind, tables) for kind in one.kinds)
            shares += [0.0 if found is None else found.share for found in known]
    return ProjectionFigures(bytes=listing.bytes, share=min(shares))


def build_projection(job: ProjectionJob, open_table: OpenTable, check: Check) -> tuple[ProjectionOutcome, ...]:
    """Build what a job asks for.

    Raises:
        OmnigraphError, OSError, MemoryError: the tables cannot be read, or memory does not suffice.
    """
    wanted = job.wanted
    tables = [open_table(pin) for pin in job.pins]
    built = [one for one in builder_of(wanted).build(tables, wanted.prop, check) if one is not None]
    rows = tables[0].row_count
    done = {
        one.header.kind: ProjectionOutcome(
            kind=one.header.kind, table_key=wanted.table_key, prop=wanted.prop, rows=rows, bytes=one.header.body_bytes
        )
        for one in built
    }
    return tuple(done.get(kind) or _failed(job, kind, _NOT_KEPT) for kind in wanted.kinds)


def build_each(
    jobs: Iterable[ProjectionJob], open_table: OpenTable, check: Check
) -> Iterator[tuple[ProjectionOutcome, ...]]:
    """Build one after the other, as each takes memory; what fails is told and stops no other."""
    for job in jobs:
        try:
            yield build_projection(job, open_table, check)
        except (OmnigraphError, OSError, MemoryError) as error:
            _log.warning("projection of '%s' was not built: %s", job.wanted.table_key, error)
            reason = error.message if isinstance(error, OmnigraphError) else str(error) or type(error).__name__
            yield tuple(_failed(job, kind, reason) for kind in job.wanted.kinds)


def build_after_load(
    catalog: Catalog,
    snapshot: GraphSnapshot,
    table_keys: Iterable[str],
    stores: TableStore,
    bounds: ProjectionBounds,
) -> tuple[ProjectionOutcome, ...]:
    """Build the projections that tables lack after a load; return what became of them, and raise nothing."""
    try:
        store = stores.datasets.projections
        with snapshot.reading():
            jobs = plan_projections(catalog, snapshot, table_keys, store, bounds)
            return tuple(one for outcomes in build_each(jobs, stores.open, lambda _: None) for one in outcomes)
    except OmnigraphError as error:
        _log.warning("projections were not built: %s", error)
        return ()


class BuildStopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """Raised inside a build that was cancelled; maintenance catches it."""


def stopping(is_stopped: Callable[[], bool]) -> Check:
    """Return a check that ends a build when ``is_stopped`` says so."""

    def check(_: int = 0) -> None:
        if is_stopped():
            raise BuildStopped

    return check


def _failed(job: ProjectionJob, kind: str, reason: str) -> ProjectionOutcome:
    wanted = job.wanted
    return ProjectionOutcome(kind=kind, table_key=wanted.table_key, prop=wanted.prop, rows=0, bytes=0, error=reason)
