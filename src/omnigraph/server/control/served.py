"""``ServedBackend``: what every operation of a request passes on its way to a graph.

Behind the policy and before the engine: the limits of the request, admission, what is remembered of writes, figures.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, fields, replace
from typing import Any, cast

import msgspec

from omnigraph.engine.accepted import catalog_of
from omnigraph.engine.export.options import ExportSettings
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.query.options import MAX_ENTITIES, QueryOptions
from omnigraph.errors import (
    AdmissionError,
    BadValue,
    LimitExceeded,
    OmnigraphError,
    QueryMemoryError,
    SchemaManagedError,
)
from omnigraph.errors.history import MAX_CONFLICTS
from omnigraph.ir.stored_queries import StoredQueries
from omnigraph.operations.history import (
    BaselineRequest,
    CreateBranchRequest,
    DeleteBranchRequest,
    LogRequest,
    MergeRequest,
)
from omnigraph.operations.reads import ExportRequest, ExportStreamRequest, ReadBlobRequest, ReadNetworkRequest
from omnigraph.operations.request import NOTHING, Attachments, Backend, BackendWrapper, Request, Response
from omnigraph.operations.stored import InvokeMutationRequest
from omnigraph.operations.transactions import (
    BeginTransactionRequest,
    BegunTransaction,
    CommitTransactionRequest,
    DescribeTransactionRequest,
    RollbackTransactionRequest,
)
from omnigraph.operations.writes import ApplySchemaRequest, MutateBatchRequest, MutateRequest
from omnigraph.records import record
from omnigraph.runtime import CallContext, calling, counting, current_call, smallest
from omnigraph.server.control.control import Control
from omnigraph.server.control.settings import RequestLimits
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.values import MAIN

# Their commits carry the key and all that their answers say, so that history answers a repeated one.
_IN_HISTORY = frozenset({"mutate", "mutate_batch", "invoke_mutation", "load", "merge", "revert"})
_BRANCH_BYTES = 256
# What is read of a Blob at once; clients that read on ask for no more.
_BLOB_BYTES = 64 << 20
# The commits of one page of a log.
_MOST_COMMITS = 10_000
_EXPORTS = (ExportRequest, ExportStreamRequest, BaselineRequest)


@record
class ServedRequest:
    """The request that operations are executed for.

    Args:
        graph_id: the graph.
        actor: who sends it.
        request_id: its name.
        idempotency_key: the key that it may be sent again under.
        payload_digest: tells two payloads under one key apart.
        body_bytes: how large it is.
        limits: what it asks for.
        gone: set when its client has gone away, so that nothing is read for it any more.
    """

    graph_id: str
    actor: str | None
    request_id: str
    idempotency_key: str | None = None
    payload_digest: str = ""
    body_bytes: int = 0
    limits: RequestLimits
    gone: threading.Event = field(default_factory=threading.Event)


class ServedBackend(BackendWrapper):
    """A graph as one request of a server sees it."""

    def __init__(self, inner: Backend, control: Control, served: ServedRequest) -> None:
        super().__init__(inner)
        self._control = control
        self._served = served

    def close(self) -> None:
        """Do nothing: the graph outlives the request."""

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request within its limits.

        Raises:
            AdmissionError: too many writes are under way.
            OmnigraphError: whatever the operation raises.
        """
        declared, served = request.operation, self._served
        request = within_budgets(request)
        call = self._call(request, attached)
        metrics = self._control.metrics
        with (
            calling(call),
            counting() as counters,
            metrics.operation(declared.name, counters) as timed,
            self._in_transaction(request),
        ):
            if declared.writes:
                with self._control.admission.admit(served.actor, estimate(request, served.body_bytes)):
                    response = self._control.outcomes.run(
                        served.graph_id,
                        served.actor,
                        call,
                        declared.name,
                        lambda: self._inner.execute(request, attached),
                        is_remembered=declared.name not in _IN_HISTORY,
                    )
            else:
                if isinstance(request, ReadBlobRequest):
                    request = cast("Request[Response]", self._expect_small(request))
                response = self._inner.execute(request, attached)
            timed.told(response)
            if isinstance(response, BegunTransaction) and isinstance(request, BeginTransactionRequest):
                self._control.transactions.begun(response.transaction, self._inner, served.actor)
        return response

    def _expect_small(self, request: ReadBlobRequest) -> ReadBlobRequest:
        """Return a read of a Blob that fits the memory that one request gets; its size alone is read before.

        Raises:
            QueryMemoryError: it asks for more bytes.
        """
        asked = request.length
        if asked is not None and asked <= _BLOB_BYTES:
            return request
        found = self._inner.execute(replace(request, length=0))
        left = 0 if found is None else found.size - request.start
        if (left if asked is None else min(asked, left)) > _BLOB_BYTES:
            details = LimitExceeded(resource="bytes of one Blob", limit=_BLOB_BYTES, actual=left)
            message = f"{left} bytes of a Blob are more than the {_BLOB_BYTES} that are read at once"
            raise QueryMemoryError(message, details=details, hint="read it in parts, by start and length")
        return replace(request, length=_BLOB_BYTES)

    @contextmanager
    def _in_transaction(self, request: Request[Any]) -> Iterator[None]:
        """Keep the transaction of a request from expiring, and note when the request ends it."""
        kept = self._control.transactions
        if isinstance(request, BeginTransactionRequest):
            with kept.beginning(self._served.actor):
                yield
            return
        name = getattr(request, "transaction", None)
        if not isinstance(name, str):
            yield
            return
        call = getattr(request, "call", None)
        is_call = isinstance(call, Request) and call.operation.writes
        try:
            with kept.using(name, self._served.actor, self._served.body_bytes if is_call else 0):
                yield
                if is_call:
                    self._measure(name)
        except OmnigraphError as error:
            # A commit that fails ends the transaction, unless it was not admitted.
            if isinstance(request, CommitTransactionRequest) and not isinstance(error, AdmissionError):
                kept.ended(name, self._served.actor)
            raise
        if isinstance(request, CommitTransactionRequest | RollbackTransactionRequest):
            kept.ended(name, self._served.actor)

    def _measure(self, name: str) -> None:
        """Note how much a transaction holds after a call; one that holds too much is rolled back."""
        held = self._inner.execute(DescribeTransactionRequest(transaction=name)).size_bytes
        try:
            self._control.transactions.measured(name, held)
        except AdmissionError:
            self._inner.execute(RollbackTransactionRequest(transaction=name))
            self._control.transactions.ended(name, self._served.actor)
            raise

    def _call(self, request: Request[Any], attached: Attachments) -> CallContext:
        served, asked = self._served, self._served.limits
        limits = asked.within(self._control.settings.limits)
        is_write, is_export = request.operation.writes, isinstance(request, _EXPORTS)
        # A write has a deadline only if its caller wants one: it is not a query that runs away.
        # What it reads on the way has one as every read. An export takes as long as there are rows.
        time_ms = asked.query_ms if is_write or is_export else limits.query_ms
        longest_ms = None if is_export else limits.query_ms
        now_s = self._control.clock.monotonic_s()
        stops = (served.gone, self._control.stopping)
        return CallContext(
            request_id=served.request_id,
            idempotency_key=served.idempotency_key if is_write else None,
            payload_digest=served.payload_digest,
            deadline_s=None if time_ms is None else now_s + time_ms / 1000,
            read_deadline_s=None if longest_ms is None else now_s + longest_ms / 1000,
            is_read=not is_write,
            began_s=now_s,
            clock=self._control.clock,
            stops=stops if attached.cancel is None else (*stops, attached.cancel),
            # Without a limit of the operator's, a request still gets no more than the engine gives by itself.
            memory_bytes=smallest(limits.memory_bytes, QueryOptions().most_memory_bytes),
            max_rows=limits.rows,
            max_affected=limits.affected,
        )


class GuardedSchema(BackendWrapper):
    """A served graph whose schema changes only as far as whoever serves it allows.

    Args:
        inner: the graph.
        graph_id: its id.
        queries: its stored queries, which a change of main has to leave valid.
        is_managed: whether a cluster describes it.
    """

    def __init__(self, inner: Backend, graph_id: str, queries: StoredQueries, *, is_managed: bool) -> None:
        super().__init__(inner)
        self._graph_id = graph_id
        self._queries = queries
        self._is_managed = is_managed

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request, unless it changes the schema and must not.

        Raises:
            SchemaManagedError: the schema changes through the cluster alone.
            OmnigraphError: a stored query does not fit the schema, or whatever the operation raises.
        """
        if not request.operation.writes:
            return self._inner.execute(request, attached)
        if isinstance(request, ApplySchemaRequest) and self._is_managed:
            raise self._managed()
        with calling(replace(current_call(), check_schema=self._check)):
            return self._inner.execute(request, attached)

    def _check(self, branch: str, schema: AcceptedSchema) -> None:
        """Refuse a change that would break a stored query, or that the cluster alone makes, before it is published."""
        if self._is_managed:
            raise self._managed()
        if branch == MAIN and len(self._queries):
            self._queries.expect_fit(catalog_of(schema))

    def _managed(self) -> SchemaManagedError:
        return SchemaManagedError(
            "server-side schema apply is disabled for cluster-backed serving; change the cluster and apply it",
            details=BadValue(what="schema", value=self._graph_id, expected="a change of the cluster"),
        )


def within_budgets(request: Request[Any]) -> Request[Any]:
    """Return a request that takes no more of the machine than one that leaves its settings out."""
    changed: dict[str, Any] = {}
    if isinstance(request, ReadNetworkRequest) and type(request.limit) is int:
        changed["limit"] = min(request.limit, MAX_ENTITIES)
    if isinstance(request, LogRequest) and type(request.limit) is int:
        # What is left has its own page.
        changed["limit"] = min(request.limit, _MOST_COMMITS)
    for one in fields(cast("Any", request)):
        given = getattr(request, one.name)
        if isinstance(given, Request):
            changed[one.name] = within_budgets(given)
        elif one.name == "max_conflicts" and type(given) is int:
            changed[one.name] = min(given, MAX_CONFLICTS)
        elif isinstance(given, LoadSettings | ExportSettings):
            most = type(given)()
            numbers = {
                part.name: getattr(most, part.name) for part in fields(most) if type(getattr(most, part.name)) is int
            }
            capped = {name: min(getattr(given, name), limit) for name, limit in numbers.items()}
            changed[one.name] = replace(given, **capped)
    return cast("Request[Any]", replace(cast("Any", request), **changed)) if changed else request


def estimate(request: Request[Any], body_bytes: int) -> int:
    """Return how large a write is, as far as can be said before it runs."""
    match request:
        case MutateRequest():
            return len(request.text) + _size(request.params, body_bytes)
        case InvokeMutationRequest():
            return _size(request.params, body_bytes)
        case MutateBatchRequest():
            return len(request.text) + _size(request.rows, body_bytes)
        case ApplySchemaRequest():
            return len(request.text)
        case CreateBranchRequest() | DeleteBranchRequest() | MergeRequest():
            return _BRANCH_BYTES
        case _:
            return body_bytes


def _size(params: object, body_bytes: int) -> int:
    if params is None or (isinstance(params, Mapping) and not params):
        return 0
    try:
        return len(msgspec.json.encode(params, enc_hook=str))
    except (ValueError, TypeError, OverflowError, RecursionError):
        # Whether these are parameters at all is for the operation to say.
        return body_bytes
