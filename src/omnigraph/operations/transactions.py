"""Requests of transactions of several calls.

A transaction is named by the text that beginning it returns. Its calls are requests of their own, wrapped: they leave
out what the transaction decides for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.engine.transaction import TransactionResult
    from omnigraph.txn.transaction import OnConflict


@record
class BegunTransaction:
    """A transaction that was begun: its name, the commit of the state that its calls run on, and who began it.

    ``size_bytes`` is how much memory the rows take that its calls have written.
    """

    transaction: str
    branch: str
    commit_id: str
    actor: str | None = None
    size_bytes: int = 0


@operation("begin_transaction", Action.CHANGE, writes=True)
@record
class BeginTransactionRequest(Request[BegunTransaction]):
    """Begin a transaction on the newest state of a branch; nothing is written before it is committed.

    Args:
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at, now and when the transaction is committed.
        on_conflict: ``rerun`` runs the calls again on the newer state when another writer changed rows that they were
            decided on and that the caller has not seen; ``refuse`` raises a conflict instead.
    """

    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    on_conflict: OnConflict = "rerun"


@operation("describe_transaction", Action.CHANGE)
@record
class DescribeTransactionRequest(Request[BegunTransaction]):
    """Say what an open transaction was begun with."""

    transaction: str


@operation("call_in_transaction", Action.CHANGE, writes=True)
@record
class CallInTransactionRequest(Request[Any]):
    """Run a call on the private state of a transaction; the response is that of the call.

    ``call`` is a request to mutate, to load, to query or to read an entity, without branch, state, actor, message,
    expected head or what to do about conflicts: the transaction has these.
    """

    transaction: str
    call: Request[Any]


@operation("commit_transaction", Action.CHANGE, writes=True)
@record
class CommitTransactionRequest(Request["TransactionResult"]):
    """Publish what the calls of a transaction did, as one commit or not at all; the transaction ends.

    ``seen`` is how many of its first calls, reads included, the caller has looked at the results of: what these were
    decided on must not have changed.
    """

    transaction: str
    seen: int = 0


@operation("rollback_transaction", Action.CHANGE, writes=True)
@record
class RollbackTransactionRequest(Request[None]):
    """End a transaction without publishing anything."""

    transaction: str
