"""Replaceable datasets: every version is one strict overwrite of the version before it, so one writer wins each.

Lance creates a branch in two steps, first its tree of versions, then the ref that names it. A crash in between
leaves a tree without a ref, which Lance can neither use nor remove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
from lance import LanceDataset, LanceOperation

from omnigraph.errors import (
    AlreadyExistsError,
    CompareAndSwapLostError,
    Effect,
    HeadMoved,
    InternalError,
    OmnigraphError,
    TableRef,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime, current_counters
from omnigraph.store.control import ControlObjects
from omnigraph.store.handles import SCAN_STAGES, CacheSizes, Handles, apart, metered
from omnigraph.store.location import Storage
from omnigraph.store.projections.files import ProjectionStore
from omnigraph.store.projections.segments import KeyMemory
from omnigraph.store.tables.pins import FragmentRef, TablePin
from omnigraph.store.tables.tail import TailCache
from omnigraph.store.tables.writing import plain_schema, write_into, write_new
from omnigraph.store.transactions import fresh_uuid, land, land_creation, transaction_of
from omnigraph.store.translate import FaultKind, fault_of, translating
from omnigraph.store.versions import VersionFiles

# Opening the source, the branch's transaction and manifest, looking at the source twice more, and the ref: each of
# these calls waits for the one before it.
_CREATE_STAGES = 7
_REFS = "_refs/branches"


class _LanceRef(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a branch ref of Lance that are read here."""

    parent_version: int
    parent_branch: str | None = None


class Branches:
    """The branches of a graph's datasets.

    Two creators of one name at the same moment are told apart only when the first has written its ref. Whoever
    creates a branch must therefore hold a claim on its name, or use a name that nobody else can come up with.
    """

    def __init__(self, handles: Handles, control: ControlObjects) -> None:
        self._handles = handles
        self._control = control

    def create(self, source: TablePin, new_branch: str) -> LanceDataset:
        """Create ``new_branch`` at a pinned version and return its handle, which stands at the same version number.

        Raises:
            AlreadyExistsError: a branch of that name is there.
        """
        handle = self._handles.open(source)
        target = TablePin(location=source.location, branch=new_branch, version=source.version)
        outcome = self._try_create(handle, target)
        if outcome is FaultKind.BRANCH_TREE_EXISTS and not self.exists(source.location, new_branch):
            self._control.delete_prefix(_tree(source.location, new_branch))
            outcome = self._try_create(handle, target)
        if isinstance(outcome, LanceDataset):
            return self._handles.remember(target, outcome)
        if outcome is FaultKind.EXISTS:
            # A ref without a tree: Lance has written the missing tree before it met the ref, so the branch is whole.
            return self._handles.open(target)
        raise AlreadyExistsError(
            f"branch '{new_branch}' of '{source.location}' already exists",
            details=TableRef(location=source.location, branch=new_branch),
        )

    def exists(self, location: str, branch: str) -> bool:
        """Whether a ref of that name exists; one call."""
        return self._control.exists(branch_ref_file(location, branch))

    def delete(self, location: str, branch: str) -> None:
        """Remove the ref, and with it the branch, then its files; harmless when either is gone.

        Lance's own delete reads every branch to find children. Callers know from the manifest that there are none.
        """
        self._control.delete(branch_ref_file(location, branch))
        self._handles.forget(location, branch)
        self._control.delete_prefix(_tree(location, branch))

    def written(self, location: str) -> Mapping[str, int]:
        """Return the branches of a dataset, and when each was created by the clock of the store; one listing."""
        folder = f"{location}/{_REFS}"
        found = self._control.list_objects(folder)
        names = (unquote(item.key.removeprefix(f"{folder}/").removesuffix(".json")) for item in found)
        return {name: item.modified_ms for name, item in zip(names, found, strict=True)}

    def start(self, location: str, branch: str) -> TablePin | None:
        """Return the version that a branch was created at; None when the branch is gone, or its ref is torn."""
        data = self._control.get(branch_ref_file(location, branch))
        try:
            ref = msgspec.json.decode(data or b"", type=_LanceRef)
        except msgspec.MsgspecError:
            # Its creator died.
            return None
        return TablePin(location=location, branch=ref.parent_branch, version=ref.parent_version)

    def _try_create(self, handle: LanceDataset, target: TablePin) -> LanceDataset | FaultKind:
        # The listing that opens the new tree is missing from the statistics of the handle.
        current_counters().add_calls("lance.read")
        current_counters().add_serial_stages()
        with (
            translating("create a branch", target.location, effect=Effect.UNKNOWN),
            metered(handle, at_most=_CREATE_STAGES),
        ):
            try:
                return apart(handle).create_branch(
                    str(target.branch), target.version, storage_options=self._handles.options or None
                )
            except (OSError, ValueError) as error:
                fault = fault_of(error)
                if fault not in {FaultKind.EXISTS, FaultKind.BRANCH_TREE_EXISTS, FaultKind.CONFLICT}:
                    raise
                return fault


def branch_ref_file(location: str, branch: str) -> str:
    """Return where Lance keeps the ref of a branch, below the graph's root."""
    return f"{location}/{_REFS}/{quote(branch, safe='')}.json"


def _tree(location: str, branch: str) -> str:
    return f"{location}/tree/{branch}"


@record
class ReplaceableDataset:
    """One version of a dataset: what it consists of, and how to read it."""

    pin: TablePin
    fragments: tuple[FragmentRef, ...]
    schema: pa.Schema
    handle: LanceDataset = field(repr=False, compare=False)

    @property
    def location(self) -> str:
        """Where the dataset lives below the root."""
        return self.pin.location

    @property
    def branch(self) -> str | None:
        """The Lance branch; ``None`` is main."""
        return self.pin.branch

    @property
    def version(self) -> int:
        """The version on its branch."""
        return self.pin.version


class DatasetStore:
    """The datasets of one graph, behind one shared Lance session and one cache of open handles."""

    def __init__(self, storage: Storage, runtime: Runtime, caches: CacheSizes | None = None) -> None:
        self.storage = storage
        self.runtime = runtime
        self.control = ControlObjects(storage)
        self.handles = Handles(storage, caches)
        self.versions = VersionFiles(storage)
        self.tails = TailCache()
        self.projections = ProjectionStore(self.control, runtime.failpoints)
        self.keys = KeyMemory()
        self._branches = Branches(self.handles, self.control)

    def create(
        self,
        location: str,
        schema: pa.Schema,
        tables: Iterable[pa.Table],
        properties: Mapping[str, str],
        *,
        before_landing: Callable[[TablePin, Sequence[FragmentRef]], None] | None = None,
    ) -> ReplaceableDataset:
        """Create a dataset with one fragment per table, unless there is one.

        Args:
            location: where it goes.
            schema: its columns.
            tables: its rows; a table is asked for when the one before it is written.
            properties: what its first version says about itself.
            before_landing: told what the first version will consist of before there is one.

        Raises:
            AlreadyExistsError: there is one, or another creator was faster.
        """
        staged = [fragment for table in tables for fragment in write_new(self.handles, location, table, schema)[0]]
        if before_landing is not None:
            pin = TablePin(location=location, branch=None, version=1)
            before_landing(pin, [FragmentRef.of(fragment) for fragment in staged])
        transaction = transaction_of(
            LanceOperation.Overwrite(schema, staged),
            read_version=0,
            identity=fresh_uuid(self.runtime),
            properties=properties,
        )
        if not land_creation(self.handles, location, transaction):
            raise _exists(location)
        return self.open_version(location, None, 1)

    def open_latest(self, location: str, branch: str | None) -> ReplaceableDataset:
        """Open the newest version.

        Raises:
            TableMissingError: no such dataset or branch.
        """
        pin, handle = self.handles.open_latest(location, branch)
        return _dataset(pin, handle)

    def open_version(self, location: str, branch: str | None, version: int) -> ReplaceableDataset:
        """Open one version.

        Raises:
            TableMissingError: no such dataset or branch.
            VersionMissingError: the dataset is there, the version is not.
        """
        pin = TablePin(location=location, branch=branch, version=version)
        return _dataset(pin, self.handles.open(pin))

    def latest_version(self, location: str, branch: str | None) -> int:
        """Return the newest version's number: the probe, one call on a warm handle.

        Raises:
            TableMissingError: no such dataset or branch.
        """
        return self.handles.latest_version(location, branch)

    def read(
        self, dataset: ReplaceableDataset, fragments: Sequence[int] | None, columns: Sequence[str] | None
    ) -> pa.Table:
        """Return the rows of the fragments at the given positions, or of all of them, in that order."""
        self.handles.check_process()
        if fragments is not None and not fragments:
            wanted = dataset.schema if columns is None else pa.schema([dataset.schema.field(name) for name in columns])
            return wanted.empty_table()
        handle = dataset.handle
        width = len(dataset.fragments if fragments is None else fragments)
        with (
            translating("read a dataset", dataset.location, handle=handle),
            metered(handle, at_most=SCAN_STAGES, side_by_side=width),
        ):
            chosen = None
            if fragments is not None:
                every = handle.get_fragments()
                chosen = [every[position] for position in fragments]
            names = None if columns is None else list(columns)
            table: pa.Table = handle.scanner(columns=names, fragments=chosen, scan_in_order=True).to_table()
            return table

    def read_rows(
        self, dataset: ReplaceableDataset, fragment: int, start: int, count: int, columns: Sequence[str] | None
    ) -> pa.Table:
        """Return ``count`` rows of one fragment from row ``start`` on, without reading the others."""
        self.handles.check_process()
        handle = dataset.handle
        with (
            translating("read a dataset", dataset.location, handle=handle),
            metered(handle, at_most=SCAN_STAGES),
        ):
            chosen = [handle.get_fragments()[fragment]]
            names = None if columns is None else list(columns)
            scanner = handle.scanner(columns=names, fragments=chosen, offset=start, limit=count, scan_in_order=True)
            table: pa.Table = scanner.to_table()
            return table

    def stage_fragment(self, dataset: ReplaceableDataset, table: pa.Table) -> FragmentRef:
        """Upload rows as one fragment that no version lists yet."""
        self.handles.check_process()
        written = write_into(dataset.handle, table, dataset.location, known=plain_schema(dataset.schema))
        if len(written) != 1:
            raise InternalError(f"rows of '{dataset.location}' became {len(written)} fragments instead of one")
        return FragmentRef.of(written[0])

    def replace(
        self,
        dataset: ReplaceableDataset,
        fragments: Sequence[FragmentRef],
        schema: pa.Schema,
        properties: Mapping[str, str],
        uuid: str,
    ) -> ReplaceableDataset:
        """Make the version after ``dataset`` consist of exactly these fragments. One of many callers wins.

        Sending the same ``uuid`` again after it landed is success.

        Raises:
            CompareAndSwapLostError: another writer made that version.
            OutcomeUnknownError: storage did not say whether it landed, and looking did not tell either.
        """
        operation = LanceOperation.Overwrite(schema, [fragment.metadata for fragment in fragments])
        transaction = transaction_of(operation, read_version=dataset.version, identity=uuid, properties=properties)
        handle = land(self.handles, dataset.pin, transaction)
        if handle is None:
            raise self._lost(dataset)
        if handle.version != dataset.version + 1:
            raise InternalError(
                f"a strict overwrite of '{dataset.location}' landed at version {handle.version}",
                effect=Effect.UNKNOWN,
            )
        return _dataset(dataset.pin.at(handle.version), handle)

    def create_branch(self, location: str, source_branch: str | None, source_version: int, new_branch: str) -> int:
        """Create a native branch at a version and return the version it starts at, which is the same number.

        Raises:
            AlreadyExistsError: the name is taken.
            VersionMissingError: the source version does not exist.
        """
        source = TablePin(location=location, branch=source_branch, version=source_version)
        return self._branches.create(source, new_branch).version

    def branches_since(self, location: str, since_ms: int) -> frozenset[str]:
        """Return the native branches that were created at a moment or later, by the clock of the store."""
        return frozenset(name for name, at_ms in self._branches.written(location).items() if at_ms >= since_ms)

    def branch_start(self, location: str, branch: str) -> TablePin | None:
        """Return the version that a native branch was created at; None when it is gone."""
        return self._branches.start(location, branch)

    def delete_branch_files(self, location: str, branch: str) -> None:
        """Remove a branch: its ref first, then its files. The caller knows that nothing else refers to them."""
        self._branches.delete(location, branch)

    def _lost(self, dataset: ReplaceableDataset) -> CompareAndSwapLostError:
        actual: int | None
        try:
            actual = self.latest_version(dataset.location, dataset.branch)
        except OmnigraphError:
            actual = None
        return CompareAndSwapLostError(
            f"another writer replaced '{dataset.location}' first: expected version {dataset.version}, found {actual}",
            details=HeadMoved(
                location=dataset.location, branch=dataset.branch, expected=dataset.version, actual=actual
            ),
        )


def _dataset(pin: TablePin, handle: LanceDataset) -> ReplaceableDataset:
    fragments = tuple(FragmentRef.of(fragment.metadata) for fragment in handle.get_fragments())
    return ReplaceableDataset(pin=pin, fragments=fragments, schema=handle.schema, handle=handle)


def _exists(location: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"dataset '{location}' already exists", details=TableRef(location=location))
