"""Publishing a planned merge: one commit through the branch's authority, validated on the state it lands on."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.catalog import Catalog
from omnigraph.engine.view import GraphView
from omnigraph.history.merge.conflicts import conflicts_error
from omnigraph.history.merge.planning import MergePlan, Sides
from omnigraph.history.merge.validation import find_rule_conflicts
from omnigraph.txn.authority import CommitResult, GraphPublishAuthority
from omnigraph.txn.transaction import CommitView, WriteTxn


def publish(
    authority: GraphPublishAuthority,
    txn: WriteTxn,
    sides: Sides,
    plan: MergePlan,
    catalog: Catalog,
    *,
    what: str,
    recheck: Callable[[], None] = lambda: None,
) -> CommitResult:
    """Publish a plan that has no row conflicts: all of it, or nothing.

    Args:
        authority: the branch to write to.
        txn: a transaction on the state that the plan was made for.
        sides: the states that it was made from.
        plan: what to write.
        catalog: the schema of all of them.
        what: how conflicts call the operation.
        recheck: looks again at what else the plan depends on, right before anything takes effect.

    Raises:
        MergeConflictsError: rows are undecided, or the merged graph would break a rule of its schema.
        ExpectedVersionMismatchError: a table that the plan or its validation rests on has moved.
        SchemaMovedError, PreconditionFailedError, ClaimBusyError, WriteOutcomeError: as for any commit.
    """
    if plan.conflicts:
        raise conflicts_error(plan.conflicts, what)

    def check(view: CommitView) -> None:
        recheck()
        seen = GraphView.of_commit(view, catalog, txn.counters)
        found = find_rule_conflicts(plan, sides, seen, txn.counters)
        if found:
            raise conflicts_error(found, what)

    for change in plan.changes:
        txn.change(change)
    for table_key in sorted(plan.reads):
        txn.read_table(table_key)
    txn.add_check(check)
    return authority.commit(txn)
