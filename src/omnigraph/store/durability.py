"""Making local commits survive a power failure. Lance never syncs, so the writer does before it acknowledges.

Object stores are durable when they answer; there every function here does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from omnigraph.errors import Effect
from omnigraph.store.control import sync_directory, sync_file
from omnigraph.store.location import Storage
from omnigraph.store.pins import TablePin
from omnigraph.store.staging.commit import StagedCommit, dataset_root
from omnigraph.store.translate import translating

Durability = Literal["full", "relaxed"]

_WORKERS = 4
_MAX_VERSION = (1 << 64) - 1


def sync_files(storage: Storage, files: Iterable[str], durability: Durability = "full") -> None:
    """Wait until these files, and every directory that leads to them, are on the disk.

    Args:
        storage: the graph's storage.
        files: paths below its root.
        durability: ``relaxed`` skips the work, for tests and throw-away graphs.
    """
    if not storage.is_local or durability == "relaxed":
        return
    paths = sorted({storage.path(file) for file in files})
    if not paths:
        return
    root = storage.path()
    # Children before parents: an entry must not become durable before what it names.
    folders = sorted({folder for path in paths for folder in _folders(path, root)}, reverse=True)
    with translating("sync files", storage.root, effect=Effect.UNKNOWN):
        if len(paths) == 1:
            sync_file(paths[0])
        else:
            with ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="omnigraph-sync") as pool:
                list(pool.map(sync_file, paths))
        for folder in folders:
            sync_directory(folder)


def sync_commit(storage: Storage, staged: StagedCommit, durability: Durability = "full") -> None:
    """Wait until a landed commit is on the disk: its files, its transaction and its manifest."""
    transaction = f"{dataset_root(staged.before)}/_transactions/{staged.before.version}-{staged.uuid}.txn"
    sync_files(storage, [*staged.files, transaction, _manifest(staged.after)], durability)


def sync_dataset_version(
    storage: Storage,
    pin: TablePin,
    data_files: Iterable[str] = (),
    *,
    uuid: str | None = None,
    durability: Durability = "full",
) -> None:
    """Wait until one version of a dataset is on the disk.

    Args:
        storage: the graph's storage.
        pin: the version.
        data_files: names of data files that the version brought, as :class:`FragmentRef` gives them.
        uuid: the transaction that made it, to sync its record too.
        durability: ``relaxed`` skips the work.
    """
    root = dataset_root(pin)
    files = [f"{root}/data/{file}" for file in data_files]
    if uuid is not None:
        files.append(f"{root}/_transactions/{pin.version - 1}-{uuid}.txn")
    sync_files(storage, [*files, _manifest(pin)], durability)


def _manifest(pin: TablePin) -> str:
    # Lance names manifests so that the newest sorts first.
    return f"{dataset_root(pin)}/_versions/{_MAX_VERSION - pin.version:020d}.manifest"


def _folders(path: Path, root: Path) -> Iterable[Path]:
    for folder in path.parents:
        yield folder
        if folder == root:
            return
