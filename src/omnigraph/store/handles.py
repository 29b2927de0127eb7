"""Open Lance handles of one graph: one shared session, each pinned version opened once.

All handles of one session share one set of statistics, so blocks that run side by side may swap calls with each
other; every call is still counted exactly once, and a transaction that runs alone gets exactly its own. How many
calls follow one another can therefore not be read off the statistics: each block says what its work amounts to.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from contextlib import AbstractContextManager

import lance
from lance import LanceDataset
from lance.dataset import Session  # type: ignore[attr-defined]  # public, though not marked as exported

from omnigraph.errors import (
    ForkedProcessError,
    OmnigraphError,
    StorageCorruptError,
    StorageFault,
    TableMissingError,
    TableRef,
    VersionMissingError,
)
from omnigraph.records import record
from omnigraph.runtime import current_counters
from omnigraph.store.control import VERSIONS
from omnigraph.store.location import Storage
from omnigraph.store.newest import NewestVersions
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.translate import FaultKind, fault_of, translating
from omnigraph.store.versions import dataset_folder, version_file

# The newest version is found by one listing, and an upload is one put.
PROBE_STAGES = 1
UPLOAD_STAGES = 1
# A version is found first and read then; with its transaction it is the same.
OPEN_STAGES = 2
# A scan reads the metadata of its files side by side, then their pages; an index adds its own look-up before both.
SCAN_STAGES = 2
LOOKUP_STAGES = 3


def metered(
    handle: LanceDataset, *, stages: int | None = None, at_most: int | None = None, side_by_side: int = 1
) -> AbstractContextManager[None]:
    """Count the calls that the block makes through ``handle``.

    Args:
        handle: the handle whose statistics are read.
        stages: how many of the calls follow one another, when the shape of the work tells.
        at_most: how many of them follow one another if nothing that the work needs is in memory.
        side_by_side: how many files the work reads at once.

    When neither is given, every call is taken to wait for the one before it.
    """
    return _Metered(handle, stages, at_most, side_by_side)


class _Metered:
    """A block whose calls are counted; a class of its own, as every call to storage enters one."""

    __slots__ = ("_at_most", "_handle", "_side_by_side", "_stages")

    def __init__(self, handle: LanceDataset, stages: int | None, at_most: int | None, side_by_side: int) -> None:
        self._handle, self._stages, self._at_most, self._side_by_side = handle, stages, at_most, side_by_side

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        collect(self._handle, stages=self._stages, at_most=self._at_most, side_by_side=self._side_by_side)


def collect(
    handle: LanceDataset, *, stages: int | None = None, at_most: int | None = None, side_by_side: int = 1
) -> int:
    """Count the calls made through ``handle`` since its statistics were last read; return how many were reads."""
    stats = handle.io_stats_incremental()
    if stats.read_iops:
        current_counters().add_calls("lance.read", stats.read_iops, bytes_read=stats.read_bytes)
    if stats.write_iops:
        current_counters().add_calls("lance.write", stats.write_iops, bytes_written=stats.written_bytes)
    calls = stats.read_iops + stats.write_iops
    if stages is None:
        in_turn = -(-calls // max(1, side_by_side))
        stages = in_turn if at_most is None else min(in_turn, at_most)
    current_counters().add_serial_stages(stages)
    return int(stats.read_iops)


# How much memory handles may take whose versions newer ones have followed: a long run of commits leaves many of them.
_PAST_BYTES = 2 << 20
# What an open version takes in memory, by measurement.
_HANDLE_BYTES = 8 << 10
_FRAGMENT_BYTES = 1 << 10


@record
class CacheSizes:
    """How much is kept in memory of a graph's storage; what was not used for longest leaves first.

    Args:
        index_bytes: pages of indexes.
        metadata_bytes: what is known of versions and files.
        versions: how many versions of datasets stay open.
    """

    index_bytes: int = 256 << 20
    metadata_bytes: int = 16 << 20
    versions: int = 512


# Lance's threads belong to the process that first used it; one that is forked off later has none and waits for ever.
_user: dict[str, int] = {}


class Handles:
    """The handles of one graph in one process.

    A location and branch must never be re-used for other content: a handle that is cached here would go on showing
    what it showed. Branches and datasets of a graph carry names that are given once.
    """

    def __init__(self, storage: Storage, caches: CacheSizes | None = None) -> None:
        self.storage = storage
        self.caches = caches or CacheSizes()
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._by_pin: OrderedDict[TablePin, LanceDataset] = OrderedDict()
        self._sizes: dict[TablePin, int] = {}
        self._newest: dict[tuple[str, str | None], TablePin] = {}
        self._seen = NewestVersions(storage)
        self._past_bytes = 0

    @property
    def options(self) -> dict[str, str]:
        """The storage options as Lance takes them."""
        return dict(self.storage.options)

    @property
    def session(self) -> Session:
        """The one session that holds manifests, file metadata and index pages in memory.

        Raises:
            ForkedProcessError: this is not the process that the handles were made in.
        """
        self.check_process()
        with self._lock:
            if self._session is None:
                self._session = Session(
                    index_cache_size_bytes=self.caches.index_bytes,
                    metadata_cache_size_bytes=self.caches.metadata_bytes,
                )
            return self._session

    def check_process(self) -> None:
        """Refuse to go on in a forked child, where Lance's threads are missing and a call can hang for ever."""
        if os.getpid() != self._process_id:
            raise ForkedProcessError("this graph was opened before the process was forked")
        if _user.setdefault("process", self._process_id) != self._process_id:
            raise ForkedProcessError("the process was forked while a graph was open, so it cannot open one")

    def uri(self, location: str, branch: str | None) -> str:
        """Return the address of a dataset, or of one of its branches."""
        return self.storage.uri(location if branch is None else f"{location}/tree/{branch}")

    def open(self, pin: TablePin) -> LanceDataset:
        """Return the handle of a pinned version.

        Raises:
            TableMissingError: no such dataset or branch.
            VersionMissingError: the dataset is there, the version is not.
        """
        self.check_process()
        with self._lock:
            known = self._by_pin.get(pin)
            if known is not None:
                self._by_pin.move_to_end(pin)
                return known
        try:
            handle = self._open(pin.location, pin.branch, pin.version)
        except TableMissingError:
            # Only this road of an error pays for the second look.
            self._open(pin.location, pin.branch, None)
            raise VersionMissingError(
                f"version {pin.version} of '{pin.location}' does not exist",
                details=TableRef(location=pin.location, branch=pin.branch, version=pin.version),
            ) from None
        return self.remember(pin, handle)

    def open_apart(self, pin: TablePin) -> LanceDataset:
        """Return a handle of a pinned version that nobody else gets and that is not kept.

        Raises:
            TableMissingError: no such dataset, branch or version.
        """
        self.check_process()
        return self._open(pin.location, pin.branch, pin.version)

    def open_latest(self, location: str, branch: str | None) -> tuple[TablePin, LanceDataset]:
        """Return the newest version of a branch and its handle.

        Raises:
            TableMissingError: no such dataset or branch.
        """
        self.check_process()
        handle = self._open(location, branch, None)
        if handle.version == 0:
            # Lance takes a version file full of zeros for an empty dataset.
            details = StorageFault(doing="open a dataset", location=location, reason="the newest version has no number")
            raise StorageCorruptError(f"cannot read the newest version of '{location}'", details=details)
        pin = TablePin(location=location, branch=branch, version=handle.version)
        return pin, self.remember(pin, handle)

    def latest_version(self, location: str, branch: str | None) -> int:
        """Return the number of the newest version: one call when any version of the branch is open already."""
        self.check_process()
        still = self._seen.still(location, branch)
        if still is not None:
            current_counters().add_serial_stages(PROBE_STAGES)
            return still
        mark = self._seen.mark(location, branch)
        version = self._latest_version(location, branch)
        self._seen.saw(location, branch, version, mark)
        return version

    def _latest_version(self, location: str, branch: str | None) -> int:
        with self._lock:
            newest = self._newest.get((location, branch))
            handle = self._by_pin.get(newest) if newest is not None else None
        if handle is None:
            return self.open_latest(location, branch)[0].version
        with translating("look for the newest version", location), metered(handle, stages=PROBE_STAGES):
            try:
                return handle.latest_version
            except (OSError, ValueError) as error:
                if fault_of(error) is FaultKind.MISSING:
                    raise _missing(location, branch) from error
                raise

    def remember(self, pin: TablePin, handle: LanceDataset) -> LanceDataset:
        """Keep a handle for its pin; the one kept first wins and is returned."""
        with self._lock:
            known = self._by_pin.get(pin)
        # Counted outside of the lock: a table may have very many fragments.
        size = 0 if known is not None else _HANDLE_BYTES + _FRAGMENT_BYTES * len(handle.fragment_ids())
        with self._lock:
            kept = self._by_pin.setdefault(pin, handle)
            self._by_pin.move_to_end(pin)
            if kept is handle and pin not in self._sizes:
                self._sizes[pin] = size
                self._past_bytes += size
                self._follow(pin)
            self._make_room(pin)
            return kept

    @property
    def past_bytes(self) -> int:
        """What the kept handles of versions take that a newer one has followed."""
        return self._past_bytes

    def _follow(self, pin: TablePin) -> None:
        """Make a version that was just opened the newest of its line, if it is."""
        line = pin.location, pin.branch
        newest = self._newest.get(line)
        if pin.is_detached or (newest is not None and newest.version > pin.version):
            return
        self._past_bytes += self._sizes.get(newest, 0) if newest is not None else 0
        self._past_bytes -= self._sizes[pin]
        self._newest[line] = pin

    def _make_room(self, wanted: TablePin) -> None:
        """Let go of what was not used for longest: versions that newer ones followed first, then whatever it is."""
        if self._past_bytes > _PAST_BYTES:
            for pin in list(self._by_pin):
                if pin != wanted and self._newest.get((pin.location, pin.branch)) != pin:
                    self._drop(pin)
                    if self._past_bytes <= _PAST_BYTES:
                        break
        while len(self._by_pin) > self.caches.versions:
            self._drop(next(iter(self._by_pin)))

    def _drop(self, pin: TablePin) -> None:
        del self._by_pin[pin]
        size, line = self._sizes.pop(pin, 0), (pin.location, pin.branch)
        if self._newest.get(line) == pin:
            del self._newest[line]
        else:
            self._past_bytes -= size

    def forget(self, location: str, branch: str | None = None) -> None:
        """Drop the handles of a branch, or of a whole dataset when no branch is given."""
        with self._lock:
            for pin in [pin for pin in self._by_pin if _is_of(pin, location, branch)]:
                self._drop(pin)

    def _open(self, location: str, branch: str | None, version: int | None) -> LanceDataset:
        session = self.session
        name = self._version_key(location, branch, version)
        with translating("open a dataset", name):
            try:
                handle = lance.dataset(
                    self.uri(location, branch),
                    version=version,
                    storage_options=self.options or None,
                    session=session,
                )
            except Exception as error:
                current_counters().add_calls("lance.read")
                current_counters().add_serial_stages()
                if fault_of(error) is FaultKind.MISSING and not isinstance(error, OmnigraphError):
                    raise _missing(location, branch) from error
                raise
            collect(handle, at_most=OPEN_STAGES)
        # Bytes that are all zero read as a version of no number and no rows.
        if handle.version < 1 or (version is not None and handle.version != version):
            raise _other_version(name, handle.version)
        return handle

    def _version_key(self, location: str, branch: str | None, version: int | None) -> str:
        """Return where a version is stored, or where the versions are when it is not known which."""
        pin = TablePin(location=location, branch=branch, version=version or 0)
        return f"{dataset_folder(pin)}/{VERSIONS}" if version is None else version_file(pin)


def apart(handle: LanceDataset) -> LanceDataset:
    """Return another handle of the same version, for a call that other threads must not meet; costs nothing.

    Some calls of Lance take the handle for themselves while they last, and whatever another thread asks it then fails.
    """
    return copy.copy(handle)


def _is_of(pin: TablePin, location: str, branch: str | None) -> bool:
    return pin.location == location and branch in {None, pin.branch}


def _other_version(key: str, found: int) -> StorageCorruptError:
    reason = f"it says that it is version {found}"
    details = StorageFault(doing="open a dataset", location=key, reason=reason)
    return StorageCorruptError(f"stored object '{key}' is damaged", details=details)


def _missing(location: str, branch: str | None) -> TableMissingError:
    return TableMissingError(f"dataset '{location}' was not found", details=TableRef(location=location, branch=branch))
