"""``RegistryBackend``: a graph with the stored queries that were given for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

from omnigraph.errors import BadValue, WrongQueryKindError
from omnigraph.ir.stored_queries import QueryEntry, QueryProblem, StoredQueries, StoredQuery
from omnigraph.operations.reads import QueryRequest, ReadStateRequest
from omnigraph.operations.request import NOTHING, Attachments, Backend, BackendWrapper, Request, Response
from omnigraph.operations.stored import (
    InvokeMutationRequest,
    InvokeReadRequest,
    ListQueriesRequest,
    QueryFinding,
    QueryReport,
    ValidateQueriesRequest,
)
from omnigraph.operations.writes import MutateRequest


class RegistryBackend(BackendWrapper):
    """Answers requests about stored queries, and hands all others on to another backend.

    To invoke one is to send its declaration there as a query or a mutation, so that both have the same rules.

    Args:
        inner: the graph.
        queries: its stored queries.
        broken: what kept others from being among them; a report about all of them begins with it.
    """

    def __init__(self, inner: Backend, queries: StoredQueries, broken: Sequence[QueryProblem] = ()) -> None:
        super().__init__(inner)
        self.queries = queries
        self._broken = tuple(broken)

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request.

        Raises:
            StoredQueryMissingError: there is no stored query of that name.
            WrongQueryKindError: a read was to be invoked and it is a mutation, or the other way round.
            OmnigraphError: whatever the operation raises.
        """
        match request:
            case ListQueriesRequest():
                return cast("Response", tuple(one.entry for one in self.queries))
            case ValidateQueriesRequest():
                return cast("Response", self._validate(request))
            case InvokeReadRequest() | InvokeMutationRequest():
                return cast("Response", self._inner.execute(invoked(self.queries, request), attached))
            case _:
                return self._inner.execute(request, attached)

    def _validate(self, request: ValidateQueriesRequest) -> QueryReport:
        from omnigraph.engine.accepted import catalog_of  # noqa: PLC0415 - to run a query needs none of it

        state = self._inner.execute(ReadStateRequest(branch=request.branch, at=request.at)).state
        examined = self.queries.examine(catalog_of(state.schema))
        return QueryReport(
            checked=len(self.queries) + len(self._broken),
            breakages=tuple(map(_finding, (*self._broken, *examined.breakages))),
            warnings=tuple(map(_finding, examined.warnings)),
        )


def invoked(queries: StoredQueries, request: InvokeReadRequest | InvokeMutationRequest) -> Request[Any]:
    """Return the query or the mutation that an invocation stands for; raises what executing it does."""
    stored = queries.get(request.name)
    is_mutation = isinstance(request, InvokeMutationRequest)
    expect_kind(stored.entry, is_mutation=is_mutation)
    kept = {one.name: getattr(request, one.name) for one in fields(cast("Any", request))}
    target = MutateRequest if is_mutation else QueryRequest
    return cast("Request[Any]", target(**kept, text=stored.declaration, source_name=stored.source_name))


def expect_kind(stored: QueryEntry | StoredQuery, *, is_mutation: bool) -> None:
    """Return if a stored query is what it is invoked as.

    Raises:
        WrongQueryKindError: it is not.
    """
    if stored.is_mutation == is_mutation:
        return
    kind, verb = ("mutation", "mutate") if stored.is_mutation else ("read", "query")
    details = BadValue(what="query kind", value=kind, expected="mutation" if is_mutation else "read")
    message = f"'{stored.name}' is a {kind} — use omnigraph {verb} {stored.name}"
    raise WrongQueryKindError(message, details=details, hint=f"invoke it as a {kind}")


def _finding(problem: QueryProblem) -> QueryFinding:
    # Of a file that cannot be read, no query is known.
    return QueryFinding(query=problem.query or problem.source_name, message=str(problem))
