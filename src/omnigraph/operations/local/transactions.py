"""Handlers of the requests of transactions."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, get_args

from omnigraph.engine.load.load_files import SpooledRows, read_sources
from omnigraph.engine.mutate.mutation import PreparedMutation
from omnigraph.engine.transaction import GraphTransaction, TransactionOptions, TransactionResult
from omnigraph.errors import BadValue, TransactionEndedError, UsageError
from omnigraph.ir import ParamsForm, decode_call, decode_calls, expect_mutation
from omnigraph.ir.warnings import parameter_warnings
from omnigraph.operations.local.reads import read_call
from omnigraph.operations.local.writes import commit_id, unless_repeated
from omnigraph.operations.reads import QueryRequest, ReadEntityRequest
from omnigraph.operations.transactions import BegunTransaction
from omnigraph.operations.writes import LoadRequest, MutateBatchRequest, MutateRequest
from omnigraph.txn.transaction import OnConflict
from omnigraph.values import BranchName, check_choice, check_text, check_whole

if TYPE_CHECKING:
    from omnigraph.engine.load import LoadResult
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.operations.request import Attachments, Request
    from omnigraph.operations.transactions import (
        BeginTransactionRequest,
        CallInTransactionRequest,
        CommitTransactionRequest,
        DescribeTransactionRequest,
        RollbackTransactionRequest,
    )

# What a transaction decides for all of its calls.
_COMMON = ("branch", "at", "actor", "message", "expected_head", "on_conflict")


def begin_transaction(graph: OpenGraph, request: BeginTransactionRequest, attached: Attachments) -> BegunTransaction:
    """Begin a transaction on the newest state of a branch.

    Raises:
        BranchMissingError: there is no such branch.
        PreconditionFailedError: the branch is not at ``expected_head``.
        ReadOnlyError: the graph is open for reading only.
    """
    del attached
    check_choice("on_conflict", request.on_conflict, get_args(OnConflict))
    branch_writer, newest = graph.store.current(BranchName.parse(request.branch))
    options = TransactionOptions(
        actor=request.actor,
        message=request.message,
        expected_head=commit_id(request.expected_head),
        on_conflict=request.on_conflict,
    )
    begun = GraphTransaction(graph, branch_writer, newest, options)
    name = str(graph.runtime.ids.ulid())
    graph.transactions[name] = begun
    return _described(name, begun)


def describe_transaction(
    graph: OpenGraph, request: DescribeTransactionRequest, attached: Attachments
) -> BegunTransaction:
    """Return what a transaction was begun with.

    Raises:
        TransactionEndedError: it has ended.
    """
    del attached
    return _described(request.transaction, _find(graph, request.transaction))


def call_in_transaction(graph: OpenGraph, request: CallInTransactionRequest, attached: Attachments) -> Any:
    """Run a call on the private state of a transaction; a call that fails leaves nothing behind.

    Raises:
        TransactionEndedError: the transaction has ended.
        UsageError: the call is none that a transaction takes, or says what the transaction decides.
        OmnigraphError: whatever the call raises.
    """
    transaction, call = _find(graph, request.transaction), request.call
    _refuse_common(call)
    match call:
        case MutateRequest() | MutateBatchRequest():
            return _mutate(graph, transaction, call)
        case LoadRequest():
            return _load(graph, transaction, call, attached)
        case QueryRequest():
            return transaction.query(read_call(call, attached))
        case ReadEntityRequest():
            check_text("type", call.type_name)
            check_text("entity id", call.entity_id)
            return transaction.entity(call.type_name, call.entity_id)
        case _:
            name = getattr(getattr(call, "operation", None), "name", type(call).__name__)
            expected = "mutate, mutate_batch, load, query or read_entity"
            details = BadValue(what="call", value=str(name), expected=expected)
            raise UsageError(f"a transaction does not take the call '{name}'", details=details)


def commit_transaction(graph: OpenGraph, request: CommitTransactionRequest, attached: Attachments) -> TransactionResult:
    """Publish what the calls of a transaction did; raises what :meth:`GraphTransaction.commit` does."""
    del attached
    check_whole("seen", request.seen)
    transaction = _find(graph, request.transaction)
    try:
        return unless_repeated(
            graph, transaction.branch, lambda: transaction.commit(request.seen), TransactionResult.repeated
        )
    finally:
        graph.transactions.pop(request.transaction, None)


def rollback_transaction(graph: OpenGraph, request: RollbackTransactionRequest, attached: Attachments) -> None:
    """End a transaction without publishing anything.

    Raises:
        TransactionEndedError: it has ended.
    """
    del attached
    _find(graph, request.transaction).rollback()
    graph.transactions.pop(request.transaction, None)


def _described(name: str, begun: GraphTransaction) -> BegunTransaction:
    commit = str(begun.snapshot.state.head.commit)
    return BegunTransaction(
        transaction=name, branch=begun.branch, commit_id=commit, actor=begun.actor, size_bytes=begun.size_bytes
    )


def _find(graph: OpenGraph, name: str) -> GraphTransaction:
    check_text("transaction", name)
    found = graph.transactions.get(name)
    if found is None:
        details = BadValue(what="transaction", value=name, expected="an open transaction")
        raise TransactionEndedError(f"there is no open transaction '{name}'", details=details)
    return found


def _refuse_common(call: Request[Any]) -> None:
    given = {one.name: one.default for one in fields(call) if one.name in _COMMON}  # type: ignore[arg-type]  # requests are records
    for name, default in given.items():
        value = getattr(call, name)
        if value != default:
            details = BadValue(what=name, value=str(value), expected="nothing in a call of a transaction")
            raise UsageError(f"{name} belongs to the whole transaction, not to one of its calls", details=details)


def _mutate(
    graph: OpenGraph, transaction: GraphTransaction, call: MutateRequest | MutateBatchRequest
) -> MutationResult:
    check_choice("params_form", call.params_form, get_args(ParamsForm))
    check_whole("max_affected", call.max_affected, optional=True)

    def prepare() -> PreparedMutation:
        query = graph.plans.compile(call.text, call.name, transaction.catalog, call.source_name)
        plan, declared = expect_mutation(query), query.checked.parameters
        parameters = (
            decode_call(declared, call.params, call.params_form)
            if isinstance(call, MutateRequest)
            else decode_calls(declared, call.rows, call.params_form)
        )
        prepared = PreparedMutation.of(
            transaction.catalog,
            plan,
            parameters,
            now_ms=transaction.now_ms,
            embedder=graph.embedder,
            max_affected=call.max_affected,
        )
        return replace(prepared, warnings=parameter_warnings(query.checked, parameters))

    return transaction.mutate(prepare)


def _load(graph: OpenGraph, transaction: GraphTransaction, call: LoadRequest, attached: Attachments) -> LoadResult:
    if call.batch is not None:
        details = BadValue(what="batch", value=str(call.batch), expected="a separate load")
        raise UsageError("a load inside a transaction cannot be a batch of a stream", details=details)

    def read(held: ExitStack) -> SpooledRows:
        rows = read_sources(
            transaction.services,
            transaction.catalog,
            call.sources,
            call.mode,
            patch=call.patch,
            truncate=call.truncate,
            on_delete=call.on_delete,
            errors_to=call.errors_to,
            progress=attached.progress,
            limit=call.limit,
            settings=call.settings,
            embedder=graph.embedder,
        )
        return held.enter_context(rows)

    return transaction.load(read)
