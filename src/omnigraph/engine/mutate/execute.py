"""Running a mutation: statements, validation of the net effect, one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.engine.constraints import check_change
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.mutate.mutation import (
    MutationOutcome,
    MutationResult,
    MutationSurroundings,
    PreparedMutation,
)
from omnigraph.engine.mutate.overlay import PendingCopies
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.statements import Affected
from omnigraph.engine.query.context import ReadMemory
from omnigraph.engine.versions import SupportsHistory
from omnigraph.engine.view import GraphView
from omnigraph.errors import BadValue, SchemaMovedError
from omnigraph.ir.model import MutationPlan
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import Runtime, counting
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, OnConflict, WriteTxn
from omnigraph.values import CommitId


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
    newest: GraphSnapshot | None = None,
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
        newest: the state that the caller has just looked at, which saves another look.

    Raises:
        QueryMeaningError: a value does not fit the property it is assigned to, or nothing computes a vector.
        ExternalBlobError: a Blob is given as an address outside the graph.
        ConstraintViolationError: the graph would break a rule of its schema.
        EntityChangedError: an entity is not at the version that a statement insists on.
        AffectedLimitError: it would affect more entities than it may.
        SchemaMovedError: the branch follows another schema than the plan.
        PreconditionFailedError, ExpectedVersionMismatchError, ClaimBusyError, WriteOutcomeError: as for any commit.
    """
    runtime = branch_writer.services.runtime
    # Before the transaction begins: what takes long must not make the state it is decided on older.
    mutation = PreparedMutation.of(
        catalog,
        plan,
        parameters,
        now_ms=runtime.clock.now_ms(),
        embedder=embedder,
        max_affected=max_affected,
    )
    kind = WriteKind.INSERT if mutation.is_insert_only else WriteKind.MUTATE
    # Vectors that were computed took their time; anything else did not make the state much older.
    on = newest if mutation.plan is plan else None
    txn = branch_writer.begin(kind, actor=actor, message=message, expected_head=expected_head, on=on)
    _expect_schema(txn, schema_hash)
    run = _Run(mutation=mutation, runtime=runtime, memory=memory, history=history)
    run.decide(txn)
    if on_conflict == "rerun":
        txn.decide = run.decide
    txn.receipt = lambda: mutation.receipt(run.outcome)
    done = branch_writer.commit(txn)
    branch = str(branch_writer.services.line.name)
    return mutation.result(run.outcome, done, branch=branch, actor=actor, counters=txn.counters)


@record(frozen=False)
class _Run:
    """A mutation on the state of a transaction; ``outcome`` is what the last run did."""

    mutation: PreparedMutation
    runtime: Runtime
    memory: ReadMemory | None
    history: SupportsHistory | None
    outcome: MutationOutcome = field(default_factory=lambda: MutationOutcome(affected=Affected(), rows=()))

    def decide(self, txn: WriteTxn) -> None:
        """Run the statements on the state of a transaction, and add their net effect to it."""
        catalog = self.mutation.catalog
        staging = MutationStaging(txn, catalog)
        with PendingCopies(self.runtime) as copies, counting(txn.counters), txn.snapshot.reading():
            within = MutationSurroundings(
                staging=staging,
                copies=copies,
                runtime=self.runtime,
                ids=self.runtime.ids,
                now_ms=self.runtime.clock.now_ms(),
                memory=self.memory,
                history=self.history,
            )
            self.outcome = self.mutation.run(within)
            change = staging.net_change()

        def check(view: CommitView) -> None:
            check_change(change, GraphView.of_commit(view, catalog))

        if not change.is_empty:
            txn.add_check(check)
            txn.follows_rules = True


def _expect_schema(txn: WriteTxn, schema_hash: str | None) -> None:
    found = txn.snapshot.state.schema.hash
    if schema_hash is not None and found != schema_hash:
        details = BadValue(what="schema", value=found, expected=schema_hash)
        raise SchemaMovedError("the accepted schema changed while the mutation was being compiled", details=details)
