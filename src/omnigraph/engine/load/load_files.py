"""A load from its sources to one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints import check_change, find_violations
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.external_blobs import current_intake, taking_blobs
from omnigraph.engine.load.apply import AppliedLog, LogState, apply_log
from omnigraph.engine.load.change import LoadChange, build_change, build_patch
from omnigraph.engine.load.change_log import edge_ends
from omnigraph.engine.load.embedding import MissingVectors
from omnigraph.engine.load.intake import Intake, ProblemList
from omnigraph.engine.load.options import (
    ChangeCounts,
    LoadMode,
    LoadProgress,
    LoadResult,
    LoadSettings,
    OnDelete,
    Progress,
    check_load,
    check_on_delete,
)
from omnigraph.engine.load.sequences import open_memory, stream_of
from omnigraph.engine.load.sources.expand import expand_sources
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.load.spool import Spool, open_spool
from omnigraph.engine.view import GraphView
from omnigraph.errors import (
    AffectedLimitError,
    BadValue,
    ConstraintViolationError,
    ExistingKeys,
    KeyExistsError,
    LimitExceeded,
    SchemaMovedError,
    UsageError,
    Violations,
)
from omnigraph.records import record
from omnigraph.runtime import counting, current_call
from omnigraph.txn.manifest.rows import BatchMark
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.phases import refuse_repeated_batch
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.services import BranchServices
from omnigraph.txn.transaction import CommitView, OnConflict, WriteTxn
from omnigraph.values import CommitId, check_flag, check_instance
from omnigraph.values.counts import counted

KINDS: dict[LoadMode, WriteKind] = {
    "append": WriteKind.LOAD_APPEND,
    "merge": WriteKind.LOAD_MERGE,
    "overwrite": WriteKind.LOAD_OVERWRITE,
    "apply": WriteKind.LOAD_APPLY,
}


def load(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    branch_writer: BranchWriter,
    catalog: Catalog,
    sources: Sequence[Source | str],
    mode: LoadMode,
    *,
    patch: bool = False,
    truncate: bool = False,
    on_delete: OnDelete = "cascade",
    batch: BatchMark | None = None,
    actor: str | None = None,
    message: str | None = None,
    expected_head: CommitId | None = None,
    on_conflict: OnConflict = "rerun",
    schema_hash: str | None = None,
    errors_to: str | Path | None = None,
    progress: Progress | None = None,
    limit: int = 100,
    settings: LoadSettings | None = None,
    embedder: Embedder | None = None,
) -> LoadResult:
    """Read every row of the sources and publish all of them as one commit, or nothing.

    Args:
        branch_writer: the branch to write to.
        catalog: the schema of that branch.
        sources: files, folders, globs, ``s3://`` addresses, or ``-`` for standard input.
        mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` replaces whole types,
            ``apply`` takes the rows of a change log.
        patch: with ``merge``, keep what a row does not mention instead of making it null.
        truncate: cut instants that are finer than a millisecond; otherwise such a row cannot be read.
        on_delete: what an apply that deletes a node does with its edges: they go, or the load is refused.
        batch: which piece of a stream it is; a piece that the branch has already is not published again.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``refuse`` raises when rows that an overwrite replaces or a patch completes have changed, instead
            of making the load again on the newer state.
        schema_hash: the hash of the accepted schema that ``catalog`` is; a branch with another one is refused.
        errors_to: a file for all problems, one JSON object per line.
        progress: told how far the load is.
        limit: how many problems the error holds.
        settings: what the load may use of the machine.
        embedder: computes required ``@embed`` vectors that rows leave out; those of a patch it does not.

    Raises:
        BadRowsError: rows cannot be read or do not fit their type.
        ExternalBlobError: the first such row names a blob outside of the graph that is not allowed.
        ExternalBlobSourceError: it is allowed and cannot be read.
        ConstraintViolationError: the graph would break a rule of its schema.
        KeyExistsError: an id exists already, or stands twice in the input.
        FileMissingError, FileAccessError, SourceTooLargeError: a source cannot be read.
        TypeMissingError: the schema has no type for a source, or the branch no table for it.
        BatchRepeatedError: the branch has this piece of the stream, or a later one, already.
        SchemaMovedError, PreconditionFailedError, ExpectedVersionMismatchError, ClaimBusyError, WriteOutcomeError:
            as for any commit.
    """
    reading = read_sources(
        branch_writer.services,
        catalog,
        sources,
        mode,
        patch=patch,
        truncate=truncate,
        on_delete=on_delete,
        errors_to=errors_to,
        progress=progress,
        limit=limit,
        settings=settings,
        embedder=embedder,
    )
    with reading as rows:
        txn = branch_writer.begin(KINDS[mode], actor=actor, message=message, expected_head=expected_head)
        if batch is not None:
            refuse_repeated_batch(batch, txn.snapshot.state)
            txn.mark_batch(batch)
        expect_schema(txn, schema_hash)
        for table_key in rows.spool.owners:
            txn.snapshot.entry(table_key)
        job = _Job(branch_writer=branch_writer, catalog=catalog, rows=rows, limit=limit)
        done = job.write(txn, is_rerun=on_conflict == "rerun")
        return rows.result(done, job.counts, branch=str(branch_writer.services.line.name), actor=actor)


@record
class SpooledRows:
    """All rows of the sources of a load, read and decoded; ``problems`` is where later ones go."""

    files: Sequence[Source]
    spool: Spool
    problems: ProblemList
    mode: LoadMode
    is_patch: bool
    on_delete: OnDelete = "cascade"

    def result(self, done: CommitResult, counts: ChangeCounts | None, *, branch: str, actor: str | None) -> LoadResult:
        """Return what is told of a load that was published; ``counts`` are those of a change log."""
        nodes, edges = self._counts()
        return LoadResult(
            mode=self.mode,
            branch=branch,
            actor=actor,
            nodes_loaded=nodes,
            edges_loaded=edges,
            commit=done.commit,
            manifest_version=done.manifest_version,
            cost=done.cost,
            changes=counts,
        )

    def receipt(self, counts: ChangeCounts | None) -> dict[str, Any]:
        """Return what :meth:`LoadResult.repeated` needs beside the commit."""
        nodes, edges = self._counts()
        changes = {} if counts is None else {"changes": counts.to_json()}
        return {"mode": self.mode, "nodes": nodes, "edges": edges, **changes}

    def apply(self, catalog: Catalog, state: LogState) -> AppliedLog:
        """Return what the rows of a change log make of a state.

        Raises:
            BadRowsError: a row leaves out what no stored row has, or sequences cannot be compared.
            AffectedLimitError: it changes more entities than the request may.
        """
        applied = apply_log(catalog, self.spool, self.files, state, self.on_delete, self.problems)
        self.check_affected(applied.counts.affected)
        return applied

    def check_affected(self, count: int) -> None:
        """Return if the request may change so many entities.

        Raises:
            AffectedLimitError: there are more.
        """
        most = current_call().max_affected
        if most is not None and count > most:
            details = LimitExceeded(resource="affected entities", limit=most, actual=count)
            raise AffectedLimitError(
                f"{counted(count, 'entity', 'entities')} would be loaded, and at most {most} may", details=details
            )

    def _counts(self) -> tuple[dict[str, int], dict[str, int]]:
        owners, counts = self.spool.owners, self.spool.counts
        nodes = {owners[key].name: n for key, n in counts.items() if not isinstance(owners[key], EdgeType)}
        edges = {owners[key].name: n for key, n in counts.items() if isinstance(owners[key], EdgeType)}
        return nodes, edges


@contextmanager
def read_sources(  # noqa: PLR0913 - what a load may be told
    services: BranchServices,
    catalog: Catalog,
    sources: Sequence[Source | str],
    mode: LoadMode,
    *,
    patch: bool,
    truncate: bool,
    on_delete: OnDelete = "cascade",
    errors_to: str | Path | None,
    progress: Progress | None,
    limit: int,
    settings: LoadSettings | None,
    embedder: Embedder | None,
) -> Iterator[SpooledRows]:
    """Read every row of the sources; temporary files that hold them go with the block.

    Takes and raises what :func:`load` does before it begins to write.
    """
    check_load(mode, errors_to=errors_to, progress=progress, limit=limit)
    check_flag("patch", patch)
    check_flag("truncate", truncate)
    check_on_delete(on_delete, mode)
    check_instance("settings", settings, LoadSettings)
    if patch and mode != "merge":
        details = BadValue(what="mode", value=mode, expected="merge")
        raise UsageError("patch needs mode merge", details=details)
    settings = settings or LoadSettings()
    files = expand_sources(sources, services.stores.datasets.storage.options, check_sums=settings.check_sums)
    is_log = mode == "apply"
    if is_log:
        files = tuple(replace(file, takes_changes=True) for file in files)
    runtime = services.runtime
    with ProblemList(limit, errors_to) as problems, open_spool(settings.memory_bytes, runtime.failpoints) as spool:
        vectors = None if patch or is_log else MissingVectors.find(catalog, embedder)
        intake = Intake(
            catalog=catalog if vectors is None else vectors.catalog,
            settings=settings,
            ids=runtime.ids,
            is_patch=patch,
            truncate=truncate,
            vectors=vectors,
            keeps_empty=mode == "overwrite",
            takes_changes=is_log,
        )
        blobs = current_intake()
        with taking_blobs(blobs.keeping() if mode == "overwrite" else blobs):
            intake.read(files, spool, problems, progress)
        problems.fail()
        if vectors is not None:
            vectors.fill(spool)
        if progress is not None:
            progress(LoadProgress(phase="write", rows=sum(spool.counts.values())))
        rows = SpooledRows(files=files, spool=spool, problems=problems, mode=mode, is_patch=patch, on_delete=on_delete)
        if not is_log:
            rows.check_affected(sum(spool.counts.values()))
        yield rows


@record(frozen=False)
class _Job:
    """What is left to do once all rows are read.

    ``change`` is what they make on the state of the last attempt, ``counts`` what became of those of a change log.
    """

    branch_writer: BranchWriter
    catalog: Catalog
    rows: SpooledRows
    limit: int
    change: LoadChange | None = None
    counts: ChangeCounts | None = None

    def write(self, txn: WriteTxn, *, is_rerun: bool) -> CommitResult:
        """Check the change and publish it; without a row there is nothing to publish."""
        self._decide(txn)
        if is_rerun:
            txn.decide = self._decide
        txn.receipt = lambda: self.rows.receipt(self.counts)
        try:
            return self.branch_writer.commit(txn)
        except KeyExistsError as error:
            raise self._located(error) from error

    def _decide(self, txn: WriteTxn) -> None:
        """Add the rows to a transaction; patches are completed from what its state holds."""
        # A patch holds values that it was not given; they must still be the stored ones.
        rows = self.rows
        txn.keeps_values = rows.is_patch
        if rows.mode == "apply":
            change = self._apply(txn)
        elif rows.is_patch:
            view = GraphView(txn.snapshot, self.catalog)
            with counting(txn.counters), txn.snapshot.reading():
                change = build_patch(rows.spool, rows.files, view.rows_of, rows.problems)
            rows.problems.fail()
        else:
            change = self.change or build_change(rows.spool, rows.files, rows.mode)
        self.change = change
        change.write(txn)
        if not change.graph.is_empty:
            txn.add_check(partial(self._check_on, change))
            # An id that stands twice in the input is not for the rules of every schema to find.
            txn.follows_rules = change.repeated_id() is None

    def _apply(self, txn: WriteTxn) -> LoadChange:
        view, services = GraphView(txn.snapshot, self.catalog), self.branch_writer.services

        def stored_edges(edge: EdgeType, node: NodeType, ids: pa.Array) -> pa.Table:
            columns = [column for column, name in edge_ends(edge) if name == node.name]
            return pa.concat_tables([view.rows_where(edge.table_key, one, ids, ["id"]) for one in columns])

        state = LogState(
            stored_rows=lambda owner, ids, columns: view.rows_of(owner.table_key, ids, columns),
            stored_edges=stored_edges,
            memory=lambda: open_memory(services, txn, stream_of(txn.batch)),
        )
        with counting(txn.counters), txn.snapshot.reading():
            applied = self.rows.apply(self.catalog, state)
            memory = applied.remember()
            if memory is not None:
                txn.sequences = memory.write(services.runtime.ids)
                services.runtime.failpoints.hit("engine.apply.after_sequences")
        for table_key in applied.reads:
            txn.read_table(table_key)
        self.counts = applied.counts
        return applied.change

    def _check_on(self, change: LoadChange, view: CommitView) -> None:
        self._check(change, GraphView.of_commit(view, self.catalog))

    def _check(self, change: LoadChange, view: GraphView) -> None:
        try:
            check_change(change.graph, view, limit=self.limit)
        except ConstraintViolationError as error:
            if self.rows.problems.has_file and isinstance(error.details, Violations):
                self.rows.problems.add(find_violations(change.graph, view, error.details.total).items)
            raise
        repeated = change.repeated_id()
        if repeated is not None:
            raise repeated

    def _located(self, error: KeyExistsError) -> KeyExistsError:
        """Say which row of the input has the id that exists; all such rows go to the file for problems."""
        change = self.change
        if change is None or not isinstance(error.details, ExistingKeys):
            return error
        table_key, ids = error.details.location, pa.array(error.details.ids, pa.string())
        first = next(change.rows_with(table_key, ids), None)
        rows = change.graph.types[table_key].rows
        if self.rows.problems.has_file and rows is not None:
            snapshot = self.branch_writer.snapshot()
            taken = GraphView(snapshot, self.catalog).existing_ids(table_key, rows.column("id"))
            self.rows.problems.add(change.rows_with(table_key, pa.concat_arrays([ids, taken])))
        if first is None:
            return error
        return KeyExistsError(f"{first.place()}: {error.message}", details=error.details)


def expect_schema(txn: WriteTxn, schema_hash: str | None) -> None:
    """Return if the branch follows the schema that the rows were read for.

    Raises:
        SchemaMovedError: it follows another one.
    """
    found = txn.snapshot.state.schema.hash
    if schema_hash is not None and found != schema_hash:
        details = BadValue(what="schema", value=found, expected=schema_hash)
        raise SchemaMovedError("the accepted schema changed while the input was being read", details=details)
