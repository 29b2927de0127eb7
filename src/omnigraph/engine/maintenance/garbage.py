"""Telling what nothing needs any more from what something needs, or may be about to need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from omnigraph.engine.maintenance.retention import KeptVersions
from omnigraph.errors import OmnigraphError, StorageCorruptError, StorageFault, TableMissingError
from omnigraph.records import record
from omnigraph.runtime import in_context
from omnigraph.store.control import StoredObject
from omnigraph.store.inventory import FileKind, Inventory, References, StoredFile, StoredLine, references_of
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.file import LOCATION
from omnigraph.txn.manifest.rows import ManifestState

Place = tuple[str, str | None]

_HINT = "latest_version_hint.json"
_NOTHING = References()


@record
class Needs:
    """What must stay.

    Args:
        versions: the versions that stay, by dataset and line.
        newest: the newest published version of each line that a live branch writes to; whatever is past it may be
            in the window of a writer.
        references: the files that those versions need, by dataset.
        known_dead: the files that only versions that go have named, by dataset; they need not be old to go.
        dropped: datasets of dropped types that no state holds any more.
    """

    versions: Mapping[Place, Collection[int]]
    newest: Mapping[Place, int]
    references: Mapping[str, References]
    known_dead: Mapping[str, References] = field(default_factory=dict)
    dropped: Collection[str] = ()


@record
class Ages:
    """Moments by the clock of the store.

    ``unnamed_ms``: a file that nothing has ever named may belong to a write that is under way unless it is older.
    ``fence_ms``: an older version of the manifest cannot be what a stalled writer is about to make.
    """

    unnamed_ms: int
    fence_ms: int


@record(frozen=False)
class Garbage:
    """What may be removed of one dataset: its versions first, so that none of them names files that are gone."""

    location: str
    versions: list[StoredObject] = field(default_factory=list)
    files: list[StoredObject] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """How much storage it takes."""
        return sum(item.size for item in (*self.versions, *self.files))

    def __bool__(self) -> bool:
        return bool(self.versions or self.files)


def find_garbage(inventory: Inventory, needs: Needs, ages: Ages, manifest: str) -> dict[str, Garbage]:
    """Return what may go, by dataset; datasets without garbage are left out."""
    found: dict[str, Garbage] = {}
    for (location, branch), line in inventory.lines.items():
        garbage = found.setdefault(location, Garbage(location=location))
        if needs.versions.get((location, branch)):
            _sort_live(line, needs, ages, garbage, is_manifest=location == manifest)
        elif location in needs.dropped or line.newest_ms < ages.unnamed_ms:
            _sort_dead(line, needs, garbage, inventory)
    return {location: garbage for location, garbage in found.items() if garbage}


def _sort_live(line: StoredLine, needs: Needs, ages: Ages, garbage: Garbage, *, is_manifest: bool) -> None:
    place = line.location, line.branch
    kept, top = needs.versions[place], needs.newest.get(place, max(needs.versions[place]))
    for file in line.files:
        is_old = file.object.modified_ms < ages.unnamed_ms
        if file.kind is FileKind.VERSION or (file.kind is FileKind.RECORD and file.version is not None):
            is_over = file.version is not None and file.version < top and file.version not in kept
            # While the number is taken, no writer that is late can take it for free.
            if is_over and (not is_manifest or file.object.modified_ms < ages.fence_ms):
                (garbage.versions if file.kind is FileKind.VERSION else garbage.files).append(file.object)
        elif file.kind is FileKind.OTHER or file.kind is FileKind.RECORD:
            if is_old and file.name != _HINT:
                garbage.files.append(file.object)
        elif not _is_named(file, needs.references.get(line.location, _NOTHING)) and (
            is_old or _is_named(file, needs.known_dead.get(line.location, _NOTHING))
        ):
            garbage.files.append(file.object)


def _sort_dead(line: StoredLine, needs: Needs, garbage: Garbage, inventory: Inventory) -> None:
    """A line that no state places anything on: all of it goes but files that another line lists."""
    references = needs.references.get(line.location, _NOTHING)
    for file in line.files:
        if file.kind is FileKind.VERSION:
            garbage.versions.append(file.object)
        elif not _is_named(file, references):
            garbage.files.append(file.object)
    ref = None if line.branch is None else inventory.refs.get((line.location, line.branch))
    if ref is not None:
        garbage.files.append(ref)


def _is_named(file: StoredFile, references: References) -> bool:
    match file.kind:
        case FileKind.DATA:
            return file.name in references.data
        case FileKind.DELETIONS:
            return file.name in references.deletions
        case FileKind.INDEX:
            return file.name in references.indexes
        case _:
            return False


@record
class Survey:
    """What stays of a graph.

    ``table_keys`` names datasets by the type whose rows they hold. ``forgotten`` are the ids of dropped tables that no
    state that stays has, and that have no files. ``runs`` are the names of the runs of sequences that states need, and
    that reverts of their commits would.
    """

    kept: tuple[KeptVersions, ...]
    needs: Needs
    table_keys: Mapping[str, str]
    forgotten: frozenset[str]
    runs: frozenset[str] = frozenset()


class NeedsReader:
    """Reads states and versions, each of them once."""

    def __init__(self, store: GraphStore, threads: int) -> None:
        self._store = store
        self._threads = max(1, threads)
        self._states: dict[TablePin, ManifestState] = {}
        self._references: dict[TablePin, References] = {}

    def survey(self, kept: Sequence[KeptVersions], inventory: Inventory, ages: Ages) -> Survey:
        """Return what the given versions need.

        Raises:
            OmnigraphError: a version that must stay cannot be read; the message names its branch.
        """
        manifests = {pin: item for item in kept for pin in _manifest_pins(item, inventory)}
        self._load_states(manifests)
        states = [self._states[pin] for pin in manifests if pin in self._states]
        versions: dict[Place, set[int]] = defaultdict(set)
        for pin in (*manifests, *(entry.pin for state in states for entry in state.tables.values())):
            versions[pin.location, pin.branch].add(pin.version)
        newest = _newest(kept, inventory)
        for item in kept:
            place = LOCATION, item.history.line.lance_branch
            if item.is_ended and place in inventory.lines:
                # The last version says that the branch is gone.
                versions[place].add(max(_stored_versions(inventory, place)))
        # What landed and is not published is in somebody's window, or will be undone by looking at it.
        for place, top in newest.items():
            versions[place].update(v for v in _stored_versions(inventory, place) if v > top)
        live = [_pin(place, version) for place, found in versions.items() for version in found]
        dead = list(_young_dead(inventory, versions, newest, ages))
        self._load_references([*live, *dead], spare={*dead, *self._optional_pins(manifests)})
        stones = [stone for item in kept for stone in item.history.newest.state.tombstones]
        held = {entry.object_id for state in states for entry in state.tables.values()}
        places = {location for location, _ in versions}
        needs = Needs(
            versions=versions,
            newest=newest,
            references=self._united(live),
            known_dead=self._united(dead),
            dropped=frozenset(stone.pin.location for stone in stones if stone.pin.location not in places),
        )
        table_keys = {stone.pin.location: stone.table_key for stone in stones}
        table_keys |= {entry.pin.location: entry.table_key for state in states for entry in state.tables.values()}
        # A dropped table is remembered until its files are gone: whoever finishes an interrupted cleanup looks for it.
        present = {location for location, _ in inventory.lines}
        forgotten = frozenset(
            stone.object_id for stone in stones if stone.object_id not in held and stone.pin.location not in present
        )
        states += [item.history.newest.state for item in kept]
        runs = frozenset(name for state in states for name in _runs(state))
        return Survey(kept=tuple(kept), needs=needs, table_keys=table_keys, forgotten=forgotten, runs=runs)

    def _load_states(self, manifests: Mapping[TablePin, KeptVersions]) -> None:
        def load(pin: TablePin) -> ManifestState | None:
            item = manifests[pin]
            try:
                line, branches = item.history.line, self._store.open_branches
                if item.is_ended:
                    return branches.load_ended(line, pin.version).state
                return branches.load_version(line.name, pin.version).state
            except OmnigraphError as error:
                if item.is_optional(pin.version):
                    return None
                error.add_note(f"branch={item.history.line.name} version={pin.version}")
                raise

        missing = [pin for pin in manifests if pin not in self._states]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="omnigraph-cleanup") as pool:
            for pin, state in zip(missing, pool.map(in_context(load), missing), strict=True):
                if state is not None:
                    self._states[pin] = state

    def _optional_pins(self, manifests: Mapping[TablePin, KeptVersions]) -> set[TablePin]:
        """Return what only states need that may be gone."""
        needed: dict[bool, set[TablePin]] = {True: set(), False: set()}
        for pin, item in manifests.items():
            state = self._states.get(pin)
            pins = {pin} if state is None else {pin, *(entry.pin for entry in state.tables.values())}
            needed[item.is_optional(pin.version)] |= pins
        return needed[True] - needed[False]

    def _load_references(self, pins: Iterable[TablePin], *, spare: Collection[TablePin]) -> None:
        datasets = self._store.tables.datasets

        def load(pin: TablePin) -> References:
            try:
                return references_of(datasets, pin)
            except TableMissingError:
                # Another cleanup was faster: what it left of the files goes when it is old.
                if pin in spare:
                    return References()
                raise _version_lost(pin) from None

        missing = [pin for pin in dict.fromkeys(pins) if pin not in self._references]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="omnigraph-cleanup") as pool:
            self._references.update(zip(missing, pool.map(in_context(load), missing), strict=True))

    def _united(self, pins: Iterable[TablePin]) -> dict[str, References]:
        found: dict[str, list[References]] = defaultdict(list)
        for pin in pins:
            found[pin.location].append(self._references[pin])
        return {location: References.union(items) for location, items in found.items()}


def _runs(state: ManifestState) -> Iterator[str]:
    for known in state.sequences.values():
        yield from known.names
    for commit in state.recent:
        yield from (run.name for mark in commit.sequences for run in mark.own)


def _version_lost(pin: TablePin) -> StorageCorruptError:
    """Return the error for a version that a state needs which stays."""
    folder = pin.location if pin.branch is None else f"{pin.location}/tree/{pin.branch}"
    details = StorageFault(doing="read what a version needs", location=folder, reason=f"no version {pin.version}")
    return StorageCorruptError(f"stored version {pin.version} of '{folder}' is missing", details=details)


def _manifest_pins(item: KeptVersions, inventory: Inventory) -> Iterator[TablePin]:
    place = LOCATION, item.history.line.lance_branch
    listed = _stored_versions(inventory, place)
    newest = item.history.newest.state.version
    # A version that is younger than the listing is there, and was made upon those that are.
    since = range(max(listed, default=newest - 1) + 1, newest + 1)
    for version in sorted({*listed, *since}):
        # Another cleanup may take those that came since, and whatever they name goes after them, not before.
        if item.keeps(version) or version in since or version == newest:
            yield _pin(place, version)


def _newest(kept: Sequence[KeptVersions], inventory: Inventory) -> dict[Place, int]:
    newest: dict[Place, int] = {}
    for item in kept:
        line, state = item.history.line, item.history.newest.state
        manifest = LOCATION, line.lance_branch
        newest[manifest] = state.version
        own = [(entry.pin.location, entry.pin.branch) for entry in state.tables.values() if line.owns(entry.pin)]
        newest.update(
            {
                (entry.pin.location, entry.pin.branch): entry.pin.version
                for entry in state.tables.values()
                if line.owns(entry.pin)
            }
        )
        if item.is_ended:
            # Nothing is written to it any more, so what lies behind the newest state that stays is in no window.
            newest |= {place: max(_stored_versions(inventory, place), default=0) + 1 for place in own}
            newest[manifest] = max(_stored_versions(inventory, manifest), default=state.version)
    return newest


def _young_dead(
    inventory: Inventory, versions: Mapping[Place, set[int]], newest: Mapping[Place, int], ages: Ages
) -> Iterator[TablePin]:
    """Yield versions that go and are young: only they can have named files that are young."""
    for place, line in inventory.lines.items():
        top = newest.get(place)
        for version, file in line.versions.items():
            is_kept = version in versions.get(place, ()) or (top is not None and version >= top)
            if versions.get(place) and not is_kept and file.object.modified_ms >= ages.unnamed_ms:
                yield _pin(place, version)


def _stored_versions(inventory: Inventory, place: Place) -> Sequence[int]:
    line = inventory.lines.get(place)
    return () if line is None else tuple(line.versions)


def _pin(place: Place, version: int) -> TablePin:
    return TablePin(location=place[0], branch=place[1], version=version)
