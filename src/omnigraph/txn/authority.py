"""``GraphPublishAuthority``: the one machine through which a change of a branch becomes visible."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from omnigraph.errors import ClaimBusyError, ClaimHeld
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters
from omnigraph.store.pins import TablePin
from omnigraph.txn.branch_delete import BranchDeletion
from omnigraph.txn.branches import BranchRef
from omnigraph.txn.lines import branch_missing
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.plan import WriteKind
from omnigraph.txn.publisher import Publisher
from omnigraph.txn.queue import BranchQueue
from omnigraph.txn.recovery.recoverer import Recoverer, Recovery
from omnigraph.txn.services import BranchServices, graph_closed
from omnigraph.txn.snapshot import Snapshot
from omnigraph.txn.transaction import WriteTxn
from omnigraph.values import CommitId, OperationId, checked_text


@record
class CommitResult:
    """The outcome of a write. ``commit`` is None when there was nothing to change."""

    commit: Commit | None
    manifest_version: int
    cost: Cost


class GraphPublishAuthority:
    """Reads, writes and recovers one branch. Threads may share it."""

    def __init__(self, services: BranchServices, *, group_commit: bool = False) -> None:
        self.services = services
        self._known: LoadedManifest | None = None
        self._known_at_s = 0.0
        self._known_lock = threading.Lock()
        self._recoverer = Recoverer(services)
        self._publisher = Publisher(services, self._recoverer)
        self._queue: BranchQueue[WriteTxn, CommitResult] = BranchQueue(
            self._run,
            can_group=lambda txn: group_commit and txn.can_group,
            max_group=services.settings.max_group,
            wait_s=services.settings.claim_wait_s,
            clock=services.world.clock,
            busy=self._busy,
            refuse=lambda: branch_missing(services.line.name) if self._is_forgotten else graph_closed(),
            forsake=WriteTxn.forsake,
        )
        self._is_forgotten = False

    def snapshot(self, counters: Counters) -> Snapshot:
        """Return the newest published state: one probe when nothing has changed since the last look."""
        return self.services.snapshot(self._refresh(counters))

    def begin(
        self,
        kind: WriteKind,
        *,
        actor: str | None = None,
        message: str | None = None,
        expected_head: CommitId | None = None,
        merged_parent: CommitId | None = None,
    ) -> WriteTxn:
        """Resolve the world once and return a transaction on it.

        Raises:
            ValueFormatError: the actor or the message cannot be stored.
        """
        ids = self.services.world.ids
        counters = Counters()
        txn = WriteTxn(
            self.snapshot(counters),
            operation_id=OperationId(ids.ulid()),
            commit_id=CommitId(ids.ulid()),
            kind=kind,
            actor=checked_text("actor", actor),
            message=checked_text("message", message),
            expected_head=expected_head,
            merged_parent=merged_parent,
        )
        txn.counters.add(counters.cost())
        return txn

    def prepare(self, txn: WriteTxn, table_key: str) -> TablePin:
        """Return where other processes have to put files of a table that is to change with ``txn``.

        That is the table's own place, or a fork that is made at once when the branch only inherits the table.

        Raises:
            TypeMissingError: the graph has no such type.
        """
        known = txn.prepared.get(table_key)
        if known is None:
            stager = self.services.stager
            known = stager.place(txn.snapshot.entry(table_key).pin, txn.operation_id, txn.counters)
            txn.prepared[table_key] = known
        return known

    def commit(self, txn: WriteTxn) -> CommitResult:
        """Publish a transaction: all of it, or nothing.

        Raises:
            PreconditionFailedError: the demanded head is not the head.
            ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
            KeyExistsError: a row to insert exists already.
            ClaimBusyError: other writers kept the branch busy for too long.
            WriteOutcomeError: storage failed in a way that left the outcome open.
            BranchMissingError: the branch was deleted.
            GraphClosedError: the graph was closed.
        """
        return self.services.stores.calls.run(lambda: self._commit(txn))

    def _commit(self, txn: WriteTxn) -> CommitResult:
        with self.services.life.reading(Counters()):
            return self._queue.submit(txn)

    def recover(self, counters: Counters) -> tuple[Recovery, ...]:
        """End every publish of this branch whose writer is gone."""
        recoveries = self._recoverer.recover_abandoned(counters)
        for recovery in recoveries:
            self._learn(recovery.manifest)
        return recoveries

    def recover_claim(self, version: int, counters: Counters) -> Recovery | None:
        """End the publish that holds a version's claim if its writer is gone; None when it is not, or nobody does."""
        recovery = self._recoverer.recover_if_abandoned(version, counters)
        if recovery is not None:
            self._learn(recovery.manifest)
        return recovery

    def known(self) -> LoadedManifest | None:
        """Return the newest version that is in memory, without asking storage whether there is a newer one."""
        with self._known_lock:
            return self._known

    def load_version(self, version: int, counters: Counters) -> LoadedManifest:
        """Return one version of the manifest; a schema that is in memory is not read again.

        Raises:
            BranchMissingError: the branch was deleted.
            VersionMissingError: there is no such version.
        """
        return self.services.manifest.load_version(version, counters, self.known())

    def delete(self, deletion: BranchDeletion, ref: BranchRef, actor: str | None, counters: Counters) -> None:
        """Delete the branch; this authority is of no use afterwards."""
        deletion.delete(self.services, ref, self.known(), self._recoverer.recover_if_abandoned, actor, counters)

    def forget(self) -> None:
        """Refuse writes as the branch is gone, and let go of everything."""
        self._is_forgotten = True
        self.close()

    def close(self) -> None:
        """Refuse further writes, finish those under way and what runs behind acknowledged ones."""
        self._queue.close()
        self._publisher.close()

    def _busy(self, waited_s: float) -> ClaimBusyError:
        name, known = self.services.line.name, self.known()
        version = 0 if known is None else known.state.version + 1
        details = ClaimHeld(branch=name, version=version, holder="other writers of this process", waited_s=waited_s)
        return ClaimBusyError(
            f"other writers of this process kept the branch busy branch={name} waited_s={waited_s:.1f}", details=details
        )

    def _run(self, batch: Sequence[WriteTxn]) -> Sequence[CommitResult | BaseException]:
        base, seen_s = self._newest_known(batch)
        outcomes = self._publisher.publish(batch, base, seen_s)
        newest = max(
            (outcome for outcome in outcomes if not isinstance(outcome, BaseException)), key=_version, default=None
        )
        if newest is not None:
            self._learn(newest.manifest)
        self._tell([outcome.commit for outcome in outcomes if not isinstance(outcome, BaseException)])
        return [
            outcome
            if isinstance(outcome, BaseException)
            else CommitResult(
                commit=outcome.commit,
                manifest_version=outcome.manifest.state.version,
                cost=outcome.cost,
            )
            for outcome in outcomes
        ]

    def _tell(self, commits: Sequence[Commit | None]) -> None:
        made = [commit for commit in commits if commit is not None]
        for listener in self.services.stores.listeners if made else ():
            listener(self.services.line.name, made)

    def _newest_known(self, batch: Sequence[WriteTxn]) -> tuple[LoadedManifest, float]:
        """Return the newest version that is in memory, and when it was last seen to be the newest of all."""
        base = max((txn.snapshot.manifest for txn in batch), key=lambda loaded: loaded.state.version)
        with self._known_lock:
            if self._known is None or self._known.state.version < base.state.version:
                return base, 0.0
            return self._known, self._known_at_s

    def _refresh(self, counters: Counters) -> LoadedManifest:
        with self._known_lock:
            known = self._known
        loaded = self.services.load(counters, known)
        return self._learn(loaded)

    def _learn(self, loaded: LoadedManifest) -> LoadedManifest:
        """Remember the newest version seen; a slow reader never replaces what a faster one found."""
        with self._known_lock:
            if self._known is None or loaded.state.version > self._known.state.version:
                self._known = loaded
            if loaded.state.version == self._known.state.version:
                self._known_at_s = self.services.world.clock.monotonic_s()
            return self._known if self._known.state.version == loaded.state.version else loaded


def _version(outcome: object) -> int:
    manifest: LoadedManifest = outcome.manifest  # type: ignore[attr-defined] # only published outcomes get here
    return manifest.state.version
