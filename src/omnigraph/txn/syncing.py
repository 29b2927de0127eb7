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

    def before_landing(self, commit: StagedCommit) -> None:
        """Sync the files of a table commit: a version that survives must not name files that did not."""
        self.disk.sync_files(commit.files)

    def after_landing(self, commit: StagedCommit) -> None:
        """Sync the version of a table commit: a manifest that survives must not name table versions that did not."""
        self.disk.sync_version(commit.after, uuid=commit.uuid)

    def line(self, location: str, branch: str, version: int) -> None:
        """Sync the first version of a line or fork, and its ref, before anything names it."""
        self.disk.sync_branch(TablePin(location=location, branch=branch, version=version))

    def before_publish(self, base: TablePin, fragments: Iterable[FragmentRef]) -> None:
        """Sync the fragments that the next manifest version brings."""
        self.disk.sync_data(base, [file for fragment in fragments for file in fragment.files])

    def after_publish(self, dataset: ReplaceableDataset, uuid: str | None) -> None:
        """Sync a manifest version: only then may the write be acknowledged."""
        self.disk.sync_version(dataset.pin, uuid=uuid)
