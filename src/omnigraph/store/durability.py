"""Making local commits survive a power failure. Lance never syncs, so the writer does before it acknowledges.

Object stores are durable when they answer; there nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from omnigraph.errors import Effect
from omnigraph.runtime import in_context
from omnigraph.store.control import sync_directory, sync_file
from omnigraph.store.datasets import branch_ref_file
from omnigraph.store.location import Storage
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.writing import iter_blob_files
from omnigraph.store.translate import translating
from omnigraph.store.versions import dataset_folder, transaction_file, version_file

Durability = Literal["full", "relaxed"]

_WORKERS = 4


class DiskSync:
    """Syncs what commits of one graph bring, from threads that it keeps.

    A folder's own place in the tree is synced once: folders of a graph are never replaced by others of their name.

    Args:
        storage: the graph's storage.
        durability: ``relaxed`` skips the work, for tests and throw-away graphs.
    """

    def __init__(self, storage: Storage, durability: Durability = "full") -> None:
        self._storage = storage
        self._is_needed = storage.is_local and durability == "full"
        self._linked: set[Path] = set()
        self._pool = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="omnigraph-sync")

    def sync_files(self, files: Iterable[str], *, record: str | None = None) -> None:
        """Wait until these files below the root, and every folder that leads to them, are on the disk.

        ``record`` is a file that is synced if it is there: a ref, an old version, or that of a transaction. Versions
        hold their transaction themselves, and when two processes send the same commit the one that loses removes the
        file that both wrote.
        """
        if not self._is_needed:
            return
        named = {self._storage.path(file) for file in files}
        paths = sorted(named.union(*(iter_blob_files(path) for path in named)))
        if not paths:
            return
        records = [] if record is None else [self._storage.path(record)]
        holders = sorted({path.parent for path in (*paths, *records)})
        fresh = [folder for folder in holders if folder not in self._linked]
        root = self._storage.path()
        leading = {folder for holder in fresh for folder in _folders(holder, root)}
        with translating("sync files", self._storage.root, effect=Effect.UNKNOWN):
            # Children before parents: an entry must not become durable before what it names.
            jobs = [partial(sync_file, path) for path in paths]
            self._side_by_side([*jobs, *(partial(_sync_if_there, path) for path in records)])
            self._side_by_side([partial(sync_directory, holder) for holder in holders])
            for folder in sorted(leading, reverse=True):
                sync_directory(folder)
        self._linked.update(fresh)

    def sync_data(self, pin: TablePin, data_files: Iterable[str]) -> None:
        """Wait until data files of a dataset, as :class:`FragmentRef` names them, are on the disk."""
        self.sync_files([f"{dataset_folder(pin)}/data/{file}" for file in data_files])

    def sync_version(self, pin: TablePin, *, uuid: str | None = None) -> None:
        """Wait until one version of a dataset is on the disk, whose files are there already.

        Args:
            pin: the version.
            uuid: the transaction that made it, to sync its record too.
        """
        record = None if uuid is None else transaction_file(pin.at(pin.version - 1), uuid)
        self.sync_files([version_file(pin)], record=record)

    def sync_found(self, pin: TablePin, version: int) -> None:
        """Wait until a version of a dataset, and an earlier one if it is still there, are on the disk."""
        self.sync_files([version_file(pin)], record=version_file(pin.at(version)))

    def sync_branch(self, pin: TablePin) -> None:
        """Wait until the first version of a native branch, and the ref that names the branch, are on the disk."""
        self.sync_files([version_file(pin)], record=branch_ref_file(pin.location, pin.branch or ""))

    def sync_way_to_root(self) -> None:
        """Wait until the folders that lead to the graph's root, as far as they may be new, are on the disk."""
        if not self._is_needed:
            return
        with translating("sync files", self._storage.root, effect=Effect.UNKNOWN):
            for folder in self._storage.path().parents:
                try:
                    sync_directory(folder)
                except PermissionError:
                    # What this process may not even read, it did not make.
                    return

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()

    def _side_by_side(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run jobs at once, the first one on this thread; all have ended before a failure is raised."""
        others = [self._pool.submit(in_context(job)) for job in jobs[1:]]
        try:
            jobs[0]()
        finally:
            wait(others)
        for other in others:
            other.result()


def _sync_if_there(record: Path) -> None:
    with suppress(FileNotFoundError):
        sync_file(record)


def _folders(path: Path, root: Path) -> Iterable[Path]:
    for folder in path.parents:
        yield folder
        if folder == root:
            return
