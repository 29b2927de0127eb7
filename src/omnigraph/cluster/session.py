"""What each command on a cluster does: it reads the config, locks the ledger, does its work, and reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from omnigraph.catalog.migration.codes import Severity
from omnigraph.cluster.apply.apply_plan import apply_cluster, missing_ledger
from omnigraph.cluster.config.reading import ClusterReading, read_cluster, read_storage_root
from omnigraph.cluster.declaration import ClusterDeclaration
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.graphs import ClusterGraphs
from omnigraph.cluster.ledger.approvals import Approval, ApprovalStore
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.draft import LedgerDraft, check_composites, composite_problems
from omnigraph.cluster.ledger.lock import LockFile, StateLock
from omnigraph.cluster.ledger.payloads import Payload, PayloadState, PayloadStore, has_payload
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.ledger.state import LedgerFile, StoredLedger
from omnigraph.cluster.observing import CODES, TOLD, import_cluster, refresh_cluster
from omnigraph.cluster.plan.plan import ClusterPlan, make_plan, with_previews
from omnigraph.cluster.recovery import pending_sidecars
from omnigraph.cluster.reports import (
    ApplyReport,
    ApproveReport,
    ObserveReport,
    PlanReport,
    StateObservations,
    StatusReport,
    UnlockReport,
)
from omnigraph.errors import ClusterStateError, ValueFormatError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.values.temporal import parse_datetime


class ClusterSession:
    """The commands on the cluster of one directory.

    Args:
        config_dir: the directory with ``cluster.yaml``.
        options: how to reach a bucket; the environment says so when it is None.
        runtime: clock, ids and failpoints.
    """

    def __init__(
        self, config_dir: str, *, options: Mapping[str, str] | None = None, runtime: Runtime | None = None
    ) -> None:
        self._config_dir = config_dir
        self._options = options
        self._runtime = runtime or Runtime.system()

    def plan(self) -> PlanReport:
        """Show what an apply would do; nothing but the lock is written."""
        work, plan = self._work(), None
        with work.locked("plan") as cluster:
            if cluster is not None:
                plan = with_previews(
                    cluster.planned(), cluster.declaration, ClusterGraphs(cluster.place), work.findings
                )
        return PlanReport(**work.head(), declaration=work.declaration, plan=plan)

    def apply(self, *, actor: str | None = None) -> ApplyReport:
        """Bring the cluster to what the config declares, as far as nothing is in the way."""
        work, done = self._work(), None
        with work.locked("apply") as cluster:
            if cluster is not None:
                done = apply_cluster(cluster.place, cluster.declaration, work.findings, actor=actor)
                work.ledger = done.ledger
        return ApplyReport(
            **work.head(),
            declaration=work.declaration,
            actor=actor,
            changes=None if done is None else done.changes,
            is_converged=done is not None and done.is_converged,
            is_written=done is not None and done.is_written,
        )

    def approve(self, resource: str, *, actor: str) -> ApproveReport:
        """Consent to a change that is made only with an approval, as it is planned at this moment."""
        work, approval = self._work(), None
        with work.locked("approve") as cluster:
            if cluster is not None:
                approval = cluster.approve(resource, actor)
        return ApproveReport(**work.head(), approval=approval)

    def refresh(self) -> ObserveReport:
        """Bring the ledger in line with the graphs and the stored texts."""
        work = self._work()
        with work.locked("refresh") as cluster:
            if cluster is not None:
                work.ledger = refresh_cluster(cluster.place, cluster.declaration, work.findings)
        return ObserveReport(**work.head(), operation="refresh", is_done=work.ledger is not None)

    def import_graphs(self) -> ObserveReport:
        """Make the first ledger from the graphs that are there."""
        work = self._work()
        with work.locked("import") as cluster:
            if cluster is not None:
                stored = import_cluster(cluster.place, cluster.declaration, work.findings)
                work.ledger = stored if stored.exists else None
        return ObserveReport(**work.head(), operation="import", is_done=work.ledger is not None)

    def status(self) -> StatusReport:
        """Show the ledger, its lock and what is wrong with the stored texts; no lock is taken, no graph looked at."""
        work = self._work(only_root=True)
        if work.place is not None:
            try:
                work.ledger = LedgerFile(work.place).read()
                _check_status(work.place, work.ledger, work.findings)
            except ClusterStateError as problem:
                work.note(problem)
        return StatusReport(**work.head(tells_lock=True))

    def force_unlock(self, lock_id: str) -> UnlockReport:
        """Remove the lock of a command that is gone."""
        work, removed = self._work(only_root=True), None
        if work.place is not None:
            try:
                removed = LockFile(work.place).remove(lock_id)
            except ClusterStateError as problem:
                work.note(problem)
        return UnlockReport(**work.head(), removed=removed)

    def _work(self, *, only_root: bool = False) -> _Work:
        reading = read_storage_root(self._config_dir) if only_root else read_cluster(self._config_dir)
        place = None
        if reading.declaration is not None and not reading.findings.has_errors:
            place = ClusterPlace(reading.declaration.storage_root, self._options, self._runtime)
        return _Work(reading, place)


class _Work:
    """One command under way: the config, the cluster if it can be told, and what was found."""

    def __init__(self, reading: ClusterReading, place: ClusterPlace | None) -> None:
        self.config_dir = reading.config_dir
        self.declaration = reading.declaration
        self.findings = reading.findings
        self.place = place
        self.ledger: StoredLedger | None = None
        self._acquired: StateLock | None = None

    @contextmanager
    def locked(self, operation: str) -> Iterator[_Locked | None]:
        """Lock the ledger while the block runs, and note what stops it; give None if there is nothing to be done."""
        if self.place is None or self.declaration is None:
            yield None
            return
        lock = LockFile(self.place).held(operation, self.findings, is_enabled=self.declaration.lock_enabled)
        with ExitStack() as held:
            try:
                self._acquired = held.enter_context(lock)
            except ClusterStateError as problem:
                self.note(problem)
                yield None
                return
            try:
                yield _Locked(place=self.place, declaration=self.declaration, findings=self.findings)
            except ClusterStateError as problem:
                self.note(problem)

    def note(self, problem: ClusterStateError) -> None:
        """Keep what has stopped the command."""
        self.findings.add(problem.details.finding, problem.details.path, problem.message)

    def head(self, *, tells_lock: bool = False) -> dict[str, Any]:
        """Return what every report begins with; ``tells_lock`` notes a lock that cannot be read."""
        return {"config_dir": self.config_dir, "findings": self.findings, "observed": self._observe(tells_lock)}

    def _observe(self, tells_lock: bool) -> StateObservations | None:
        if self.place is None:
            return None
        ledger_file, lock_file, lock = LedgerFile(self.place), LockFile(self.place), None
        ledger = self.ledger
        if ledger is None:
            # What is wrong with it was noted by whoever needed it.
            ledger = StoredLedger()
            with suppress(ClusterStateError):
                ledger = ledger_file.read()
        try:
            lock = lock_file.read()
        except ClusterStateError as problem:
            if tells_lock:
                self.note(problem)
        return StateObservations(
            state_path=ledger_file.path,
            lock_path=lock_file.path,
            ledger=ledger,
            lock=lock,
            lock_age_seconds=None if lock is None else _age_s(lock, self.place),
            acquired=self._acquired,
        )


@record
class _Locked:
    """A cluster whose ledger is locked."""

    place: ClusterPlace
    declaration: ClusterDeclaration
    findings: Findings

    def planned(self) -> ClusterPlan:
        """Compare the config with the ledger as it stands; changes that broke off are only pointed out."""
        stored = LedgerFile(self.place).read()
        check_composites(stored.state, LedgerFile(self.place).path)
        swept = pending_sidecars(self.place, self.findings)
        return make_plan(
            self.declaration,
            LedgerDraft(stored),
            pending=swept.pending,
            approvals=ApprovalStore(self.place).read_all(self.findings),
            findings=self.findings,
        )

    def approve(self, resource: str, actor: str) -> Approval:
        """Store the consent to a change.

        Raises:
            ClusterStateError: there is no ledger, the resource needs no approval, or it cannot be stored.
        """
        ledger = LedgerFile(self.place)
        if not ledger.read().exists:
            raise missing_ledger(ledger)
        required = next((one for one in self.planned().approvals if one.binding.resource == resource), None)
        if required is None:
            message = f"no change of '{resource}' needs an approval; `omnigraph cluster plan` shows the changes that do"
            raise state_error("approval_not_required", resource, message)
        approval = Approval(
            schema_version=1,
            approval_id=str(self.place.runtime.ids.ulid()),
            resource=resource,
            operation=required.binding.operation,
            reason=required.reason,
            bound_config_digest=required.binding.config_digest,
            bound_before_digest=required.binding.before_digest,
            bound_after_digest=required.binding.after_digest,
            approved_by=actor,
            created_at=self.place.now(),
        )
        ApprovalStore(self.place).write(approval)
        return approval


def _check_status(place: ClusterPlace, ledger: StoredLedger, findings: Findings) -> None:
    """Note what is wrong with a ledger and with what is stored beside it."""
    path = LedgerFile(place).path
    if not ledger.exists:
        message = "the cluster has no ledger yet; run `omnigraph cluster import`"
        findings.add("state_missing", path, message, severity=Severity.WARNING)
    for problem in composite_problems(ledger.state, path):
        findings.add(problem.details.finding, problem.details.path, problem.message)
    pending_sidecars(place, findings)
    payloads = PayloadStore(place)
    for address, digest in ledger.state.resource_digests.items():
        if not has_payload(address):
            continue
        payload = Payload(address=address, digest=digest)
        try:
            found = payloads.look(payload)
        except ClusterStateError as problem:
            findings.add(problem.details.finding, problem.details.path, problem.message)
            continue
        if found is not PayloadState.WHOLE:
            message = f"{address}: {TOLD[found]}; run `omnigraph cluster refresh`, then apply"
            findings.add(CODES[found], payloads.path(payload), message)


def _age_s(lock: StateLock, place: ClusterPlace) -> int | None:
    try:
        taken_ms = parse_datetime(lock.created_at)
    except ValueFormatError:
        return None
    return max(0, (place.runtime.clock.now_ms() - taken_ms) // 1000)
