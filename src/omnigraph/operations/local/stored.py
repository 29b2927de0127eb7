"""Handlers of the requests about stored queries, for a graph that was given none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from omnigraph.errors import StoredQueryMissingError
from omnigraph.operations.stored import QueryReport

if TYPE_CHECKING:
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.ir.stored_queries import QueryEntry
    from omnigraph.operations.request import Attachments
    from omnigraph.operations.stored import (
        InvokeMutationRequest,
        InvokeReadRequest,
        ListQueriesRequest,
        ValidateQueriesRequest,
    )


def list_queries(graph: OpenGraph, request: ListQueriesRequest, attached: Attachments) -> tuple[QueryEntry, ...]:
    """Return nothing: queries are stored beside a graph, and none were given when it was opened."""
    del graph, request, attached
    return ()


def validate_queries(graph: OpenGraph, request: ValidateQueriesRequest, attached: Attachments) -> QueryReport:
    """Return that none is broken.

    Raises:
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    del attached
    graph.snapshot(request.branch, request.at)
    return QueryReport(checked=0)


def invoke_read(graph: OpenGraph, request: InvokeReadRequest, attached: Attachments) -> NoReturn:
    """Find no query.

    Raises:
        StoredQueryMissingError: always.
    """
    del graph, attached
    raise StoredQueryMissingError.of(request.name)


def invoke_mutation(graph: OpenGraph, request: InvokeMutationRequest, attached: Attachments) -> NoReturn:
    """Find no query.

    Raises:
        StoredQueryMissingError: always.
    """
    del graph, attached
    raise StoredQueryMissingError.of(request.name)
