"""Making local commits survive a power failure. Lance never syncs, so the writer does before it acknowledges.

Object stores are durable when they answer; there nothing here does anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Literal

from omnigraph.errors import Effect
from omnigraph.store.control import sync_directory, sync_file
from omnigraph.store.datasets import branch_ref_file
from omnigraph.store.location import Storage
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.writing import DATA_SUFFIX, iter_blob_files
from omnigraph.store.translate import translating
from omnigraph.store.versions import dataset_folder, version_file

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
        self._linked: set[str] = set()
        self._pool = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="omnigraph-sync")

    def sync_files(self, files: Iterable[str], *, record: str | None = None) -> None:
        """Wait until these files below the root, and every folder that leads to them, are on the disk.

        ``record`` is a file that is synced if it is there: a ref, or an old version. The files of transactions are
        none of those: a version holds its transaction itself, and nothing reads the file beside it.
        """
        if not self._is_needed:
            return
        path_text = self._storage.path_text
        named = {path_text(file) for file in files}
        paths = sorted(named.union(*(iter_blob_files(path) for path in named if path.endswith(DATA_SUFFIX))))
        if not paths:
            return
        records = [] if record is None else [path_text(record)]
        holders = sorted({os.path.dirname(path) for path in (*paths, *records)})
        fresh = [folder for folder in holders if folder not in self._linked]
        with translating("sync files", self._storage.root, effect=Effect.UNKNOWN):
            # Children before parents: an entry must not become durable before what it names.
            jobs = [partial(sync_file, path) for path in paths]
            self._side_by_side([*jobs, *(partial(_sync_if_there, path) for path in records)])
            self._side_by_side([partial(sync_directory, holder) for holder in holders])
            for folder in sorted({folder for holder in fresh for folder in self._leading_to(holder)}, reverse=True):
                sync_directory(folder)
        self._linked.update(fresh)

    def sync_data(self, pin: TablePin, data_files: Iterable[str]) -> None:
        """Wait until data files of a dataset, as :class:`FragmentRef` names them, are on the disk."""
        self.sync_files([f"{dataset_folder(pin)}/data/{file}" for file in data_files])

    def sync_version(self, pin: TablePin) -> None:
        """Wait until one version of a dataset is on the disk, whose files are there already."""
        self.sync_files([version_file(pin)])

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
        others = [self._pool.submit(job) for job in jobs[1:]]
        try:
            jobs[0]()
        finally:
            failures = [other.exception() for other in others]
        for failure in filter(None, failures):
            raise failure

    def _leading_to(self, holder: str) -> Iterable[str]:
        """Yield the folders above one, up to the root."""
        root, folder = self._storage.root, holder
        while folder not in {root, os.path.dirname(folder)}:
            folder = os.path.dirname(folder)
            yield folder


def _sync_if_there(record: str) -> None:
    with suppress(FileNotFoundError):
        sync_file(record)
