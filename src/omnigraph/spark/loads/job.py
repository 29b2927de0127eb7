"""From the parts that tasks have read to one commit: problems, rules, writing, publishing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.external_blobs import ExternalBlobs
from omnigraph.engine.load import ChangeCounts, LoadMode, LoadProgress, OnDelete
from omnigraph.engine.load.embedding import MissingVectors
from omnigraph.engine.load.intake import ProblemList
from omnigraph.engine.load.load_files import KINDS, expect_schema
from omnigraph.engine.load.options import Progress
from omnigraph.engine.load.sequences import StreamMemory, open_memory, stream_of
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.rows.changes import NO_SEQUENCE
from omnigraph.errors import (
    ConstraintViolationError,
    Effect,
    ExpectedVersionMismatchError,
    OmnigraphError,
    Violations,
)
from omnigraph.records import record
from omnigraph.spark.keys import Places
from omnigraph.spark.loads.change_log import LogChange, LogDecider
from omnigraph.spark.loads.decided import DecidedWriter
from omnigraph.spark.loads.leftovers import discard_noted
from omnigraph.spark.loads.options import SparkLoadResult, SparkLoadSettings
from omnigraph.spark.loads.tables import TableChanges, TableWriter
from omnigraph.spark.loads.written import BlobOrders, LoadedInput, LoadedPart, LoadedType, WriteOrders
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.spark.rules import ChangeKeys, TypeKeys, Verdict, check_change
from omnigraph.spark.runner import Runner
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket, discard_fragments
from omnigraph.txn.manifest.rows import BatchMark, RunMark
from omnigraph.txn.publish.phases import moved, refuse_repeated_batch, swept_error
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, OnConflict, WriteTxn
from omnigraph.values import MAIN, BranchName, CommitId

# More violations than any load has.
_EVERY = 1 << 31


@record
class SparkLoadRequest:
    """What a caller asks for; :func:`omnigraph.spark.load` says what each of it means."""

    mode: LoadMode
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: CommitId | None = None
    on_conflict: OnConflict = "rerun"
    errors_to: str | Path | None = None
    progress: Progress | None = None
    limit: int = 100
    truncate: bool = False
    on_delete: OnDelete = "cascade"
    # Which piece of a stream it is.
    batch: BatchMark | None = None
    # What the commit says of the run of a pipeline that it is; asked when it is about to be published.
    run: Callable[[], RunMark] | None = None
    # The column that neighbouring rows should share, by table.
    cluster_by: Mapping[str, str] = field(default_factory=dict)
    settings: SparkLoadSettings = field(default_factory=SparkLoadSettings)
    # The stream whose sequences are remembered, where that is not the one of the batch.
    stream: str | None = None
    # What happens to the stored rows of a table, where that is not ``mode``.
    modes: Mapping[str, LoadMode] = field(default_factory=dict)

    def mode_of(self, table_key: str) -> LoadMode:
        """Return what happens to the stored rows of a table."""
        return self.modes.get(table_key, self.mode)


class LoadJob:
    """One load. ``orders`` is what the tasks that read the input need; ``finish`` takes what they made of it.

    Args:
        engine: the open graph.
        request: what is asked for.
        runner: who works.
        writes_directly: tasks may write rows to tables while they read; otherwise all rows are put aside, which
            makes what they wrote good for any later state of the branch.
    """

    def __init__(
        self, engine: OpenGraph, request: SparkLoadRequest, runner: Runner, *, writes_directly: bool = True
    ) -> None:
        self._request = request
        self._runner = runner
        self._writes_directly = writes_directly
        self._authority, newest = engine.store.current(BranchName.parse(request.branch))
        self._schema_hash = newest.state.schema.hash
        self._read_on = newest.state.version
        self._catalog = engine.catalog_at(newest)
        services = self._authority.services
        self._world = services.runtime
        self.storage = services.stores.datasets.storage
        self.scratch = ScratchPlace(storage=self.storage, operation_id=str(self._world.ids.ulid()))
        is_log = request.mode == "apply"
        if request.batch is not None:
            refuse_repeated_batch(request.batch, newest.state)
        vectors = None if is_log else MissingVectors.find(self._catalog, engine.embedder)
        self.orders = WriteOrders(
            catalog=self._catalog,
            scratch=self.scratch,
            tickets=self._direct_tickets(newest) if writes_directly and request.mode not in {"merge", "apply"} else {},
            settings=request.settings,
            truncate=request.truncate,
            opened=None if vectors is None else vectors.catalog,
            takes_changes=is_log,
            blobs=self._blob_orders(engine.external_blobs),
        )
        self._changes: ChangeCounts | None = None
        self._txn: WriteTxn | None = None
        # The tables that the input names, with rows or without.
        self._named: set[str] = set()
        self._seconds: dict[str, float] = {}
        self._since = self._world.clock.monotonic_s()

    def resume(self, orders: WriteOrders, read_on: int) -> None:
        """Go on with what tasks did by other orders, on states of the branch no older than version ``read_on``."""
        self.orders, self.scratch = orders, orders.scratch
        self._read_on = min(self._read_on, read_on)

    def name_tables(self, table_keys: Iterable[str]) -> None:
        """Say which types the input is about: an overwrite empties one of which it has no row."""
        self._named.update(key for key in table_keys if self._request.mode_of(key) == "overwrite")

    def step_done(self, step: str) -> None:
        """Take down how long the step that ends here has taken."""
        moment = self._world.clock.monotonic_s()
        self._seconds[step] = self._seconds.get(step, 0.0) + moment - self._since
        self._since = moment

    def run(self, read: Callable[[list[LoadedPart]], Places]) -> SparkLoadResult:
        """Do all of it and leave nothing in the scratch place.

        Args:
            read: adds what tasks told to the list it gets, and returns what their row numbers stand for.

        Raises:
            OmnigraphError: what ``read`` or :meth:`finish` raises; rows that no commit names were removed.
            KeyboardInterrupt: the caller was interrupted; the same holds, unless a commit had begun.
        """
        written: list[LoadedPart] = []
        try:
            return self.finish(written, read(written))
        except BaseException as error:
            is_clean = isinstance(error, OmnigraphError) and error.effect is Effect.NONE
            if is_clean or not self._may_be_named:
                discard_noted(self.scratch)
            raise
        finally:
            self.scratch.clear()

    def finish(self, parts: Sequence[LoadedPart], places: Places) -> SparkLoadResult:
        """Check and publish what tasks have read, all of it or nothing.

        Raises:
            OmnigraphError: whatever :func:`omnigraph.engine.load.load` does.
        """
        self.step_done("read")
        self._world.failpoints.hit("spark.load.after_read")
        blobs = self.orders.blobs
        # Each task takes care that it alone does not copy too much.
        if blobs is not None and sum(part.copied_bytes for part in parts) > blobs.allowed.max_bytes:
            raise blobs.allowed.exceeded()
        outcome = LoadedInput.of(self._catalog, self.scratch, parts, places, named=self._named)
        with ProblemList(self._request.limit, self._request.errors_to) as problems:
            outcome.report(problems)
            problems.fail()
            written, done = self._publish(outcome, problems)
        self.step_done("publish")
        return self._result(outcome, written, done)

    def discard(self, parts: Sequence[LoadedPart], error: OmnigraphError) -> None:
        """Remove the rows that tasks wrote to tables, if ``error`` says that no commit names them."""
        if error.effect is Effect.NONE:
            for part in parts:
                for item in part.types:
                    if item.fragments:
                        discard_fragments(self.orders.tickets[item.table_key], item.fragments)

    def _blob_orders(self, allowed: ExternalBlobs | None) -> BlobOrders | None:
        if allowed is None or not allowed.bases:
            return None
        tables = [one.table_key for one in self._catalog.nodes.values()]
        tables += [one.table_key for one in self._catalog.edges.values()]
        kept = frozenset(key for key in tables if self._request.mode_of(key) == "overwrite")
        return BlobOrders(allowed=allowed, options=dict(self.storage.options), kept=kept)

    @property
    def _may_be_named(self) -> bool:
        """Whether a commit may name what tasks wrote: an interrupt tells nothing of one that had begun."""
        return self._txn is not None and bool(self._txn.changes)

    def _publish(self, outcome: LoadedInput, problems: ProblemList) -> tuple[TableChanges, CommitResult]:
        attempt = 0
        while True:
            attempt += 1
            txn = self._begin(outcome)
            try:
                return self._publish_on(txn, outcome, problems)
            except ExpectedVersionMismatchError:
                # Rows that were compared with stored ones, or replace them, meet what is stored by then. An append does
                # neither: its files lie at a place that is not the table's any more, and would again.
                is_placed = self._writes_directly and self._request.mode == "append"
                can_repeat = self._request.on_conflict == "rerun" and not is_placed
                if not can_repeat or attempt >= self._request.settings.attempts:
                    raise

    def _begin(self, outcome: LoadedInput) -> WriteTxn:
        request = self._request
        txn = self._authority.begin(
            KINDS[request.mode], actor=request.actor, message=request.message, expected_head=request.expected_head
        )
        expect_schema(txn, self._schema_hash)
        head = txn.snapshot.state.head
        for table_key, loaded in outcome.types.items():
            txn.snapshot.entry(table_key)
            if loaded.fragments and self._read_on < head.orphan_floor:
                raise swept_error(table_key, self._read_on, head.orphan_floor)
        if request.batch is not None:
            txn.mark_batch(request.batch)
        self._txn = txn
        return txn

    def _publish_on(
        self, txn: WriteTxn, outcome: LoadedInput, problems: ProblemList
    ) -> tuple[TableChanges, CommitResult]:
        if self._request.mode == "apply":
            return self._apply_on(txn, outcome, problems)
        self._tell("check", outcome)
        verdict = self._check(outcome, txn.snapshot, problems)
        self.step_done("check")
        self._world.failpoints.hit("spark.load.after_check")
        self._tell("write", outcome)
        writer = self._table_writer()
        written = writer.write(self._authority, txn, outcome.types, self.orders.tickets, verdict.superseded)
        self.step_done("write")
        self._world.failpoints.hit("spark.load.after_write")
        for change in written.changes:
            txn.change(change)
        txn.is_recorded = any(loaded.rows for loaded in outcome.types.values())

        def check_again(view: CommitView) -> None:
            if view.snapshot.state.version != txn.snapshot.state.version:
                self._refuse_moved(txn, outcome, view)
                self._check(outcome, view.snapshot, problems)

        if written.changes:
            txn.add_check(check_again)
        return written, self._commit(txn)

    def _apply_on(
        self, txn: WriteTxn, outcome: LoadedInput, problems: ProblemList
    ) -> tuple[TableChanges, CommitResult]:
        """Decide what a change log makes of the state of a transaction, check it, and publish it."""
        log = LogDecider(
            runner=self._runner,
            catalog=self._catalog,
            scratch=self.scratch,
            types=outcome.types,
            places=outcome.places,
            on_delete=self._request.on_delete,
            settings=self._request.settings,
            memory=self._memory(txn, outcome.types),
        )
        problems.add(log.mixed_sequences())
        problems.fail()
        self._tell("check", outcome)
        decided = log.decide(PinnedState.of(self.storage, txn.snapshot))
        problems.add(decided.problems)
        problems.fail()
        self._judge(log, decided, txn.snapshot, problems)
        self.step_done("check")
        self._world.failpoints.hit("spark.load.after_check")
        self._tell("write", outcome)
        self._changes = decided.counts
        return self._publish_log(txn, log, decided, problems)

    def _memory(self, txn: WriteTxn, types: Mapping[str, LoadedType]) -> StreamMemory | None:
        """Return what the stream of a change log remembers; None where no row has a sequence."""
        if all(loaded.kinds.keys() <= {NO_SEQUENCE} for loaded in types.values()):
            return None
        stream = stream_of(self._request.batch) if self._request.stream is None else self._request.stream
        return open_memory(self._authority.services, txn, stream)

    def _publish_log(
        self, txn: WriteTxn, log: LogDecider, decided: LogChange, problems: ProblemList
    ) -> tuple[TableChanges, CommitResult]:
        """Write what was decided of a change log, and commit it; the rules are asked again if the branch moves."""
        settings = self._request.settings
        writer = DecidedWriter(
            runner=self._runner,
            storage=self.storage,
            scratch=self.scratch,
            write_rows=settings.merge_rows,
            write_bytes=settings.flush_bytes,
            fragment_rows=settings.fragment_rows,
        )
        changes = tuple(writer.write(self._authority, txn, decided.tables))
        self.step_done("write")
        self._world.failpoints.hit("spark.load.after_write")
        for change in changes:
            txn.change(change)
        for table_key in decided.reads:
            txn.read_table(table_key)
        txn.sequences = log.remember(decided.added)
        self._world.failpoints.hit("engine.apply.after_sequences")

        def check_again(view: CommitView) -> None:
            if view.snapshot.state.version != txn.snapshot.state.version:
                self._judge(log, decided, view.snapshot, problems)

        if changes:
            txn.add_check(check_again)
        return TableChanges(changes=changes, unchanged={}), self._commit(txn)

    def _table_writer(self) -> TableWriter:
        return TableWriter(
            runner=self._runner,
            storage=self.storage,
            scratch=self.scratch,
            mode_of=self._request.mode_of,
            settings=self._request.settings,
            cluster_by=self._request.cluster_by,
        )

    def _commit(self, txn: WriteTxn) -> CommitResult:
        if self._request.run is not None:
            txn.run = self._request.run()
        return self._authority.commit(txn)

    def _judge(self, log: LogDecider, decided: LogChange, snapshot: GraphSnapshot, problems: ProblemList) -> None:
        if not decided.tables:
            return
        limit = max(self._request.limit, 1)
        found = log.judge(decided, PinnedState.of(self.storage, snapshot), _EVERY if problems.has_file else limit)
        if found.total:
            problems.add(found.items if problems.has_file else ())
            details = Violations(items=found.items[:limit], total=found.total)
            raise ConstraintViolationError(found.items[0].message, details=details)

    def _check(self, outcome: LoadedInput, snapshot: GraphSnapshot, problems: ProblemList) -> Verdict:
        """Ask the rules about the rows upon a state.

        Raises:
            ConstraintViolationError, KeyExistsError: they do not hold.
        """
        if not outcome.types:
            return Verdict()
        limit = max(self._request.limit, 1)
        verdict = check_change(
            self._change(outcome, snapshot),
            self._runner,
            limit=limit,
            before=outcome.broken_rows(limit),
            keeps_problems=problems.has_file,
            settings=self._request.settings.rules,
        )
        if verdict.error is None:
            return verdict
        if problems.has_file:
            if isinstance(verdict.error, ConstraintViolationError):
                problems.add(outcome.every_broken_row())
            problems.add(verdict.every_problem(self.scratch))
        raise verdict.error

    def _change(self, outcome: LoadedInput, snapshot: GraphSnapshot) -> ChangeKeys:
        mode_of = self._request.mode_of
        return ChangeKeys(
            catalog=self._catalog,
            types={
                key: TypeKeys(
                    type=loaded.owner,
                    files=loaded.keys,
                    strict=mode_of(key) == "append",
                    replaces_all=mode_of(key) == "overwrite",
                    has_fresh_ids=loaded.has_fresh_ids,
                )
                for key, loaded in outcome.types.items()
            },
            places=outcome.places,
            scratch=self.scratch,
            tables={
                key: TableTicket(storage=self.storage, pin=entry.pin) for key, entry in snapshot.state.tables.items()
            },
        )

    def _refuse_moved(self, txn: WriteTxn, outcome: LoadedInput, view: CommitView) -> None:
        """Rows of a merge were found to be stored or not; that must still be so."""
        for key in txn.changes:
            if self._request.mode_of(key) != "merge":
                continue
            before, after = txn.snapshot.entry(key).pin, view.snapshot.entry(key).pin
            if before != after and not outcome.types[key].has_fresh_ids:
                raise moved(key, before.version, after.version)

    def _direct_tickets(self, newest: GraphSnapshot) -> dict[str, TableTicket]:
        # A table that the branch only inherits has no place of its own yet, and where it will be may change.
        line = self._authority.services.line
        return {
            key: TableTicket(storage=self.storage, pin=entry.pin)
            for key, entry in newest.state.tables.items()
            if line.owns(entry.pin) and key not in self._request.cluster_by
        }

    def _tell(self, phase: str, outcome: LoadedInput) -> None:
        if self._request.progress is not None:
            rows = sum(loaded.rows for loaded in outcome.types.values())
            read = sum(part.bytes_read for part in outcome.parts)
            told = LoadProgress(phase="check" if phase == "check" else "write", bytes_read=read, rows=rows)
            self._request.progress(replace(told, bytes_total=read))

    def _result(self, outcome: LoadedInput, written: TableChanges, done: CommitResult) -> SparkLoadResult:
        counts = {loaded.owner.table_key: loaded for loaded in outcome.types.values()}
        edges = {key for key, loaded in counts.items() if isinstance(loaded.owner, EdgeType)}
        return SparkLoadResult(
            mode=self._request.mode,
            branch=str(self._authority.services.line.name),
            actor=self._request.actor,
            nodes_loaded={loaded.owner.name: loaded.rows for key, loaded in counts.items() if key not in edges},
            edges_loaded={loaded.owner.name: loaded.rows for key, loaded in counts.items() if key in edges},
            commit=done.commit,
            manifest_version=done.manifest_version,
            cost=done.cost,
            unchanged={counts[key].owner.name: count for key, count in written.unchanged.items()},
            seconds=dict(self._seconds),
            bytes_read=sum(part.bytes_read for part in outcome.parts),
            fragments=sum(len(change.fragments) for change in written.changes),
            changes=self._changes,
        )
