"""Phases B and C: landing the table commits of a plan and publishing it. Writers and recovery both run this code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from omnigraph.errors import (
    BadValue,
    BatchRepeatedError,
    ExpectedVersionMismatchError,
    HeadMismatch,
    OmnigraphError,
    PreconditionFailedError,
    RepeatedBatch,
    SchemaMovedError,
    VersionMismatch,
    WriteSweptError,
)
from omnigraph.runtime import Counters, Runtime, counting, current_counters, in_context
from omnigraph.store.staging import StagedCommit
from omnigraph.store.tables.store import TableStore
from omnigraph.txn.changes import ExternalChange, RowChange, TableAlter, TableRegister, WrittenRows
from omnigraph.txn.manifest.file import LoadedManifest, ManifestFile, StagedManifest
from omnigraph.txn.manifest.rows import BatchMark, ManifestState
from omnigraph.txn.publish.kinds import RebaseRule, WriteKind
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.settings import Syncing
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import WriteTxn
from omnigraph.values import CommitId

_log = logging.getLogger(__name__)
_WARM_PATIENCE_S = 0.25

OPERATION_PROPERTY = "omnigraph.operation_id"
COMMIT_PROPERTY = "omnigraph.commit_id"


class Phases:
    """The two phases that move something, for one branch."""

    def __init__(
        self,
        manifest: ManifestFile,
        tables: TableStore,
        syncing: Syncing,
        runtime: Runtime,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._manifest = manifest
        self._tables = tables
        self._syncing = syncing
        self._world = runtime
        self._pool = pool

    def commit_tables(self, plan: PublishPlan) -> None:
        """Phase B. Before: the claim is held. After: every table is at the version the plan says.

        A crash in between leaves some tables ahead of their pins, each carrying the operation id; whoever recovers
        the claim finishes or undoes all of them. Each commit is idempotent, so running this twice is harmless.

        Raises:
            TableMovedError: a table is not where the plan expected it.
        """
        hit = self._world.failpoints.hit
        hit("txn.commit.before_tables")
        chains = tuple(plan.chains.values())
        own = [Counters() for _ in chains]
        jobs = [
            self._pool.submit(in_context(self._commit_chain, count), chain)
            for chain, count in zip(chains[1:], own[1:], strict=True)
        ]
        failures: list[BaseException | None] = []
        if chains:
            # The first table is committed on the calling thread: one-table writes never pay for a hand-over.
            with counting(own[0]):
                failures.append(_attempt(lambda: self._commit_chain(chains[0])))
        failures += [job.exception() for job in jobs]
        current_counters().add_parallel(count.cost() for count in own)
        for failure in failures:
            if failure is not None:
                raise failure
        hit("txn.commit.after_tables")

    def publish(self, plan: PublishPlan, base: LoadedManifest, staged: StagedManifest) -> LoadedManifest:
        """Phase C. Before: every table is at its planned version. After: the change is visible and durable.

        A crash before the compare-and-swap leaves a claim whose tables all landed: recovery publishes it. A crash
        after it leaves a claim that is already fulfilled: recovery only records that.

        Raises:
            CompareAndSwapLostError: the branch is past the plan's base.
            OutcomeUnknownError: storage did not say whether the swap happened.
            BranchMissingError: the branch was deleted right after the swap.
        """
        hit = self._world.failpoints.hit
        hit("txn.publish.before_cas")
        properties: dict[str, str] = {OPERATION_PROPERTY: plan.operation_id}
        if plan.change.commits:
            properties[COMMIT_PROPERTY] = plan.change.commits[-1].id
        published = self._manifest.publish(base, staged, uuid=plan.publish_uuid, properties=properties)
        hit("txn.publish.after_cas")
        # Others go on from a version as soon as they see it, also with deleting the branch.
        with published.life.reading():
            self._syncing.after_publish(published.dataset)
        return published

    def stage(self, base: LoadedManifest, plan: PublishPlan) -> StagedManifest:
        """Upload what the plan's version consists of; once it is visible, everything it names survives a power loss."""
        staged = self._manifest.stage(base, plan.change)
        known = {fragment.files for fragment in base.dataset.fragments}
        brought = [fragment for fragment in staged.fragments if fragment.files not in known]
        self._syncing.before_publish(base.dataset.pin, brought)
        return staged

    def publish_and_warm(self, plan: PublishPlan, base: LoadedManifest, staged: StagedManifest) -> LoadedManifest:
        """Phase C of a live writer, which reads back beside it what its next change would have to wait for."""
        commits = [commit for commit in plan.commits if self._tables.can_warm(commit)]
        if not commits:
            return self.publish(plan, base, staged)
        swap, own = Counters(), [Counters() for _ in commits]
        warming = [
            self._pool.submit(in_context(self._warm_one, count), commit)
            for commit, count in zip(commits, own, strict=True)
        ]
        try:
            with counting(swap):
                return self.publish(plan, base, staged)
        finally:
            # It takes half as long as the publish, so that only a store in trouble makes it late, and nobody waits.
            wait(warming, timeout=_WARM_PATIENCE_S)
            current_counters().add_parallel([swap.cost(), *(count.cost() for count in own)])

    def stage_beside(self, base: LoadedManifest, plan: PublishPlan, counters: Counters) -> Future[StagedManifest]:
        """Upload the next manifest while the tables commit; nothing in it depends on how they fare."""
        return self._pool.submit(in_context(self.stage, counters), base, plan)

    def _commit_chain(self, chain: Sequence[StagedCommit]) -> None:
        for commit in chain:
            self._world.failpoints.hit("txn.commit.before_table")
            self._syncing.before_landing(commit)
            self._tables.commit(commit)
            self._world.failpoints.hit("txn.commit.after_table")
            self._syncing.after_landing(commit)

    def _warm_one(self, commit: StagedCommit) -> None:
        try:
            self._tables.warm(commit)
        except OmnigraphError as error:
            # The write does not depend on it: a cache that stays cold costs the next change one call.
            _log.debug("could not read back deletion files of '%s': %s", commit.after.location, error)


def _attempt(run: Callable[[], None]) -> OmnigraphError | None:
    try:
        run()
    except OmnigraphError as error:
        return error
    return None


# Commits that leave every row as it was; undoing an abandoned write brings back what was published.
_TIDYING = frozenset({WriteKind.OPTIMIZE.value, WriteKind.ENSURE_INDICES.value, WriteKind.RECOVERY.value})


def check_head(state: ManifestState, expected: CommitId | None) -> None:
    """Return if a branch is at the commit that the caller expects.

    Raises:
        PreconditionFailedError: it is not.
    """
    head = state.head
    if expected is not None and head.commit != expected:
        raise PreconditionFailedError(
            f"the head of branch '{head.branch}' is commit '{head.commit}', not '{expected}'",
            details=HeadMismatch(branch=head.branch, expected=expected, actual=head.commit),
        )


def check_rebase(txn: WriteTxn, snapshot: GraphSnapshot) -> None:
    """Return if ``txn`` may go on upon a newer state; whether its constraints hold there is for its checks to say.

    Raises:
        WriteSweptError: a cleanup may have removed files that it names.
        PreconditionFailedError: the caller demanded a head that is not the head any more.
        SchemaMovedError: the rows were made for another schema.
        ExpectedVersionMismatchError: rows it was decided on have changed and only the caller can decide again.
    """
    base, newer = txn.snapshot.state, snapshot.state
    _refuse_repeated(txn, newer)
    check_head(newer, txn.expected_head)
    if newer.version == base.version:
        return
    _refuse_cleaned(txn, newer)
    if newer.schema.hash != base.schema.hash:
        details_schema = BadValue(what="schema", value=newer.schema.hash, expected=base.schema.hash)
        raise SchemaMovedError("the accepted schema changed during the write", details=details_schema)
    if txn.rule is RebaseRule.REFUSE:
        for table_key in sorted({*txn.changes, *txn.reads.table_keys}):
            if has_moved(table_key, base, newer) and txn.is_stale(table_key, snapshot):
                _refuse_moved(table_key, base, newer)
    for change in txn.changes.values():
        if isinstance(change, TableRegister) or (isinstance(change, WrittenRows) and not change.is_append):
            _refuse_moved(change.table_key, base, newer)


def _refuse_repeated(txn: WriteTxn, newer: ManifestState) -> None:
    # Before anything else: the rows of a piece that is there already cannot be inserted again.
    feed = txn.feed
    if feed is not None and newer.feeds.get(feed.source) != txn.feed_base:
        details_feed = VersionMismatch(table_key=feed.source, expected=feed.sequence, actual=newer.version)
        raise ExpectedVersionMismatchError("another write has applied the same feed", details=details_feed)
    if txn.batch is not None:
        refuse_repeated_batch(txn.batch, newer)
    _refuse_other_sequences(txn, newer)


def _refuse_other_sequences(txn: WriteTxn, newer: ManifestState) -> None:
    """Refuse what was decided on sequences that are not the newest, or names files that a cleanup may have removed."""
    base = txn.snapshot.state.version
    for stream, known in txn.sequence_bases.items():
        if newer.sequences.get(stream) != known or (txn.sequences and base < newer.head.last_cleanup):
            details = VersionMismatch(table_key=f"sequences of '{stream}'", expected=base, actual=newer.version)
            raise ExpectedVersionMismatchError("another write has applied rows of the same stream", details=details)


def refuse_repeated_batch(mark: BatchMark, newer: ManifestState) -> None:
    """Return if a branch has not got a piece of a stream yet.

    Raises:
        BatchRepeatedError: it has this piece or a later one.
    """
    last = newer.batches.get(mark.app)
    if last is not None and last >= mark.number:
        details = RepeatedBatch(app=mark.app, number=mark.number, last=last)
        raise BatchRepeatedError(f"batch {mark.number} of '{mark.app}' is already on the branch", details=details)


def _refuse_cleaned(txn: WriteTxn, newer: ManifestState) -> None:
    """Refuse what names files or states from before a cleanup, which may have taken them away."""
    base, head = txn.snapshot.state.version, newer.head
    for change in txn.changes.values():
        is_swept = isinstance(change, ExternalChange) and base < head.orphan_floor
        adopts = isinstance(change, RowChange | TableAlter | TableRegister) and change.outcome is not None
        if is_swept or (adopts and base < head.last_cleanup):
            raise swept_error(change.table_key, base, head.last_cleanup)


def swept_error(table_key: str, expected: int, actual: int) -> WriteSweptError:
    """Return the error for files that a cleanup may have taken away."""
    details = VersionMismatch(table_key=table_key, expected=expected, actual=actual)
    return WriteSweptError(
        f"a concurrent cleanup changed table '{table_key}': expected version {expected}, found {actual}",
        details=details,
    )


def _was_only_tidied(table_key: str, base: ManifestState, newer: ManifestState) -> bool:
    """Whether a table holds the rows that it held: nothing but maintenance came in between."""
    before, after = base.table(table_key), newer.table(table_key)
    if before is None or after is None:
        return False
    if (before.pin.location, before.pin.branch) != (after.pin.location, after.pin.branch):
        return False
    at, known = newer.head.commit, {commit.id: commit for commit in newer.recent}
    while at != base.head.commit:
        commit = known.get(at)
        # What the newest version does not tell is not worth reading history for.
        if commit is None or commit.parent is None:
            return False
        if table_key in commit.touched and commit.operation not in _TIDYING:
            return False
        at = commit.parent
    return True


def has_moved(table_key: str, base: ManifestState, newer: ManifestState) -> bool:
    """Whether a table may hold other rows in ``newer`` than in ``base``."""
    before, after = base.table(table_key), newer.table(table_key)
    return (before and before.pin) != (after and after.pin) and not _was_only_tidied(table_key, base, newer)


def moved(table_key: str, expected: int, actual: int) -> ExpectedVersionMismatchError:
    """Return the error for a table that is not what the write was made for."""
    details = VersionMismatch(table_key=table_key, expected=expected, actual=actual)
    return ExpectedVersionMismatchError(
        f"table '{table_key}', which the write depends on, has changed: expected version {expected}, found {actual}",
        details=details,
    )


def _refuse_moved(table_key: str, base: ManifestState, newer: ManifestState) -> None:
    before, after = base.table(table_key), newer.table(table_key)
    if (before and before.pin) == (after and after.pin):
        return
    raise moved(table_key, 0 if before is None else before.pin.version, 0 if after is None else after.pin.version)
