"""Cleanup: giving back the storage of states that nobody may ask for any more.

What is listed is decided upon twice. First to find out what would go; then the floors are recorded on every branch,
which from there on keeps late writers from building upon what goes; and what is removed is what of the first listing
is still not needed after that. Nothing that appeared meanwhile is ever looked at.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import msgspec

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.garbage import Ages, Garbage, NeedsReader, Survey, find_garbage
from omnigraph.engine.maintenance.projection_garbage import find_unused_projections
from omnigraph.engine.maintenance.retention import KeptVersions, LineHistory, Retention, decide_kept, read_histories
from omnigraph.errors import (
    BranchMissingError,
    OmnigraphError,
    StorageCorruptError,
    StorageFault,
    TableDrift,
    TableDriftError,
    TableMissingError,
    VersionMissingError,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.control import StoredObject
from omnigraph.store.inventory import Inventory
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.scratch import SCRATCH_PREFIX
from omnigraph.store.sequence_runs import SEQUENCES_PREFIX, run_key
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.branches.records import DEPENDANTS_PREFIX
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.file import LOCATION
from omnigraph.txn.manifest.merged import MERGES_PREFIX, is_merge, merge_key
from omnigraph.txn.manifest.rows import FloorChange, ManifestState, TableEntry
from omnigraph.txn.publish.retention import record_floor
from omnigraph.txn.recovery.classify import observe_table
from omnigraph.txn.recovery.records import DamagedRecords
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

# Far longer than any writer works without looking at the newest version.
_FENCE_S = 600.0
# How often what stays is looked at again because others delete branches, or clean up themselves.
_LOOKS = 10


@record
class CleanedDataset:
    """What a cleanup removed of one dataset, or would remove. ``error`` says what stood in its way."""

    table_key: str
    old_versions: int
    files: int
    bytes: int
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the dataset as every result shows it."""
        return {
            "type_key": self.table_key,
            "old_versions_removed": self.old_versions,
            "files_removed": self.files,
            "bytes_removed": self.bytes,
            "error": self.error,
        }


@record
class CleanupResult(Printable):
    """What a cleanup did, or would do when ``is_done`` is False.

    ``floors`` tells for every branch the oldest version that stays of its own, ``protected`` which older ones stay and
    what for: (branch, version, why).
    """

    is_done: bool
    datasets: tuple[CleanedDataset, ...]
    floors: Mapping[str, int]
    protected: tuple[tuple[str, int, str], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as every face shows it."""
        return {
            "confirmed": self.is_done,
            "bytes_removed": self.bytes,
            "datasets": [dataset.to_json() for dataset in self.datasets],
            "branches": [{"branch": name, "oldest_version": floor} for name, floor in self.floors.items()],
            "protected": [{"branch": name, "version": version, "by": why} for name, version, why in self.protected],
        }

    def lines(self) -> Iterator[str]:
        """Yield what was removed of each dataset, or would be, and what stays for which reason."""
        verb = "removed" if self.is_done else "would remove"
        for dataset in self.datasets:
            what = f"{counted(dataset.old_versions, 'version')} and {counted(dataset.files, 'file')}"
            done = f"{verb} {what}, {dataset.bytes} bytes"
            yield f"{dataset.table_key}: {done if dataset.error is None else f'failed: {dataset.error}'}"
        if not self.datasets:
            yield "nothing to remove"
        merged = [name for name, _, why in self.protected if why == "merged"]
        if merged:
            # They may be many, and each is as old as the merge that keeps it.
            branches = counted(len(set(merged)), "deleted branch", "deleted branches")
            yield f"retained {counted(len(merged), 'state')} of {branches} for merges"
        for name, version, why in self.protected:
            if why != "merged":
                yield f"retained version {version} of branch {name}: {why}"

    @property
    def bytes(self) -> int:
        """How much storage is given back."""
        return sum(dataset.bytes for dataset in self.datasets)


class Cleanup:
    """One cleanup of a graph."""

    def __init__(
        self, store: GraphStore, retention: Retention, settings: MaintenanceSettings, runtime: Runtime
    ) -> None:
        self._store = store
        self._retention = retention
        self._settings = settings
        self._world = runtime
        self._control = store.stores.control
        self._needs = NeedsReader(store, settings.threads)

    def preview(self) -> CleanupResult:
        """Return what a cleanup would remove; nothing is written.

        Raises:
            TableDriftError: a table was changed by something else, and has to be repaired first.
        """
        ages, inventory = self._ages(self._world.clock.now_ms()), self._list()
        survey = self._survey(inventory, ages)
        return self._result(survey, self._garbage(inventory, survey, ages), is_done=False)

    def run(self) -> CleanupResult:
        """Remove what nothing needs. Whatever interrupts it leaves a whole graph, and the next one goes on.

        Raises:
            TableDriftError: a table was changed by something else, and has to be repaired first.
            ClaimBusyError: writers kept a branch busy for too long; nothing was removed.
        """
        self._store.refresh()
        with self._storage_clock() as now_ms:
            ages, inventory = self._ages(now_ms), self._list()
        survey = self._survey(inventory, ages)
        if not self._garbage(inventory, survey, ages):
            return self._result(survey, {}, is_done=True)
        floors = self._record(survey, inventory, ages)
        self._world.failpoints.hit("engine.cleanup.after_floor")
        self._world.clock.sleep(self._settings.settle_s)
        survey = self._survey(inventory, ages, floors)
        garbage = self._garbage(inventory, survey, ages)
        errors = self._remove(garbage)
        return self._result(survey, garbage, is_done=True, errors=errors)

    def _list(self) -> Inventory:
        return Inventory(self._control.list_objects(""), LOCATION)

    @contextmanager
    def _storage_clock(self) -> Iterator[int]:
        """Give the moment by the clock that stamps objects: clocks of machines may differ from it, and do."""
        key = f"{SCRATCH_PREFIX}/cleanup-{self._world.ids.ulid()}/clock"
        self._control.put(key, b"")
        try:
            (written,) = self._control.list_objects(key.rpartition("/")[0])
            yield written.modified_ms
        finally:
            self._control.delete_prefix(key.rpartition("/")[0])

    def _ages(self, now_ms: int) -> Ages:
        fence_s = max(_FENCE_S, 4 * self._store.stores.settings.grace_s)
        return Ages(unnamed_ms=now_ms - int(self._settings.unnamed_age_s * 1000), fence_ms=now_ms - int(fence_s * 1000))

    def _survey(self, inventory: Inventory, ages: Ages, floors: Mapping[str, int] | None = None) -> Survey:
        DamagedRecords(self._store).refuse_lost_lines()
        looks_left = _LOOKS
        while True:
            looks_left -= 1
            # Before the branches: a line that has no branch by then is seen here.
            lines = self._store.tables.datasets.branches_since(LOCATION, ages.unnamed_ms)
            histories = read_histories(self._store)
            self._world.failpoints.hit("engine.cleanup.after_histories")
            now_ms = self._world.clock.now_ms()
            try:
                starts = self._starts(lines - {history.line.lance_branch for history in histories})
                kept = decide_kept(self._store, histories, self._retention, now_ms, floors, starts)
                if floors is None:
                    self._refuse_drift(kept)
                return self._needs.survey(kept, inventory, ages)
            except (BranchMissingError, StorageCorruptError, TableMissingError, VersionMissingError):
                # Somebody deleted a branch, or let go of older states, after its history was read.
                if not looks_left or _marks(read_histories(self._store)) == _marks(histories):
                    raise

    def _starts(self, lines: Iterable[str]) -> tuple[TablePin, ...]:
        """Return where lines start that no branch has: their creators may have looked at the floor already."""
        datasets, found = self._store.tables.datasets, []
        for line in lines:
            start = datasets.branch_start(LOCATION, line)
            # Its creator may give it up meanwhile.
            with suppress(TableMissingError):
                # A branch that is gone, and was merged, has versions of its own.
                if start is not None and datasets.latest_version(LOCATION, line) == start.version:
                    found.append(start)
        return tuple(found)

    def _refuse_drift(self, kept: Iterable[KeptVersions]) -> None:
        for item in kept:
            for entry in item.history.newest.state.tables.values():
                if item.is_ended or not item.history.line.owns(entry.pin):
                    continue
                seen = observe_table(entry.table_key, entry.pin, self._store.tables)
                if seen.head < entry.pin.version:
                    raise _behind(entry, seen.head)
                if seen.is_foreign:
                    details = TableDrift(table_key=entry.table_key, published=entry.pin.version, head=seen.head)
                    raise TableDriftError(
                        f"table '{entry.table_key}' was changed outside omnigraph:"
                        f" published version {entry.pin.version}, head {seen.head}",
                        details=details,
                    )

    def _garbage(self, inventory: Inventory, survey: Survey, ages: Ages) -> dict[str, Garbage]:
        found = find_garbage(inventory, survey.needs, ages, LOCATION)
        runs: dict[str, list[StoredObject]] = defaultdict(list)
        for item in inventory.below(SCRATCH_PREFIX):
            runs[item.key.split("/")[1]].append(item)
        old = [item for run in runs.values() if _is_old(run, ages) for item in run]
        ended = {
            *self._store.open_branches.refs.leftovers(),
            *self._store.tags.leftovers(),
            *self._store.proposals.leftovers(),
        }
        old += [item for item in inventory.others if item.key in ended and _is_old([item], ages)]
        named = {run_key(name) for name in survey.runs}
        runs_left = (item for item in inventory.below(SEQUENCES_PREFIX) if item.key not in named)
        old += [item for item in runs_left if _is_old([item], ages)]
        old += [item for item in _unused_lineage(self._store, survey.kept, inventory) if _is_old([item], ages)]
        old += find_unused_projections(self._store.tables.datasets.projections, inventory, survey, ages)
        for item in old:
            folder = item.key.partition("/")[0]
            found.setdefault(folder, Garbage(location=folder)).files.append(item)
        return found

    def _record(self, survey: Survey, inventory: Inventory, ages: Ages) -> dict[str, int]:
        """Record on every branch what goes, before anything does."""
        floors = {}
        for item in survey.kept:
            if item.is_ended:
                continue
            name = item.history.line.name
            change = FloorChange(floor=item.floor, swept=_swept(item, inventory, ages))
            try:
                branch_writer = self._store.branch_writer(name)
                decide = partial(_with_forgotten, change, survey.forgotten)
                recorded = record_floor(branch_writer.services, branch_writer.recover_claim, decide)
            except BranchMissingError:
                continue
            floors[str(name)] = recorded.state.head.retention_floor
        return floors

    def _remove(self, garbage: Mapping[str, Garbage]) -> dict[str, str]:
        """Remove versions everywhere, then files; a dataset that fails does not stop the others."""
        errors: dict[str, str] = {}
        for step in ("versions", "files"):
            for location, item in garbage.items():
                keys = [one.key for one in getattr(item, step)]
                if not keys or location in errors:
                    continue
                try:
                    self._control.delete_keys(keys)
                except OmnigraphError as error:
                    errors[location] = error.message
                self._store.tables.forget(location)
                if location == PROJECTIONS_PREFIX:
                    for key in keys:
                        self._store.tables.datasets.projections.forget(key)
                self._world.failpoints.hit("engine.cleanup.after_removal")
        return errors

    def _result(
        self,
        survey: Survey,
        garbage: Mapping[str, Garbage],
        *,
        is_done: bool,
        errors: Mapping[str, str] | None = None,
    ) -> CleanupResult:
        datasets = [
            CleanedDataset(
                table_key=survey.table_keys.get(location, location),
                old_versions=len(item.versions),
                files=len(item.files),
                bytes=item.bytes,
                error=(errors or {}).get(location),
            )
            for location, item in garbage.items()
        ]
        protected = [
            (str(item.history.line.name), version, why)
            for item in survey.kept
            for version, why in sorted(item.spared.items())
            if version < item.floor
        ]
        return CleanupResult(
            is_done=is_done,
            datasets=tuple(sorted(datasets, key=lambda dataset: dataset.table_key)),
            floors={str(item.history.line.name): item.floor for item in survey.kept if not item.is_ended},
            protected=tuple(protected),
        )


def _marks(histories: Iterable[LineHistory]) -> set[tuple[BranchIncarnation, int]]:
    """Return what changes when states that stood in these histories are let go."""
    return {(history.line, history.newest.state.head.retention_floor) for history in histories}


def _behind(entry: TableEntry, head: int) -> StorageCorruptError:
    reason = f"the newest version is {head}, published is {entry.pin.version}"
    details = StorageFault(doing="look for the newest version", location=entry.pin.location, reason=reason)
    message = f"versions of table '{entry.table_key}' at '{entry.pin.location}' are missing: {reason}"
    return StorageCorruptError(message, details=details)


def _is_old(run: Iterable[StoredObject], ages: Ages) -> bool:
    return all(item.modified_ms < ages.unnamed_ms for item in run)


def _swept(item: KeptVersions, inventory: Inventory, ages: Ages) -> int:
    """Return the oldest version of a branch upon which nobody can have uploaded what is old by now."""
    stored = inventory.lines.get((LOCATION, item.history.line.lance_branch))
    versions = {} if stored is None else stored.versions
    young = [number for number, file in versions.items() if file.object.modified_ms >= ages.unnamed_ms]
    return min(young, default=max(versions, default=item.history.newest.state.version) + 1)


def _with_forgotten(change: FloorChange, forgotten: frozenset[str], state: ManifestState) -> FloorChange:
    stones = tuple(stone.object_id for stone in state.tombstones if stone.object_id in forgotten)
    return msgspec.structs.replace(change, forgotten=stones)


# The name of the record of a merge.
_RECORD = re.compile(r"[0-9A-Z]{26}\.[0-9]{1,18}\.json")


def _unused_lineage(store: GraphStore, kept: Sequence[KeptVersions], inventory: Inventory) -> Iterator[StoredObject]:
    """Yield records of merges and marks that nothing needs; how old they are is for the caller to look at.

    Records stay as long as the merge is in a history, as its commit does; only attempts that were not published leave
    some behind. What merged branches have merged themselves is found only by reading records, so these are read when
    there is one that no live branch names.
    """
    merges = [made.merge for item in kept for made in item.history.own if made.merge is not None]
    named = {merge_key(merge.id, merge.manifest_version) for merge in merges}
    unnamed = [
        item
        for item in inventory.below(MERGES_PREFIX)
        if item.key not in named and _RECORD.fullmatch(item.key.rpartition("/")[2])
    ]
    if unnamed:
        inner = (one.commit for one in store.merges.iter_all(merges))
        named |= {merge_key(commit.id, commit.manifest_version) for commit in inner if is_merge(commit)}
    yield from (item for item in unnamed if item.key not in named)
    lines = {item.history.line.incarnation for item in kept}
    yield from (
        item for item in inventory.below(DEPENDANTS_PREFIX) if item.key.split("/")[1].rpartition("~")[2] not in lines
    )
