"""Telling projections that can serve a reader from those that cannot, or that another one serves as well.

Removing one too many costs whoever needs it the time to build it; whoever has it mapped goes on with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from omnigraph.engine.maintenance.garbage import Ages, Survey
from omnigraph.engine.maintenance.retention import KeptVersions
from omnigraph.errors import BranchMissingError, TableMissingError, VersionMissingError
from omnigraph.records import record
from omnigraph.store.control import StoredObject
from omnigraph.store.inventory import Inventory, References
from omnigraph.store.projections.files import (
    PROJECTIONS_PREFIX,
    ProjectionStore,
    StoredProjection,
    stored_projection,
)
from omnigraph.store.projections.format import CoveredTable, Header
from omnigraph.store.tables.table import Table

_NOTHING = References()


@record
class _Candidate:
    """A projection that a retained version could use."""

    object: StoredObject
    stored: StoredProjection
    header: Header


def find_unused_projections(
    store: ProjectionStore, inventory: Inventory, survey: Survey, ages: Ages
) -> tuple[StoredObject, ...]:
    """Return what may go of the projections.

    At once: those of dropped tables, and those of whose fragments no retained version has any. Once they are old: those
    that cannot be read, files under other names, what killed builders left, and those that a newer one replaces.
    """
    try:
        return tuple(_find(store, inventory, survey, ages))
    except (BranchMissingError, TableMissingError, VersionMissingError):
        # A branch was deleted after it was looked at: the next cleanup finds them.
        return ()


def _find(store: ProjectionStore, inventory: Inventory, survey: Survey, ages: Ages) -> Iterator[StoredObject]:
    places = {location for (location, _), versions in survey.needs.versions.items() if versions}
    useful: dict[tuple[str, str, str], list[_Candidate]] = defaultdict(list)
    for item in inventory.below(PROJECTIONS_PREFIX):
        found, is_old = stored_projection(item), item.modified_ms < ages.unnamed_ms
        if found.is_known and found.location in places:
            header = store.header_of(found)
            if header is not None and _is_reachable(header, survey.needs.references):
                useful[found.location, found.kind, found.of].append(
                    _Candidate(object=item, stored=found, header=header)
                )
                continue
            is_old |= header is not None
        if is_old or found.location in survey.needs.dropped:
            yield item
    for candidates in useful.values():
        yield from _replaced(candidates, survey.kept, ages)
    yield from (item for item in store.leftovers() if item.modified_ms < ages.unnamed_ms)


def _is_reachable(header: Header, references: Mapping[str, References]) -> bool:
    """Whether some retained version has a fragment of each table that the projection covers."""
    return all(
        not table.fragments
        or any(_names(fragment.files) <= references.get(table.location, _NOTHING).data for fragment in table.fragments)
        for table in header.tables
    )


def _replaced(candidates: Sequence[_Candidate], kept: Sequence[KeptVersions], ages: Ages) -> Iterator[StoredObject]:
    """Yield old projections of one kind beside which a newer one covers at least as much of every branch."""
    newest = sorted(candidates, key=lambda one: (-one.object.modified_ms, one.object.key))
    old = [one for one in newest[1:] if one.object.modified_ms < ages.unnamed_ms]
    if not old:
        return
    heads = _heads(kept, {table.location for one in newest for table in one.header.tables})
    reach = {one.object.key: _reach(one.header, heads) for one in newest}
    for one in old:
        mine = reach[one.object.key]
        if mine and any(_covers(reach[other.object.key], mine) for other in newest[: newest.index(one)]):
            yield one.object


def _heads(kept: Iterable[KeptVersions], locations: Collection[str]) -> dict[str, list[Table]]:
    """Return the newest version of tables on every branch, by their place."""
    found: dict[str, list[Table]] = defaultdict(list)
    for item in kept:
        newest = item.history.newest
        for table_key, entry in newest.state.tables.items():
            if not item.is_ended and entry.pin.location in locations:
                found[entry.pin.location].append(newest.table(table_key))
    return found


def _reach(header: Header, heads: Mapping[str, Sequence[Table]]) -> dict[tuple[str, int, int], int]:
    """Return how many rows a projection covers of each of its tables on each branch."""
    return {
        (table.location, at, number): _covered_rows(table, head)
        for at, table in enumerate(header.tables)
        for number, head in enumerate(heads.get(table.location, ()))
    }


def _covered_rows(covered: CoveredTable, head: Table) -> int:
    by_file = {file: frozenset(fragment.files) for fragment in covered.fragments for file in fragment.files}
    rows = 0
    for fragment in head.fragments:
        files = frozenset(fragment.files)
        if any(by_file[file] <= files for file in files if file in by_file):
            rows += fragment.row_count
    return rows


def _covers(one: Mapping[tuple[str, int, int], int], other: Mapping[tuple[str, int, int], int]) -> bool:
    return one.keys() == other.keys() and all(one[key] >= rows for key, rows in other.items())


def _names(files: Iterable[str]) -> frozenset[str]:
    return frozenset(file.rpartition("/")[2].removesuffix(".lance") for file in files)
