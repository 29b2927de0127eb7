"""Applying a schema: plan, look at the rows, change tables and schema in one commit, then reclaim what must go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.catalog import Catalog
from omnigraph.catalog.migration import HintDiagnostic, MigrationPlan, Step, plan_migration
from omnigraph.engine.accepted import accept_schema
from omnigraph.engine.schema.lower import continued_types, dropped_types, lower_schema
from omnigraph.engine.schema.validate import check_rows, rows_to_check
from omnigraph.errors import Diagnostic, OmnigraphError, SchemaPlanError
from omnigraph.lang.pg import parse_schema
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters
from omnigraph.store.pins import TablePin
from omnigraph.txn.authority import GraphPublishAuthority
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema, Commit
from omnigraph.txn.plan import WriteKind
from omnigraph.txn.snapshot import Snapshot
from omnigraph.txn.transaction import WriteTxn
from omnigraph.values import BranchName, CommitId


@record
class SchemaApplyResult:
    """What applying a schema did. ``commit`` is None when the graph had that schema already.

    ``warnings`` tells what did not work out after the commit; the schema is in force all the same.
    """

    supported: bool
    applied: bool
    steps: tuple[Step, ...]
    commit: Commit | None
    manifest_version: int
    diagnostics: tuple[HintDiagnostic, ...]
    warnings: tuple[str, ...]
    cost: Cost


def apply_schema(
    store: GraphStore,
    branch: BranchName,
    desired: str | bytes,
    *,
    catalog_of: Callable[[AcceptedSchema], Catalog],
    allow_data_loss: bool = False,
    actor: str | None = None,
    expected_head: CommitId | None = None,
    source_name: str = "<schema>",
) -> SchemaApplyResult:
    """Bring a branch to a desired schema, rows included, as one commit or not at all.

    Args:
        store: the open graph.
        branch: where to apply it; other branches keep their schemas.
        desired: the schema to move to.
        catalog_of: decodes the schema that is in force.
        allow_data_loss: make every drop a hard one: earlier versions of the tables concerned are reclaimed.
        actor: who asks for it.
        expected_head: the commit that the branch must be at.
        source_name: what errors call the desired schema.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        SchemaPlanError: a rename hint cannot be followed, or a change cannot be made; the message names the first.
        ConstraintViolationError: a row breaks a rule that was to be added.
        ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
        PreconditionFailedError: the branch is not at ``expected_head``.
    """
    source = desired.encode() if isinstance(desired, str) else desired
    tree = parse_schema(source, source_name)
    authority, _ = store.current(branch, Counters())
    txn = authority.begin(WriteKind.SCHEMA_APPLY, actor=actor, expected_head=expected_head)
    accepted = catalog_of(txn.snapshot.state.schema)
    plan = plan_migration(accepted, tree, allow_data_loss=allow_data_loss)
    _refuse_unsupported(plan)
    if not plan.is_empty:
        _fill(txn, accepted, plan, source.decode())
    done = authority.commit(txn)
    doomed = _superseded(authority, txn.snapshot, accepted, plan.catalog) if allow_data_loss and done.commit else []
    return SchemaApplyResult(
        supported=True,
        applied=done.commit is not None,
        steps=plan.steps,
        commit=done.commit,
        manifest_version=done.manifest_version,
        diagnostics=plan.diagnostics,
        warnings=_reclaim(store, doomed),
        cost=done.cost,
    )


def _refuse_unsupported(plan: MigrationPlan) -> None:
    refusal = plan.first_refusal
    if refusal is not None:
        rule = "unsupported_change" if refusal.code is None else refusal.code.code
        details = Diagnostic(rule=rule, found=refusal.entity)
        hint = f"this is about {refusal.entity}; `omnigraph schema plan` shows every step"
        raise SchemaPlanError(refusal.message, details=details, hint=hint)


def _fill(txn: WriteTxn, accepted: Catalog, plan: MigrationPlan, source: str) -> None:
    for change in lower_schema(accepted, plan.catalog):
        txn.change(change)
    txn.set_schema(accept_schema(source, plan.catalog))
    checks = rows_to_check(accepted, plan)
    for check in checks:
        txn.read_table(check.table_key)
    txn.add_check(lambda view: check_rows(checks, view.snapshot, txn.counters))


def _superseded(
    authority: GraphPublishAuthority, base: Snapshot, accepted: Catalog, desired: Catalog
) -> list[TablePin]:
    """Return, for every table that lost something, the oldest version that may stay.

    A table that the branch had not written to before belongs to another branch, whose versions are not ours to take.
    """
    owns = authority.services.line.owns
    dropped = [base.entry(owner.table_key).pin for owner in dropped_types(accepted, desired)]
    narrowed = [
        base.entry(pair.before.table_key).pin for pair in continued_types(accepted, desired) if pair.drops_columns
    ]
    after = [replace(pin, version=pin.version + 1) for pin in narrowed]
    return [pin for pin in (*dropped, *after) if owns(pin)]


def _reclaim(store: GraphStore, pins: list[TablePin]) -> tuple[str, ...]:
    warnings = []
    if pins:
        try:
            store.reclaim_older(pins, Counters())
        except OmnigraphError as error:
            # The commit stands whatever happens here, and a cleanup takes away what this one left.
            warnings.append(f"earlier versions could not be reclaimed: {error.message}")
    return tuple(warnings)
