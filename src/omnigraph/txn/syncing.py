"""What must be on the disk before which step, on a local graph."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.records import record
from omnigraph.store.datasets import ReplaceableDataset
from omnigraph.store.durability import DiskSync
from omnigraph.store.fragments import FragmentRef
from omnigraph.store.pins import TablePin
from omnigraph.store.staging import StagedCommit


@record
class Syncing:
    """Syncs in the order that keeps a power loss harmless; does nothing on an object store or when relaxed."""

    disk: DiskSync

    def before_publish(self, commits: Iterable[StagedCommit]) -> None:
        """Sync table commits: a manifest that survives must not name table versions that did not."""
        for commit in commits:
            self.disk.sync_commit(commit)

    def line(self, location: str, branch: str, version: int) -> None:
        """Sync the first version of a line before a ref names it."""
        pin = TablePin(location=location, branch=branch, version=version)
        self.disk.sync_dataset_version(pin)

    def after_publish(self, dataset: ReplaceableDataset, fragments: Iterable[FragmentRef], uuid: str | None) -> None:
        """Sync a manifest version and the fragments it brought: only then may the write be acknowledged."""
        files = [file for fragment in fragments for file in fragment.files]
        self.disk.sync_dataset_version(dataset.pin, files, uuid=uuid)
