"""Running a mutation: statements, validation of the net effect, one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.constraints import check_change
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.mutate.calls import CallRunner
from omnigraph.engine.mutate.embedding import embed_inserts
from omnigraph.engine.mutate.matching import Matcher
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.statements import Affected, returned_schema
from omnigraph.engine.mutate.values import decode_blobs
from omnigraph.engine.query.context import ReadMemory
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.engine.versions import EntityVersions, SupportsHistory, known_versions
from omnigraph.engine.view import GraphView
from omnigraph.errors import AffectedLimitError, BadValue, LimitExceeded, SchemaMovedError
from omnigraph.ir.model import InsertPlan, MutationPlan
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters, Runtime, counting
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.plan import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, OnConflict, WriteTxn
from omnigraph.values import CommitId
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable


@record
class MutationResult(Printable):
    """What a mutation did, where and for whom. ``commit`` is None when the graph was left as it was.

    ``warnings`` are sentences about parameters that are legal and probably not meant.
    """

    branch: str
    actor: str | None
    query_name: str
    affected_nodes: int
    affected_edges: int
    commit: Commit | None
    manifest_version: int
    cost: Cost
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    rows: Result | None = None
    warnings: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what changed, by whom, and the rows that came back."""
        counts = f"{counted(self.affected_nodes, 'node')}, {counted(self.affected_edges, 'edge')}"
        yield f"changed {self.branch} via {self.query_name}: {counts}"
        if self.actor is not None:
            yield f"actor_id: {self.actor}"
        if self.rows is not None:
            # Where the rows come from stands in the first line already.
            yield from (line.rstrip() for line in self.rows.to_table().splitlines()[1:])

    def to_json(self) -> dict[str, Any]:
        """Return the result with the field names of the public contract; rows and warnings only if there are some."""
        rows = {} if self.rows is None else {"rows": json.loads(self.rows.to_json())["rows"]}
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_brief_json(),
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
            **rows,
            **warnings,
        }


def run_mutation(  # noqa: PLR0913 - one parameter per option
    branch_writer: BranchWriter,
    catalog: Catalog,
    plan: MutationPlan,
    parameters: Mapping[str, Any] | ParameterRows,
    *,
    actor: str | None = None,
    message: str | None = None,
    expected_head: CommitId | None = None,
    on_conflict: OnConflict = "rerun",
    schema_hash: str | None = None,
    embedder: Embedder | None = None,
    memory: ReadMemory | None = None,
    history: SupportsHistory | None = None,
    max_affected: int | None = None,
) -> MutationResult:
    """Run the statements of a mutation in text order and publish their net effect as one commit, or nothing.

    With the parameters of several calls they are run once for each, as if the calls followed each other in one text.
    A mutation that another writer overtakes is run again on the newer state as if it had been sent then, ``now()`` and
    ids that it makes up included; counts are those of the run that was published.

    Args:
        branch_writer: the branch to write to.
        catalog: the schema that the plan was compiled against.
        plan: the mutation.
        parameters: a decoded value for every declared parameter, for one call or for several.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at, also when nothing matches.
        on_conflict: ``refuse`` raises instead when rows that it was decided on have changed.
        schema_hash: the hash of the accepted schema that ``catalog`` is; a branch with another one is refused.
        embedder: computes required ``@embed`` vectors that inserts leave out.
        memory: what matches share with the reads of the graph.
        history: the commits of the graph, which versions of entities are ids of.
        max_affected: how many entities may be affected; with more it fails and changes nothing.

    Raises:
        QueryMeaningError: a value does not fit the property it is assigned to, or nothing computes a vector.
        ExternalBlobError: a Blob is given as an address outside the graph.
        ConstraintViolationError: the graph would break a rule of its schema.
        EntityChangedError: an entity is not at the version that a statement insists on.
        AffectedLimitError: it would affect more entities than it may.
        SchemaMovedError: the branch follows another schema than the plan.
        PreconditionFailedError, ExpectedVersionMismatchError, ClaimBusyError, WriteOutcomeError: as for any commit.
    """
    calls = parameters if isinstance(parameters, ParameterRows) else ParameterRows.of_one(parameters)
    if embedder is not None:
        # Before the transaction begins: what takes long must not make the state it is decided on older.
        plan, calls = embed_inserts(plan, calls, catalog, embedder, branch_writer.services.runtime.clock.now_ms())
    plan, calls = decode_blobs(plan, calls)
    kind = WriteKind.INSERT if _is_insert_only(plan) else WriteKind.MUTATE
    txn = branch_writer.begin(kind, actor=actor, message=message, expected_head=expected_head)
    _expect_schema(txn, schema_hash)
    run = _Run(
        catalog=catalog,
        plan=plan,
        calls=calls,
        runtime=branch_writer.services.runtime,
        memory=memory,
        history=history,
        max_affected=max_affected,
    )
    run.decide(txn)
    if on_conflict == "rerun":
        txn.decide = run.decide
    done = branch_writer.commit(txn)
    affected = run.affected
    return MutationResult(
        branch=str(branch_writer.services.line.name),
        actor=actor,
        query_name=plan.name,
        affected_nodes=affected.nodes,
        affected_edges=affected.edges,
        commit=done.commit,
        manifest_version=done.manifest_version,
        cost=done.cost,
        inserted=affected.inserted,
        updated=affected.updated,
        deleted=affected.deleted,
        unchanged=affected.unchanged,
        rows=_result(plan, run.rows, str(branch_writer.services.line.name), done.commit, txn.counters),
    )


def _result(
    plan: MutationPlan, rows: Sequence[pa.Table], branch: str, commit: Commit | None, counters: Counters
) -> Result | None:
    if plan.returned is None:
        return None
    schema = returned_schema(plan.returned)
    info = ReadInfo(query_name=plan.name, branch=branch, commit_id=None if commit is None else str(commit.id))
    return Result(schema, pa.concat_tables([schema.empty_table(), *rows]), info, counters)


@dataclass(kw_only=True)
class _Run:
    """The statements of a mutation, which may be run several times.

    ``affected`` is what the last run did, ``rows`` is what it returned.
    """

    catalog: Catalog
    plan: MutationPlan
    calls: ParameterRows
    runtime: Runtime
    memory: ReadMemory | None
    history: SupportsHistory | None
    max_affected: int | None
    affected: Affected = field(default_factory=Affected)
    rows: list[pa.Table] = field(default_factory=list)

    def decide(self, txn: WriteTxn) -> None:
        """Run them on the state of a transaction, and add their net effect to it."""
        staging = MutationStaging(txn, self.catalog)
        runner = CallRunner(
            catalog=self.catalog,
            staging=staging,
            now_ms=self.runtime.clock.now_ms(),
            ids=self.runtime.ids,
            matcher=Matcher(
                catalog=self.catalog,
                staging=staging,
                runtime=self.runtime,
                versions=self._versions(txn.snapshot),
                memory=self.memory,
            ),
        )
        with counting(txn.counters), txn.snapshot.reading():
            self.affected = runner.run(self.plan, self.calls)
            self.rows = runner.rows
            self._check_affected()
            change = staging.net_change()

        def check(view: CommitView) -> None:
            check_change(change, GraphView.of_commit(view, self.catalog))

        if not change.is_empty:
            txn.add_check(check)

    def _versions(self, snapshot: GraphSnapshot) -> EntityVersions:
        known = known_versions() if self.memory is None else self.memory.versions
        return EntityVersions(self.history, snapshot, known)

    def _check_affected(self) -> None:
        count, most = self.affected.nodes + self.affected.edges, self.max_affected
        if most is not None and count > most:
            details = LimitExceeded(resource="affected entities", limit=most, actual=count)
            raise AffectedLimitError(
                f"{counted(count, 'entity', 'entities')} would change, and at most {most} may", details=details
            )


def _is_insert_only(plan: MutationPlan) -> bool:
    """Whether no statement depends on stored rows, so that the net effect is the same on every state."""
    return all(
        isinstance(statement, InsertPlan) and statement.mode is None and statement.for_each is None
        for statement in plan.statements
    )


def _expect_schema(txn: WriteTxn, schema_hash: str | None) -> None:
    found = txn.snapshot.state.schema.hash
    if schema_hash is not None and found != schema_hash:
        details = BadValue(what="schema", value=found, expected=schema_hash)
        raise SchemaMovedError("the accepted schema changed while the mutation was being compiled", details=details)
