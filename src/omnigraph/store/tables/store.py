"""The tables of a graph: opening pins, forking them, and landing what was staged."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING

from lance import LanceDataset, LanceOperation

from omnigraph.errors import (
    AlreadyExistsError,
    ForkOccupiedError,
    HeadMoved,
    OmnigraphError,
    TableMissingError,
    TableMovedError,
)
from omnigraph.runtime import LRUCache
from omnigraph.store.control import ControlObjects
from omnigraph.store.datasets import Branches, DatasetStore
from omnigraph.store.handles import OPEN_STAGES, PROBE_STAGES, apart, metered
from omnigraph.store.tables.pinned import ROW_ID
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.table import Table
from omnigraph.store.transactions import CommitMark, find_landed, land, land_creation, read_mark
from omnigraph.store.translate import translating

if TYPE_CHECKING:
    from omnigraph.store.staging.commit import StagedCommit


def reclaim_older(datasets: DatasetStore, pin: TablePin, spared: Collection[int]) -> tuple[int, ...]:
    """Remove the versions before ``pin`` on its line, with the files that only they need; return their numbers.

    Files that another line of the table shares stay. Running it again, or after somebody else did, is harmless.

    Args:
        datasets: the datasets of the graph.
        pin: the oldest version that stays.
        spared: older versions that stay too.

    Raises:
        VersionMissingError: ``pin`` does not exist.
    """
    handle = datasets.handles.open(pin)
    with translating("reclaim versions", pin.location), metered(handle):
        found = sorted(int(entry["version"]) for entry in handle.versions())
        doomed = [version for version in found if version < pin.version and version not in spared]
        if doomed:
            handle.cleanup_old_versions(versions=doomed, error_if_tagged_old_versions=False)
    return tuple(doomed)


_log = logging.getLogger(__name__)
# How much memory open tables may take, and what one takes together with its handle, by measurement.
_TABLES_BYTES = 16 << 20
_TABLE_BYTES = 12 << 10
_FRAGMENT_BYTES = 3 << 10
# A commit that changes rows and nothing else.
_ROWS = "change"
_MOST_UNINDEXED = 1024
_NO_ROW = f"{ROW_ID} < 0"
# Reading back so few takes no longer than the publish that it runs beside.
_WARMED_FRAGMENTS = 2
# Lance lands these on top of any other commit, so that the head must be looked at first.
_REBASING = frozenset({"index", "compaction", "project", "columns"})


class TableStore:
    """Opens tables by pin and commits staged changes, strictly and idempotently."""

    def __init__(self, datasets: DatasetStore, control: ControlObjects) -> None:
        self.datasets = datasets
        self.control = control
        self._handles = datasets.handles
        self._branches = Branches(datasets.handles, control)
        self._lock = threading.Lock()
        self._tables: OrderedDict[TablePin, Table] = OrderedDict()
        self._tables_bytes = 0
        # Versions that rows were written to of tables without an index, which therefore have none either.
        self._unindexed: LRUCache[TablePin, bool] = LRUCache(_MOST_UNINDEXED)

    def open(self, pin: TablePin) -> Table:
        """Return the table at a pin; each pin is opened once.

        Raises:
            TableMissingError: no such table or branch.
            VersionMissingError: the table is there, the version is not.
        """
        self._handles.check_process()
        with self._lock:
            known = self._tables.get(pin)
            if known is not None:
                self._tables.move_to_end(pin)
                return known
        lacks_indexes = self._unindexed.get(pin) is not None
        table = Table(pin, self._handles.open(pin), self.datasets, lacks_indexes=lacks_indexes)
        with self._lock:
            kept = self._tables.setdefault(pin, table)
            self._tables_bytes += _size_bytes(table) if kept is table else 0
            most = self._handles.caches.versions
            while len(self._tables) > 1 and (len(self._tables) > most or self._tables_bytes > _TABLES_BYTES):
                self._tables_bytes -= _size_bytes(self._tables.popitem(last=False)[1])
            return kept

    @property
    def size_bytes(self) -> int:
        """What the tables that are kept open take in memory."""
        return self._tables_bytes

    def head(self, location: str, branch: str | None) -> int:
        """Return the newest version of a table's branch; one call when the table is open.

        A torn version is not one: a power failure left it before anything could name it.

        Raises:
            TableMissingError: no such table or branch.
        """
        try:
            head = self._handles.latest_version(location, branch)
        except TableMissingError:
            raise
        except OmnigraphError:
            newest = self.datasets.versions.newest(location, branch)
            if newest is None or not self._is_torn(location, branch, newest):
                raise
            head = newest
        while head > 1 and self._is_torn(location, branch, head):
            head -= 1
        return head

    def put_torn_aside(self, pin: TablePin) -> None:
        """Move torn versions past ``pin`` away; the caller holds the claim of a branch that names none of them."""
        versions = self.datasets.versions
        newest = versions.newest(pin.location, pin.branch) or 0
        for version in range(newest, pin.version, -1):
            aside = versions.put_aside(pin.at(version))
            if aside is None:
                return
            _log.warning(
                "moved a torn version that no commit names aside: table=%s version=%s kept=%s",
                pin.location,
                version,
                aside,
            )

    def _is_torn(self, location: str, branch: str | None, version: int) -> bool:
        return self.datasets.versions.is_torn(TablePin(location=location, branch=branch, version=version))

    def fork(self, pin: TablePin, new_branch: str) -> TablePin:
        """Give a table a branch that starts at ``pin``; a fork of the same pin that is still untouched is taken over.

        Raises:
            ForkOccupiedError: the branch exists and its head is another one.
        """
        fork = TablePin(location=pin.location, branch=new_branch, version=pin.version)
        try:
            self._branches.create(pin, new_branch)
        except AlreadyExistsError as error:
            head = self.head(pin.location, new_branch)
            if head != pin.version or not self._is_fork_of(pin, fork):
                raise ForkOccupiedError(
                    f"fork '{new_branch}' of '{pin.location}' holds other commits:"
                    f" expected version {pin.version}, found {head}",
                    details=HeadMoved(location=pin.location, branch=new_branch, expected=pin.version, actual=head),
                ) from error
        return fork

    def is_untouched_fork(self, fork: TablePin, pin: TablePin) -> bool:
        """Whether ``fork`` is a branch that starts at ``pin`` and has no commit of its own."""
        if (fork.location, fork.version) != (pin.location, pin.version) or fork.branch in {None, pin.branch}:
            return False
        head = self.head(fork.location, fork.branch)
        return head == pin.version and self._is_fork_of(pin, fork)

    def delete_fork(self, location: str, branch: str) -> None:
        """Remove a fork that no manifest names."""
        self._forget(location, branch)
        self._branches.delete(location, branch)

    def commit_mark(self, pin: TablePin) -> CommitMark:
        """Return who made the version at ``pin``."""
        return read_mark(self._handles.open(pin), pin.version, pin.location)

    def commit(self, staged: StagedCommit) -> TablePin:
        """Land a staged commit at the one version it was made for; landing it again is success.

        Raises:
            TableMovedError: another commit has that version.
            OutcomeUnknownError: storage did not say whether it landed.
        """
        if staged.before.version == 0:
            return self._create(staged)
        if staged.kind in _REBASING and self._head_has_moved(staged):
            return self._landed_before(staged)
        handle = land(self._handles, staged.before, staged.lance_transaction())
        if handle is None or handle.version != staged.after.version:
            raise self._moved(staged, None if handle is None else handle.version)
        with self._lock:
            base = self._tables.get(staged.before)
        if staged.kind == _ROWS and base is not None and base.lacks_indexes():
            self._unindexed.put(staged.after, True)
        return staged.after

    def can_warm(self, staged: StagedCommit) -> bool:
        """Whether a commit wrote deletion files to a distant store, and so few that reading them back is quick."""
        return not self.datasets.storage.is_local and 0 < len(staged.shrunk_fragments) <= _WARMED_FRAGMENTS

    def warm(self, staged: StagedCommit) -> None:
        """Read the deletion files of a landed commit into memory: the next change there would wait for them first."""
        handle = self._handles.open(staged.after)
        for fragment_id in staged.shrunk_fragments:
            with (
                translating("read a deletion file", staged.after.location, handle=handle),
                metered(handle, stages=PROBE_STAGES),
            ):
                fragment = handle.get_fragment(fragment_id)
                if fragment is not None:
                    # Needs no column, so that the deletion file is all it reads. Counting through the fragment
                    # itself would keep every other thread of the process waiting.
                    handle.scanner(columns=[], with_row_id=True, filter=_NO_ROW, fragments=[fragment]).to_table()

    def reclaim_older(self, pin: TablePin, spared: Collection[int]) -> int:
        """Remove the versions before ``pin`` on its line for good, except ``spared``; return how many.

        Raises:
            VersionMissingError: ``pin`` does not exist.
        """
        reclaimed = reclaim_older(self.datasets, pin, spared)
        # Whoever asks for one of them is to hear that it is gone, not to read what happens to be in memory.
        self._forget(pin.location, None)
        self._handles.forget(pin.location)
        return len(reclaimed)

    def forget(self, location: str) -> None:
        """Let go of everything that is in memory of a dataset, such as versions that are gone."""
        self._forget(location, None)
        self._handles.forget(location)

    def _create(self, staged: StagedCommit) -> TablePin:
        if not land_creation(self._handles, staged.after.location, staged.lance_transaction()):
            mark = self.commit_mark(staged.after)
            if staged.uuid != mark.uuid and staged.operation_id != mark.operation_id:
                raise self._moved(staged, None)
        return staged.after

    def _head_has_moved(self, staged: StagedCommit) -> bool:
        return self.head(staged.before.location, staged.before.branch) != staged.before.version

    def _landed_before(self, staged: StagedCommit) -> TablePin:
        if find_landed(self._handles, staged.after, staged.uuid) is None:
            raise self._moved(staged, None)
        return staged.after

    def _moved(self, staged: StagedCommit, landed: int | None) -> TableMovedError:
        before = staged.before
        actual = landed
        if actual is None:
            try:
                actual = self.head(before.location, before.branch)
            except OmnigraphError:
                actual = None
        return TableMovedError(
            f"table '{before.location}' has changed: expected version {before.version}, found {actual}",
            details=HeadMoved(location=before.location, branch=before.branch, expected=before.version, actual=actual),
        )

    def _is_fork_of(self, pin: TablePin, fork: TablePin) -> bool:
        handle: LanceDataset = self._handles.open(fork)
        with translating("read a fork's origin", fork.location), metered(handle, at_most=OPEN_STAGES):
            origin = apart(handle).read_transaction(fork.version)
        operation = None if origin is None else origin.operation
        return (
            isinstance(operation, LanceOperation.Clone)
            and operation.ref_version == pin.version
            and operation.ref_name == pin.branch
        )

    def _forget(self, location: str, branch: str | None) -> None:
        with self._lock:
            for pin in [pin for pin in self._tables if pin.location == location and branch in {None, pin.branch}]:
                self._tables_bytes -= _size_bytes(self._tables.pop(pin))


def _size_bytes(table: Table) -> int:
    return _TABLE_BYTES + _FRAGMENT_BYTES * len(table.fragments)
