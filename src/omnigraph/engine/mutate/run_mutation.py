"""Running a mutation: statements, validation of the net effect, one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.engine.constraints import check_change
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.mutate.embedding import embed_inserts
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.statements import CallRunner
from omnigraph.engine.view import GraphView
from omnigraph.errors import BadValue, SchemaMovedError
from omnigraph.ir.model import InsertPlan, MutationPlan
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import Cost, counting
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.plan import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.transaction import CommitView, WriteTxn
from omnigraph.values import CommitId


@record
class MutationResult:
    """What a mutation did, where and for whom. ``commit`` is None when the graph was left as it was."""

    branch: str
    actor: str | None
    query_name: str
    affected_nodes: int
    affected_edges: int
    commit: Commit | None
    manifest_version: int
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        """Return the result with the field names of the public contract."""
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_brief_json(),
        }


def is_insert_only(plan: MutationPlan) -> bool:
    """Whether no statement depends on stored rows, so that the mutation may be made again on a newer state."""
    return all(isinstance(statement, InsertPlan) for statement in plan.statements)


def run_mutation(
    branch_writer: BranchWriter,
    catalog: Catalog,
    plan: MutationPlan,
    parameters: Mapping[str, Any] | ParameterRows,
    *,
    actor: str | None = None,
    expected_head: CommitId | None = None,
    now_ms: int | None = None,
    schema_hash: str | None = None,
    embedder: Embedder | None = None,
) -> MutationResult:
    """Run the statements of a mutation in text order and publish their net effect as one commit, or nothing.

    With the parameters of several calls they are run once for each, as if the calls followed each other in one text.

    Args:
        branch_writer: the branch to write to.
        catalog: the schema that the plan was compiled against.
        plan: the mutation.
        parameters: a decoded value for every declared parameter, for one call or for several.
        actor: who asks for it.
        expected_head: the commit that the branch must be at, also when nothing matches.
        now_ms: the instant of the request; read from the clock when not given.
        schema_hash: the hash of the accepted schema that ``catalog`` is; a branch with another one is refused.
        embedder: computes required ``@embed`` vectors that inserts leave out.

    Raises:
        QueryMeaningError: a value does not fit the property it is assigned to, or nothing computes a vector.
        ExternalBlobError: a Blob is given as an address outside the graph.
        ConstraintViolationError: the graph would break a rule of its schema.
        SchemaMovedError: the branch follows another schema than the plan.
        PreconditionFailedError, ExpectedVersionMismatchError, ClaimBusyError, WriteOutcomeError: as for any commit.
    """
    calls = parameters if isinstance(parameters, ParameterRows) else ParameterRows.of_one(parameters)
    if embedder is not None:
        # Before the transaction begins: what takes long must not make the state it is decided on older.
        plan, calls = embed_inserts(plan, calls, catalog, embedder)
    kind = WriteKind.INSERT if is_insert_only(plan) else WriteKind.MUTATE
    txn = branch_writer.begin(kind, actor=actor, expected_head=expected_head)
    _expect_schema(txn, schema_hash)
    runtime = branch_writer.services.runtime
    instant_ms = runtime.clock.now_ms() if now_ms is None else now_ms
    staging = MutationStaging(txn, catalog)
    with counting(txn.counters), txn.snapshot.reading():
        affected = CallRunner(catalog=catalog, staging=staging, now_ms=instant_ms, ids=runtime.ids).run(plan, calls)
        change = staging.net_change()

    def check(view: CommitView) -> None:
        check_change(change, GraphView.of_commit(view, catalog))

    if not change.is_empty:
        txn.add_check(check)
    done = branch_writer.commit(txn)
    return MutationResult(
        branch=str(branch_writer.services.line.name),
        actor=actor,
        query_name=plan.name,
        affected_nodes=affected.nodes,
        affected_edges=affected.edges,
        commit=done.commit,
        manifest_version=done.manifest_version,
        cost=done.cost,
    )


def _expect_schema(txn: WriteTxn, schema_hash: str | None) -> None:
    found = txn.snapshot.state.schema.hash
    if schema_hash is not None and found != schema_hash:
        details = BadValue(what="schema", value=found, expected=schema_hash)
        raise SchemaMovedError("the accepted schema changed while the mutation was being compiled", details=details)
