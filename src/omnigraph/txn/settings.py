"""The few numbers of the write path that a deployment may want to change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from omnigraph.records import record
from omnigraph.store.durability import DiskSync
from omnigraph.store.tables.pins import TablePin
from omnigraph.values import check_choice, check_flag, check_number, check_whole

if TYPE_CHECKING:
    from omnigraph.store.datasets import ReplaceableDataset
    from omnigraph.store.staging import StagedCommit
    from omnigraph.store.tables.pins import FragmentRef

# A cleanup waits this long between recording its floors and looking for branches. So a branch that was made within that
# time of choosing its beginning is seen by every cleanup that could take it away.
SETTLE_S = 1.0
_LONGEST_S = 365 * 86400.0
_MAX_THREADS = 1024


@record
class TxnSettings:
    """Settings of the write path.

    Args:
        durability: ``full`` syncs files and directories on a local disk before a write is acknowledged; ``relaxed``
            leaves that to the operating system, for tests and throw-away graphs.
        grace_s: how long the holder of a claim may be watched in silence before it is presumed dead.
        claim_wait_s: how long a writer waits for others before it gives up with a ``busy`` error; longer than
            ``grace_s``, so that a write outlasts a holder that is gone.
        max_attempts: how often one write is rebased onto a branch that keeps moving, or run again there.
        rerun_s: how long a write is run again on rows that keep moving before it gives up with a ``busy`` error.
        tail_limit: how many small, unindexed fragments a table may have before a write folds them.
        max_group: how many waiting writes one publish may carry.
        line_up: whether writers of one machine wait for each other before they upload anything.
        offers: whether a write that waits is left where another process may publish it together with its own.
        offer_bytes: how many bytes of rows such a write may have.
        threads: how many tables are staged and committed side by side.
        key_s: for how long a write that is sent again under its idempotency key is answered with the first commit.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    durability: Literal["full", "relaxed"] = "full"
    grace_s: float = 30.0
    claim_wait_s: float = 45.0
    max_attempts: int = 1000
    rerun_s: float = 300.0
    tail_limit: int = 16
    max_group: int = 64
    line_up: bool = True
    offers: bool = True
    offer_bytes: int = 1 << 20
    threads: int = 8
    key_s: float = 7 * 86400.0

    def __post_init__(self) -> None:
        check_choice("durability", self.durability, ("full", "relaxed"))
        for name in ("grace_s", "claim_wait_s", "rerun_s", "key_s"):
            check_number(name, getattr(self, name), most=_LONGEST_S)
        for name in ("line_up", "offers"):
            check_flag(name, getattr(self, name))
        for name in ("max_attempts", "tail_limit", "max_group", "offer_bytes"):
            check_whole(name, getattr(self, name), least=1)
        check_whole("threads", self.threads, least=1, most=_MAX_THREADS)

    @property
    def is_durable(self) -> bool:
        """Whether an acknowledged write must survive a power loss on a local disk."""
        return self.durability == "full"


@record
class Syncing:
    """Syncs in the order that keeps a power loss harmless; does nothing on an object store or when relaxed."""

    disk: DiskSync

    def before_landing(self, commit: StagedCommit) -> None:
        """Sync the files of a table commit: a version that survives must not name files that did not."""
        self.disk.sync_files(commit.files)

    def after_landing(self, commit: StagedCommit) -> None:
        """Sync the version of a table commit: a manifest that survives must not name table versions that did not."""
        self.disk.sync_version(commit.after)

    def line(self, location: str, branch: str, version: int) -> None:
        """Sync the first version of a line or fork, and its ref, before anything names it."""
        self.disk.sync_branch(TablePin(location=location, branch=branch, version=version))

    def before_publish(self, base: TablePin, fragments: Iterable[FragmentRef]) -> None:
        """Sync the fragments that the next manifest version brings."""
        self.disk.sync_data(base, [file for fragment in fragments for file in fragment.files])

    def after_publish(self, dataset: ReplaceableDataset) -> None:
        """Sync a manifest version: only then may the write be acknowledged."""
        self.disk.sync_version(dataset.pin)

    def found(self, dataset: ReplaceableDataset, version: int) -> None:
        """Sync the newest manifest version and an earlier one, which others published and may not have synced."""
        self.disk.sync_found(dataset.pin, version)
